//! What goes wrong with a GPU: who gets which error, and what goes on.

use std::time::Duration;

use millstream::command::Command;
use millstream::device::HealthState;
use millstream::memory::Layout;
use millstream::{DType, Device, Error, Stream};
use millstream_metal_driver::control::{self, CommandBufferError, Fault, Refusal};
use millstream_metal_driver::deviations::{self, Deviation};

use crate::kit::{
    alone, error_of, filled, negated, no_rule_is_broken, open, open_with, set_variable, value,
    warm_up,
};

/// Codes of the kernel driver, as Apple's systems give them.
const SUBMISSIONS_IGNORED: i64 = 4;
const INNOCENT_VICTIM: i64 = 5;

/// Fails one batch of a stream; gives the words of its error. What is computed from it on another stream fails too; everything
/// else goes on.
fn fails_one_batch(fault: Fault) -> String {
    let device = open();
    let [stream, other] = [(); 2].map(|()| Stream::new(&device).unwrap());
    warm_up(&stream);
    warm_up(&other);
    device.synchronize().unwrap();
    control::fault_next(fault);
    let lost = filled(&stream, 1.0).unwrap();
    stream.flush().unwrap();
    let derived = negated(&other, &lost).unwrap();
    let (error, text) = error_of(value(&stream, &lost));
    assert!(matches!(error, Error::Fault { command: "fill", .. }), "{text}");
    assert!(error.is_retryable());
    let (_, inherited) = error_of(value(&other, &derived));
    assert_eq!(inherited, text, "what waits for it fails with the same words");
    for stream in [&stream, &other] {
        let next = filled(stream, 3.0).unwrap();
        assert_eq!(value(stream, &negated(stream, &next).unwrap()).unwrap(), -3.0);
    }
    assert_eq!(device.health().state, HealthState::Healthy);
    text
}

/// The device is lost by a command buffer: every call errors, and health says so.
fn loses_the_device(fault: impl FnOnce()) {
    let device = open();
    let [stream, other] = [(); 2].map(|()| Stream::new(&device).unwrap());
    warm_up(&stream);
    warm_up(&other);
    fault();
    let (error, text) = error_of(filled(&stream, 1.0).and_then(|buffer| value(&stream, &buffer)));
    assert!(matches!(error, Error::DeviceLost { .. }), "{text}");
    assert!(!error.is_retryable());
    let refused = error_of(filled(&other, 1.0).and_then(|buffer| value(&other, &buffer))).0;
    assert!(matches!(refused, Error::DeviceLost { .. }), "{refused}");
    assert_eq!(device.health().state, HealthState::Lost);
    assert!(matches!(Device::builder("metal").open(), Err(Error::DeviceLost { .. })));
}

alone! {
    fn no_device_an_old_system_and_an_intel_mac_are_named_with_what_would_do() {
        control::set_absent(true);
        let (_, text) = error_of(Device::open("metal"));
        assert!(text.contains("no Metal device") && text.contains("Apple silicon"), "{text}");
        control::set_absent(false);
        control::set_system_version(12, 6);
        let (_, text) = error_of(Device::open("metal"));
        assert!(text.contains("macOS 12.6 is too old") && text.contains("macOS 13.0"), "{text}");
        control::set_system_version(15, 0);
        control::set_intel(true);
        let (error, text) = error_of(Device::open("metal"));
        assert!(matches!(error, Error::Unavailable { .. }), "{text}");
        assert!(text.contains("Apple silicon"), "{text}");
        control::set_intel(false);
        warm_up(&open().stream().unwrap());
    }

    fn a_timeout_fails_its_batch_and_what_waits_for_it() {
        let text = fails_one_batch(Fault::Fail(CommandBufferError::Timeout, None));
        assert!(text.contains("MTLCommandBufferErrorTimeout"), "{text}");
    }

    fn a_page_fault_halfway_fails_its_batch_and_what_waits_for_it() {
        let text = fails_one_batch(Fault::FailHalfway(CommandBufferError::PageFault));
        assert!(text.contains("MTLCommandBufferErrorPageFault"), "{text}");
    }

    fn an_innocent_victim_may_be_tried_again() {
        let fault = Fault::Fail(CommandBufferError::Internal, Some(INNOCENT_VICTIM));
        let text = fails_one_batch(fault);
        assert!(text.contains("may be tried again"), "{text}");
    }

    fn every_error_of_a_command_buffer_has_its_name_and_fails_its_batch_alone() {
        let device = open();
        let stream = device.stream().unwrap();
        warm_up(&stream);
        for error in CommandBufferError::ALL {
            if *error == CommandBufferError::DeviceRemoved {
                // That loses the device; see below.
                continue;
            }
            control::fault_next(Fault::Fail(*error, None));
            let (found, text) = error_of(filled(&stream, 1.0).and_then(|buffer| value(&stream, &buffer)));
            match found {
                Error::OutOfMemory { .. } => assert_eq!(*error, CommandBufferError::OutOfMemory),
                found => {
                    assert!(matches!(found, Error::Fault { .. }) && found.is_retryable(), "{text}");
                    // Kernels cannot have the error of tiles, so it has no name here.
                    let name = match error {
                        CommandBufferError::Memoryless => "error 10".into(),
                        error => format!("MTLCommandBufferError{error:?}"),
                    };
                    assert!(text.contains(&name), "{text}");
                }
            }
            warm_up(&stream);
        }
        assert_eq!(device.health().state, HealthState::Healthy);
    }

    /// Its handler comes when the event has moved on to later batches, where the GPU signals all the same.
    fn a_handler_of_a_failed_batch_never_sets_an_event_back() {
        deviations::deviate(Deviation::SignalsOnFailure);
        let device = open();
        let stream = device.stream().unwrap();
        warm_up(&stream);
        for seed in 1..=20 {
            control::set_seed(seed);
            control::fault_next(Fault::Fail(CommandBufferError::Internal, None));
            for _ in 0..6 {
                let buffer = filled(&stream, 1.0).unwrap();
                stream.flush().unwrap();
                drop(buffer);
            }
            // Whether the failed batch is known to have failed is a matter of luck then.
            let _ = device.synchronize();
            no_rule_is_broken();
        }
    }

    /// A code that is no code of the kernel driver means nothing.
    fn an_underlying_error_of_another_domain_is_no_word_of_the_kernel_driver() {
        let error = CommandBufferError::Internal;
        let text = fails_one_batch(Fault::FailBelow(error, "NSPOSIXErrorDomain", SUBMISSIONS_IGNORED));
        assert!(text.contains("MTLCommandBufferErrorInternal"), "{text}");
    }

    /// Layers of Metal, for debugging and captures, may call handlers with an object of their own.
    fn a_handler_with_another_object_for_its_command_buffer_fails_the_batch_too() {
        control::set_layered(true);
        fails_one_batch(Fault::Fail(CommandBufferError::Timeout, None));
    }

    fn submissions_that_are_ignored_lose_the_device() {
        loses_the_device(|| {
            control::fault_next(Fault::Fail(CommandBufferError::Internal, Some(SUBMISSIONS_IGNORED)));
        });
    }

    /// Some systems say it in words only.
    fn a_code_of_the_kernel_driver_is_found_in_the_text() {
        loses_the_device(|| {
            let words = "Ignored (for causing prior errors) (00000004:kIOGPUCommandBufferCallbackErrorSubmissionsIgnored)";
            control::fault_next(Fault::FailSaying(CommandBufferError::Internal, words));
        });
    }

    fn a_device_that_is_removed_is_lost() {
        loses_the_device(|| control::set_lost(true));
    }

    fn a_lack_of_memory_in_a_command_buffer_is_no_fault_of_the_device() {
        let device = open();
        let stream = device.stream().unwrap();
        warm_up(&stream);
        control::fault_next(Fault::Fail(CommandBufferError::OutOfMemory, None));
        let (error, text) = error_of(filled(&stream, 1.0).and_then(|buffer| value(&stream, &buffer)));
        assert!(matches!(error, Error::OutOfMemory { .. }), "{text}");
        assert_eq!(device.health().state, HealthState::Healthy);
        warm_up(&stream);
    }

    fn a_queue_or_an_event_that_cannot_be_had_is_an_error_of_that_stream_once() {
        let device = open();
        warm_up(&device.stream().unwrap());
        let mut kept = Vec::new();
        for refusal in [Refusal::Queue, Refusal::Event] {
            control::refuse_next(refusal);
            let failed = loop {
                // Streams that were there before have what they need.
                match Stream::new(&device) {
                    Ok(stream) => kept.push(stream),
                    Err(error) => break error,
                }
            };
            let text = failed.to_string();
            assert!(text.contains("nil") && failed.is_retryable(), "{text}");
            let stream = Stream::new(&device).unwrap();
            warm_up(&stream);
            kept.push(stream);
        }
    }

    fn a_command_buffer_or_an_encoder_that_cannot_be_had_fails_its_batch_alone() {
        let device = open();
        let stream = device.stream().unwrap();
        warm_up(&stream);
        for refusal in [Refusal::CommandBuffer, Refusal::Encoder] {
            control::refuse_next(refusal);
            let (error, text) =
                error_of(filled(&stream, 1.0).and_then(|buffer| value(&stream, &buffer)));
            assert!(error.is_retryable() && text.contains("nil"), "{refusal:?}: {text}");
            warm_up(&stream);
        }
        assert_eq!(device.health().state, HealthState::Healthy);
    }

    /// A batch of several command buffers cannot be taken back when the first is committed: it fails as a whole.
    fn an_encoder_that_is_lacking_in_the_middle_of_a_batch_fails_all_of_it() {
        set_variable("MILLSTREAM_METAL_WORK", "16");
        let device = open();
        let stream = device.stream().unwrap();
        warm_up(&stream);
        control::refuse_later(Refusal::Encoder, 2);
        let (error, text) = error_of(filled(&stream, 1.0).and_then(|from| negated(&stream, &from)).and_then(|b| value(&stream, &b)));
        assert!(error.is_retryable() && text.contains("encoder"), "{text}");
        warm_up(&stream);
        assert_eq!(device.health().state, HealthState::Healthy);
    }

    /// The record of a batch with a fault serves a later batch, in which it is zero again.
    fn an_index_out_of_range_fails_its_command_and_no_later_one() {
        let device = open();
        let stream = device.stream().unwrap();
        let rows = |count: usize| Layout::contiguous(DType::F32, &[count, 4]).unwrap();
        let table = stream.allocate(rows(3).dense_bytes()).unwrap();
        stream.upload(table.operand(rows(3)), &[1.0f32; 12]).unwrap();
        let look_up = |index: i32| {
            let ids = Layout::contiguous(DType::I32, &[1])?;
            let (wanted, to) = (stream.allocate(4)?, stream.allocate(rows(1).dense_bytes())?);
            stream.upload(wanted.operand(ids), &[index])?;
            stream.record(Command::embedding(to.operand(rows(1)), table.operand(rows(3)), wanted.operand(ids))?)?;
            stream.download(to.operand(rows(1)))?.read::<f32>()
        };
        for _ in 0..2 {
            let (error, text) = error_of(look_up(3));
            assert!(matches!(error, Error::Fault { command: "embedding", .. }), "{text}");
            // More than there are records.
            (0..20).for_each(|_| assert_eq!(look_up(2).unwrap(), [1.0; 4]));
        }
    }

    fn a_hang_ends_at_the_deadline_with_the_command_named() {
        let device = open_with(|builder| builder.wait_timeout(Duration::from_millis(300)));
        let stream = device.stream().unwrap();
        // What is compiled here may take longer than that.
        while filled(&stream, 2.0).and_then(|b| negated(&stream, &b)).and_then(|b| value(&stream, &b)).is_err() {}
        control::fault_next(Fault::Hang(Duration::from_secs(2)));
        let buffer = filled(&stream, 1.0).unwrap();
        let (error, text) = error_of(value(&stream, &buffer));
        assert!(matches!(error, Error::Timeout { command: "fill", .. }), "{text}");
        // It was only slow.
        while value(&stream, &buffer).is_err() {}
        assert_eq!(value(&stream, &buffer).unwrap(), 1.0);
        assert_eq!(device.health().state, HealthState::Healthy);
    }

    fn double_precision_is_refused_when_it_is_recorded() {
        use millstream::Tensor;
        let device = open();
        let wide = Tensor::zeros(&[4], DType::F64, &device).unwrap();
        let (error, text) = error_of(wide.tanh());
        assert!(matches!(error, Error::Unsupported { op: "tanh" | "unary", .. }), "{text}");
        assert!(text.contains("64-bit floating point"), "{text}");
        assert_eq!(wide.to_vec::<f64>().unwrap(), [0.0; 4], "what moves bytes works");
    }
}
