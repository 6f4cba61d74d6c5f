//! Products with weights of few bits.

use millstream_core::{BinaryOp, DType, Epilogue, Op};
use millstream_graph::{Edge, Expanded, Expander};

use super::super::common::{
    Made, broadcast, cast, elements, one, pair, permute, refusal, refuse, reshape, slice,
    unsqueeze, with_number,
};
use super::super::product::multiplied;
use super::linear::plus;
use crate::attributes::Attributes;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(super) const TABLE: Table = &[("MatMulNBits", matmul)];

/// The largest block that a product takes.
const LARGEST: usize = 256;

/// Weights in blocks along k.
#[derive(Clone, Copy)]
struct Blocks {
    rows: usize,
    columns: usize,
    bits: usize,
    size: usize,
}

impl Blocks {
    fn count(self) -> usize {
        self.rows.div_ceil(self.size)
    }
}

/// Numbers of few bits, low bits first, as bytes: `[…, n]` bytes become `[…, count]` numbers.
pub(super) fn unpacked(
    at: &mut Expander<'_>,
    bytes: Edge,
    bits: usize,
    count: usize,
) -> Expanded<Edge> {
    let shape = at.shape(bytes);
    let Some((&width, leading)) = shape.split_last() else {
        return refuse("packed numbers need an axis");
    };
    let each = 8 / bits;
    if width.saturating_mul(each) < count {
        return refuse(format!("{width} bytes for {count} numbers of {bits} bits"));
    }
    let mut result = bytes;
    if each > 1 {
        let mut parts = Vec::with_capacity(each);
        for part in 0..each {
            let moved = match part {
                0 => bytes,
                _ => with_number(at, BinaryOp::ShiftRight, bytes, (part * bits) as i64)?,
            };
            let cut = with_number(at, BinaryOp::And, moved, (1i64 << bits) - 1)?;
            parts.push(unsqueeze(at, cut, shape.len())?);
        }
        let joined = at.concat(shape.len(), &parts)?;
        let wide: Vec<usize> = leading.iter().copied().chain([width * each]).collect();
        result = reshape(at, joined, &wide)?;
    }
    slice(at, result, shape.len() - 1, 0, count)
}

/// A size that an attribute gives.
pub(super) fn number(
    attributes: &Attributes<'_>,
    name: &str,
    default: Option<i64>,
) -> crate::Result<usize> {
    let given = attributes.int(name)?.or(default);
    let given = given.ok_or_else(|| refusal(format!("{name} is not given")))?;
    usize::try_from(given).map_err(|_| refusal(format!("{name} is {given}")))
}

fn matmul(node: &mut NodeDef<'_, '_>) -> Made {
    let attributes = &node.attributes;
    let number = |name, default| number(attributes, name, default);
    let blocks = Blocks {
        rows: number("K", None)?,
        columns: number("N", None)?,
        bits: number("bits", Some(4))?,
        size: number("block_size", None)?,
    };
    // How exact sums are is the writer's wish; here they are always kept in f32.
    attributes.ignore(&["accuracy_level"]);
    if attributes.flag("weight_prepacked", false)? {
        return Err(refusal("weights that were packed for another device"));
    }
    if !matches!(blocks.bits, 2 | 4 | 8) || blocks.size < 16 || !blocks.size.is_power_of_two() {
        let reason = format!("{} bits in blocks of {}", blocks.bits, blocks.size);
        return Err(refusal(reason));
    }
    operator(node, move |at, inputs| {
        let (input, weights) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let count = blocks.count();
        let bytes = blocks.size * blocks.bits / 8;
        let weights = reshape(at, weights, &[blocks.columns, count, bytes])?;
        let scales = inputs.tensor(2)?;
        let scales = cast(at, scales, at.dtype(input))?;
        let scales = reshape(at, scales, &[blocks.columns, count])?;
        let zeros = inputs.optional(3)?;
        let zeros = zeros.map(|zeros| shaped_zeros(at, zeros, blocks)).transpose()?;
        if let Some(groups) = inputs.optional(4)? {
            let product = ungrouped(at, input, weights, scales, zeros, groups, blocks)?;
            return one(plus(at, product, inputs.optional(5)?)?);
        }
        let (weights, scales, zeros, size) = smaller(at, weights, scales, zeros, blocks)?;
        let bias = inputs.optional(5)?;
        let epilogue = Epilogue { bias: bias.is_some(), ..Epilogue::default() };
        let op = Op::MatMulBlocks {
            bits: blocks.bits as u8,
            block: size as u16,
            zeros: zeros.is_some(),
            epilogue,
        };
        let mut rows = input;
        let shape = at.shape(input);
        if shape.len() == 1 {
            rows = unsqueeze(at, input, 0)?;
        }
        let mut given = vec![rows, weights, scales];
        given.extend(zeros);
        given.extend(bias);
        let mut result = at.apply(op, &given)?;
        if shape.len() == 1 {
            result = reshape(at, result, &[blocks.columns])?;
        }
        one(result)
    })
}

/// Zero points, packed or as numbers, with an axis of blocks.
fn shaped_zeros(at: &mut Expander<'_>, zeros: Edge, blocks: Blocks) -> Expanded<Edge> {
    let width = match at.dtype(zeros) {
        DType::U8 => (blocks.count() * blocks.bits).div_ceil(8),
        _ => blocks.count(),
    };
    reshape(at, zeros, &[blocks.columns, width])
}

/// Zero points as numbers.
fn zero_numbers(at: &mut Expander<'_>, zeros: Edge, blocks: Blocks) -> Expanded<Edge> {
    match at.dtype(zeros) {
        DType::U8 => unpacked(at, zeros, blocks.bits, blocks.count()),
        _ => Ok(zeros),
    }
}

/// Blocks that a product takes: one that is too large becomes several, with the same scale and zero point.
fn smaller(
    at: &mut Expander<'_>,
    weights: Edge,
    scales: Edge,
    zeros: Option<Edge>,
    blocks: Blocks,
) -> Expanded<(Edge, Edge, Option<Edge>, usize)> {
    let dtype = at.dtype(scales);
    if blocks.size <= LARGEST {
        let zeros = match zeros {
            Some(zeros) if at.dtype(zeros) != DType::U8 => Some(cast(at, zeros, dtype)?),
            other => other,
        };
        return Ok((weights, scales, zeros, blocks.size));
    }
    let parts = blocks.size / LARGEST;
    let count = blocks.rows.div_ceil(LARGEST);
    let all = blocks.count() * parts;
    let repeated = |at: &mut Expander<'_>, numbers: Edge| -> Expanded<Edge> {
        let wide = unsqueeze(at, numbers, 2)?;
        let wide = broadcast(at, wide, &[blocks.columns, blocks.count(), parts])?;
        let wide = reshape(at, wide, &[blocks.columns, all])?;
        slice(at, wide, 1, 0, count)
    };
    let scales = repeated(at, scales)?;
    let zeros = match zeros {
        Some(zeros) => {
            let zeros = zero_numbers(at, zeros, blocks)?;
            let zeros = cast(at, zeros, dtype)?;
            Some(repeated(at, zeros)?)
        }
        None => None,
    };
    let bytes = LARGEST * blocks.bits / 8;
    let weights = reshape(at, weights, &[blocks.columns, all, bytes])?;
    let weights = slice(at, weights, 1, 0, count)?;
    Ok((weights, scales, zeros, LARGEST))
}

/// A product with weights whose scales do not lie in blocks: every row says which scale is its own.
fn ungrouped(
    at: &mut Expander<'_>,
    input: Edge,
    weights: Edge,
    scales: Edge,
    zeros: Option<Edge>,
    groups: Edge,
    blocks: Blocks,
) -> Expanded<Edge> {
    let dtype = at.dtype(input);
    let width = elements(&at.shape(weights)) / blocks.columns.max(1);
    let flat = reshape(at, weights, &[blocks.columns, width])?;
    let whole = unpacked(at, flat, blocks.bits, blocks.rows)?;
    let whole = cast(at, whole, dtype)?;
    let groups = slice(at, groups, 0, 0, blocks.rows)?;
    let of_rows =
        |at: &mut Expander<'_>, numbers: Edge| at.apply(Op::Gather { axis: 1 }, &[numbers, groups]);
    let centered = match zeros {
        Some(zeros) => {
            let zeros = zero_numbers(at, zeros, blocks)?;
            let zeros = cast(at, zeros, dtype)?;
            let zeros = of_rows(at, zeros)?;
            pair(at, BinaryOp::Sub, whole, zeros)?
        }
        None => with_number(at, BinaryOp::Sub, whole, (1i64 << (blocks.bits - 1)) as f32)?,
    };
    let scales = of_rows(at, scales)?;
    let weights = pair(at, BinaryOp::Mul, centered, scales)?;
    let weights = permute(at, weights, &[1, 0])?;
    multiplied(at, input, weights)
}
