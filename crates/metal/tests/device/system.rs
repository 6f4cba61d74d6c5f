//! Systems and GPUs: what the device says of them, and where it does not run.

use millstream::Device;
use millstream_metal_driver::control;
use objc2_metal::{MTLCreateSystemDefaultDevice, MTLDevice};

use crate::kit::{alone, error_of, open, warm_up};

/// What there is, as `millstream devices` shows it: a description, and how many cores.
fn listed() -> (String, usize) {
    let all = Device::list();
    let found = all.into_iter().find(|(backend, _)| *backend == "metal");
    let infos = found.expect("the backend").1.expect("what there is");
    assert_eq!(infos.len(), 1);
    (infos[0].description.clone(), infos[0].parallelism)
}

alone! {
    fn older_systems_compute_too_without_what_is_newer() {
        control::set_system_version(13, 0);
        let device = open();
        warm_up(&device.stream().unwrap());
        assert!(device.info().description.contains("macOS 13.0"), "{}", device.info().description);
        let kept = millstream_metal::kept_objects();
        assert!(kept.contains(&("MTLResidencySet", 0)), "{kept:?}");
    }

    /// A message that the system or the device does not know would end the process.
    fn before_macos_13_3_the_compiler_is_not_told_to_use_more_threads() {
        control::set_system_version(13, 2);
        warm_up(&open().stream().unwrap());
    }

    fn from_macos_13_3_on_the_compiler_is_told_to_use_more_threads() {
        control::set_system_version(13, 3);
        warm_up(&open().stream().unwrap());
        let device = MTLCreateSystemDefaultDevice().unwrap();
        assert!(device.shouldMaximizeConcurrentCompilation());
    }

    fn the_language_of_the_system_before_this_one_will_do() {
        control::set_system_version(14, 5);
        warm_up(&open().stream().unwrap());
    }

    fn cores_come_from_the_registry_else_from_the_name_of_the_architecture() {
        assert_eq!(listed().1, 10);
        for unknown in [0, u32::MAX] {
            control::set_registry_cores(unknown);
            assert_eq!(listed().1, 14);
            // Architectures have names since macOS 14.
            control::set_system_version(13, 0);
            assert_eq!(listed().1, 7);
            control::set_system_version(15, 0);
        }
        assert!(listed().0.contains("Metal driver on Linux"), "{}", listed().0);
    }

    /// A virtual machine has no such GPU in its registry.
    fn a_device_without_an_architecture_counts_as_the_smallest() {
        control::set_registry_cores(0);
        control::set_paravirtual(true);
        assert_eq!(listed().1, 7);
        warm_up(&open().stream().unwrap());
    }

    fn there_is_one_device() {
        let (_, text) = error_of(Device::open("metal:1"));
        assert!(text.contains("metal:1") && text.contains("metal:0"), "{text}");
    }

    /// Kernels are written for SIMD groups of 32, and say how many threads their groups have.
    fn a_gpu_with_other_simd_groups_or_smaller_groups_is_refused() {
        control::set_pipeline_limits(16, 1024);
        let (_, text) = error_of(Device::open("metal"));
        assert!(text.contains("SIMD groups have 16 threads here, not 32"), "{text}");
        control::set_pipeline_limits(32, 128);
        let (_, text) = error_of(Device::open("metal"));
        assert!(text.contains("at most 128 threads, not 256"), "{text}");
        assert!(millstream_metal::kept_objects().is_empty());
        control::set_pipeline_limits(32, 1024);
        warm_up(&open().stream().unwrap());
    }
}
