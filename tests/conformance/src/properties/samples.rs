//! A sample of a batch has the same bits as alone, for operations that take a batch as their first
//! axis.

use millstream_core::{
    CoordinateMode, MAX_RANK, Op, OpKind, PoolKind, PoolOrder, PoolParams, ResizeMode, ResizeParams,
};

use super::Property;
use super::independence::{Part, Run, compare, run};
use crate::cases::FLOATS;
use crate::{Fault, Generator, Target, View, ops};

const PROPERTIES: [(&str, OpKind, Run); 5] = [
    ("rms_norm/bits do not depend on the other samples", OpKind::RmsNorm, rms_norm),
    ("group_norm/bits do not depend on the other samples", OpKind::GroupNorm, group_norm),
    ("cumsum/bits do not depend on the other samples", OpKind::CumSum, cumsum),
    ("pool/bits do not depend on the other samples", OpKind::Pool, pool),
    ("resize/bits do not depend on the other samples", OpKind::Resize, resize),
];

pub(super) fn properties() -> impl Iterator<Item = Property> {
    let property = |(name, kind, run)| Property { name, kind, bit_identical: true, run };
    PROPERTIES.into_iter().map(property)
}

/// Runs a batch whole and each sample alone; the operation is made for the size of a batch, the shape is that of one
/// sample, and parameters belong to all of them.
fn samples(
    target: &dyn Target,
    op: impl Fn(usize) -> Op,
    count: usize,
    from: &[usize],
    parameters: &[&[usize]],
) -> Result<(), Fault> {
    let input = from.iter().product::<usize>();
    for dtype in FLOATS {
        let mut generator = Generator::new(83);
        let values = generator.elements(dtype, count * input, -2.0, 2.0);
        let extra: Vec<_> = parameters
            .iter()
            .map(|shape| generator.elements(dtype, shape.iter().product(), -1.0, 1.0))
            .collect();
        let run = |first: usize, last: usize, view: View| {
            let batch = [last - first];
            let from = [&batch, from].concat();
            let mut parts = vec![Part(&from, view, &values[first * input..last * input])];
            for (shape, values) in parameters.iter().zip(&extra) {
                parts.push(Part(shape, View::Dense, values));
            }
            run(target, dtype, op(last - first), view, &parts)
        };
        let whole = run(0, count, View::Dense)?;
        let output = whole.as_ref().map_or(0, |whole| whole.values.len() / count);
        let what = format!("{:?} of {dtype}", op(count));
        compare(&what, &whole, 0, &run(0, count, View::Transposed)?)?;
        for sample in (0..count).step_by(count.div_ceil(8)) {
            compare(&what, &whole, sample * output, &run(sample, sample + 1, View::Dense)?)?;
        }
    }
    Ok(())
}

fn rms_norm(target: &dyn Target) -> Result<(), Fault> {
    let op = Op::RmsNorm { axes: 1, epsilon: 1e-5, weight: true };
    for (count, size) in [(7, 5), (33, 67), (64, 1500)] {
        samples(target, |_| op.clone(), count, &[size], &[&[size]])?;
    }
    Ok(())
}

fn group_norm(target: &dyn Target) -> Result<(), Fault> {
    let op = Op::GroupNorm { groups: 2, epsilon: 1e-5, weight: true, bias: true };
    for (count, size) in [(7, 5), (9, 67), (20, 700)] {
        samples(target, |_| op.clone(), count, &[4, size], &[&[4], &[4]])?;
    }
    Ok(())
}

fn cumsum(target: &dyn Target) -> Result<(), Fault> {
    for axis in [1, 2] {
        let op = Op::CumSum { axis, exclusive: false, reverse: false, product: false };
        for size in [3, 70, 700] {
            samples(target, |_| op.clone(), 11, &[9, size], &[])?;
        }
    }
    Ok(())
}

fn pool(target: &dyn Target) -> Result<(), Fault> {
    let params = PoolParams {
        kind: PoolKind::Average { include_padding: false },
        spatial: 2,
        kernel: [3, 3, 1],
        stride: [2, 1, 1],
        pad_before: [1, 1, 0],
        pad_after: [1, 1, 0],
        dilation: [1; 3],
        ceil: false,
        indices: false,
        order: PoolOrder::Channel,
    };
    let op = ops::pool(params);
    samples(target, |_| op.clone(), 9, &[1, 9, 3], &[])?;
    samples(target, |_| op.clone(), 9, &[3, 9, 40], &[])
}

fn resize(target: &dyn Target) -> Result<(), Fault> {
    let mut scales = [1.0; MAX_RANK];
    (scales[2], scales[3]) = (13.0 / 9.0, 0.5);
    let op = |batch: usize| {
        let mut sizes = [1; MAX_RANK];
        sizes[..4].copy_from_slice(&[batch, 3, 13, 20]);
        ops::resize(ResizeParams {
            mode: ResizeMode::Cubic(-0.75),
            coordinates: CoordinateMode::HalfPixel,
            scales,
            sizes,
            region: [(0.0, 1.0); MAX_RANK],
            extrapolation: 0.0,
            exclude_outside: false,
            antialias: true,
        })
    };
    samples(target, op, 9, &[3, 9, 40], &[])
}
