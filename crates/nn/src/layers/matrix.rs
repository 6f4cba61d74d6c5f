//! A weight matrix in the order that its device multiplies with.

use millstream_core::{Activation, Command, DType, Epilogue, Op};

use crate::error::invalid;
use crate::tensor::{OpRecorder, some};
use crate::{Result, Tensor};

/// What is fused into a product: what is added to it, and the activation.
#[derive(Clone, Copy, Default)]
pub(super) struct FusedEpilogue<'a> {
    pub bias: Option<&'a Tensor>,
    pub residual: Option<&'a Tensor>,
    pub activation: Activation,
}

/// A settled matrix of `[inputs, outputs]`, packed where the device gains from it.
pub(super) struct Matrix {
    storage: Tensor,
    packed: bool,
    dtype: DType,
    inputs: usize,
    outputs: usize,
}

impl Matrix {
    /// From weights of `[outputs, inputs]`, as PyTorch has them. They stay where they lie unless they may be packed.
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
        op: &'static str,
        input: &Tensor,
        fused: FusedEpilogue,
    ) -> Result<Tensor> {
        let (inputs, outputs) = (self.inputs, self.outputs);
        if input.shape().last() != Some(&inputs) || input.dtype() != self.dtype {
            let (found, dtype) = (input.layout(), self.dtype);
            return invalid(
                op,
                format!("input {found:?} for {dtype} weights [{outputs}, {inputs}]"),
            );
        }
        if input.rank() == 1 {
            return self.multiply(op, &input.unsqueeze(0)?, fused)?.squeeze(0);
        }
        let FusedEpilogue { bias, residual, activation } = fused;
        let (has_bias, has_residual) = (bias.is_some(), residual.is_some());
        let epilogue = Epilogue { scale: 1.0, bias: has_bias, residual: has_residual, activation };
        let product = match self.packed {
            true => Op::MatMulPacked { columns: outputs, epilogue },
            false => Op::MatMul { epilogue },
        };
        let inputs = some([Some(input), Some(&self.storage), bias, residual]);
        OpRecorder::new(op, &input.device())?.apply(product, &inputs)
    }
}

/// Refuses weights of repeated elements that no packed matrix of this device could hold.
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
