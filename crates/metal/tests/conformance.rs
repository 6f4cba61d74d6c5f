//! The conformance suite on the Metal device, on the driver. All of it takes a while: `MILLSTREAM_CONFORMANCE_PART=3/10` runs
//! a tenth.

#[path = "../../../tests/gpu/on_device.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod on_device;

#[path = "../../kernels/tests/host/keys.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod keys;

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millstream_conformance::{Target, cases, proptest_target, run_all};
use millstream_core::OpKind;
use millstream_kernels::Key;
use millstream_metal_driver::{control, rules};
use on_device::OnDevice;

fn metal() -> OnDevice {
    OnDevice::gpu("metal", "PATH").expect("the driver has a device")
}

/// Closes the device. Nothing is left then but what the process keeps, and no rule was broken.
fn ends_clean(target: &OnDevice) {
    target.device.close().unwrap();
    control::expect_left(&millstream_metal::kept_objects(), Duration::from_secs(60));
    let broken = rules::take();
    assert!(broken.is_empty(), "{broken:?}");
}

/// Compiles the kernels of the cases that are run, many in a library.
fn prepare(target: &OnDevice) {
    let limits = millstream_metal::usual_limits();
    let kinds = OpKind::ALL.iter().filter(|kind| target.supports(**kind) && keys::can_run(**kind));
    let cases = kinds.flat_map(|kind| cases(*kind));
    let wanted = cases.filter(|case| target.part_has(case));
    let keys: BTreeSet<Key> =
        wanted.filter_map(|case| keys::keys_of(&case, &limits).ok()).flatten().collect();
    let keys: Vec<Key> =
        keys.into_iter().filter(|key| key.constants().all(|c| c != ("WIDE", 1))).collect();
    let started = std::time::Instant::now();
    // Few and large libraries: a compiler takes longer to start than for some kernels.
    keys.chunks(200).for_each(millstream_metal::prepare);
    println!("{} kernels ready after {:?}", keys.len(), started.elapsed());
}

/// Objects and rules are the process's: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Cases that nobody thought of; `MILLSTREAM_METAL_RANDOM` says how many. The kernels of each are compiled one by one.
#[test]
fn random_cases_conform_on_the_metal_device() {
    let _alone = alone();
    let count = std::env::var("MILLSTREAM_METAL_RANDOM")
        .map_or(20, |count| count.parse().expect("a number"));
    let target = OnDevice { parts: false, ..metal() };
    proptest_target(&target, count);
    ends_clean(&target);
}

#[test]
fn the_metal_device_conforms() {
    let _alone = alone();
    let target = metal();
    prepare(&target);
    let report = run_all(&target);
    println!("{report}");
    assert!(report.is_clean(), "{report}");
    ends_clean(&target);
}
