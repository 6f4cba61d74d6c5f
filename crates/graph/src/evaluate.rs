//! Computes constants: nodes whose inputs are all known.

use std::collections::HashMap;

use millstream_core::{Buffer, Command, Device, Op, Stream};
use millstream_nn::Tensor;
use smallvec::SmallVec;

use crate::constant::{Constant, Recipe};
use crate::graph::NodeOp;
use crate::{Array, Error, Result, file_map};

/// Contents of fewer bytes stay in memory: most of their pages have others too.
const RELEASED_BYTES: usize = 1 << 16;

/// The contents of a constant as a tensor of this device. What it is computed from is computed before, and goes when its last
/// reader is there.
///
/// # Errors
///
/// A node that cannot be computed, or no memory.
pub(crate) fn evaluate(constant: &Constant, device: &Device) -> Result<Tensor> {
    let mut known: HashMap<u64, Tensor> = HashMap::new();
    let mut readers = readers(constant, device);
    // Depth first, without recursion: chains of constants may be long.
    let mut open = vec![constant.clone()];
    while let Some(next) = open.last().cloned() {
        if known.contains_key(&next.number()) {
            open.pop();
            continue;
        }
        if let Some(array) = next.at_hand() {
            known.insert(next.number(), copied(array, device)?);
            continue;
        }
        if let Some(tensor) = next.loaded(device) {
            known.insert(next.number(), tensor);
            continue;
        }
        let (op, inputs, output) = match next.recipe() {
            Recipe::Computed { op, inputs, output } => (op, inputs, output),
            Recipe::Held(tensor) => {
                known.insert(next.number(), tensor.to_device(device)?);
                continue;
            }
            Recipe::Given(_) => return Err(crate::constant::not_at_hand("a constant")),
        };
        let missing: SmallVec<[Constant; 4]> =
            inputs.iter().filter(|input| !known.contains_key(&input.number())).cloned().collect();
        if !missing.is_empty() {
            open.extend(missing);
            continue;
        }
        let tensors: SmallVec<[&Tensor; 4]> =
            inputs.iter().map(|input| &known[&input.number()]).collect();
        let made = compute(op, &tensors, device)?;
        drop(tensors);
        let made = made.into_iter().nth(*output).ok_or_else(|| no_output(op))?;
        known.insert(next.number(), made);
        for input in inputs {
            let left = readers.entry(input.number()).or_default();
            *left = left.saturating_sub(1);
            if *left == 0 {
                known.remove(&input.number());
            }
        }
    }
    known.remove(&constant.number()).ok_or_else(|| crate::constant::not_at_hand("a constant"))
}

/// How often each constant that a constant is computed of is read for that.
fn readers(constant: &Constant, device: &Device) -> HashMap<u64, usize> {
    let mut readers = HashMap::new();
    let mut open = vec![constant.clone()];
    while let Some(next) = open.pop() {
        let Recipe::Computed { inputs, .. } = next.recipe() else { continue };
        if next.at_hand().is_some() || next.loaded(device).is_some() {
            continue;
        }
        for input in inputs {
            let count: &mut usize = readers.entry(input.number()).or_default();
            *count += 1;
            if *count == 1 {
                open.push(input.clone());
            }
        }
    }
    readers
}

/// The contents on a device. Of a file, they are not kept in memory beside that.
///
/// # Errors
///
/// No memory.
pub(crate) fn copied(array: &Array, device: &Device) -> Result<Tensor> {
    let tensor = array.to_tensor(device)?;
    if array.bytes().len() >= RELEASED_BYTES {
        file_map::release(array.bytes());
    }
    Ok(tensor)
}

fn no_output(op: &NodeOp) -> Error {
    Error::Invalid { op: op.name(), reason: "has fewer outputs".into() }
}

/// What a node makes of tensors of one device.
///
/// # Errors
///
/// Inputs that do not fit, or no memory.
pub(crate) fn compute(
    op: &NodeOp,
    inputs: &[&Tensor],
    device: &Device,
) -> Result<SmallVec<[Tensor; 1]>> {
    let stream = Stream::current_unleased(device)?;
    match op {
        NodeOp::Op(op) => apply(&stream, op, inputs),
        NodeOp::View(view) => {
            let [input] = inputs else { return Err(no_output(op)) };
            let viewed = match view.layout(input.layout())? {
                Some(layout) => Tensor::from_buffer(input.buffer().clone(), layout)?,
                None => {
                    let dense = input.contiguous()?;
                    let layout = view.layout(dense.layout())?.ok_or_else(|| no_output(op))?;
                    Tensor::from_buffer(dense.buffer().clone(), layout)?
                }
            };
            Ok(SmallVec::from_iter([viewed]))
        }
        NodeOp::Concat { axis } => Ok(SmallVec::from_iter([Tensor::cat(inputs, *axis)?])),
    }
}

fn apply(stream: &Stream, op: &Op, inputs: &[&Tensor]) -> Result<SmallVec<[Tensor; 1]>> {
    let layouts: SmallVec<[_; 4]> = inputs.iter().map(|input| input.layout()).collect();
    let outputs = op.infer(&layouts)?;
    let buffers: SmallVec<[Buffer; 1]> = outputs
        .iter()
        .map(|layout| stream.allocate(layout.dense_bytes()))
        .collect::<Result<_>>()?;
    let written = buffers.iter().zip(&outputs).map(|(buffer, layout)| buffer.operand(*layout));
    let read = inputs.iter().map(|input| input.buffer().operand(*input.layout()));
    stream.record(Command::new(op.clone(), written, read)?)?;
    buffers
        .into_iter()
        .zip(outputs)
        .map(|(buffer, layout)| Tensor::from_buffer(buffer, layout))
        .collect()
}
