//! Bounds of a device that have no better place, on the fake device.

mod common;

use common::*;
use millstream_core::KernelKey;
use millstream_core::sync::Cached;

fn key(number: i64) -> KernelKey {
    KernelKey { name: "gelu".into(), constants: vec![("tile".into(), number)] }
}

/// At most `kernel_cache` kernels are kept for good, and 16 more that change places.
#[test]
fn the_kernel_cache_is_bounded() {
    let (device, control) = device_with(|config| config.kernel_cache = 2);
    let kept = |number| matches!(device.kernel(key(number)).unwrap(), Cached::Shared(_));
    assert!(kept(0) && kept(1) && !kept(2));
    for _ in 0..10 {
        device.kernel(key(2)).unwrap();
    }
    assert_eq!(control.compiles(), 3, "a hot kernel beyond the bound is not compiled again");
    for number in 3..3 + 16 {
        assert!(!kept(number));
    }
    assert_eq!(control.compiles(), 3 + 16);
    assert!(!kept(2), "the one that was not used for longest went");
    assert_eq!(control.compiles(), 4 + 16);
    assert!(kept(0) && kept(1));
    assert_eq!(device.kernels_compiled(), 4 + 16);
}
