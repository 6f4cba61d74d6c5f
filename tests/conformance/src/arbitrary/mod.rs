//! Cases that nobody thought of.

mod places;
mod recipe;
mod sampled;
mod windows;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

use crate::{Case, Target, check};
use recipe::{Arrangement, Recipe};

fn arrangement() -> impl Strategy<Value = Arrangement> {
    let step = prop_oneof![4 => Just(1usize), 1 => 2..=3usize];
    let order = proptest::collection::vec(any::<u8>(), 8);
    let steps = proptest::collection::vec(step, 8);
    let ones = prop_oneof![2 => Just(0u8), 1 => any::<u8>()];
    (order, steps, 0..6usize, ones, prop_oneof![3 => Just(0usize), 1 => 0..=8usize]).prop_map(
        |(order, steps, offset, ones, dropped)| Arrangement { order, steps, offset, ones, dropped },
    )
}

/// Any operation of the suite with any operands that are valid for it: every rank, small sizes,
/// permuted, stepped, offset and broadcast. It shrinks towards few axes, dense layouts and no
/// broadcasting.
pub fn arbitrary_case() -> impl Strategy<Value = Case> {
    let size = prop_oneof![1 => Just(1usize), 6 => 1..=4usize, 1 => 0..=20usize];
    let shape = proptest::collection::vec(size, 0..=8);
    let arrangements = proptest::collection::vec(arrangement(), 5);
    (any::<[u8; 4]>(), shape, arrangements, 0..=20usize, any::<u64>()).prop_map(
        |([kind, op, dtype, choice], shape, arrangements, inner, seed)| {
            Recipe { kind, op, dtype, choice, shape, arrangements, inner, seed }.case()
        },
    )
}

/// Runs a number of arbitrary cases through a target. Kinds and cases that the target leaves out
/// count as held.
///
/// # Panics
///
/// A case that fails, made as simple as it gets.
pub fn proptest_target(target: &dyn Target, cases: u32) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(&arbitrary_case(), |case| {
        if !target.supports(case.op.kind()) || target.skips(&case).is_some() {
            return Ok(());
        }
        check(target, &case).map_err(|failure| TestCaseError::fail(failure.to_string()))
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, _)) => panic!("an arbitrary case failed: {reason}"),
        Err(TestError::Abort(reason)) => panic!("no arbitrary cases could be made: {reason}"),
    }
}
