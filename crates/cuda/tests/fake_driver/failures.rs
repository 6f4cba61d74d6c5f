//! What the driver refuses: compiling, memory, launches and graphs.

use std::time::{Duration, Instant};

use millstream_core::{
    Activation, Axes, Buffer, Command, DType, Device, Error, HealthState, Layout, ReduceOp, Stream,
    UnaryOp,
};

use crate::faults::{Table, filled, read};
use crate::linux::{Test, ask, graph_launches, matrix, open, plant, row};

pub const TESTS: &[Test] = &[
    ("a_command_that_does_not_compile_fails_alone", a_command_that_does_not_compile_fails_alone),
    (
        "a_command_without_memory_of_its_own_fails_alone",
        a_command_without_memory_of_its_own_fails_alone,
    ),
    (
        "a_launch_that_fails_half_way_fails_what_comes_after_it",
        a_launch_that_fails_half_way_fails_what_comes_after_it,
    ),
    (
        "a_graph_that_cannot_be_launched_is_run_step_by_step",
        a_graph_that_cannot_be_launched_is_run_step_by_step,
    ),
    (
        "a_call_that_fails_during_work_does_not_speak_of_opening",
        a_call_that_fails_during_work_does_not_speak_of_opening,
    ),
    (
        "weights_that_are_still_written_are_not_read_early",
        weights_that_are_still_written_are_not_read_early,
    ),
    (
        "waits_end_at_their_deadline_when_the_queue_is_full",
        waits_end_at_their_deadline_when_the_queue_is_full,
    ),
];

fn a_command_that_does_not_compile_fails_alone() {
    let stream = open().stream().unwrap();
    for round in 0..5 {
        let (before, sum) = (filled(&stream, 1.0), stream.allocate(16).unwrap());
        let (to, from) = (sum.operand(row(4)), before.operand(row(4)));
        stream.record(Command::cumsum(to, from, 0, false, false).unwrap()).unwrap();
        let after = filled(&stream, 2.0);
        let [before, sum, after] = [&before, &sum, &after].map(|value| read(&stream, value));
        stream.flush().unwrap();
        assert_eq!(before.read::<f32>().unwrap(), [1.0; 4], "{round}");
        let error = sum.read::<f32>().unwrap_err();
        assert!(error.to_string().contains("ms_cumsum"), "{error}");
        assert_eq!(after.read::<f32>().unwrap(), [2.0; 4], "{round}");
    }
}

/// Scratch memory on the device for one Command, and staging memory on the host for another.
fn a_command_without_memory_of_its_own_fails_alone() {
    const LARGE: usize = 1 << 20;
    let device = open();
    let stream = device.stream().unwrap();
    let table = Table::new(&stream, 4);
    let [long, target] = [(); 2].map(|()| stream.allocate(row(LARGE).dense_bytes()).unwrap());
    let (sum, value, at) = (filled(&stream, 0.0), filled(&stream, 0.0), filled(&stream, 0.0));
    stream.upload(long.operand(row(LARGE)), &vec![1.0f32; LARGE]).unwrap();
    stream.upload(target.operand(row(LARGE)), &vec![1.0f32; LARGE]).unwrap();
    table.look_up_with(&stream, 2, &value, &at);
    stream.synchronize().unwrap();
    device.empty_cache().unwrap();
    ask(c"fake_refuse_memory");
    let (to, from) = (sum.operand(row(1)), long.operand(row(LARGE)));
    let reduced = Command::reduce(ReduceOp::Sum, to, from, Axes::all(1));
    stream.record(reduced.unwrap()).unwrap();
    stream.upload(target.operand(row(LARGE)), &vec![2.0f32; LARGE]).unwrap();
    table.look_up_again(&stream, &value, &at);
    stream.synchronize().unwrap_err();
    ask(c"fake_allow_memory");
    for lost in [sum.operand(row(1)), target.operand(row(4))] {
        let error = stream.download(lost).unwrap().read::<f32>().unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    }
    assert_eq!(read(&stream, &value).read::<f32>().unwrap(), [2.0; 4]);
    assert_eq!(device.health().state, HealthState::Healthy);
}

fn a_launch_that_fails_half_way_fails_what_comes_after_it() {
    let device = open();
    let stream = device.stream().unwrap();
    let record = || {
        // The device takes its time for what was launched, so that nobody can be lucky.
        plant(&stream, b"ZZZ").unwrap();
        let (before, made) = (filled(&stream, 1.0), stream.allocate(16).unwrap());
        let first = read(&stream, &before);
        let (to, from) = (made.operand(row(4)), before.operand(row(4)));
        stream.record(Command::softmax(to, from, 0, false).unwrap()).unwrap();
        let after = filled(&stream, 2.0);
        let rest = [read(&stream, &made), read(&stream, &after)];
        stream.flush().unwrap();
        (first, rest)
    };
    ask(c"fake_refuse_softmax");
    for _ in 0..5 {
        let (first, rest) = record();
        assert_eq!(first.read::<f32>().unwrap(), [1.0; 4]);
        for download in rest {
            let error = download.read::<f32>().unwrap_err();
            assert!(matches!(error, Error::Fault { .. }), "{error}");
            assert!(error.to_string().contains("cuLaunchKernelEx"), "{error}");
        }
    }
    ask(c"fake_refuse_nothing");
    let (first, [_, last]) = record();
    assert_eq!(first.read::<f32>().unwrap(), [1.0; 4]);
    assert_eq!(last.read::<f32>().unwrap(), [2.0; 4]);
    assert_eq!(device.health().state, HealthState::Healthy);
}

fn a_graph_that_cannot_be_launched_is_run_step_by_step() {
    let stream = open().stream().unwrap();
    let held = [(); 2].map(|()| stream.allocate(row(4).dense_bytes()).unwrap());
    for call in 0..20 {
        if call == 10 {
            assert!(graph_launches() > 5);
            ask(c"fake_refuse_graphs");
        }
        for (buffer, value) in held.iter().zip(call..) {
            stream.upload(buffer.operand(row(4)), &[value as f32; 4]).unwrap();
        }
        let downloads = held.each_ref().map(|buffer| read(&stream, buffer));
        for (download, value) in downloads.into_iter().zip(call..) {
            assert_eq!(download.read::<f32>().unwrap(), [value as f32; 4]);
        }
    }
}

/// A kernel may be started while the one before it still runs, and read early what that one does not write.
fn a_call_that_fails_during_work_does_not_speak_of_opening() {
    let device = open();
    let stream = device.stream().unwrap();
    let (from, to) = (filled(&stream, 1.0), stream.allocate(16).unwrap());
    ask(c"fake_fail_calls");
    ask(c"fake_refuse_softmax");
    let memory = device.allocate(8 << 20).map(drop).unwrap_err();
    let queue = Stream::new(&device).map(drop).unwrap_err();
    let launch = {
        let softmax = Command::softmax(to.operand(row(4)), from.operand(row(4)), 0, false);
        stream.record(softmax.unwrap()).unwrap();
        read(&stream, &to).read::<f32>().unwrap_err()
    };
    let calls = ["cuMemAlloc", "cuMemAlloc", "cuLaunchKernelEx"];
    for (error, call) in [memory, queue, launch].into_iter().zip(calls) {
        let text = error.to_string();
        assert!(text.contains(call) && text.contains("as planted"), "{text}");
        assert!(!text.contains("opened"), "{text}");
        assert!(error.is_retryable(), "{text}");
    }
    ask(c"fake_mend_calls");
    ask(c"fake_refuse_nothing");
    drop(device.allocate(8 << 20).unwrap());
    Stream::new(&device).unwrap();
    assert_eq!(device.health().state, HealthState::Healthy);
}

fn weights_that_are_still_written_are_not_read_early() {
    const SIZE: usize = 16;
    let stream = open().stream().unwrap();
    let (square, line) = (matrix(SIZE, SIZE), matrix(1, SIZE));
    let [base, weights, other] = [(); 3].map(|()| stream.allocate(square.dense_bytes()).unwrap());
    let [x, y] = [(); 2].map(|()| stream.allocate(line.dense_bytes()).unwrap());
    for buffer in [&base, &weights, &other] {
        stream.upload(buffer.operand(square), &[1.0f32; SIZE * SIZE]).unwrap();
    }
    stream.upload(x.operand(line), &[1.0f32; SIZE]).unwrap();
    let nothing = Layout::contiguous(DType::F32, &[0]).unwrap();
    let empty = stream.allocate(64).unwrap();
    let negate = |to: &Buffer, from: &Buffer, layout: Layout| {
        let command = Command::unary(UnaryOp::Neg, to.operand(layout), from.operand(layout));
        stream.record(command.unwrap()).unwrap();
    };
    // What is recorded before the product, and whether that may begin early then.
    let is_early = |before: &dyn Fn()| {
        stream.synchronize().unwrap();
        before();
        // Rows of the product are near each other along k.
        let transposed = Layout::strided(DType::F32, &[SIZE, SIZE], &[1, SIZE], 0).unwrap();
        let (to, a, b) = (y.operand(line), x.operand(line), weights.operand(transposed));
        let product = Command::matmul(to, a, b, None, None, 1.0, Activation::None).unwrap();
        stream.record(product).unwrap();
        stream.synchronize().unwrap();
        ask(c"fake_latest_early") == 1
    };
    let write = || negate(&weights, &base, square);
    let skip = || negate(&other, &empty, nothing);
    assert!(is_early(&|| {}));
    assert!(is_early(&|| negate(&other, &base, square)));
    assert!(!is_early(&write));
    // Nothing is launched for what has no elements.
    assert!(!is_early(&|| {
        write();
        skip();
        skip();
    }));
    // What comes between has waited for the weights.
    assert!(is_early(&|| {
        write();
        negate(&other, &base, square);
        skip();
    }));
    // An upload by a copy kernel writes too.
    assert!(!is_early(&|| {
        stream.upload(weights.operand(square), &[1.0f32; SIZE * SIZE]).unwrap();
        skip();
    }));
}

fn waits_end_at_their_deadline_when_the_queue_is_full() {
    const IN_FLIGHT: usize = 3;
    let limit = Duration::from_secs(20);
    let device = Device::builder("cuda").in_flight(IN_FLIGHT).wait_timeout(limit).open().unwrap();
    let stream = device.stream().unwrap();
    plant(&stream, b"HNG").unwrap();
    stream.flush().unwrap();
    for _ in 1..IN_FLIGHT {
        filled(&stream, 1.0);
        stream.flush().unwrap();
    }
    // Nothing more is taken.
    let last = filled(&stream, 2.0);
    let point = stream.timepoint();
    let started = Instant::now();
    let error = point.wait_within(Duration::from_millis(20)).unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert!(started.elapsed() < limit / 2, "{:?}", started.elapsed());
    ask(c"fake_release");
    assert_eq!(read(&stream, &last).read::<f32>().unwrap(), [2.0; 4]);
}
