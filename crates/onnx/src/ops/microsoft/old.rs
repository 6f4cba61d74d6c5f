//! Operators that were in ONNX's own domain before there were versions. Converters of that time still write them.

use millstream_core::{BinaryOp, UnaryOp};

use super::super::common::{Made, along, each, one, pair, refusal, refuse, slice, with_number};
use super::scaled;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

/// ONNX Runtime has these in ONNX's own domain.
pub(crate) const OLD: Table = &[
    ("Affine", |node| linear(node, None)),
    ("Crop", crop),
    ("ImageScaler", image_scaler),
    ("ParametricSoftplus", |node| linear(node, Some(UnaryOp::Softplus))),
    ("Scale", |node| {
        let scale = node.attributes.float_or("scale", 1.0)?;
        operator(node, move |at, inputs| {
            let input = inputs.tensor(0)?;
            one(scaled(at, input, scale)?)
        })
    }),
    ("ScaledTanh", |node| linear(node, Some(UnaryOp::Tanh))),
];

/// `alpha · f(beta · x)`, or `alpha · x + beta`.
fn linear(node: &mut NodeDef<'_, '_>, function: Option<UnaryOp>) -> Made {
    let alpha = node.attributes.float_or("alpha", 1.0)?;
    let beta = node.attributes.float_or("beta", if function.is_some() { 1.0 } else { 0.0 })?;
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let Some(function) = function else {
            let product = scaled(at, input, alpha)?;
            return one(with_number(at, BinaryOp::Add, product, beta)?);
        };
        let inner = scaled(at, input, beta)?;
        let outer = each(at, function, inner)?;
        one(scaled(at, outer, alpha)?)
    })
}

/// One number is added to each channel of a picture that is scaled.
fn image_scaler(node: &mut NodeDef<'_, '_>) -> Made {
    let scale = node.attributes.float_or("scale", 1.0)?;
    let bias = node.attributes.floats("bias")?.unwrap_or_default().to_vec();
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let (rank, dtype) = (at.rank(input), at.dtype(input));
        if rank < 2 {
            return refuse("a picture has channels");
        }
        let product = scaled(at, input, scale)?;
        let scalars: Vec<millstream_core::Scalar> = bias.iter().map(|&one| one.into()).collect();
        let array = millstream_graph::Array::of_scalars(dtype, &[bias.len()], &scalars)?;
        let bias = at.constant(array);
        let bias = along(at, bias, rank, 1)?;
        one(pair(at, BinaryOp::Add, product, bias)?)
    })
}

/// The middle of a picture: without a border, or of a size.
fn crop(node: &mut NodeDef<'_, '_>) -> Made {
    let border = node.attributes.ints("border")?.unwrap_or_default().to_vec();
    let sizes = node.attributes.ints("scale")?.unwrap_or_default().to_vec();
    let [left, top, right, bottom] = border[..] else {
        return Err(refusal(format!("a border of {} numbers", border.len())));
    };
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let &[_, _, height, width] = &at.shape(input)[..] else {
            return refuse("a picture has batch, channels, height and width");
        };
        let part = |size: usize, before: i64, after: i64, wanted: Option<&i64>| {
            let end = match wanted {
                Some(&wanted) => before.checked_add(wanted),
                None => (size as i64).checked_sub(after),
            };
            match (usize::try_from(before), end.map(usize::try_from)) {
                (Ok(start), Some(Ok(end))) if start <= end && end <= size => {
                    Ok((start, end - start))
                }
                _ => refuse(format!("a border of {before} and {after} of a size of {size}")),
            }
        };
        let (start, count) = part(height, top, bottom, sizes.first())?;
        let input = slice(at, input, 2, start, count)?;
        let (start, count) = part(width, left, right, sizes.get(1))?;
        one(slice(at, input, 3, start, count)?)
    })
}
