//! Order between and within streams, while the driver loses time at random.

use millstream::command::{Command, UnaryOp};
use millstream::memory::Layout;
use millstream::{DType, Device, Event, Stream};
use millstream_metal_driver::control;

use crate::kit::{
    alone, filled, negated, no_rule_is_broken, open, row, set_number, set_variable, value, warm_up,
};

/// A ring of streams: each negates what the one before has made. A missing wait, or memory that is used again too early,
/// gives another value.
fn ring(device: &Device, rounds: usize) {
    let streams: Vec<Stream> = (0..4).map(|_| Stream::new(device).unwrap()).collect();
    for round in 0..rounds {
        let start = round as f32 + 1.0;
        let mut last = filled(&streams[0], start).unwrap();
        for step in 1..=8 {
            // The memory of the step before goes back while the GPU may still use it.
            last = negated(&streams[step % streams.len()], &last).unwrap();
        }
        assert_eq!(value(&streams[0], &last).unwrap(), start, "round {round}");
    }
}

/// Launches of one batch that depend on each other, and some that do not.
fn within_a_batch(stream: &Stream, rounds: usize) {
    for round in 0..rounds {
        let start = round as f32 + 1.0;
        let firsts: Vec<_> = (0..4).map(|i| filled(stream, start + i as f32).unwrap()).collect();
        let seconds: Vec<_> = firsts.iter().map(|first| negated(stream, first).unwrap()).collect();
        drop(firsts);
        let thirds: Vec<_> =
            seconds.iter().map(|second| negated(stream, second).unwrap()).collect();
        for (i, third) in thirds.iter().enumerate() {
            assert_eq!(value(stream, third).unwrap(), start + i as f32, "round {round}");
        }
    }
}

/// Seeds that are tried.
fn seeds() -> std::ops::RangeInclusive<u64> {
    1..=set_number("MILLSTREAM_METAL_SEEDS", 5)
}

alone! {
    fn values_pass_from_stream_to_stream_in_order() {
        let device = open();
        warm_up(&device.stream().unwrap());
        for seed in seeds() {
            control::set_seed(seed);
            ring(&device, 10);
            no_rule_is_broken();
        }
    }

    /// Each batch uses what the one before has made, and nobody waits for it on the host.
    fn batches_of_a_stream_keep_their_order() {
        let device = open();
        let stream = device.stream().unwrap();
        warm_up(&stream);
        for seed in seeds() {
            control::set_seed(seed);
            for round in 0..20 {
                let start = round as f32 + 1.0;
                let mut last = filled(&stream, start).unwrap();
                for _ in 0..6 {
                    stream.flush().unwrap();
                    last = negated(&stream, &last).unwrap();
                }
                assert_eq!(value(&stream, &last).unwrap(), start, "round {round}");
            }
            no_rule_is_broken();
        }
    }

    /// Uploads to memory that the GPU uses go through memory of the batch's own, which is another's only when the batch is through.
    fn what_batches_in_flight_upload_does_not_mix() {
        let device = open();
        let stream = device.stream().unwrap();
        warm_up(&stream);
        for seed in seeds() {
            control::set_seed(seed);
            let shared = filled(&stream, 0.0).unwrap();
            let copies: Vec<_> = (1..=12)
                .map(|batch| {
                    stream.upload(shared.operand(row()), &[batch as f32; 64]).unwrap();
                    let copy = negated(&stream, &shared).unwrap();
                    stream.flush().unwrap();
                    copy
                })
                .collect();
            for (batch, copy) in copies.iter().enumerate() {
                assert_eq!(value(&stream, copy).unwrap(), -(batch as f32 + 1.0), "seed {seed}");
            }
            no_rule_is_broken();
        }
    }

    fn dependent_launches_of_a_batch_keep_their_order() {
        let device = open();
        let stream = device.stream().unwrap();
        warm_up(&stream);
        for seed in seeds() {
            control::set_seed(seed);
            within_a_batch(&stream, 10);
            no_rule_is_broken();
        }
    }

    fn many_threads_get_their_own_answers() {
        let device = open();
        warm_up(&device.stream().unwrap());
        for seed in seeds() {
            control::set_seed(seed);
            std::thread::scope(|scope| {
                for _ in 0..set_number("MILLSTREAM_METAL_THREADS", 8) {
                    scope.spawn(|| {
                        ring(&device, 3);
                        within_a_batch(&device.stream().unwrap(), 3);
                    });
                }
            });
            no_rule_is_broken();
        }
    }

    /// The event of a batch comes before its command buffer is through. A buffer that is given back in between breaks a rule of
    /// the driver's.
    fn memory_that_is_given_back_lives_until_handlers_have_run() {
        let device = open();
        let stream = device.stream().unwrap();
        warm_up(&stream);
        for seed in seeds() {
            control::set_seed(seed);
            for round in 0..20 {
                let large = stream.allocate(8 << 20).unwrap();
                stream.record(Command::fill(large.operand(row()), round as f32).unwrap()).unwrap();
                assert_eq!(value(&stream, &large).unwrap(), round as f32);
                drop(large);
                device.empty_cache().unwrap();
            }
            no_rule_is_broken();
        }
    }

    /// A thread flushes batch after batch while another one, whose stream shares the command queue, waits for some of them: it waits
    /// for none that comes behind it in the queue, which would be for ever.
    fn a_stream_that_shares_a_queue_waits_for_committed_batches_only() {
        set_variable("MILLSTREAM_METAL_QUEUES", "1");
        let device = open();
        let streams = [(); 2].map(|()| Stream::new(&device).unwrap());
        streams.iter().for_each(warm_up);
        let [makes, uses] = &streams;
        for seed in seeds() {
            control::set_seed(seed);
            let (made, taken) = std::sync::mpsc::channel();
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    for number in 0..200 {
                        let buffer = filled(makes, number as f32).unwrap();
                        makes.flush().unwrap();
                        made.send((number, buffer)).unwrap();
                    }
                });
                for (number, buffer) in taken {
                    let negative = negated(uses, &buffer).unwrap();
                    uses.flush().unwrap();
                    if number % 16 == 0 {
                        assert_eq!(value(uses, &negative).unwrap(), -(number as f32), "seed {seed}");
                    }
                }
            });
            no_rule_is_broken();
        }
    }

    fn streams_that_share_two_queues_are_right_too() {
        set_variable("MILLSTREAM_METAL_QUEUES", "2");
        let device = open();
        warm_up(&device.stream().unwrap());
        control::set_seed(7);
        ring(&device, 10);
    }

    /// The smallest bound there is: every batch has many command buffers, and launches are cut.
    fn a_batch_that_is_cut_into_many_command_buffers_is_right_too() {
        set_variable("MILLSTREAM_METAL_WORK", "16");
        let device = open();
        let stream = device.stream().unwrap();
        warm_up(&stream);
        control::set_seed(3);
        ring(&device, 5);
        within_a_batch(&stream, 5);
    }

    /// A launch that is not cut runs whole after one that was, also where both are in one encoder: with times from counters, and where
    /// no other command buffer is to be had.
    fn a_launch_that_is_not_cut_runs_whole_after_one_that_was() {
        set_variable("MILLSTREAM_METAL_WORK", "16384");
        let device = open();
        let stream = device.stream().unwrap();
        let [many, few] =
            [1 << 16, 1 << 12].map(|size| Layout::contiguous(DType::F32, &[size]).unwrap());
        let make = |layout: Layout, value: f32| {
            let buffer = stream.allocate(layout.dense_bytes()).unwrap();
            stream.record(Command::fill(buffer.operand(layout), value).unwrap()).unwrap();
            buffer
        };
        // Eight parts each: so many launches have more parts than a queue has room for.
        for (launches, timed) in [(14, false), (1, true)] {
            let (large, small) = (make(many, 3.0), make(few, 5.0));
            let large: Vec<_> = (0..launches).map(|_| (&large, make(many, 0.0))).collect();
            let result = make(few, 0.0);
            stream.synchronize().unwrap();
            let before = timed.then(|| Event::timed(&stream).unwrap());
            for (from, to) in &large {
                let neg = Command::unary(UnaryOp::Neg, to.operand(many), from.operand(many));
                stream.record(neg.unwrap()).unwrap();
            }
            let neg = Command::unary(UnaryOp::Neg, result.operand(few), small.operand(few));
            stream.record(neg.unwrap()).unwrap();
            stream.flush().unwrap();
            let values = stream.download(result.operand(few)).unwrap().read::<f32>().unwrap();
            assert!(values.iter().all(|value| *value == -5.0), "timed: {timed}");
            for (_, to) in &large {
                let values = stream.download(to.operand(many)).unwrap().read::<f32>().unwrap();
                assert!(values.iter().all(|value| *value == -3.0), "timed: {timed}");
            }
            drop(before);
        }
    }

    /// A queue blocks beyond so many command buffers. A batch with more parts goes on in the last of them.
    fn a_batch_with_more_parts_than_a_queue_has_room_for_is_right_too() {
        set_variable("MILLSTREAM_METAL_WORK", "1");
        let device = open();
        let stream = device.stream().unwrap();
        let many = Layout::contiguous(DType::F32, &[1 << 17]).unwrap();
        control::set_seed(3);
        for timed in [false, true] {
            let before = timed.then(|| Event::timed(&stream).unwrap());
            let mut last = stream.allocate(many.dense_bytes()).unwrap();
            stream.record(Command::fill(last.operand(many), 3.0f32).unwrap()).unwrap();
            for _ in 0..4 {
                let next = stream.allocate(many.dense_bytes()).unwrap();
                let command = Command::unary(UnaryOp::Neg, next.operand(many), last.operand(many));
                stream.record(command.unwrap()).unwrap();
                last = next;
            }
            let values = stream.download(last.operand(many)).unwrap().read::<f32>().unwrap();
            assert!(values.iter().all(|value| *value == 3.0), "timed: {timed}");
            if let Some(before) = before {
                before.elapsed(&Event::timed(&stream).unwrap()).unwrap();
            }
        }
    }
}
