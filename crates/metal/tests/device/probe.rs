//! The probe on the driver: every row holds here, and what deviates is noticed.

use std::time::Duration;

use millstream::backend::{ProbeEntry, ProbeOptions, ProbeOutcome, ProbeRow};
use millstream_metal_driver::control;
use millstream_metal_driver::deviations::{Deviation, deviate, set_watchdog};

use crate::kit::alone;

fn entry() -> &'static ProbeEntry {
    ProbeEntry::all().find(|entry| entry.backend == "metal").expect("the backend is linked")
}

fn options() -> ProbeOptions {
    let idle = Duration::from_millis(100);
    ProbeOptions { idle, ..ProbeOptions::default() }
}

fn run(options: &ProbeOptions) -> Vec<ProbeRow> {
    let mut rows = Vec::new();
    (entry().run)(options, &mut |row| rows.push(row)).unwrap();
    rows
}

/// The one row of that name.
fn row(name: &str) -> ProbeRow {
    let mut rows = run(&ProbeOptions { rows: vec![name.into()], ..options() });
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

/// Rows that make the device fail, or wait.
const FAILURES: [&str; 2] = ["failed-buffer", "long-wait"];

/// These rows, with a system that ends launches of seconds. The kernel goes on for a third of the deadline, and what else is
/// launched takes far less.
fn run_failures() -> Vec<ProbeRow> {
    set_watchdog(Duration::from_secs(2));
    let (rows, deadline) = (FAILURES.map(Into::into).into(), Duration::from_secs(12));
    run(&ProbeOptions { rows, faults: true, deadline, ..options() })
}

/// A row is `not` when the driver behaves otherwise.
fn is_noticed(deviation: Deviation, name: &str) {
    deviate(deviation);
    let row = row(name);
    assert_eq!(row.outcome, ProbeOutcome::Not, "{row:?}");
}

alone! {
    fn every_row_holds_on_the_driver() {
        let (of_failures, others): (Vec<_>, Vec<_>) =
            (entry().rows)().into_iter().partition(|(name, _)| FAILURES.contains(name));
        assert_eq!(of_failures.len(), FAILURES.len());
        let rows = others.iter().map(|(name, _)| (*name).into()).collect();
        let mut found = run(&ProbeOptions { rows, ..options() });
        assert_eq!(found.len(), others.len());
        found.extend(run_failures());
        for row in found {
            println!("{}: {} ({:?})", row.name, row.found, row.time);
            let wanted = match row.assumed {
                "" => ProbeOutcome::Measured,
                _ => ProbeOutcome::AsAssumed,
            };
            assert_eq!(row.outcome, wanted, "{row:?}");
        }
    }

    fn a_device_without_newer_features_says_what_could_not_be_run() {
        control::set_paravirtual(true);
        for name in [
            "residency-sets",
            "residency-commit",
            "counter-samples",
            "counter-unit",
            "matrix-sums",
            "indirect-commands",
            "indirect-cost",
        ] {
            let row = row(name);
            assert_eq!(row.outcome, ProbeOutcome::NotRun, "{row:?}");
            assert!(row.found.contains("this device has no"), "{row:?}");
        }
        assert_eq!(row("atomics").outcome, ProbeOutcome::AsAssumed);
    }

    fn what_makes_the_device_fail_is_run_on_demand_only() {
        let row = row("failed-buffer");
        assert_eq!(row.outcome, ProbeOutcome::NotRun);
        assert!(row.found.contains("--faults"), "{row:?}");
    }

    fn subnormal_numbers_that_are_kept_are_noticed() {
        is_noticed(Deviation::KeepsSubnormals, "subnormal-arithmetic");
    }

    fn functions_that_are_imprecise_are_noticed() {
        is_noticed(Deviation::Imprecise, "accuracy-exp");
        assert_eq!(row("accuracy-tanh").outcome, ProbeOutcome::Not);
    }

    fn a_handler_before_the_event_is_noticed() {
        is_noticed(Deviation::HandlerFirst, "event-before-handler");
    }

    fn a_queue_that_never_blocks_is_noticed() {
        is_noticed(Deviation::NeverBlocks, "queue-cap");
    }

    fn a_command_buffer_that_does_not_wait_is_noticed() {
        is_noticed(Deviation::NeverWaits, "host-releases-gpu");
        assert_eq!(row("queues-side-by-side").outcome, ProbeOutcome::Not);
    }

    fn barriers_that_order_nothing_are_noticed() {
        is_noticed(Deviation::NoBarriers, "barrier-orders-dispatches");
        assert_eq!(row("indirect-commands").outcome, ProbeOutcome::Not);
    }

    fn a_clock_of_ticks_is_noticed() {
        is_noticed(Deviation::CountsTicks, "counter-unit");
    }

    fn a_set_that_needs_no_commit_is_noticed() {
        is_noticed(Deviation::CommitsSets, "residency-commit");
    }

    fn groups_that_are_smaller_are_noticed() {
        control::set_pipeline_limits(32, 512);
        assert_eq!(row("group-threads").outcome, ProbeOutcome::Not);
    }

    fn simd_groups_of_another_width_are_noticed() {
        control::set_pipeline_limits(16, 1024);
        assert_eq!(row("simd-width").outcome, ProbeOutcome::Not);
    }

    fn a_signal_of_a_failed_command_buffer_is_noticed() {
        deviate(Deviation::SignalsOnFailure);
        let found = run_failures();
        assert_eq!(found[0].outcome, ProbeOutcome::Not, "{found:?}");
        assert!(found[0].found.contains("signaled: true"), "{found:?}");
    }
}
