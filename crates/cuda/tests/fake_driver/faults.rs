//! Commands that fail: each fails what it should have made and what is computed from that, and nothing else.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use millstream_core::{
    Activation, Axes, Buffer, Command, DType, Device, Download, Error, HealthState, Layout,
    ReduceOp, Stream, UnaryOp,
};

use crate::linux::{Test, ask, graph_launches, matrix, open, plant, row};

pub const TESTS: &[Test] = &[
    ("a_fault_fails_its_value_and_no_other", a_fault_fails_its_value_and_no_other),
    (
        "every_bad_command_of_a_batch_has_its_own_error",
        every_bad_command_of_a_batch_has_its_own_error,
    ),
    (
        "bad_callers_harm_nobody_who_shares_their_stream",
        bad_callers_harm_nobody_who_shares_their_stream,
    ),
    (
        "a_bad_command_fails_alone_among_pending_results",
        a_bad_command_fails_alone_among_pending_results,
    ),
    ("a_fault_in_a_ring_of_streams_is_told", a_fault_in_a_ring_of_streams_is_told),
    ("a_fault_comes_through_a_chain_of_streams", a_fault_comes_through_a_chain_of_streams),
    (
        "a_fault_in_a_replayed_graph_is_that_of_its_command",
        a_fault_in_a_replayed_graph_is_that_of_its_command,
    ),
    ("a_full_batch_has_a_note_for_its_last_command", a_full_batch_has_a_note_for_its_last_command),
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

const ROWS: usize = 3;

/// A table of three rows, of which each element is the number of its row.
pub struct Table {
    values: Buffer,
    columns: usize,
}

impl Table {
    pub fn new(stream: &Stream, columns: usize) -> Self {
        let layout = matrix(ROWS, columns);
        let values = stream.allocate(layout.dense_bytes()).unwrap();
        let rows: Vec<f32> = (0..ROWS * columns).map(|i| (i / columns) as f32).collect();
        stream.upload(values.operand(layout), &rows).unwrap();
        values.settle().unwrap();
        Self { values, columns }
    }

    /// Records the look-up of a row, which is a fault if there is no such row.
    pub fn look_up(&self, stream: &Stream, index: i64) -> Buffer {
        let to = stream.allocate(row(self.columns).dense_bytes()).unwrap();
        let at = stream.allocate(8).unwrap();
        self.look_up_with(stream, index, &to, &at);
        to
    }

    fn look_up_with(&self, stream: &Stream, index: i64, to: &Buffer, at: &Buffer) {
        let one = Layout::contiguous(DType::I64, &[1]).unwrap();
        stream.upload(at.operand(one), &[index]).unwrap();
        self.look_up_again(stream, to, at);
    }

    /// With an index that is there.
    fn look_up_again(&self, stream: &Stream, to: &Buffer, at: &Buffer) {
        let one = Layout::contiguous(DType::I64, &[1]).unwrap();
        let (to, at) = (to.operand(matrix(1, self.columns)), at.operand(one));
        let command = Command::embedding(to, self.values.operand(matrix(ROWS, self.columns)), at);
        stream.record(command.unwrap()).unwrap();
    }
}

const BAD: i64 = 9;

fn filled(stream: &Stream, value: f32) -> Buffer {
    let buffer = stream.allocate(row(4).dense_bytes()).unwrap();
    stream.upload(buffer.operand(row(4)), &[value; 4]).unwrap();
    buffer
}

fn read(stream: &Stream, buffer: &Buffer) -> Download {
    stream.download(buffer.operand(row(4))).unwrap()
}

/// Expects the fault of a bad look-up; gives its sequence number.
fn expect_fault(download: Download) -> u64 {
    let error = download.read::<f32>().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("outside its axis"), "{text}");
    match error {
        Error::Fault { command: "embedding", sequence, .. } => sequence,
        _ => panic!("{text}"),
    }
}

fn a_fault_fails_its_value_and_no_other() {
    let device = open();
    let (bad, good) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let table = Table::new(&bad, 4);
    for round in 0..50 {
        let consumer = Stream::new(&device).unwrap();
        let lost = table.look_up(&bad, BAD);
        let beside = filled(&bad, 1.0);
        let (doomed, sound) = (read(&bad, &lost), read(&bad, &beside));
        bad.flush().unwrap();
        // Submitted after it, and waiting for it on another stream.
        let later = read(&bad, &beside);
        let consumed = read(&consumer, &lost);
        let consumed_beside = read(&consumer, &beside);
        let fine = read(&good, &filled(&good, 7.0)).read::<f32>().unwrap();
        assert_eq!(fine, [7.0; 4]);
        assert_eq!(expect_fault(doomed), expect_fault(consumed), "{round}");
        for download in [sound, later, consumed_beside] {
            assert_eq!(download.read::<f32>().unwrap(), [1.0; 4], "{round}");
        }
        let after = read(&bad, &filled(&bad, 5.0)).read::<f32>().unwrap();
        assert_eq!(after, [5.0; 4]);
    }
    assert_eq!(device.health().state, HealthState::Healthy);
}

fn every_bad_command_of_a_batch_has_its_own_error() {
    let stream = open().stream().unwrap();
    let table = Table::new(&stream, 4);
    let values: Vec<Buffer> =
        [2, BAD, 1, -BAD, 0].map(|index| table.look_up(&stream, index)).into();
    let downloads: Vec<_> = values.iter().map(|value| read(&stream, value)).collect();
    stream.flush().unwrap();
    let mut faults = Vec::new();
    for (place, download) in downloads.into_iter().enumerate() {
        match place {
            1 | 3 => faults.push(expect_fault(download)),
            _ => assert_eq!(download.read::<f32>().unwrap(), [[2.0, 1.0, 0.0][place / 2]; 4]),
        }
    }
    assert_eq!(faults[1], faults[0] + 4);
}

fn bad_callers_harm_nobody_who_shares_their_stream() {
    const THREADS: i64 = 6;
    const CALLS: i64 = 300;
    let device = Device::builder("cuda").streams(2).open().unwrap();
    let table = Table::new(&device.stream().unwrap(), 4);
    let barrier = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (barrier, table) = (&barrier, &table);
            scope.spawn(move || {
                barrier.wait();
                let stream = device.stream().unwrap();
                for call in 0..CALLS {
                    // Two of three threads never ask for a row that does not exist.
                    let index = if thread % 3 == 0 && call % 2 == 0 { BAD } else { call % 3 };
                    let download = read(&stream, &table.look_up(&stream, index));
                    match index {
                        BAD => drop(expect_fault(download)),
                        _ => assert_eq!(download.read::<f32>().unwrap(), [index as f32; 4]),
                    }
                }
            });
        }
    });
    assert_eq!(device.health().faults, (THREADS / 3 * CALLS / 2) as u64);
}

/// Each result in a batch of its own, all in flight before the first has run.
fn a_bad_command_fails_alone_among_pending_results() {
    let stream = open().stream().unwrap();
    let table = Table::new(&stream, 4);
    plant(&stream, b"HNG").unwrap();
    let indices = [1, BAD, 2, -BAD, 0];
    let pending = indices.map(|index| {
        let download = read(&stream, &table.look_up(&stream, index));
        stream.flush().unwrap();
        download
    });
    ask(c"fake_release");
    for (download, index) in pending.into_iter().zip(indices) {
        if index.abs() == BAD {
            expect_fault(download);
        } else {
            assert_eq!(download.read::<f32>().unwrap(), [index as f32; 4]);
        }
    }
}

/// A value fails on one stream; another has used it, and the first has used that one's, all submitted before
/// anything ran.
fn a_fault_in_a_ring_of_streams_is_told() {
    let device = Device::builder("cuda").wait_timeout(Duration::from_secs(60)).open().unwrap();
    let (one, other) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let table = Table::new(&one, 4);
    plant(&one, b"HNG").unwrap();
    let lost = table.look_up(&one, BAD);
    let sound = filled(&one, 3.0);
    one.flush().unwrap();
    let copied = other.allocate(row(4).dense_bytes()).unwrap();
    let copy = |stream: &Stream, to: &Buffer, from: &Buffer| {
        let from = from.operand(row(4));
        let copy = Command::unary(UnaryOp::Neg, to.operand(row(4)), from).unwrap();
        stream.record(copy).unwrap();
        stream.flush().unwrap();
    };
    copy(&other, &copied, &lost);
    let sound_read = read(&other, &sound);
    other.flush().unwrap();
    let back = one.allocate(row(4).dense_bytes()).unwrap();
    copy(&one, &back, &copied);
    // Written again after the other has read it.
    one.upload(lost.operand(row(4)), &[2.0f32; 4]).unwrap();
    let again = read(&one, &lost);
    one.flush().unwrap();
    ask(c"fake_release");
    assert_eq!(expect_fault(read(&one, &back)), expect_fault(read(&other, &copied)));
    assert_eq!(sound_read.read::<f32>().unwrap(), [3.0; 4]);
    assert_eq!(again.read::<f32>().unwrap(), [2.0; 4]);
    for stream in [&one, &other] {
        let done = read(stream, &filled(stream, 5.0)).read::<f32>().unwrap();
        assert_eq!(done, [5.0; 4]);
    }
}

fn a_fault_comes_through_a_chain_of_streams() {
    let device = open();
    let streams: Vec<Stream> = (0..40).map(|_| Stream::new(&device).unwrap()).collect();
    let table = Table::new(&streams[0], 4);
    plant(&streams[0], b"HNG").unwrap();
    let mut value = table.look_up(&streams[0], BAD);
    for stream in &streams[1..] {
        let next = stream.allocate(row(4).dense_bytes()).unwrap();
        let (to, from) = (next.operand(row(4)), value.operand(row(4)));
        stream.record(Command::unary(UnaryOp::Neg, to, from).unwrap()).unwrap();
        value = next;
    }
    let last = read(&streams[39], &value);
    streams[39].flush().unwrap();
    ask(c"fake_release");
    expect_fault(last);
}

fn a_fault_in_a_replayed_graph_is_that_of_its_command() {
    let stream = open().stream().unwrap();
    let table = Table::new(&stream, 4);
    let held = [(); 2]
        .map(|()| (stream.allocate(row(4).dense_bytes()).unwrap(), stream.allocate(8).unwrap()));
    for call in 0..60 {
        let indices = [if call % 3 == 1 { BAD } else { 1 }, if call % 5 == 2 { -BAD } else { 2 }];
        for ((to, at), index) in held.iter().zip(indices) {
            table.look_up_with(&stream, index, to, at);
        }
        let downloads = held.each_ref().map(|(to, _)| read(&stream, to));
        stream.flush().unwrap();
        for (download, index) in downloads.into_iter().zip(indices) {
            if index.abs() == BAD {
                expect_fault(download);
            } else {
                assert_eq!(download.read::<f32>().unwrap(), [index as f32; 4], "{call}");
            }
        }
    }
    assert!(graph_launches() > 50, "{}", graph_launches());
}

/// The record has room for as many Commands as a batch may have.
fn a_full_batch_has_a_note_for_its_last_command() {
    let device = Device::builder("cuda").batch_commands(7).open().unwrap();
    let stream = device.stream().unwrap();
    let table = Table::new(&stream, 4);
    stream.synchronize().unwrap();
    for round in 0..20 {
        let index = if round % 2 == 0 { BAD } else { 1 };
        // Five fills, the upload of the index, and the look-up.
        let fills: Vec<Buffer> = (0..5).map(|value| filled(&stream, value as f32)).collect();
        let value = table.look_up(&stream, index);
        stream.flush().unwrap();
        for (fill, expected) in fills.iter().zip(0..) {
            assert_eq!(read(&stream, fill).read::<f32>().unwrap(), [expected as f32; 4]);
        }
        match index {
            BAD => drop(expect_fault(read(&stream, &value))),
            _ => assert_eq!(read(&stream, &value).read::<f32>().unwrap(), [1.0; 4]),
        }
    }
}

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
        // Rows of the product are near each other along the depth.
        let turned = Layout::strided(DType::F32, &[SIZE, SIZE], &[1, SIZE], 0).unwrap();
        let (to, a, b) = (y.operand(line), x.operand(line), weights.operand(turned));
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
