//! Every kernel, executed on this machine against the conformance suite.
//!
//! Needs clang-22. Without it the tests say so and pass, unless `MILLSTREAM_KERNELS_REQUIRED` is set,
//! as `scripts/kernels.sh` does. `MILLSTREAM_KERNELS_KINDS=fill,copy` restricts them to some kinds of
//! operation.

mod epilogue;
mod faults;
mod keys;
mod library;
mod memory;
mod planted;
mod rows;
mod target;
mod toolchain;

use std::sync::OnceLock;

use keys::chosen_kinds;
use library::Library;
use millstream_conformance::{proptest_target, run_kinds};
use target::Host;
use toolchain::Toolchain;

/// The one host of this process, with the kernels of the fixed cases compiled.
fn host() -> Option<&'static Host> {
    static HOST: OnceLock<Option<Host>> = OnceLock::new();
    HOST.get_or_init(|| {
        let toolchain = match Toolchain::find() {
            Ok(toolchain) => toolchain,
            Err(reason) => {
                assert!(std::env::var_os("MILLSTREAM_KERNELS_REQUIRED").is_none(), "{reason}");
                eprintln!("LEFT OUT: no kernel was executed on the host: {reason}");
                return None;
            }
        };
        let host = Host::new(Library::new(toolchain).unwrap(), chosen_kinds());
        let start = std::time::Instant::now();
        let keys = host.prepare().unwrap_or_else(|error| panic!("{error}"));
        println!("{keys} kernels ready after {:?}", start.elapsed());
        Some(host)
    })
    .as_ref()
}

#[test]
fn the_suite_holds_on_the_host() {
    let Some(host) = host() else { return };
    let report = run_kinds(host, &chosen_kinds());
    println!("{report}");
    assert!(report.is_clean());
}

#[test]
fn arbitrary_cases_hold_on_the_host() {
    let Some(host) = host() else { return };
    proptest_target(host, 400);
}
