use millstream_core::{Activation, BoundCommand, Command};

use super::super::gemv::tests::{LIMITS, constant, dense, linear, place};
use super::*;
use crate::lower_gemv;

const GPU: Limits = Limits { tensor_cores: true, ..LIMITS };

fn launch_of(command: &BoundCommand) -> Launch {
    let lowered = lower_gemv(command, false, &GPU).unwrap();
    assert_eq!((lowered.launches.len(), lowered.workspace), (1, 0));
    lowered.launches[0].clone()
}

/// A product with a weight of shape `[k, outputs]`, as files have it.
fn by_rows(rows: usize, outputs: usize, k: usize) -> BoundCommand {
    Command::matmul(
        place(1, dense(DType::F32, &[rows, outputs])),
        place(2, dense(DType::F32, &[rows, k])),
        place(3, dense(DType::F32, &[k, outputs])),
        None,
        None,
        1.0,
        Activation::None,
    )
    .unwrap()
}

#[test]
fn a_tile_has_four_to_sixteen_rows_and_eight_columns() {
    for (rows, tile, tiles) in [(2, 4, 1), (4, 4, 1), (5, 8, 1), (8, 8, 1), (9, 8, 2), (16, 8, 2)] {
        let launch = launch_of(&linear(DType::F32, rows, 1001, 512));
        assert_eq!(launch.key.program(), Program::MatmulFewRows);
        assert_eq!((constant(&launch, "ROWS"), constant(&launch, "BY_ROWS")), (tile, 0));
        assert_eq!((launch.groups, launch.threads), ([126, 1, tiles], 128));
    }
    for (rows, tile, threads) in [(1, 4, 256), (4, 4, 256), (7, 8, 256), (9, 16, 256)] {
        let launch = launch_of(&by_rows(rows, 1004, 512));
        assert_eq!(launch.key.program(), Program::MatmulFewRows);
        assert_eq!((constant(&launch, "ROWS"), constant(&launch, "BY_ROWS")), (tile, 1));
        assert_eq!((launch.groups, launch.threads), ([126, 1, 1], threads));
    }
}

#[test]
fn every_result_has_a_thread_and_long_sums_share_those_that_fit() {
    assert_eq!(launch_of(&linear(DType::F32, 3, 64, 8)).threads, 32);
    assert_eq!(launch_of(&linear(DType::F32, 8, 64, 8)).threads, 64);
    assert_eq!(launch_of(&linear(DType::F32, 3, 64, 4096)).threads, 512);
    assert_eq!(launch_of(&linear(DType::F32, 8, 64, 4096)).threads, 256);
    assert_eq!(launch_of(&by_rows(8, 64, 4096)).threads, 512);
    assert_eq!(launch_of(&by_rows(16, 64, 4096)).threads, 256);
    assert_eq!(launch_of(&by_rows(16, 64, 4)).threads, 128);
}

#[test]
fn other_products_are_for_others() {
    let program = |command: &BoundCommand| launch_of(command).key.program();
    assert_eq!(program(&linear(DType::F32, 1, 64, 512)), Program::Gemv);
    assert_eq!(program(&linear(DType::F16, 3, 64, 512)), Program::Gemv);
    assert_eq!(program(&linear(DType::F32, 3, 64, 510)), Program::Gemv);
    assert_eq!(program(&by_rows(3, 62, 512)), Program::GemvColumns);
    assert_eq!(program(&by_rows(16, 2, 512)), Program::Gemv);
    assert!(lower_gemv(&linear(DType::F32, 17, 64, 512), false, &GPU).is_none());
    let elsewhere = lower_gemv(&linear(DType::F32, 3, 64, 512), false, &LIMITS).unwrap();
    assert_eq!(elsewhere.launches[0].key.program(), Program::Gemv);
}
