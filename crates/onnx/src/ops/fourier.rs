//! Fourier transforms.

use millstream_core::{Op, PadMode, Scalar};
use millstream_graph::{Edge, Expanded, Expander};

use super::common::{Made, axis, one, refuse, reshape, size, slice};
use super::pad::padded;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[("DFT", dft), ("STFT", stft)];

/// The first so many elements of an axis, with zeros behind where there are fewer.
fn resized(at: &mut Expander<'_>, input: Edge, axis: usize, count: usize) -> Expanded<Edge> {
    let have = at.shape(input)[axis];
    if count <= have {
        return slice(at, input, axis, 0, count);
    }
    let rank = at.rank(input);
    let (before, mut after) = (vec![0; rank], vec![0; rank]);
    after[axis] = (count - have) as i64;
    padded(at, input, PadMode::Constant(Scalar::Int(0)), &before, &after)
}

fn dft(node: &mut NodeDef<'_, '_>) -> Made {
    let inverse = node.attributes.flag("inverse", false)?;
    let onesided = node.attributes.flag("onesided", false)?;
    let attribute = match node.version {
        ..20 => Some(node.attributes.int_or("axis", 1)?),
        _ => None,
    };
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let rank = at.rank(input);
        let along = match (attribute, inputs.optional(2)?) {
            (Some(along), _) => along,
            (None, Some(edge)) => at.scalar(edge)?.as_i64(),
            (None, None) => -2,
        };
        let along = axis(along, rank)?;
        let have = at.shape(input)[along];
        let length = match inputs.optional(1)? {
            Some(edge) => size(at.scalar(edge)?.as_i64())?,
            None if inverse && onesided => 2 * have.saturating_sub(1),
            None => have,
        };
        let bins = if inverse && onesided { length / 2 + 1 } else { length };
        let mut input = resized(at, input, along, bins)?;
        let complex = at.shape(input)[rank - 1] == 2;
        let op = |onesided: bool| Op::Dft { axis: along as u8, inverse, onesided, length };
        match (inverse, onesided, complex) {
            // Half of what complex numbers give is cut off.
            (false, true, true) => {
                let whole = at.apply(op(false), &[input])?;
                one(slice(at, whole, along, 0, length / 2 + 1)?)
            }
            (true, true, false) => {
                input = resized(at, input, rank - 1, 2)?;
                one(at.apply(op(true), &[input])?)
            }
            _ => one(at.apply(op(onesided), &[input])?),
        }
    })
}

fn stft(node: &mut NodeDef<'_, '_>) -> Made {
    let onesided = node.attributes.flag("onesided", true)?;
    operator(node, move |at, inputs| {
        let (mut signal, window) = (inputs.tensor(0)?, inputs.optional(2)?);
        let hop = at.scalar(inputs.tensor(1)?)?.as_i64();
        let frame = match (inputs.optional(3)?, window) {
            (Some(edge), _) => at.scalar(edge)?.as_i64(),
            (None, Some(window)) => at.shape(window).first().copied().unwrap_or(0) as i64,
            (None, None) => return refuse("neither a window nor the length of a frame is given"),
        };
        if let [batch, samples] = at.shape(signal)[..] {
            signal = reshape(at, signal, &[batch, samples, 1])?;
        }
        let (Ok(frame), Ok(hop)) = (u32::try_from(frame), u32::try_from(hop)) else {
            return refuse(format!("frames of {frame} samples, {hop} apart"));
        };
        let complex = at.shape(signal).last() == Some(&2);
        let half = onesided && !complex;
        let op = Op::Stft { frame, hop, onesided: half, window: window.is_some() };
        let given: Vec<Edge> = [signal].into_iter().chain(window).collect();
        let result = at.apply(op, &given)?;
        if onesided && complex {
            return one(slice(at, result, 2, 0, frame as usize / 2 + 1)?);
        }
        one(result)
    })
}
