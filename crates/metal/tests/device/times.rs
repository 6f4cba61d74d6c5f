//! Times of the GPU: from counters, and from command buffers where there are none.

use millstream::command::Command;
use millstream::memory::Layout;
use millstream::{DType, Device, Event, Stream};
use millstream_metal_driver::control::{self, Refusal};

use crate::kit::{alone, error_of, filled, negated, open, value, warm_up};

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
    assert!(spans.iter().all(|span| span.start_ns <= span.end_ns));
    assert!(spans.windows(2).all(|pair| pair[0].end_ns <= pair[1].start_ns));
    // The clocks are compared when the device is opened, less well on a busy machine.
    let slack = 1_000_000_000;
    assert!(spans[0].start_ns + slack > begun && spans[3].end_ns < ended + slack);
    // Times of the profiler beside those that batches read.
    device.profiler().start();
    times_rise(device);
    device.profiler().stop();
    assert!(!device.profiler().take().is_empty());
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

    fn counters_or_a_fence_that_cannot_be_had_fail_their_batch_alone() {
        let device = open();
        let stream = device.stream().unwrap();
        warm_up(&stream);
        let before = Event::timed(&stream).unwrap();
        before.synchronize().unwrap();
        for refusal in [Refusal::SampleBuffer, Refusal::Fence, Refusal::Encoder] {
            control::refuse_next(refusal);
            let event = Event::timed(&stream).unwrap();
            let (error, text) = error_of(before.elapsed(&event));
            assert!(error.is_retryable(), "{refusal:?}: {text}");
            let after = Event::timed(&stream).unwrap();
            before.elapsed(&after).unwrap();
            warm_up(&stream);
        }
    }
}
