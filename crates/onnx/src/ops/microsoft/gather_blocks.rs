//! GatherBlockQuantized: rows of a table of few bits, as numbers.

use millstream_core::{BinaryOp, DType, Op};
use millstream_graph::{Edge, Expanded, Expander};

use super::super::common::{
    Made, axis, broadcast, cast, one, pair, refuse, reshape, size, size_of_axis, slice, unsqueeze,
    with_number,
};
use super::blocks::unpacked;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(super) const TABLE: Table = &[("GatherBlockQuantized", gather)];

fn gather(node: &mut NodeDef<'_, '_>) -> Made {
    let attributes = &node.attributes;
    let gathered = attributes.int_or("gather_axis", 0)?;
    let divided = attributes.int_or("quantize_axis", 1)?;
    let block = attributes.int_or("block_size", 128)?;
    let bits = attributes.int_or("bits", 4)?;
    operator(node, move |at, inputs| {
        let (data, indices) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let (scales, zeros) = (inputs.tensor(2)?, inputs.optional(3)?);
        let rank = at.rank(data);
        let (gathered, divided) = (axis(gathered, rank)?, axis(divided, rank)?);
        let (block, bits) = (size(block)?, size(bits)?);
        if gathered == divided || !matches!(bits, 2 | 4 | 8) || block == 0 {
            return refuse(format!("{bits} bits in blocks of {block} along axis {divided}"));
        }
        let picked = |at: &mut Expander<'_>, table: Edge| {
            at.apply(Op::Gather { axis: gathered as u8 }, &[table, indices])
        };
        let dtype = at.dtype(scales);
        let mut numbers = match at.dtype(data) {
            DType::U8 => picked(at, data)?,
            // Of these, two share a byte and no single one can be picked.
            _ => {
                let wide = cast(at, data, DType::F32)?;
                picked(at, wide)?
            }
        };
        // The axis of blocks is moved by those that the indices add.
        let more = at.rank(indices) + 1;
        let place = if divided > gathered { divided + more - 2 } else { divided };
        let packed = at.dtype(data) == DType::U8 && bits < 8;
        if packed && place + 1 != at.rank(numbers) {
            return refuse("packed numbers lie along the last axis");
        }
        if packed {
            let count = at.shape(numbers)[place] * (8 / bits);
            numbers = unpacked(at, numbers, bits, count)?;
        }
        let shape = at.shape(numbers);
        let numbers = cast(at, numbers, DType::F32)?;
        let scales = picked(at, scales)?;
        let scales = repeated(at, scales, place, block, shape[place])?;
        let scales = cast(at, scales, DType::F32)?;
        let centered = match zeros {
            Some(zeros) => {
                let zeros = match at.dtype(zeros) {
                    DType::U8 if packed => {
                        let zeros = picked(at, zeros)?;
                        unpacked(at, zeros, bits, shape[place].div_ceil(block))?
                    }
                    DType::U8 => picked(at, zeros)?,
                    _ => {
                        let wide = cast(at, zeros, DType::F32)?;
                        picked(at, wide)?
                    }
                };
                let zeros = cast(at, zeros, DType::F32)?;
                let zeros = repeated(at, zeros, place, block, shape[place])?;
                pair(at, BinaryOp::Sub, numbers, zeros)?
            }
            // Bytes are around the middle of their range.
            None if at.dtype(data) == DType::U8 => {
                with_number(at, BinaryOp::Sub, numbers, (1i64 << (bits - 1)) as f32)?
            }
            None => numbers,
        };
        let result = pair(at, BinaryOp::Mul, centered, scales)?;
        one(cast(at, result, dtype)?)
    })
}

/// One number of each block for all of the block.
pub(super) fn repeated(
    at: &mut Expander<'_>,
    numbers: Edge,
    axis: usize,
    block: usize,
    count: usize,
) -> Expanded<Edge> {
    let mut shape = at.shape(numbers);
    let blocks = size_of_axis(at, numbers, axis)?;
    let wide = unsqueeze(at, numbers, axis + 1)?;
    let mut wide_shape = at.shape(wide);
    wide_shape[axis + 1] = block;
    let wide = broadcast(at, wide, &wide_shape)?;
    shape[axis] = match blocks.checked_mul(block) {
        Some(all) if all >= count => all,
        _ => return refuse(format!("{blocks} blocks of {block} for {count} numbers")),
    };
    let wide = reshape(at, wide, &shape)?;
    slice(at, wide, axis, 0, count)
}
