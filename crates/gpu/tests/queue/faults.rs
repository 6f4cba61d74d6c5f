//! Commands that meet impossible data: each fails what it should have made, and nothing else.

use millstream_core::{Buffer, HealthState};

use crate::kit::{BAD, Gpu, Table, expect_fault, filled, read};

#[test]
fn a_fault_fails_its_value_and_no_other() {
    let gpu = Gpu::with_seed(1);
    let (bad, good) = (gpu.stream(), gpu.stream());
    let consumer = gpu.stream();
    let table = Table::new(&bad);
    for round in 0..50 {
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
    }
    assert_eq!(gpu.device.health().state, HealthState::Healthy);
}

#[test]
fn every_bad_command_of_a_batch_has_its_own_error() {
    let gpu = Gpu::new();
    let stream = gpu.stream();
    let table = Table::new(&stream);
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

#[test]
fn batches_in_flight_have_faults_of_their_own() {
    let gpu = Gpu::new();
    let stream = gpu.stream();
    let table = Table::new(&stream);
    stream.synchronize().unwrap();
    for round in 0..10 {
        gpu.hold();
        // As many as may be in flight, every second with a fault.
        let downloads: Vec<_> = (0..8)
            .map(|batch| {
                let index = if batch % 2 == round % 2 { BAD } else { 1 };
                let download = read(&stream, &table.look_up(&stream, index));
                stream.flush().unwrap();
                (index, download)
            })
            .collect();
        gpu.release();
        for (index, download) in downloads {
            match index {
                BAD => drop(expect_fault(download)),
                _ => assert_eq!(download.read::<f32>().unwrap(), [1.0; 4]),
            }
        }
    }
}

#[test]
fn a_fault_in_a_replayed_batch_is_that_of_its_command() {
    let gpu = Gpu::with_seed(9);
    let stream = gpu.stream();
    let table = Table::new(&stream);
    let held = [(); 2].map(|()| (stream.allocate(16).unwrap(), stream.allocate(8).unwrap()));
    stream.synchronize().unwrap();
    for call in 0..40i64 {
        let indices = [call % 3, if call % 5 == 4 { BAD } else { (call + 1) % 3 }];
        for ((to, at), index) in held.iter().zip(indices) {
            table.look_up_into(&stream, index, to, at);
        }
        let downloads = held.each_ref().map(|(to, _)| read(&stream, to));
        for (download, index) in downloads.into_iter().zip(indices) {
            match index {
                BAD => drop(expect_fault(download)),
                _ => assert_eq!(download.read::<f32>().unwrap(), [index as f32; 4], "{call}"),
            }
        }
    }
    assert!(gpu.replays() > 30);
}

#[test]
fn a_fault_comes_through_a_chain_of_streams() {
    let gpu = Gpu::with_seed(4);
    let streams: Vec<_> = (0..5).map(|_| gpu.stream()).collect();
    let table = Table::new(&streams[0]);
    for _ in 0..20 {
        gpu.hold();
        let mut value = table.look_up(&streams[0], BAD);
        for stream in &streams[1..] {
            let next = stream.allocate(16).unwrap();
            let row = crate::kit::row(4);
            let copy = millstream_core::Command::copy(next.operand(row), value.operand(row));
            stream.record(copy.unwrap()).unwrap();
            value = next;
        }
        let last = read(&streams[4], &value);
        streams[4].flush().unwrap();
        gpu.release();
        expect_fault(last);
    }
}
