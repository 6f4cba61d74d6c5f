//! Memory: residency sets, and the working set.

use millstream::command::Command;
use millstream::device::HealthState;
use millstream::memory::{Buffer, Layout};
use millstream::{DType, Error, Stream};
use millstream_metal_driver::control::{self, Refusal};

use crate::kit::{alone, error_of, filled, open, row, set_variable, value, warm_up};

/// How many residency sets there are.
fn sets() -> usize {
    let kept = millstream_metal::kept_objects();
    kept.iter().find(|(name, _)| *name == "MTLResidencySet").map_or(0, |(_, count)| *count)
}

/// Buffers of four megabytes, each of a segment of its own, until there is no room.
fn fill_memory(stream: &Stream) -> (Vec<Buffer>, Error) {
    let mut all = Vec::new();
    loop {
        match stream.allocate(4 << 20) {
            Ok(buffer) => all.push(buffer),
            Err(error) => return (all, error),
        }
    }
}

alone! {
    fn weights_are_in_residency_sets_of_their_own() {
        let device = open();
        let stream = device.stream().unwrap();
        warm_up(&stream);
        assert_eq!(sets(), 1);
        let weights = filled(&stream, 3.0).unwrap();
        weights.settle().unwrap();
        assert_eq!(sets(), 2);
        assert_eq!(value(&stream, &weights).unwrap(), 3.0);
        // Another of the same segment.
        filled(&stream, 4.0).unwrap().settle().unwrap();
        assert_eq!(sets(), 2);
        warm_up(&stream);
    }

    fn without_a_residency_set_to_be_had_there_are_none_and_everything_works() {
        control::refuse_next(Refusal::ResidencySet);
        let device = open();
        warm_up(&device.stream().unwrap());
        assert_eq!(sets(), 0);
        filled(&device.stream().unwrap(), 3.0).unwrap().settle().unwrap();
        assert_eq!(sets(), 0);
    }

    fn a_set_for_weights_that_cannot_be_had_ends_all_of_them() {
        let device = open();
        let stream = device.stream().unwrap();
        warm_up(&stream);
        let weights = filled(&stream, 3.0).unwrap();
        control::refuse_next(Refusal::ResidencySet);
        weights.settle().unwrap();
        assert_eq!(sets(), 0);
        assert_eq!(value(&stream, &weights).unwrap(), 3.0);
        warm_up(&Stream::new(&device).unwrap());
    }

    fn residency_sets_can_be_switched_off() {
        set_variable("MILLSTREAM_METAL_RESIDENCY", "0");
        let device = open();
        warm_up(&device.stream().unwrap());
        assert_eq!(sets(), 0);
    }

    /// A set holds an eighth of the working set before there is another one, and there are sixteen for each kind of memory.
    fn memory_is_spread_over_sets_and_ends_at_the_working_set() {
        control::set_working_set(96 << 20);
        let device = open();
        let stream = device.stream().unwrap();
        warm_up(&stream);
        let (all, error) = fill_memory(&stream);
        let text = error.to_string();
        assert!(matches!(error, Error::OutOfMemory { requested, .. } if requested >= 4 << 20), "{text}");
        assert!(text.contains(&(96usize << 20).to_string()) || text.contains("96"), "{text}");
        assert!(all.len() >= 12, "{} buffers of 4 MB in 96 MB", all.len());
        assert!((4..=16).contains(&sets()), "{} sets", sets());
        // What was given back is there again.
        let count = all.len();
        drop(all);
        assert_eq!(fill_memory(&stream).0.len(), count);
        assert_eq!(device.health().state, HealthState::Healthy);
        warm_up(&stream);
    }

    fn a_buffer_that_cannot_be_had_is_a_lack_of_memory_with_figures() {
        let device = open();
        let stream = device.stream().unwrap();
        warm_up(&stream);
        let (error, text) = error_of(stream.allocate(1 << 50));
        assert!(matches!(error, Error::OutOfMemory { requested, .. } if requested >= 1 << 50), "{text}");
        // Larger than any buffer, and than no memory at all.
        let (error, text) = error_of(stream.allocate(3 << 29));
        assert!(matches!(error, Error::OutOfMemory { .. }), "{text}");
        // Caches are given back before that, so the refusals are as many as the steps and one more at least.
        (0..64).for_each(|_| control::refuse_next(Refusal::Buffer));
        let (error, text) = error_of(stream.allocate(48 << 20));
        assert!(matches!(error, Error::OutOfMemory { .. }), "{text}");
        while stream.allocate(48 << 20).is_err() {}
        assert_eq!(device.health().state, HealthState::Healthy);
        warm_up(&stream);
    }

    /// Memory that is given back counts until the handlers of what used it have run. Who needs it waits that long.
    fn an_allocation_waits_for_memory_that_handlers_still_hold() {
        control::set_working_set(32 << 20);
        let device = open();
        let stream = device.stream().unwrap();
        warm_up(&stream);
        for seed in 1..=5 {
            control::set_seed(seed);
            for round in 0..10 {
                let large = stream.allocate(20 << 20).unwrap();
                stream.record(Command::fill(large.operand(row()), round as f32).unwrap()).unwrap();
                assert_eq!(value(&stream, &large).unwrap(), round as f32);
                drop(large);
                device.empty_cache().unwrap();
            }
        }
    }

    /// Copies of bytes go where vectors do not fit.
    fn bytes_move_between_any_offsets() {
        let device = open();
        let stream = device.stream().unwrap();
        let whole = Layout::contiguous(DType::U8, &[40_000]).unwrap();
        let values: Vec<u8> = (0..40_000).map(|i| (i * 7 % 251) as u8).collect();
        let buffer = stream.allocate(40_000).unwrap();
        stream.upload(buffer.operand(whole), &[0u8; 40_000]).unwrap();
        for (start, count) in [(1, 30_000), (16, 20_000), (3, 5), (30_001, 9_999)] {
            let part = whole.slice(0, start, count, 1).unwrap();
            // Twice, so that the memory is in use.
            stream.upload(buffer.operand(whole), &vec![9u8; 40_000]).unwrap();
            stream.upload(buffer.operand(part), &values[..count]).unwrap();
            assert_eq!(stream.download(buffer.operand(part)).unwrap().bytes().unwrap(), values[..count]);
            let all = stream.download(buffer.operand(whole)).unwrap().bytes().unwrap();
            assert!(all[..start].iter().chain(&all[start + count..]).all(|byte| *byte == 9), "{start}");
        }
    }
}
