//! Larger operations give an element of a batch the bits that it has alone.

use millstream_core::{
    Activation, ConvParams, DType, Epilogue, Op, OpKind, RecurrentCell, RecurrentDirection,
    RecurrentParams, RecurrentVariant,
};

use super::{Property, elements, hold, same};
use crate::cases::FLOATS;
use crate::dense::walk;
use crate::{CaseBuilder, Dense, Fault, Generator, Target, Value, View, ops};

type Run = fn(&dyn Target) -> Result<(), Fault>;

const PROPERTIES: [(&str, OpKind, Run); 4] = [
    ("conv/bits do not depend on the batch", OpKind::Conv, conv),
    ("conv_transpose/bits do not depend on the batch", OpKind::ConvTranspose, conv_transpose),
    ("attention/bits do not depend on the batch", OpKind::Attention, attention),
    ("recurrent/bits do not depend on the batch", OpKind::Recurrent, recurrent),
];

pub(super) fn properties() -> impl Iterator<Item = Property> {
    let property = |(name, kind, run)| Property { name, kind, bit_identical: true, run };
    PROPERTIES.into_iter().map(property)
}

/// How many there are in the whole batch.
const BATCH: usize = 5;

/// The shape of an operand and the axis of the batch, which has any size there, if it has one.
#[derive(Clone)]
struct Shape(Vec<usize>, Option<usize>);

impl Shape {
    fn with(&self, count: usize) -> Vec<usize> {
        let mut shape = self.0.clone();
        if let Some(axis) = self.1 {
            shape[axis] = count;
        }
        shape
    }
}

/// Some elements of the batch, of the values of all.
fn part(shape: &Shape, values: &[Value], from: usize, count: usize) -> Vec<Value> {
    let Some(axis) = shape.1 else { return values.to_vec() };
    let whole = shape.with(BATCH);
    let strides: Vec<usize> =
        (0..whole.len()).map(|axis| whole[axis + 1..].iter().product()).collect();
    let places = walk(&shape.with(count), &strides, from * strides[axis]);
    places.into_iter().map(|place| values[place]).collect()
}

/// Compares the first output, whose batch is on that axis.
fn check(
    target: &dyn Target,
    dtype: DType,
    op: &Op,
    axis: usize,
    inputs: &[Shape],
) -> Result<(), Fault> {
    let mut generator = Generator::new(59);
    let values: Vec<Vec<Value>> = inputs
        .iter()
        .map(|shape| generator.elements(dtype, shape.with(BATCH).iter().product(), -0.7, 0.7))
        .collect();
    let run = |from: usize, count: usize| {
        let mut case = CaseBuilder::new(format!("{op:?}"), op.clone());
        for (shape, values) in inputs.iter().zip(&values) {
            let layout = View::Dense.layout(dtype, &shape.with(count));
            case = case.input(layout, &part(shape, values, from, count));
        }
        elements(target, &case.outputs(&[View::Dense; 3]).build())
    };
    let Some(Dense { values: whole, shape, .. }) = run(0, BATCH)? else { return Ok(()) };
    let output = Shape(shape, Some(axis));
    for from in 0..BATCH {
        let Some(alone) = run(from, 1)? else { return Ok(()) };
        let expected = part(&output, &whole, from, 1);
        for (at, (&old, &new)) in expected.iter().zip(&alone.values).enumerate() {
            hold(same(old, new), || {
                format!("{op:?} of {dtype}: element {at} of {from} is {old}, and {new} alone")
            })?;
        }
    }
    Ok(())
}

fn batch_first(shape: &[usize]) -> Shape {
    Shape(shape.to_vec(), Some(0))
}

fn shared(shape: &[usize]) -> Shape {
    Shape(shape.to_vec(), None)
}

fn convolution(target: &dyn Target, transposed: bool) -> Result<(), Fault> {
    for dtype in FLOATS {
        for (groups, channels, length) in [(1, 6, 41), (6, 6, 41), (2, 34, 7)] {
            let params = ConvParams { groups, pad_before: [1, 0, 0], ..ConvParams::new(1) };
            let activation = Activation::Silu;
            let epilogue = Epilogue { scale: 0.5, bias: true, residual: false, activation };
            let op = ops::conv(transposed, params, epilogue);
            let weight = shared(&[channels, channels / groups as usize, 3]);
            let input = batch_first(&[0, channels, length]);
            let inputs = [input, weight, shared(&[channels])];
            check(target, dtype, &op, 0, &inputs)?;
        }
    }
    Ok(())
}

fn conv(target: &dyn Target) -> Result<(), Fault> {
    convolution(target, false)
}

fn conv_transpose(target: &dyn Target) -> Result<(), Fault> {
    convolution(target, true)
}

fn attention(target: &dyn Target) -> Result<(), Fault> {
    for dtype in FLOATS {
        for causal in [false, true] {
            let op = ops::attention(0.3, causal, false);
            let (query, key) = (batch_first(&[0, 4, 9, 7]), batch_first(&[0, 2, 140, 7]));
            check(target, dtype, &op, 0, &[query, key.clone(), key])?;
        }
    }
    Ok(())
}

fn recurrent(target: &dyn Target) -> Result<(), Fault> {
    let cells = [RecurrentCell::Lstm, RecurrentCell::Gru { linear_before_reset: true }];
    for dtype in FLOATS {
        for cell in cells {
            let (bias, initial_hidden, initial_cell, lengths) = (false, true, false, false);
            let direction = RecurrentDirection::Both;
            let op = ops::recurrent(RecurrentParams {
                cell,
                direction,
                bias,
                initial_hidden,
                initial_cell,
                lengths,
                variant: RecurrentVariant::default(),
            });
            let (time, input, hidden) = (6, 5, 11);
            let rows = cell.gates() * hidden;
            let state = Shape(vec![2, 0, hidden], Some(1));
            let inputs = [
                Shape(vec![time, 0, input], Some(1)),
                shared(&[2, rows, input]),
                shared(&[2, rows, hidden]),
                state,
            ];
            check(target, dtype, &op, 2, &inputs)?;
        }
    }
    Ok(())
}
