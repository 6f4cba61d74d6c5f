//! Commands that fail: each fails what it should have made and what is computed from that, and nothing else.

use std::sync::Barrier;
use std::time::Duration;

use millstream_core::{
    Buffer, Command, DType, Device, Download, Error, HealthState, Layout, Stream, UnaryOp,
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
    ("a_fault_in_a_ring_of_streams_is_reported", a_fault_in_a_ring_of_streams_is_reported),
    ("a_fault_comes_through_a_chain_of_streams", a_fault_comes_through_a_chain_of_streams),
    (
        "a_fault_in_a_replayed_graph_is_that_of_its_command",
        a_fault_in_a_replayed_graph_is_that_of_its_command,
    ),
    ("a_full_batch_has_a_note_for_its_last_command", a_full_batch_has_a_note_for_its_last_command),
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

    pub fn look_up_with(&self, stream: &Stream, index: i64, to: &Buffer, at: &Buffer) {
        let one = Layout::contiguous(DType::I64, &[1]).unwrap();
        stream.upload(at.operand(one), &[index]).unwrap();
        self.look_up_again(stream, to, at);
    }

    /// With an index that is there.
    pub fn look_up_again(&self, stream: &Stream, to: &Buffer, at: &Buffer) {
        let one = Layout::contiguous(DType::I64, &[1]).unwrap();
        let (to, at) = (to.operand(matrix(1, self.columns)), at.operand(one));
        let command = Command::embedding(to, self.values.operand(matrix(ROWS, self.columns)), at);
        stream.record(command.unwrap()).unwrap();
    }
}

const BAD: i64 = 9;

pub fn filled(stream: &Stream, value: f32) -> Buffer {
    let buffer = stream.allocate(row(4).dense_bytes()).unwrap();
    stream.upload(buffer.operand(row(4)), &[value; 4]).unwrap();
    buffer
}

pub fn read(stream: &Stream, buffer: &Buffer) -> Download {
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
        let (failed, sound) = (read(&bad, &lost), read(&bad, &beside));
        bad.flush().unwrap();
        // Submitted after it, and waiting for it on another stream.
        let later = read(&bad, &beside);
        let consumed = read(&consumer, &lost);
        let consumed_beside = read(&consumer, &beside);
        let fine = read(&good, &filled(&good, 7.0)).read::<f32>().unwrap();
        assert_eq!(fine, [7.0; 4]);
        assert_eq!(expect_fault(failed), expect_fault(consumed), "{round}");
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
fn a_fault_in_a_ring_of_streams_is_reported() {
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
