//! MatMulBnb4: products with weights as bitsandbytes writes them, 4 bits that each stand for one of 16 numbers.

use millstream_core::{BinaryOp, DType, Op};
use millstream_graph::{Edge, Expanded, Expander};

use super::super::common::{
    Made, cast, elements, one, pair, permute, refusal, refuse, reshape, slice, vector, with_number,
};
use super::super::product::{multiplied, product_by};
use super::blocks::number;
use super::gather_blocks::repeated;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(super) const TABLE: Table = &[("MatMulBnb4", matmul)];

/// Floating-point numbers of 4 bits, with a sign: not those of other formats.
pub(super) const FP4: [f64; 16] = [
    0.0,
    5.208_333_333e-3,
    0.666_666_67,
    1.0,
    0.333_333_33,
    0.5,
    0.166_666_67,
    0.25,
    -0.0,
    -5.208_333_333e-3,
    -0.666_666_67,
    -1.0,
    -0.333_333_33,
    -0.5,
    -0.166_666_67,
    -0.25,
];

/// Where numbers of a normal distribution lie.
pub(super) const NF4: [f64; 16] = [
    -1.0,
    -0.696_192_800_998_687_7,
    -0.525_073_051_452_636_7,
    -0.394_917_488_098_144_53,
    -0.284_441_381_692_886_35,
    -0.184_773_430_228_233_34,
    -0.091_050_036_251_544_95,
    0.0,
    0.079_580_299_556_255_34,
    0.160_930_201_411_247_25,
    0.246_112_301_945_686_34,
    0.337_915_241_718_292_24,
    0.440_709_829_330_444_34,
    0.562_617_003_917_694_1,
    0.722_956_836_223_602_3,
    1.0,
];

fn matmul(node: &mut NodeDef<'_, '_>) -> Made {
    let attributes = &node.attributes;
    let (rows, columns) = (number(attributes, "N", None)?, number(attributes, "K", None)?);
    let block = number(attributes, "block_size", None)?;
    let table = match number(attributes, "quant_type", None)? {
        0 => FP4,
        1 => NF4,
        other => return Err(refusal(format!("quant_type is {other}: 0 is FP4, 1 is NF4"))),
    };
    let transposed = attributes.flag("transB", true)?;
    attributes.ignore(&["training_mode"]);
    let Some(count) = rows.checked_mul(columns).filter(|_| block > 0) else {
        return Err(refusal(format!("weights of {rows}x{columns} in blocks of {block}")));
    };
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let numbers = numbers(at, inputs.tensor(1)?, &table, count)?;
        let largest = cast(at, inputs.tensor(2)?, DType::F32)?;
        let blocks = elements(&at.shape(largest));
        let largest = reshape(at, largest, &[blocks])?;
        let largest = repeated(at, largest, 0, block, count)?;
        let weights = pair(at, BinaryOp::Mul, numbers, largest)?;
        let mut weights = reshape(at, weights, &[rows, columns])?;
        if transposed {
            weights = permute(at, weights, &[1, 0])?;
        }
        one(product_by(at, input, weights, multiplied)?)
    })
}

/// What packed numbers of 4 bits stand for, the high ones first.
fn numbers(at: &mut Expander<'_>, bytes: Edge, table: &[f64; 16], count: usize) -> Expanded<Edge> {
    let width = elements(&at.shape(bytes));
    if width < count.div_ceil(2) {
        return refuse(format!("{width} bytes for {count} numbers of 4 bits"));
    }
    let bytes = reshape(at, bytes, &[width, 1])?;
    let high = with_number(at, BinaryOp::ShiftRight, bytes, 4i64)?;
    let low = with_number(at, BinaryOp::And, bytes, 15i64)?;
    let places = at.concat(1, &[high, low])?;
    let places = reshape(at, places, &[width * 2])?;
    let places = slice(at, places, 0, 0, count)?;
    let places = cast(at, places, DType::I32)?;
    let table = vector(at, table, DType::F32)?;
    at.apply(Op::Gather { axis: 0 }, &[table, places])
}
