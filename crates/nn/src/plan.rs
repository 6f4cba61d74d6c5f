//! Plans of code that is written with tensors.

use millstream_core::{Buffer, DType, Device, Layout, Operand, Stream};

use crate::error::{invalid, shown};
use crate::{Module, Result, Tensor};

/// Code written with tensors, compiled to a [plan](millstream_core::Plan): the code is traced once, and the plan runs
/// what was traced. A run costs the calling thread much less than the code, and gives the same bits.
///
/// A plan takes inputs of fixed shapes and types. It shares its weights with the layers that it was made from. Every
/// run has its own memory for intermediate values.
///
/// # Thread safety
///
/// A plan does not change. Any number of threads may run it at once.
///
/// # Example
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{Linear, Module, Plan, Weights};
/// use millstream::{DType, Device, Result, Tensor};
///
/// let device = Device::cpu()?;
/// let layer = Weights::random(1, DType::F32, &device).load(|w| Linear::new(4, 2, true, w))?;
/// let plan = Plan::trace(&device, &[(&[3, 4], DType::F32)], |inputs| {
///     Ok(vec![layer.forward(&inputs[0])?.relu()?])
/// })?;
/// let input = Tensor::randn(&[3, 4], 1, DType::F32, &device)?;
/// let [output] = plan.run([&input])?;
/// assert_eq!(output.to_vec::<f32>()?, layer.forward(&input)?.relu()?.to_vec::<f32>()?);
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "compile")]
#[doc(alias = "graph")]
pub struct Plan(millstream_core::Plan);

impl Plan {
    /// Traces what `work` does with inputs of these shapes and types. `work` runs once, on zeros.
    ///
    /// Tensors that `work` makes from numbers on the host become weights of the plan, and so does everything that is
    /// computed from those alone. Other tensors that it uses must be [settled](Tensor::settle), as those of layers
    /// are.
    ///
    /// # Errors
    ///
    /// The error of `work`; values that it reads on the host, since they would be those of this one run; or a tensor
    /// from elsewhere that is not settled.
    pub fn trace(
        device: &Device,
        inputs: &[(&[usize], DType)],
        work: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
    ) -> Result<Self> {
        let layouts = inputs.iter().map(|(shape, dtype)| Layout::contiguous(*dtype, shape));
        let layouts: Vec<Layout> = layouts.collect::<Result<_>>()?;
        let traced = |buffers: &[Buffer]| {
            let given = buffers.iter().zip(&layouts);
            let given: Vec<Tensor> = given
                .map(|(buffer, layout)| Tensor::from_buffer(buffer.clone(), *layout))
                .collect::<Result<_>>()?;
            let results = work(&given)?;
            let operands = results.into_iter();
            Ok(operands
                .map(|result| Operand::new(result.buffer().clone(), *result.layout()))
                .collect())
        };
        millstream_core::Plan::trace(device, &layouts, traced).map(Self)
    }

    /// Traces a module for inputs of one shape and type. The plan is a [`Module`] too.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::nn::{Linear, Module, Plan, Weights};
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let device = Device::cpu()?;
    /// let layer = Linear::new(8, 2, true, &Weights::random(1, DType::F32, &device))?;
    /// let plan = Plan::of_module(&layer, &[1, 8], DType::F32, &device)?;
    /// let input = Tensor::ones(&[1, 8], DType::F32, &device)?;
    /// assert_eq!(plan.forward(&input)?.to_vec::<f32>()?, layer.forward(&input)?.to_vec::<f32>()?);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`trace`](Self::trace).
    pub fn of_module(
        module: &(impl Module + ?Sized),
        shape: &[usize],
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        Self::trace(device, &[(shape, dtype)], |inputs| Ok(vec![module.forward(&inputs[0])?]))
    }

    /// Runs the plan.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::nn::Plan;
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let device = Device::cpu()?;
    /// let shapes: [(&[usize], DType); 2] = [(&[2], DType::F32), (&[2], DType::F32)];
    /// let plan = Plan::trace(&device, &shapes, |inputs| Ok(vec![inputs[0].add(&inputs[1])?]))?;
    /// let one = Tensor::ones(&[2], DType::F32, &device)?;
    /// let [sum] = plan.run([&one, &one])?; // as many names as there are outputs
    /// assert_eq!(sum.to_vec::<f32>()?, [2.0, 2.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A wrong number of inputs or outputs, inputs of another shape or type, or no memory.
    pub fn run<const I: usize, const O: usize>(&self, inputs: [&Tensor; I]) -> Result<[Tensor; O]> {
        if (I, O) != (self.0.inputs().len(), self.0.outputs().len()) {
            let (inputs, outputs) = (self.0.inputs().len(), self.0.outputs().len());
            let reason = format!("{I} to {O} tensors, the plan takes {inputs} to {outputs}");
            return invalid("run", reason);
        }
        let mut copies = [const { None }; I];
        for ((input, layout), copy) in inputs.iter().zip(self.0.inputs()).zip(&mut copies) {
            *copy = fitted(input, layout)?;
        }
        let stream = Stream::current_unleased(&self.0.device())?;
        let mut outputs = [const { None }; O];
        for (output, layout) in outputs.iter_mut().zip(self.0.outputs()) {
            *output = Some(stream.allocate(layout.dense_bytes())?);
        }
        let given: [&Buffer; I] =
            std::array::from_fn(|index| copies[index].as_ref().unwrap_or(inputs[index]).buffer());
        // Every output was filled above.
        let wanted = outputs.each_ref().map(|output| output.as_ref().expect("an output"));
        stream.run(&self.0, &given, &wanted)?;
        let mut layouts = self.0.outputs().iter();
        Ok(outputs.map(|buffer| {
            let (buffer, layout) = buffer.zip(layouts.next()).expect("an output");
            Tensor::whole(buffer, *layout)
        }))
    }

    /// The plan of the runtime, for code that records Commands itself.
    pub fn as_core(&self) -> &millstream_core::Plan {
        &self.0
    }
}

/// A copy of the input with the layout that the plan needs; `None` if the input has it already.
fn fitted(input: &Tensor, layout: &Layout) -> Result<Option<Tensor>> {
    if input.layout() == layout {
        return Ok(None);
    }
    if input.shape() != layout.shape() || input.dtype() != layout.dtype() {
        let (dtype, shape, found) = (layout.dtype(), layout.shape(), shown(input));
        return invalid("run", format!("input {found}, but the plan is for {dtype}{shape:?}"));
    }
    input.copied("run", input.dtype()).map(Some)
}

impl Module for Plan {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let [output] = self.run([input])?;
        Ok(output)
    }
}
