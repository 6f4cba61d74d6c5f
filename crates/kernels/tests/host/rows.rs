//! Shapes that the suite has no cases of, since only these kernels treat them in a way of their own.

use millstream_conformance::{CaseBuilder, Generator, Spec, Value, View, check};
use millstream_core::{DType, OpKind, ScatterReduction};

use crate::host;
use crate::keys::chosen_kinds;

fn top_k(dtype: DType, shape: [usize; 2], k: usize, largest: bool, sorted: bool) {
    let Some(host) = host() else { return };
    let name = format!("top_k/{dtype}/rows-{shape:?}-{k}-{largest}-{sorted}");
    let mut values = Generator::named(&name).elements(dtype, shape[0] * shape[1], -99.0, 99.0);
    // Ties, for the indices, and NaN.
    for (at, value) in values.iter_mut().enumerate().filter(|_| dtype.is_float()) {
        match at % 50 {
            7 => *value = Value::Float(f64::NAN),
            0..25 => *value = Value::Float(value.as_f64().round()),
            _ => {}
        }
    }
    let case = CaseBuilder::new(name, Spec::TopK { axis: 1, largest, sorted })
        .output(View::Transposed.layout(dtype, &[shape[0], k]))
        .output(View::Dense.layout(DType::I64, &[shape[0], k]))
        .input(View::Stepped.layout(dtype, &shape), &values)
        .build();
    check(host, &case).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn the_best_of_long_rows_are_found_in_passes() {
    if !chosen_kinds().contains(&OpKind::TopK) {
        return;
    }
    for (dtype, k) in [(DType::F32, 1), (DType::F16, 100), (DType::I8, 1000), (DType::F64, 300)] {
        top_k(dtype, [2, 9000], k, true, true);
        top_k(dtype, [2, 9000], k, false, false);
    }
}

#[test]
fn long_rows_are_sorted_where_most_of_them_is_wanted() {
    if !chosen_kinds().contains(&OpKind::TopK) {
        return;
    }
    for (dtype, k) in [(DType::F32, 5000), (DType::U8, 3000), (DType::I64, 4999)] {
        top_k(dtype, [3, 5000], k, true, false);
        top_k(dtype, [3, 5000], k, false, true);
    }
}

#[test]
fn updates_beyond_the_queue_of_a_group_keep_their_order() {
    let Some(host) = host().filter(|_| chosen_kinds().contains(&OpKind::ScatterElements)) else {
        return;
    };
    // Few places and many updates, so that sums are rounded in one order only.
    for (axis, shape, places) in [(0, [9000, 3], [7, 3]), (1, [3, 5000], [3, 11])] {
        let spec = Spec::ScatterElements { axis, reduction: ScatterReduction::Add };
        let name = format!("scatter_elements/f32/rows-{axis}");
        let mut generator = Generator::named(&name);
        let source = generator.elements(DType::F32, places[0] * places[1], -1.0, 1.0);
        let updates = generator.elements(DType::F32, shape[0] * shape[1], -9.0, 9.0);
        let size = places[axis];
        let index = |_| Value::Int(generator.below(size) as i64);
        let indices: Vec<Value> = (0..shape[0] * shape[1]).map(index).collect();
        let case = CaseBuilder::new(name, spec)
            .output(View::Dense.layout(DType::F32, &places))
            .input(View::Dense.layout(DType::F32, &places), &source)
            .input(View::Dense.layout(DType::I32, &shape), &indices)
            .input(View::Dense.layout(DType::F32, &shape), &updates)
            .build();
        check(host, &case).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn random_numbers_are_those_of_the_generator() {
    use millstream_conformance::Target;
    use millstream_core::{Distribution, philox};

    let Some(host) = host().filter(|_| chosen_kinds().contains(&OpKind::Random)) else { return };
    let run = |distribution, seed, offset: u64| {
        let spec = Spec::Random { distribution, seed, offset };
        let case = CaseBuilder::new("random", spec).output(View::Dense.layout(DType::F32, &[2001]));
        let outcome = host.run(&case.build()).unwrap_or_else(|error| panic!("{error}"));
        let number = |bytes: &[u8]| f32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let bytes = &outcome.buffers[0];
        let count = bytes.len() / 4;
        assert!(count >= 2001);
        bytes.chunks(4).take(2001).map(number).collect::<Vec<f32>>()
    };
    for (seed, offset) in [(1, 0), (1 << 40, u64::MAX - 3), (u64::MAX, (1 << 34) - 9)] {
        let uniform = run(Distribution::Uniform { low: -1.0, high: 3.0 }, seed, offset);
        let normal = run(Distribution::Normal { mean: 2.0, deviation: 0.7 }, seed, offset);
        for i in 0..2001 {
            let position = offset.wrapping_add(i as u64);
            let expected = -1.0 + 4.0 * philox::uniform_at(seed, position);
            assert_eq!(uniform[i].to_bits(), expected.to_bits(), "uniform {i}");
            let expected = 2.0 + 0.7 * philox::normal_at(seed, position);
            assert_eq!(normal[i].to_bits(), expected.to_bits(), "normal {i}");
        }
    }
}
