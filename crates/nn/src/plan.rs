//! Plans of code that is written with tensors.

use millstream_core::{Buffer, DType, Device, Layout, Operand, Stream};

use crate::error::{invalid, shown};
use crate::{Module, Result, Tensor};

/// Code written with tensors, as a [plan](millstream_core::Plan): what it does is found out once, and then only
/// run. A run costs the calling thread much less than the code itself, and has the same bits.
///
/// A plan is for inputs of given shapes and types. It has one set of weights, which it shares with the layers that it
/// was made of, and memory for the values in between per run.
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
    /// Makes a plan of what `work` does with inputs of these shapes and types. `work` runs once, on zeros.
    ///
    /// Tensors that it makes of numbers of the host, and what is computed from nothing else, become weights of the
    /// plan. Tensors from elsewhere that it uses must be [settled](Tensor::settle), as those of layers are.
    ///
    /// # Errors
    ///
    /// What `work` returns; values that it reads on the host, since they would be those of this one run; or a
    /// tensor from elsewhere that is not settled.
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

    /// Makes a plan of a module for inputs of one shape and type. The plan is a [`Module`] too.
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

    /// Runs it.
    ///
    /// # Errors
    ///
    /// Another number of inputs or outputs than it has, inputs of another shape or type, or no memory.
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
        // Each was filled above.
        let wanted = outputs.each_ref().map(|output| output.as_ref().expect("an output"));
        stream.run(&self.0, &given, &wanted)?;
        let mut layouts = self.0.outputs().iter();
        Ok(outputs.map(|buffer| {
            let (buffer, layout) = buffer.zip(layouts.next()).expect("an output");
            Tensor::whole(buffer, *layout)
        }))
    }

    /// The plan below, for those who record Commands themselves.
    pub fn as_core(&self) -> &millstream_core::Plan {
        &self.0
    }
}

/// A copy of the input that lies as the plan wants it, where the input itself does not.
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
