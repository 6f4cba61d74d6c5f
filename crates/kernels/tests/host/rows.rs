//! Shapes that the suite has no cases of, since only these kernels treat them in a way of their own.

use std::collections::BTreeSet;

use millstream_conformance::{Case, CaseBuilder, Generator, Value, View, cases, check, ops};
use millstream_core::{DType, Op, OpKind, ScatterReduction};
use millstream_kernels::{Key, Limits, Program};

use crate::host;
use crate::keys::{chosen_kinds, keys_of};
use crate::target::Wider;

#[test]
fn updates_beyond_the_queue_of_a_group_keep_their_order() {
    let Some(host) = host().filter(|_| chosen_kinds().contains(&OpKind::ScatterElements)) else {
        return;
    };
    // Few places and many updates, so that sums are rounded in one order only.
    for (axis, shape, places) in [(0, [9000, 3], [7, 3]), (1, [3, 5000], [3, 11])] {
        let op = Op::ScatterElements { axis: axis as u8, reduction: ScatterReduction::Add };
        let name = format!("scatter_elements/f32/rows-{axis}");
        let mut generator = Generator::named(&name);
        let source = generator.elements(DType::F32, places[0] * places[1], -1.0, 1.0);
        let updates = generator.elements(DType::F32, shape[0] * shape[1], -9.0, 9.0);
        let size = places[axis];
        let index = |_| Value::Int(generator.below(size) as i128);
        let indices: Vec<Value> = (0..shape[0] * shape[1]).map(index).collect();
        let case = CaseBuilder::new(name, op)
            .input(View::Dense.layout(DType::F32, &places), &source)
            .input(View::Dense.layout(DType::I32, &shape), &indices)
            .input(View::Dense.layout(DType::F32, &shape), &updates)
            .outputs(&[View::Dense])
            .build();
        check(host, &case).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// Runs the cases of a kind that are cut in a way of their own where there are many processors. Gives the programs that
/// they need, or `None` if nothing is run here.
fn cut_for_many_processors(kind: OpKind) -> Option<BTreeSet<Program>> {
    let host = host().filter(|_| chosen_kinds().contains(&kind))?;
    let tiled = [Program::AttentionTensorCores, Program::AttentionTiles];
    let is_cut = |(index, case): &(usize, Case), limits: &Limits| {
        let some = index % 4 == 0;
        let small_convolution = case.name.starts_with("conv/") && some;
        let heads = kind == OpKind::Attention
            && some
            && keys_of(case, limits)
                .is_ok_and(|keys| keys.iter().any(|key| tiled.contains(&key.program())));
        case.name.contains("/layer-") || small_convolution || heads
    };
    let mut programs = BTreeSet::new();
    for processors in [6, 132] {
        // Larger groups too, but for ThreadSanitizer, whose groups are small.
        let max_threads =
            host.limits.max_threads * if host.limits.max_threads < 256 { 1 } else { 2 };
        let limits = Limits { parallel_groups: 4 * processors, max_threads, ..host.limits };
        let chosen = cases(kind).into_iter().enumerate();
        let chosen = chosen.filter(|case| is_cut(case, &limits)).map(|(_, case)| case);
        let keys = check_all(&Wider { host, limits }, &chosen.collect::<Vec<_>>());
        programs.extend(keys.iter().map(Key::program));
    }
    Some(programs)
}

/// Runs cases whose kernels are compiled together, which takes far less time than one by one. Gives their keys.
fn check_all(wider: &Wider, cases: &[Case]) -> BTreeSet<Key> {
    let keys = cases.iter().map(|case| keys_of(case, &wider.limits));
    let keys: Result<Vec<_>, _> = keys.collect();
    let keys: BTreeSet<Key> =
        keys.unwrap_or_else(|error| panic!("{error}")).into_iter().flatten().collect();
    wider.host.library.prepare(&keys).unwrap_or_else(|error| panic!("{error}"));
    for case in cases {
        check(wider, case).unwrap_or_else(|failure| panic!("{failure}"));
    }
    keys
}

#[test]
fn products_are_cut_for_many_processors_too() {
    let Some(programs) = cut_for_many_processors(OpKind::MatMul) else { return };
    let cut = [
        Program::MatmulFewRows,
        Program::MatmulSplitK,
        Program::MatmulTensorCores,
        Program::MatmulPipelined,
        Program::MatmulPipelinedF32,
    ];
    for program in cut {
        assert!(programs.contains(&program), "{programs:?}");
    }
}

#[test]
fn convolutions_are_cut_for_many_processors_too() {
    let Some(programs) = cut_for_many_processors(OpKind::Conv) else { return };
    for program in [Program::ConvSplitK, Program::ConvTensorCores, Program::ConvDepthwise] {
        assert!(programs.contains(&program), "{programs:?}");
    }
}

#[test]
fn attention_is_cut_for_many_processors_too() {
    let Some(programs) = cut_for_many_processors(OpKind::Attention) else { return };
    assert!(programs.contains(&Program::AttentionTensorCores), "{programs:?}");
}

#[test]
fn kernels_for_devices_without_tensor_cores_take_16_bits_too() {
    let kinds = [OpKind::Attention, OpKind::MatMul, OpKind::Conv];
    let Some(host) = host().filter(|_| kinds.iter().all(|kind| chosen_kinds().contains(kind)))
    else {
        return;
    };
    let limits = Limits { tensor_cores: false, ..host.limits };
    let mut chosen: Vec<Case> = kinds.into_iter().flat_map(cases).collect();
    // Those that tensor cores would do.
    chosen.retain(|case| {
        let keys = keys_of(case, &host.limits).unwrap_or_else(|error| panic!("{error}"));
        let by_units = [
            Program::AttentionTensorCores,
            Program::MatmulPipelined,
            Program::MatmulTensorCores,
            Program::ConvTensorCores,
        ];
        keys.iter().any(|key| by_units.contains(&key.program()))
    });
    assert!(!chosen.is_empty());
    check_all(&Wider { host, limits }, &chosen);
}

#[test]
fn attention_is_cut_into_tiles_that_fill_the_memory_of_a_group() {
    let Some(host) = host().filter(|_| chosen_kinds().contains(&OpKind::Attention)) else { return };
    // More memory than the least of all devices has, and groups that ThreadSanitizer can follow.
    let limits =
        Limits { max_threads: 128, shared_bytes: 48 << 10, tensor_cores: false, ..host.limits };
    let mut tiled = cases(OpKind::Attention);
    tiled.retain(|case| {
        let keys = keys_of(case, &limits).unwrap_or_else(|error| panic!("{error}"));
        keys.iter().any(|key| key.program() == Program::AttentionTiles)
    });
    let keys = check_all(&Wider { host, limits }, &tiled);
    let constants: BTreeSet<_> = keys.iter().flat_map(Key::constants).collect();
    // Tiles of several sizes, with and without vectors, and positions of 64 bits.
    for constant in [("KEYS", 2), ("KEYS", 4), ("VECTOR", 1), ("VECTOR", 4), ("WIDE", 1)] {
        assert!(constants.contains(&constant), "{constant:?} of {constants:?}");
    }
}

#[test]
fn random_numbers_are_those_of_the_generator() {
    use millstream_conformance::Target;
    use millstream_core::{Distribution, philox};

    let Some(host) = host().filter(|_| chosen_kinds().contains(&OpKind::Random)) else { return };
    let run = |distribution, seed, offset: u64| {
        let op = ops::random(distribution, (seed, offset), DType::F32, &[2001]);
        let case = CaseBuilder::new("random", op).outputs(&[View::Dense]);
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
