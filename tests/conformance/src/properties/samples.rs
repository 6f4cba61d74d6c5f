//! A sample of a batch has the same bits as alone, for operations that take a batch as their first
//! axis.

use millstream_core::{
    CoordinateMode, MAX_RANK, OpKind, PoolKind, PoolParams, ResizeMode, ResizeParams,
};

use super::Property;
use super::independence::{Part, Run, compare, run};
use crate::cases::FLOATS;
use crate::{Fault, Generator, Spec, Target, View};

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

/// Runs a batch whole and each sample alone; shapes are those of one sample, and parameters belong to
/// all of them.
fn samples(
    target: &dyn Target,
    spec: &Spec,
    count: usize,
    [from, to]: [&[usize]; 2],
    parameters: &[&[usize]],
) -> Result<(), Fault> {
    let (input, output): (usize, usize) = (from.iter().product(), to.iter().product());
    for dtype in FLOATS {
        let mut generator = Generator::new(83);
        let values = generator.elements(dtype, count * input, -2.0, 2.0);
        let extra: Vec<_> = parameters
            .iter()
            .map(|shape| generator.elements(dtype, shape.iter().product(), -1.0, 1.0))
            .collect();
        let run = |first: usize, last: usize, view: View| {
            let batch = [last - first];
            let (from, to) = ([&batch, from].concat(), [&batch, to].concat());
            let mut parts = vec![Part(&from, view, &values[first * input..last * input])];
            for (shape, values) in parameters.iter().zip(&extra) {
                parts.push(Part(shape, View::Dense, values));
            }
            run(target, dtype, spec.clone(), (&to, view, dtype), &parts)
        };
        let whole = run(0, count, View::Dense)?;
        let what = format!("{spec:?} of {dtype}");
        compare(&what, &whole, 0, &run(0, count, View::Transposed)?)?;
        for sample in (0..count).step_by(count.div_ceil(8)) {
            compare(&what, &whole, sample * output, &run(sample, sample + 1, View::Dense)?)?;
        }
    }
    Ok(())
}

fn rms_norm(target: &dyn Target) -> Result<(), Fault> {
    let spec = Spec::RmsNorm { axes: 1, epsilon: 1e-5, weight: true };
    for (count, size) in [(7, 5), (33, 67), (64, 1500)] {
        samples(target, &spec, count, [&[size], &[size]], &[&[size]])?;
    }
    Ok(())
}

fn group_norm(target: &dyn Target) -> Result<(), Fault> {
    let spec = Spec::GroupNorm { groups: 2, epsilon: 1e-5, weight: true, bias: true };
    for (count, size) in [(7, 5), (9, 67), (20, 700)] {
        samples(target, &spec, count, [&[4, size], &[4, size]], &[&[4], &[4]])?;
    }
    Ok(())
}

fn cumsum(target: &dyn Target) -> Result<(), Fault> {
    for axis in [1, 2] {
        let spec = Spec::CumSum { axis, exclusive: false, reverse: false };
        for size in [3, 70, 700] {
            samples(target, &spec, 11, [&[9, size], &[9, size]], &[])?;
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
    };
    let spec = Spec::Pool { params, indices: false };
    samples(target, &spec, 9, [&[1, 9, 3], &[1, 5, 3]], &[])?;
    samples(target, &spec, 9, [&[3, 9, 40], &[3, 5, 40]], &[])
}

fn resize(target: &dyn Target) -> Result<(), Fault> {
    let mut scales = [1.0; MAX_RANK];
    (scales[2], scales[3]) = (13.0 / 9.0, 0.5);
    let params = ResizeParams {
        mode: ResizeMode::Cubic(-0.75),
        coordinates: CoordinateMode::HalfPixel,
        scales,
        region: [(0.0, 1.0); MAX_RANK],
        extrapolation: 0.0,
        exclude_outside: false,
        antialias: true,
    };
    samples(target, &Spec::Resize(params), 9, [&[3, 9, 40], &[3, 13, 20]], &[])
}
