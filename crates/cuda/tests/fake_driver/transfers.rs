//! Large transfers: straight from and to host memory that the GPU reaches by itself.

use millstream_core::{Buffer, Command, DType, Device, Error, Layout, Stream};

use crate::faults::Table;
use crate::linux::{Test, ask, bytes, graph_launches, open, plant};

pub const TESTS: &[Test] = &[
    ("large_transfers_are_direct_and_replayed", large_transfers_are_direct_and_replayed),
    ("transfers_of_all_kinds_share_a_batch", transfers_of_all_kinds_share_a_batch),
    ("batches_in_flight_have_memory_of_their_own", batches_in_flight_have_memory_of_their_own),
    ("a_dropped_download_harms_nobody", a_dropped_download_harms_nobody),
    (
        "beyond_the_bound_of_a_queue_transfers_are_the_devices",
        beyond_the_bound_of_a_queue_transfers_are_the_devices,
    ),
    ("memory_of_another_gpu_is_staged", memory_of_another_gpu_is_staged),
    ("threads_have_large_transfers_of_their_own", threads_have_large_transfers_of_their_own),
    ("a_fault_leaves_large_transfers_usable", a_fault_leaves_large_transfers_usable),
    ("closing_gives_host_memory_back", closing_gives_host_memory_back),
    ("a_lost_device_leases_nothing", a_lost_device_leases_nothing),
];

const LARGE: usize = 1 << 20;

/// Pieces of host memory that the driver knows.
fn registered() -> u64 {
    ask(c"fake_registered")
}

fn pattern(seed: usize, count: usize) -> Vec<u8> {
    (0..count).map(|index| (index * 7 + index / 251 + seed * 13) as u8).collect()
}

fn buffer(stream: &Stream, count: usize) -> Buffer {
    stream.allocate(count).unwrap()
}

/// A stream whose own memory the driver knows already.
fn stream(device: &Device) -> Stream {
    let stream = Stream::new(device).unwrap();
    let small = buffer(&stream, 16);
    stream.upload(small.operand(bytes(16)), &[0u8; 16]).unwrap();
    stream.synchronize().unwrap();
    stream
}

fn large_transfers_are_direct_and_replayed() {
    let stream = stream(&open());
    // Copied by kernels, and by the copy engines.
    for (round, count) in [LARGE, 4 * LARGE].into_iter().enumerate() {
        let (before, launches) = (registered(), graph_launches());
        let held = [(); 2].map(|()| buffer(&stream, count));
        let [first, second] = [0, 1].map(|index| held[index].operand(bytes(count)));
        let mut got = vec![0u8; count];
        for call in 0..60 {
            let values = [call, call + 1].map(|seed| pattern(seed, count));
            stream.upload(first, &values[0]).unwrap();
            stream.upload(second, &values[1]).unwrap();
            let download = stream.download([first, second][call % 2]).unwrap();
            match call % 3 {
                0 => download.read_into(&mut got).unwrap(),
                1 => got = download.read().unwrap(),
                _ => got.copy_from_slice(download.view::<u8>().unwrap()),
            }
            assert!(got == values[call % 2], "{call}");
        }
        // A piece for each transfer, and no staging memory.
        assert_eq!(registered() - before, 3, "{count} bytes");
        // Two batches in turn, each launched directly once.
        assert_eq!(graph_launches() - launches, 2 * 29, "{round}");
    }
    // An upload whose bytes stay where the GPU reads them, again and again.
    let (before, held) = (registered(), buffer(&stream, LARGE));
    let host = stream.host_copy_of(&pattern(7, LARGE));
    for _ in 0..3 {
        stream.record(Command::upload(held.operand(bytes(LARGE)), host.clone()).unwrap()).unwrap();
        let got = stream.download(held.operand(bytes(LARGE))).unwrap().bytes().unwrap();
        assert!(got == pattern(7, LARGE));
    }
    assert_eq!(registered(), before);
}

fn transfers_of_all_kinds_share_a_batch() {
    let stream = stream(&open());
    let sizes = [1000, LARGE, 16 << 10, (16 << 10) + 1, 40 << 20, 3 << 20, 0];
    let buffers = sizes.map(|count| buffer(&stream, count));
    for call in 0..6 {
        let values = sizes.map(|count| pattern(call + count, count));
        let mut downloads = Vec::new();
        for (buffer, values) in buffers.iter().zip(&values) {
            let operand = buffer.operand(bytes(values.len()));
            stream.upload(operand, values).unwrap();
            downloads.push(stream.download(operand).unwrap());
        }
        for (download, values) in downloads.into_iter().zip(&values) {
            assert!(download.bytes().unwrap() == *values, "call {call}, {} bytes", values.len());
        }
    }
}

fn batches_in_flight_have_memory_of_their_own() {
    let stream = stream(&open());
    let held = buffer(&stream, LARGE);
    for round in 0..5 {
        let mut downloads = Vec::new();
        for call in 0..20 {
            stream.upload(held.operand(bytes(LARGE)), &pattern(round + call, LARGE)).unwrap();
            downloads.push(stream.download(held.operand(bytes(LARGE))).unwrap());
            stream.flush().unwrap();
        }
        for (call, download) in downloads.iter().enumerate() {
            assert!(download.view::<u8>().unwrap() == pattern(round + call, LARGE), "{call}");
        }
    }
}

fn a_dropped_download_harms_nobody() {
    let stream = stream(&open());
    let held = buffer(&stream, LARGE);
    let address = stream.host_copy_of(&pattern(0, LARGE)).as_ptr();
    for round in 0..3 {
        stream.upload(held.operand(bytes(LARGE)), &pattern(1, LARGE)).unwrap();
        stream.synchronize().unwrap();
        plant(&stream, b"ZZZ").unwrap();
        drop(stream.download(held.operand(bytes(LARGE))).unwrap());
        stream.flush().unwrap();
        // The device is about to write what the download had: nobody else gets it meanwhile.
        let host = stream.host_copy_of(&pattern(2, LARGE));
        assert_ne!(host.as_ptr(), address, "{round}");
        stream.synchronize().unwrap();
        // SAFETY: nothing is under way.
        assert!(unsafe { host.as_slice() } == pattern(2, LARGE));
        // And when it is through, it is leased again.
        assert_eq!(stream.host_copy_of(&pattern(3, LARGE)).as_ptr(), address, "{round}");
    }
}

fn beyond_the_bound_of_a_queue_transfers_are_the_devices() {
    const COUNT: usize = 16 << 20;
    let stream = stream(&open());
    let (before, held) = (registered(), buffer(&stream, COUNT));
    let values = pattern(5, COUNT);
    stream.upload(held.operand(bytes(COUNT)), &values).unwrap();
    stream.synchronize().unwrap();
    let downloads: Vec<_> =
        (0..6).map(|_| stream.download(held.operand(bytes(COUNT))).unwrap()).collect();
    stream.synchronize().unwrap();
    // Four are of the queue, the two others of the device.
    assert_eq!(registered() - before, 4 + 2);
    assert!(downloads.iter().all(|download| download.view::<u8>().unwrap() == values));
    drop(downloads);
    // Other sizes make room for themselves where no graph counts on the address.
    let other = buffer(&stream, 2 * COUNT);
    stream.upload(other.operand(bytes(2 * COUNT)), &pattern(6, 2 * COUNT)).unwrap();
    let got = stream.download(other.operand(bytes(2 * COUNT))).unwrap().bytes().unwrap();
    assert!(got == pattern(6, 2 * COUNT));
    // Two of the new size in the queue; the device keeps its two.
    assert_eq!(registered() - before, 2 + 2);
}

fn memory_of_another_gpu_is_staged() {
    let (here, there) = (open(), Device::builder("cuda:1").open().unwrap());
    let (here, there) = (stream(&here), stream(&there));
    let (before, held) = (registered(), buffer(&here, LARGE));
    let host = there.host_copy_of(&pattern(9, LARGE));
    here.record(Command::upload(held.operand(bytes(LARGE)), host).unwrap()).unwrap();
    here.synchronize().unwrap();
    assert_eq!(registered() - before, 2, "its piece and staging memory here");
    let got = here.download(held.operand(bytes(LARGE))).unwrap().bytes().unwrap();
    assert!(got == pattern(9, LARGE));
}

fn threads_have_large_transfers_of_their_own() {
    let device = open();
    std::thread::scope(|scope| {
        for thread in 0..12 {
            scope.spawn(move || {
                // Half of them share streams.
                let own = Stream::new(&device).unwrap();
                let stream =
                    if thread % 2 == 0 { own } else { Stream::default_of(&device).unwrap() };
                let count = LARGE / 8 + thread * 1000;
                let held = buffer(&stream, count);
                for call in 0..60 {
                    let values = pattern(thread * 100 + call, count);
                    stream.upload(held.operand(bytes(count)), &values).unwrap();
                    let download = stream.download(held.operand(bytes(count))).unwrap();
                    assert!(download.view::<u8>().unwrap() == values, "{thread}, {call}");
                }
            });
        }
    });
    assert_eq!(device.health().faults, 0);
}

fn a_fault_leaves_large_transfers_usable() {
    let device = open();
    let stream = stream(&device);
    let table = Table::new(&stream, LARGE / 4);
    for round in 0..20 {
        let held = table.look_up(&stream, 9);
        let failed = stream.download(held.operand(bytes(LARGE))).unwrap();
        stream.flush().unwrap();
        let mut untouched = vec![7u8; LARGE];
        let error = failed.read_into(&mut untouched).unwrap_err();
        assert!(matches!(error, Error::Fault { .. }), "{error}");
        assert!(untouched == vec![7u8; LARGE]);
        let (again, values) = (buffer(&stream, LARGE), pattern(round, LARGE));
        stream.upload(again.operand(bytes(LARGE)), &values).unwrap();
        let got = stream.download(again.operand(bytes(LARGE))).unwrap();
        assert!(got.bytes().unwrap() == values, "{round}");
    }
}

fn closing_gives_host_memory_back() {
    let device = open();
    let stream = stream(&device);
    let (before, held) = (registered(), buffer(&stream, LARGE));
    for call in 0..5 {
        stream.upload(held.operand(bytes(LARGE)), &pattern(call, LARGE)).unwrap();
        let got = stream.download(held.operand(bytes(LARGE))).unwrap().bytes().unwrap();
        assert!(got == pattern(call, LARGE));
    }
    let last = stream.download(held.operand(bytes(LARGE))).unwrap();
    let seen = last.view_bytes().unwrap();
    assert_eq!(registered() - before, 2);
    device.close().unwrap();
    // What somebody still reads stays; staging memory went with the rest.
    let left = registered();
    assert!(left <= before + 1, "{left} pieces");
    assert!(seen == pattern(4, LARGE));
    drop(last);
    assert_eq!(registered(), left - 1);
    assert!(stream.host_copy_of(&pattern(1, LARGE)).keep_address().is_none());
    assert_eq!(registered(), left - 1);
}

fn a_lost_device_leases_nothing() {
    let stream = stream(&open());
    let held = buffer(&stream, LARGE);
    let layout = Layout::contiguous(DType::U8, &[LARGE]).unwrap();
    assert!(stream.host_copy_of(&pattern(1, LARGE)).keep_address().is_some());
    plant(&stream, b"DIE").unwrap();
    let pending = stream.download(held.operand(layout)).unwrap();
    let error = pending.read::<u8>().unwrap_err();
    assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
    assert!(stream.host_copy_of(&pattern(1, LARGE)).keep_address().is_none());
    assert!(matches!(stream.download(held.operand(layout)), Err(Error::DeviceLost { .. })));
}
