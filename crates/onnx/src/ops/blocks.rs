//! Operators that repeat, cut out, or move blocks of elements.

use millstream_core::{MAX_RANK, PadMode, Scalar};
use millstream_graph::{Edge, Expanded, Expander, Sizes};

use super::common::{
    Made, axis, broadcast, fill, one, permute, refusal, refuse, reshape, size, sizes, unknown,
};
use super::pad::padded;
use crate::Result;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[
    ("CenterCropPad", center_crop_pad),
    ("Crop", crop),
    ("DepthToSpace", depth_to_space),
    ("SpaceToDepth", space_to_depth),
    ("Tile", tile),
];

fn tile(node: &mut NodeDef<'_, '_>) -> Made {
    let old = node.version < 6;
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let rank = at.rank(input);
        let mut repeats = at.integers(inputs.tensor(1)?)?;
        if old {
            // One axis is repeated.
            let along = axis(at.scalar(inputs.tensor(2)?)?.as_i64(), rank)?;
            let [times] = repeats[..] else { return refuse("there is more than one repetition") };
            repeats = vec![1; rank];
            repeats[along] = times;
        }
        let repeats = sizes(&repeats)?;
        if repeats.len() != rank {
            return refuse(format!("{} repetitions of {rank} axes", repeats.len()));
        }
        one(repeated(at, input, &repeats)?)
    })
}

/// A tensor repeated along its axes, so many times along each.
pub(crate) fn repeated(at: &mut Expander<'_>, input: Edge, repeats: &[usize]) -> Expanded<Edge> {
    let shape = at.shape(input);
    let whole: Option<Sizes> =
        shape.iter().zip(repeats).map(|(&size, &times)| size.checked_mul(times)).collect();
    let Some(whole) = whole else { return refuse("a size that cannot be counted") };
    if whole.contains(&0) {
        let dtype = at.dtype(input);
        return fill(at, Scalar::Int(0), dtype, &whole);
    }
    let mut result = input;
    let mut left: Vec<usize> = (0..shape.len()).filter(|&axis| repeats[axis] != 1).collect();
    while !left.is_empty() {
        // As many axes at once as there is room for further ones.
        let taken: Vec<usize> =
            left.drain(..left.len().min((MAX_RANK - shape.len()).max(1))).collect();
        let (mut apart, mut wide, mut joined) = (Sizes::new(), Sizes::new(), Sizes::new());
        for (axis, &size) in at.shape(result).iter().enumerate() {
            let times = if taken.contains(&axis) { repeats[axis] } else { 1 };
            if times != 1 && size != 1 {
                apart.push(1);
                wide.push(times);
            }
            apart.push(size);
            wide.push(if size == 1 { times } else { size });
            joined.push(size * times);
        }
        let split = reshape(at, result, &apart)?;
        let wide = broadcast(at, split, &wide)?;
        result = reshape(at, wide, &joined)?;
    }
    Ok(result)
}

/// Sizes of an image and its blocks: batch, channels, height, width, block.
fn image(at: &Expander<'_>, input: Edge, block: i64) -> Expanded<[usize; 5]> {
    let &[batch, channels, height, width] = &at.shape(input)[..] else {
        return refuse("batch, channels, height and width are needed");
    };
    match size(block)? {
        0 => refuse("blocks of size 0"),
        block => Ok([batch, channels, height, width, block]),
    }
}

fn block_size(node: &NodeDef<'_, '_>) -> Result<i64> {
    node.attributes.int("blocksize")?.ok_or_else(|| refusal("blocksize is not given"))
}

/// Whether the channels of a block are counted before those of the image.
fn depth_first(node: &NodeDef<'_, '_>) -> Result<bool> {
    match node.attributes.string_or("mode", "DCR")? {
        "DCR" => Ok(true),
        "CRD" => Ok(false),
        other => unknown("mode", other),
    }
}

fn depth_to_space(node: &mut NodeDef<'_, '_>) -> Made {
    let (block, depth_first) = (block_size(node)?, depth_first(node)?);
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let [batch, channels, height, width, block] = image(at, input, block)?;
        let outputs = channels / block.saturating_mul(block);
        let (apart, order) = if depth_first {
            ([batch, block, block, outputs, height, width], [0, 3, 4, 1, 5, 2])
        } else {
            ([batch, outputs, block, block, height, width], [0, 1, 4, 2, 5, 3])
        };
        let apart = reshape(at, input, &apart)?;
        let moved = permute(at, apart, &order)?;
        one(reshape(at, moved, &[batch, outputs, height * block, width * block])?)
    })
}

fn space_to_depth(node: &mut NodeDef<'_, '_>) -> Made {
    let (block, depth_first) = (block_size(node)?, depth_first(node)?);
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let [batch, channels, height, width, block] = image(at, input, block)?;
        let (rows, columns) = (height / block, width / block);
        let apart = reshape(at, input, &[batch, channels, rows, block, columns, block])?;
        let order = if depth_first { [0, 3, 5, 1, 2, 4] } else { [0, 1, 3, 5, 2, 4] };
        let moved = permute(at, apart, &order)?;
        one(reshape(at, moved, &[batch, channels * block * block, rows, columns])?)
    })
}

/// Padding and cropping on both sides, the odd one behind.
fn center_crop_pad(node: &mut NodeDef<'_, '_>) -> Made {
    let axes = node.attributes.ints("axes")?.map(<[i64]>::to_vec);
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let shape = at.shape(input);
        let wanted = at.integers(inputs.tensor(1)?)?;
        let along = match &axes {
            Some(axes) => {
                axes.iter().map(|&one| axis(one, shape.len())).collect::<Expanded<Vec<_>>>()?
            }
            None => (0..shape.len()).collect(),
        };
        if along.len() != wanted.len() {
            return refuse("there is not one size for each axis");
        }
        let (mut before, mut after) = (vec![0; shape.len()], vec![0; shape.len()]);
        for (&axis, &wanted) in along.iter().zip(&wanted) {
            let more = size(wanted)? as i64 - shape[axis] as i64;
            // Of an odd number the half that is cut off before is the smaller one, and so is what is added.
            before[axis] = more / 2;
            after[axis] = more - more / 2;
        }
        one(padded(at, input, PadMode::Constant(Scalar::Int(0)), &before, &after)?)
    })
}

/// An operator of old operator sets: borders of an image are cut off.
fn crop(node: &mut NodeDef<'_, '_>) -> Made {
    let border = node.attributes.ints("border")?.unwrap_or_default().to_vec();
    let scale = node.attributes.ints("scale")?.map(<[i64]>::to_vec);
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let &[left, top, right, bottom] = &border[..] else {
            return refuse("border is not left, top, right and bottom");
        };
        let [_, _, height, width, _] = image(at, input, 1)?;
        let (bottom, right) = match scale.as_deref() {
            Some(&[rows, columns]) => (height as i64 - top - rows, width as i64 - left - columns),
            _ => (bottom, right),
        };
        let (before, after) = ([0, 0, -top, -left], [0, 0, -bottom, -right]);
        one(padded(at, input, PadMode::Constant(Scalar::Int(0)), &before, &after)?)
    })
}
