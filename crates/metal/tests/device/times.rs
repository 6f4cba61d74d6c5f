//! Times of the GPU: from counters, and from command buffers where there are none.

use std::time::Duration;

use millstream::command::Command;
use millstream::memory::Layout;
use millstream::profiler::Span;
use millstream::{DType, Device, Event, Stream};
use millstream_metal_driver::control::{self, Fault, Refusal};

use crate::kit::{alone, error_of, filled, negated, open, open_with, value, warm_up};

/// Times of a stream rise, and lie within those of the host.
fn times_rise(device: &Device) {
    let stream = Stream::new(device).unwrap();
    warm_up(&stream);
    let started = std::time::Instant::now();
    // One with nothing before it, some between work, two in a row.
    let mut events = vec![Event::timed(&stream).unwrap()];
    let mut last = filled(&stream, 1.0).unwrap();
    for _ in 0..4 {
        events.push(Event::timed(&stream).unwrap());
        last = negated(&stream, &last).unwrap();
    }
    events.extend([(); 2].map(|()| Event::timed(&stream).unwrap()));
    assert_eq!(value(&stream, &last).unwrap(), 1.0);
    for pair in events.windows(2) {
        let elapsed = pair[0].elapsed(&pair[1]).unwrap();
        assert!(elapsed <= started.elapsed(), "{elapsed:?}");
    }
    // A time that its own batch reads, between work: the clock of a profile stands among it.
    for (first, second) in [(false, false), (true, false), (true, true)] {
        let clock = stream.allocate(8).unwrap();
        let word = clock.operand(Layout::scalar(DType::I64));
        stream.upload(word, &[i64::MIN]).unwrap();
        let before = first.then(|| filled(&stream, 1.0).unwrap());
        stream.record(Command::timestamp(word).unwrap()).unwrap();
        let after = second.then(|| filled(&stream, 2.0).unwrap());
        let time = stream.download(word).unwrap().read::<i64>().unwrap()[0];
        assert!(time > 0, "{time}");
        drop((before, after));
    }
    // A batch of times alone.
    let alone = Event::timed(&stream).unwrap();
    stream.flush().unwrap();
    alone.synchronize().unwrap();
    assert!(events[0].elapsed(&alone).unwrap() <= started.elapsed());
}

/// The profiler has a span for every Command, in order, on the host's clock.
fn spans_are_on_the_clock_of_the_host(device: &Device) {
    let stream = Stream::new(device).unwrap();
    warm_up(&stream);
    device.profiler().start();
    let begun = millstream::profiler::now_ns();
    let mut last = filled(&stream, 1.0).unwrap();
    for _ in 0..3 {
        last = negated(&stream, &last).unwrap();
    }
    stream.synchronize().unwrap();
    let ended = millstream::profiler::now_ns();
    device.profiler().stop();
    let traces = device.profiler().take();
    let spans: Vec<_> = traces.into_iter().flat_map(|trace| trace.spans).collect();
    assert_eq!(spans.len(), 4);
    spans_rise(&spans, begun, ended);
    // Times of the profiler beside those that batches read.
    device.profiler().start();
    times_rise(device);
    device.profiler().stop();
    assert!(!device.profiler().take().is_empty());
}

/// Spans follow each other, on the clock of the host, and some time passes in them.
fn spans_rise(spans: &[Span], begun: u64, ended: u64) {
    assert!(spans.iter().all(|span| span.start_ns <= span.end_ns));
    assert!(spans.windows(2).all(|pair| pair[0].end_ns <= pair[1].start_ns));
    // The clocks are compared when the device is opened, less well on a busy machine.
    let slack = 1_000_000_000;
    let (first, last) = (&spans[0], &spans[spans.len() - 1]);
    assert!(first.start_ns + slack > begun && last.end_ns < ended + slack);
    assert!(first.start_ns < last.end_ns);
}

/// A batch of so many times, with work between some of them.
fn many_times(device: &Device, count: usize) {
    let stream = Stream::new(device).unwrap();
    warm_up(&stream);
    let word = Layout::scalar(DType::I64);
    let clocks: Vec<_> = (0..count).map(|_| stream.allocate(8).unwrap()).collect();
    stream.synchronize().unwrap();
    let mut last = filled(&stream, 1.0).unwrap();
    for (index, clock) in clocks.iter().enumerate() {
        stream.record(Command::timestamp(clock.operand(word)).unwrap()).unwrap();
        if index % 50 == 0 {
            last = negated(&stream, &last).unwrap();
        }
    }
    stream.flush().unwrap();
    let read: Vec<_> =
        clocks.iter().map(|clock| stream.download(clock.operand(word)).unwrap()).collect();
    let times: Vec<_> = read.into_iter().map(|time| time.read::<i64>().unwrap()[0]).collect();
    assert!(times.iter().all(|time| *time > 0), "{times:?}");
    assert!(times.is_sorted(), "{times:?}");
    assert!(times[0] < times[count - 1], "{times:?}");
    assert_eq!(
        value(&stream, &last).unwrap(),
        if count.div_ceil(50).is_multiple_of(2) { 1.0 } else { -1.0 }
    );
}

alone! {
    fn times_come_from_counters_where_encoders_begin_and_end() {
        let device = open();
        for seed in 0..3 {
            control::set_seed(seed);
            times_rise(&device);
        }
        spans_are_on_the_clock_of_the_host(&device);
    }

    fn times_come_from_command_buffers_where_there_are_no_counters() {
        control::set_paravirtual(true);
        let device = open();
        for seed in 0..3 {
            control::set_seed(seed);
            times_rise(&device);
        }
        spans_are_on_the_clock_of_the_host(&device);
    }

    fn a_fence_or_an_encoder_for_times_that_cannot_be_had_fails_its_batch_alone() {
        let device = open();
        let stream = device.stream().unwrap();
        warm_up(&stream);
        let before = Event::timed(&stream).unwrap();
        before.synchronize().unwrap();
        for refusal in [Refusal::Fence, Refusal::Encoder] {
            control::refuse_next(refusal);
            let event = Event::timed(&stream).unwrap();
            let (error, text) = error_of(before.elapsed(&event));
            assert!(error.is_retryable(), "{refusal:?}: {text}");
            let after = Event::timed(&stream).unwrap();
            before.elapsed(&after).unwrap();
            warm_up(&stream);
        }
    }

    /// Also in a batch that reads a time of its own, and beside batches that have counters.
    fn times_come_from_command_buffers_where_counters_cannot_be_had() {
        let device = open();
        for (seed, refused) in [(1, 100), (2, 3)] {
            control::set_seed(seed);
            for _ in 0..refused {
                control::refuse_next(Refusal::SampleBuffer);
            }
            times_rise(&device);
            if refused == 100 {
                spans_are_on_the_clock_of_the_host(&device);
            }
        }
    }

    /// A device has 32 sample buffers, and so many streams and batches in flight need more.
    fn more_batches_with_times_than_there_are_sample_buffers_have_times_all_the_same() {
        let device = open();
        let streams: Vec<_> = (0..8).map(|_| Stream::new(&device).unwrap()).collect();
        streams.iter().for_each(warm_up);
        device.profiler().start();
        for _ in &streams {
            control::fault_next(Fault::Hang(Duration::from_millis(500)));
        }
        std::thread::scope(|scope| {
            for stream in &streams {
                scope.spawn(|| {
                    let mut last = filled(stream, 3.0).unwrap();
                    for _ in 0..8 {
                        last = negated(stream, &last).unwrap();
                        stream.flush().unwrap();
                    }
                    assert_eq!(value(stream, &last).unwrap(), 3.0);
                });
            }
        });
        device.profiler().stop();
        let spans: usize = device.profiler().take().iter().map(|trace| trace.spans.len()).sum();
        // With the download.
        assert_eq!(spans, 8 * (1 + 8 + 1));
    }

    /// More times than a sample buffer has samples for, and than a queue takes command buffers.
    fn a_batch_with_a_thousand_times_has_them_all_the_same() {
        let device = open_with(|builder| builder.batch_commands(2000));
        many_times(&device, 1100);
    }

    fn a_batch_with_more_times_than_a_queue_takes_command_buffers_has_them_all_the_same() {
        control::set_paravirtual(true);
        let device = open_with(|builder| builder.batch_commands(2000));
        many_times(&device, 200);
    }

    /// Where every time is a command buffer, a stream soon has as many as its queue takes.
    fn a_profile_of_large_batches_in_flight_fails_none_where_there_are_no_counters() {
        control::set_paravirtual(true);
        let device = open();
        let stream = Stream::new(&device).unwrap();
        warm_up(&stream);
        for seed in 0..3 {
            control::set_seed(seed);
            device.profiler().start();
            control::fault_next(Fault::Hang(Duration::from_millis(300)));
            let begun = millstream::profiler::now_ns();
            let mut last = filled(&stream, 1.0).unwrap();
            let mut all = Vec::new();
            for batch in 0..3 {
                for _ in usize::from(batch == 0)..64 {
                    last = negated(&stream, &last).unwrap();
                }
                all.push(last.clone());
                stream.flush().unwrap();
            }
            stream.synchronize().unwrap();
            let ended = millstream::profiler::now_ns();
            device.profiler().stop();
            let spans: Vec<_> =
                device.profiler().take().into_iter().flat_map(|trace| trace.spans).collect();
            assert_eq!(spans.len(), 3 * 64);
            spans_rise(&spans, begun, ended);
            let values: Vec<_> = all.iter().map(|last| value(&stream, last).unwrap()).collect();
            assert_eq!(values, [-1.0, -1.0, -1.0]);
        }
    }
}
