//! Switches for those who look after a device: captures, and keeping it warm.

use std::time::{Duration, Instant};

use millstream_metal_driver::control::{self, CommandBufferError, Fault};

use crate::kit::{alone, filled, open, value, warm_up};

/// Sets variables of this process.
fn set(variables: &[(&str, &str)]) {
    for (key, value) in variables {
        // SAFETY: no other thread of this process uses the environment: the test has the process for itself.
        unsafe { std::env::set_var(key, value) };
    }
}

fn trace(name: &str) -> String {
    let path = std::env::temp_dir().join(format!("{name}-{}.gputrace", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path.to_string_lossy().into_owned()
}

alone! {
    fn a_capture_has_as_many_batches_as_wanted() {
        let path = trace("capture");
        set(&[
            ("MTL_CAPTURE_ENABLED", "1"),
            ("MILLSTREAM_METAL_CAPTURE", &path),
            ("MILLSTREAM_METAL_CAPTURE_BATCHES", "3"),
        ]);
        let device = open();
        let stream = device.stream().unwrap();
        for call in 0..6 {
            let written = std::fs::exists(&path).unwrap();
            assert!(!written || call >= 3, "the capture ended after {call} batches");
            assert_eq!(value(&stream, &filled(&stream, call as f32).unwrap()).unwrap(), call as f32);
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "3 command buffers\n");
        std::fs::remove_file(path).unwrap();
    }

    fn a_capture_that_cannot_begin_stops_nothing() {
        let path = trace("refused");
        set(&[("MILLSTREAM_METAL_CAPTURE", &path)]);
        warm_up(&open().stream().unwrap());
        assert!(!std::fs::exists(path).unwrap());
    }

    /// Nobody computes anything, and the memory is asked for again and again.
    fn an_idle_device_is_kept_warm_on_demand() {
        set(&[("MILLSTREAM_METAL_KEEP_WARM", "1")]);
        let device = open();
        warm_up(&device.stream().unwrap());
        device.synchronize().unwrap();
        let before = control::residency_requests();
        while control::residency_requests() < before + 3 {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Where there are no residency sets, a dispatch that does nothing keeps it warm.
    fn an_idle_device_without_residency_sets_is_kept_warm_too() {
        set(&[("MILLSTREAM_METAL_KEEP_WARM", "1"), ("MILLSTREAM_METAL_RESIDENCY", "0")]);
        let device = open();
        warm_up(&device.stream().unwrap());
        device.synchronize().unwrap();
        let before = control::commits();
        while control::commits() < before + 3 {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(control::residency_requests(), 0);
    }

    /// A command buffer that fails sets no event, and the next one goes out all the same.
    fn a_failure_does_not_end_keeping_a_device_warm() {
        set(&[("MILLSTREAM_METAL_KEEP_WARM", "1"), ("MILLSTREAM_METAL_RESIDENCY", "0")]);
        let device = open();
        warm_up(&device.stream().unwrap());
        device.synchronize().unwrap();
        control::fault_next(Fault::Fail(CommandBufferError::Internal, None));
        let (before, start) = (control::commits(), Instant::now());
        while control::commits() < before + 4 {
            assert!(start.elapsed() < Duration::from_secs(30), "{} commits", control::commits() - before);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Residency sets are one thread's at a time, also while the system makes room for one.
    fn a_set_that_is_asked_for_is_not_changed_meanwhile() {
        set(&[("MILLSTREAM_METAL_KEEP_WARM", "1")]);
        let device = open();
        let stream = device.stream().unwrap();
        warm_up(&stream);
        control::set_residency_time(Duration::from_millis(100));
        let before = control::residency_requests();
        while control::residency_requests() < before + 20 {
            drop(stream.allocate(4 << 20).unwrap());
            device.empty_cache().unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn a_device_is_not_kept_warm_unless_that_is_wanted() {
        let device = open();
        let stream = device.stream().unwrap();
        warm_up(&stream);
        device.synchronize().unwrap();
        let names = std::fs::read_dir("/proc/self/task").unwrap();
        let names: Vec<String> = names
            .flatten()
            .filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok())
            .collect();
        assert!(!names.iter().any(|name| name.contains("warm")), "{names:?}");
        warm_up(&stream);
    }
}
