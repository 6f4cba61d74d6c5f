//! The choices that lowering makes for operations by index and their like.

use millstream_core::{
    BoundCommand, Command, CoordinateMode, DType, Layout, MAX_RANK, NearestRounding, Operand,
    PadMode, PadParams, RawBuffer, ResizeMode, ResizeParams, Result, ScatterReduction,
};

use crate::{Limits, Lowered, Program, Slot};

const LIMITS: Limits = Limits {
    max_threads: 256,
    shared_bytes: 32 << 10,
    simd_width: 32,
    f64: true,
    matrices: false,
    tensor_cores: false,
    parallel_groups: 132,
};

/// Dense elements at a place of their own.
fn dense(buffer: usize, dtype: DType, shape: &[usize]) -> Operand<RawBuffer> {
    let layout = Layout::contiguous(dtype, shape).unwrap();
    Operand::new(RawBuffer { address: (buffer + 1) << 32, bytes: layout.extent_bytes() }, layout)
}

fn lower(command: Result<BoundCommand>) -> Lowered {
    super::lower(&command.unwrap(), 3, &LIMITS).unwrap()
}

/// The constants of the launch at a place.
fn constants(lowered: &Lowered, at: usize) -> Vec<(&'static str, i32)> {
    lowered.launches[at].key.constants().collect()
}

#[test]
fn rows_of_a_table_are_moved_in_the_widest_units() {
    let embedding = |width: usize| {
        let (table, ids) = (dense(1, DType::F16, &[100, width]), dense(2, DType::I64, &[4, 9]));
        lower(Command::embedding(dense(0, DType::F16, &[4, 9, width]), table, ids))
    };
    for (width, unit) in [(64, 16), (12, 8), (10, 4), (7, 2)] {
        let lowered = embedding(width);
        assert_eq!(constants(&lowered, 0), [("SIZE", unit), ("RANK", 2), ("WIDE", 0)]);
    }
    assert_eq!(embedding(64).launches[0].slots[3], Slot::Faults);
}

#[test]
fn only_what_was_not_there_is_copied_before_a_scatter() {
    let (dst, src) = (dense(0, DType::F32, &[50, 8]), dense(1, DType::F32, &[50, 8]));
    let (indices, updates) = (dense(2, DType::I64, &[9, 1]), dense(3, DType::F32, &[9, 8]));
    let scatter =
        |src| lower(Command::scatter_nd(dst, src, indices, updates, ScatterReduction::Replace));
    let programs = |lowered: &Lowered| {
        lowered.launches.iter().map(|one| one.key.program()).collect::<Vec<_>>()
    };
    assert_eq!(programs(&scatter(src)), [Program::Copy, Program::Scatter]);
    assert_eq!(programs(&scatter(dst)), [Program::Scatter]);
    // Rows of 32 bytes are replaced 16 bytes at a time.
    assert_eq!(constants(&scatter(dst), 0)[..2], [("REDUCTION", 0), ("TYPE", 16)]);
}

#[test]
fn groups_share_rows_of_updates_and_then_places() {
    let scatter = |shape: [usize; 2], axis: usize| {
        let (dst, updates) = (dense(0, DType::F32, &shape), dense(1, DType::F32, &shape));
        let indices = dense(2, DType::I32, &shape);
        let add = ScatterReduction::Add;
        lower(Command::scatter_elements(dst, dst, indices, updates, axis, add)).launches[0].groups
    };
    assert_eq!(scatter([1000, 64], 1)[0], 1);
    assert_eq!(scatter([1000, 64], 1)[1], 250);
    assert_eq!(scatter([1000, 640], 0), [264, 1, 1]);
    assert_eq!(scatter([1, 3], 1), [1, 1, 1]);
}

#[test]
fn long_rows_take_passes_or_are_sorted() {
    let top_k = |length: usize, k: usize| {
        let src = dense(2, DType::F32, &[3, length]);
        let (values, indices) = (dense(0, DType::F32, &[3, k]), dense(1, DType::I64, &[3, k]));
        lower(Command::top_k(values, indices, src, 1, true, true))
    };
    assert_eq!(constants(&top_k(50, 50), 0)[2], ("COUNT", 64));
    assert_eq!((top_k(2048, 2048).launches.len(), top_k(2048, 2048).workspace), (1, 0));
    // 25 tiles leave 1250 entries of each row.
    let passes = top_k(50_000, 50);
    assert_eq!((passes.launches.len(), passes.workspace), (2, 30_208));
    assert_eq!(constants(&passes, 1)[1..], [("FROM", 1), ("COUNT", 2048)]);
    let sorted = top_k(5000, 2000);
    assert!(sorted.launches.iter().all(|launch| launch.key.program() == Program::Sort));
    assert_eq!(sorted.workspace, 3 * 8192 * 8);
}

#[test]
fn axes_that_stay_are_merged_and_moved_whole() {
    let mut params =
        PadParams { mode: PadMode::Reflect, before: [0; MAX_RANK], after: [0; MAX_RANK] };
    params.before[1] = 2;
    let (dst, src) = (dense(0, DType::U8, &[2, 7, 4, 4]), dense(1, DType::U8, &[2, 5, 4, 4]));
    let lowered = lower(Command::pad(dst, src, params));
    let expected = [("MODE", 2), ("SIZE", 16), ("RANK", 4), ("WIDE", 0)];
    assert_eq!(constants(&lowered, 0), expected);
}

#[test]
fn a_resize_makes_a_table_only_where_something_changes() {
    let mut params = ResizeParams {
        mode: ResizeMode::Nearest(NearestRounding::Floor),
        coordinates: CoordinateMode::Asymmetric,
        scales: [1.0; MAX_RANK],
        region: [(0.0, 1.0); MAX_RANK],
        extrapolation: 0.0,
        exclude_outside: false,
        antialias: false,
        sizes: [1; 8],
    };
    let src = dense(1, DType::F32, &[2, 3, 5, 8]);
    let same = lower(Command::resize(dense(0, DType::F32, &[2, 3, 5, 8]), src, params));
    assert_eq!(same.launches[0].key.program(), Program::Copy);
    params.scales[2] = 2.0;
    let rows = lower(Command::resize(dense(0, DType::F32, &[2, 3, 10, 8]), src, params));
    assert_eq!(rows.launches.len(), 2);
    // The last axis in units of 16 bytes, the third by the table, the others as one.
    let expected = [("NEAREST", 1), ("TYPE", 16), ("RANK", 3), ("SCALED", 2), ("AXES", 1)];
    assert_eq!(constants(&rows, 1)[..5], expected);
}
