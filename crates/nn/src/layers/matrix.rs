//! A weight matrix in the layout that its device multiplies fastest.

use millstream_core::{Activation, Command, DType, Epilogue, LayerName, Op};

use super::check::{misfit, wants_dtype};
use crate::error::invalid;
use crate::tensor::{OpRecorder, some};
use crate::{Result, Tensor};

/// What is added to a product before the activation.
#[derive(Clone, Copy, Default)]
pub(super) struct FusedEpilogue<'a> {
    pub bias: Option<&'a Tensor>,
    pub residual: Option<&'a Tensor>,
    pub activation: Activation,
}

/// A settled matrix of `[inputs, outputs]`, packed if the device multiplies faster with that.
pub(super) struct Matrix {
    storage: Tensor,
    packed: bool,
    dtype: DType,
    pub inputs: usize,
    pub outputs: usize,
}

impl Matrix {
    /// From weights of `[outputs, inputs]`, as PyTorch has them. Without `may_pack` they are not copied.
    pub fn new(weight: &Tensor, may_pack: bool) -> Result<Self> {
        let transposed = weight.t()?;
        let &[inputs, outputs] = transposed.shape() else {
            return invalid("linear", format!("weights of shape {:?}", weight.shape()));
        };
        let dtype = weight.dtype();
        let device = weight.device();
        let layout = if may_pack {
            check_room(weight)?;
            device.packed_layout(transposed.layout())
        } else {
            None
        };
        let (storage, packed) = match layout {
            Some(layout) => {
                let recorder = OpRecorder::new("pack_weights", &device)?;
                let packed = recorder.output(layout.dtype(), layout.shape())?;
                recorder.record(Command::pack_weights(packed.operand(), transposed.operand()))?;
                (packed, true)
            }
            None => (transposed, false),
        };
        Ok(Self { storage: storage.settle()?, packed, dtype, inputs, outputs })
    }

    /// `activation(input × matrix + bias + residual)`.
    pub fn multiply(
        &self,
        layer: LayerName,
        input: &Tensor,
        fused: FusedEpilogue,
    ) -> Result<Tensor> {
        let (inputs, outputs) = (self.inputs, self.outputs);
        if input.shape().last() != Some(&inputs) {
            return misfit(layer.as_str(), input, &format!("takes {inputs} features"));
        }
        wants_dtype(layer.as_str(), input, self.dtype)?;
        if input.rank() == 1 {
            return self.multiply(layer, &input.unsqueeze(0)?, fused)?.squeeze(0);
        }
        let FusedEpilogue { bias, residual, activation } = fused;
        let (has_bias, has_residual) = (bias.is_some(), residual.is_some());
        let epilogue = Epilogue { scale: 1.0, bias: has_bias, residual: has_residual, activation };
        let product = match self.packed {
            true => Op::MatMulPacked { columns: outputs, epilogue },
            false => Op::MatMul { epilogue },
        };
        let inputs = some([Some(input), Some(&self.storage), bias, residual]);
        OpRecorder::new("linear", &input.device())?.apply(product, &inputs)
    }
}

/// Refuses weights of repeated elements (strides of 0) that would be larger than the device's memory when packed.
fn check_room(weight: &Tensor) -> Result<()> {
    let bytes = weight.layout().dense_bytes();
    if bytes <= weight.buffer().bytes() {
        return Ok(());
    }
    let limit = weight.device().memory().limit;
    if bytes <= limit {
        return Ok(());
    }
    let shape = weight.shape();
    invalid("linear", format!("weights of shape {shape:?} take {bytes} bytes, above {limit}"))
}
