//! Faults, on the fake device: the right call gets the right error, and nothing hangs or leaks.

mod common;

use common::*;
use millstream_core::{Buffer, BufferLike, Command, DType, Error, HealthState, Layout, Stream};

fn is_fault(error: &Error, wanted: u64) -> bool {
    matches!(error, Error::Fault { sequence, .. } if *sequence == wanted)
}

fn read(stream: &Stream, buffer: &Buffer) -> Result<Vec<f32>, Error> {
    stream.download(whole(buffer))?.read::<f32>()
}

/// Invariant 9: a fault belongs to the values that the failed Command should have made and to those computed
/// from them; everything else on that stream and on others goes on and is right.
#[test]
fn invariant_09_a_fault_fails_the_values_that_depend_on_it_and_nothing_else() {
    let (device, control) = device();
    let (bad, good) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let [a, b, c, d] = [(); 4].map(|()| bad.allocate(64).unwrap());
    let [other, copied] = [(); 2].map(|()| good.allocate(64).unwrap());
    let before = fill(&bad, &a).unwrap();
    let fails = fill(&bad, &b).unwrap();
    let dependent = copy(&bad, &c, &b).unwrap();
    let independent = copy(&bad, &d, &a).unwrap();
    control.fail_command(bad.id(), fails.sequence());
    let others = fill(&good, &other).unwrap();
    let elsewhere = copy(&good, &copied, &c).unwrap();

    // All of it was pending when the fault happened.
    assert!(is_fault(&fails.wait().unwrap_err(), fails.sequence()));
    assert!(is_fault(&dependent.wait().unwrap_err(), fails.sequence()), "made from what failed");
    assert!(is_fault(&elsewhere.wait().unwrap_err(), fails.sequence()), "on another stream too");
    before.wait().unwrap();
    independent.wait().unwrap();
    others.wait().unwrap();
    for (stream, buffer) in [(&bad, &b), (&bad, &c), (&good, &c), (&good, &copied)] {
        assert!(is_fault(&read(stream, buffer).unwrap_err(), fails.sequence()));
    }
    for (stream, buffer) in [(&bad, &a), (&bad, &d), (&good, &a), (&good, &other)] {
        read(stream, buffer).unwrap();
    }
    device.synchronize().expect("everything was reported");

    // What failed can be written, and then all is well.
    fill(&bad, &b).unwrap();
    copy(&bad, &c, &b).unwrap();
    copy(&good, &copied, &c).unwrap();
    read(&good, &copied).unwrap();
    device.synchronize().unwrap();
    assert_eq!(device.health().state, HealthState::Healthy);
    control.assert_no_violations();
}

/// Columns of a matrix are values of their own, though they lie between each other.
#[test]
fn a_column_that_fails_leaves_those_beside_it() {
    let (device, control) = device();
    let stream = Stream::new(&device).unwrap();
    let matrix = stream.allocate(64).unwrap();
    fill(&stream, &matrix).unwrap();
    let column = |first| matrix.operand(Layout::strided(DType::F32, &[4], &[4], first).unwrap());
    let fails = stream.record(Command::fill(column(1), 1.0f32).unwrap()).unwrap();
    control.fail_command(stream.id(), fails.sequence());
    stream.record(Command::fill(column(2), 1.0f32).unwrap()).unwrap();
    let read = |first| stream.download(column(first)).unwrap().read::<f32>();
    assert!(is_fault(&read(1).unwrap_err(), fails.sequence()));
    for first in [0, 2, 3] {
        read(first).unwrap();
    }
    control.assert_no_violations();
}

/// A caller's three results are pending; the one in the middle fails.
#[test]
fn results_pending_on_one_stream_fail_alone() {
    let (device, control) = device();
    let stream = Stream::new(&device).unwrap();
    let buffers = [(); 3].map(|()| stream.allocate(64).unwrap());
    let points = buffers.each_ref().map(|buffer| fill(&stream, buffer).unwrap());
    control.fail_command(stream.id(), points[1].sequence());
    let downloads = buffers.each_ref().map(|buffer| stream.download(whole(buffer)).unwrap());
    let results = downloads.map(|download| download.read::<f32>());
    assert!(results[0].is_ok() && results[2].is_ok());
    assert!(is_fault(results[1].as_ref().unwrap_err(), points[1].sequence()));
    control.assert_no_violations();
}

/// `synchronize` reports what was not reported yet, once.
#[test]
fn synchronize_reports_what_nobody_was_told() {
    let (device, control) = device();
    let stream = Stream::new(&device).unwrap();
    let buffers = [(); 3].map(|()| stream.allocate(64).unwrap());
    let points = buffers.each_ref().map(|buffer| fill(&stream, buffer).unwrap());
    for point in points {
        control.fail_command(stream.id(), point.sequence());
    }
    assert!(is_fault(&read(&stream, &buffers[0]).unwrap_err(), points[0].sequence()));
    assert!(is_fault(&stream.synchronize().unwrap_err(), points[1].sequence()));
    assert!(is_fault(&stream.synchronize().unwrap_err(), points[2].sequence()));
    stream.synchronize().expect("each is reported once");
    // The values know it all the same.
    assert!(is_fault(&read(&stream, &buffers[2]).unwrap_err(), points[2].sequence()));
    assert_eq!(device.health().faults, 3);
}

/// Streams live as long as the process; what was good stays good after any number of faults of others.
#[test]
fn a_result_is_good_for_ever_whatever_fails_after_it() {
    let (device, control) = device();
    let stream = Stream::new(&device).unwrap();
    let [kept, failed, scratch] = [(); 3].map(|()| stream.allocate(64).unwrap());
    let first = fill(&stream, &failed).unwrap();
    control.fail_command(stream.id(), first.sequence());
    fill(&stream, &kept).unwrap();
    for _ in 0..1000 {
        let fails = fill(&stream, &scratch).unwrap();
        control.fail_command(stream.id(), fails.sequence());
        assert!(read(&stream, &scratch).is_err());
    }
    read(&stream, &kept).unwrap();
    assert!(is_fault(&read(&stream, &failed).unwrap_err(), first.sequence()), "and bad for ever");
    control.assert_no_violations();
}

/// The same program has the same answers, whether a fault was noticed before or after the next call.
#[test]
fn it_does_not_matter_when_a_fault_is_noticed() {
    for noticed in [false, true] {
        let (device, control) = device();
        let (bad, writer) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
        let [a, b] = [(); 2].map(|()| bad.allocate(64).unwrap());
        let fails = fill(&bad, &a).unwrap();
        control.fail_command(bad.id(), fails.sequence());
        bad.flush().unwrap();
        if noticed {
            control.run_all();
        }
        // Reads what fails; overwrites it from elsewhere, which has to come after both.
        copy(&bad, &b, &a).unwrap();
        fill(&writer, &a).unwrap();
        assert!(is_fault(&read(&bad, &b).unwrap_err(), fails.sequence()), "noticed: {noticed}");
        read(&writer, &a).unwrap();
        read(&bad, &a).unwrap();
        control.assert_no_violations();
    }
}

/// Memory of a failed call is used again by others, who never see its fault.
#[test]
fn a_block_is_used_again_without_the_fault_of_its_last_holder() {
    let (device, control) = device();
    let (home, writer) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let mut addresses = Vec::new();
    for round in 0..4 {
        let buffer = home.allocate(256).unwrap();
        addresses.push((&buffer).identity());
        if round % 2 == 0 {
            let fails = fill(&home, &buffer).unwrap();
            control.fail_command(home.id(), fails.sequence());
        } else {
            // Two halves by another stream, one behind the other: no single write covers the block.
            for half in 0..2 {
                let layout = Layout::contiguous(DType::F32, &[32]).unwrap().shifted(half * 32);
                let operand = buffer.operand(layout.unwrap());
                writer.record(Command::fill(operand, 1f32).unwrap()).unwrap();
            }
            read(&writer, &buffer).unwrap();
        }
    }
    assert!(addresses.iter().all(|address| *address == addresses[0]), "{addresses:?}");
    control.assert_no_violations();
}

/// The last holder's bytes that the next one does not have are none of its business.
#[test]
fn a_fault_of_the_last_holder_does_not_keep_the_next_from_settling() {
    let (device, control) = device();
    let stream = Stream::new(&device).unwrap();
    let large = stream.allocate(256).unwrap();
    let point = fill(&stream, &large).unwrap();
    control.fail_command(stream.id(), point.sequence());
    assert!(point.wait().is_err());
    let block = (&large).identity();
    drop(large);
    let small = stream.allocate(192).unwrap();
    assert_eq!((&small).identity(), block);
    fill(&stream, &small).unwrap();
    small.settle().unwrap();
    control.assert_no_violations();
}

#[test]
fn settling_needs_good_contents_and_does_not_mind_bad_readers() {
    let (device, control) = device();
    let (home, reader) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let (weights, out) = (home.allocate(64).unwrap(), reader.allocate(64).unwrap());
    fill(&home, &weights).unwrap();
    let fails = copy(&reader, &out, &weights).unwrap();
    control.fail_command(reader.id(), fails.sequence());
    assert!(reader.synchronize().is_err());
    weights.settle().expect("its contents are complete");
    assert!(is_fault(&out.settle().unwrap_err(), fails.sequence()));
    control.assert_no_violations();
}

#[test]
fn a_refused_batch_fails_its_own_values_in_their_turn() {
    let (device, control) = device();
    let (first, second) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let [a, b] = [(); 2].map(|()| first.allocate(64).unwrap());
    let c = second.allocate(64).unwrap();
    // Written by a batch that is still pending when the next one is refused.
    fill(&first, &a).unwrap();
    first.flush().unwrap();
    let refused = fill(&first, &a).unwrap();
    copy(&first, &b, &a).unwrap();
    control.refuse_submit_after(0);
    first.flush().unwrap();
    assert!(is_fault(&read(&second, &a).unwrap_err(), refused.sequence()));
    assert!(is_fault(&read(&first, &b).unwrap_err(), refused.sequence()));
    assert!(is_fault(&refused.wait().unwrap_err(), refused.sequence()));
    assert!(is_fault(&refused.query().unwrap_err(), refused.sequence()));
    fill(&second, &c).unwrap().wait().unwrap();
    fill(&first, &a).unwrap().wait().unwrap();
    read(&first, &a).unwrap();
    let health = device.health();
    assert_eq!(health.state, HealthState::Healthy);
    assert!(health.faults > 0 && health.last_error.is_some());
    control.assert_no_violations();
}

#[test]
fn a_refused_batch_does_not_harm_the_call_that_submitted_it() {
    let (device, control) = device_with(|config| config.batch_commands = 2);
    let stream = Stream::new(&device).unwrap();
    let buffers = [(); 4].map(|()| stream.allocate(64).unwrap());
    control.refuse_submit_after(0);
    let points = buffers.each_ref().map(|buffer| fill(&stream, buffer).unwrap());
    assert!(points[0].wait().is_err() && points[1].wait().is_err());
    assert!(points[2].wait().is_ok() && points[3].wait().is_ok());
    let (producer, consumer) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let (a, b) = (producer.allocate(64).unwrap(), consumer.allocate(64).unwrap());
    let made = fill(&producer, &a).unwrap();
    control.refuse_submit_after(0);
    // Submits the producer's batch, which is refused: this call only depends on it.
    copy(&consumer, &b, &a).unwrap();
    assert!(is_fault(&read(&consumer, &b).unwrap_err(), made.sequence()));
    control.assert_no_violations();
}

/// A ring: x fails here, y is made of it there, z is made of y here again, all submitted before.
#[test]
fn a_fault_goes_around_a_ring_of_streams() {
    let (device, control) = device();
    let (a, b) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let (x, y, z) = (b.allocate(64).unwrap(), a.allocate(64).unwrap(), b.allocate(64).unwrap());
    let fails = fill(&b, &x).unwrap();
    control.fail_command(b.id(), fails.sequence());
    copy(&a, &y, &x).unwrap();
    let last = copy(&b, &z, &y).unwrap();
    b.flush().unwrap();
    assert!(is_fault(&last.wait().unwrap_err(), fails.sequence()));
    for stream in [&a, &b] {
        let own = stream.allocate(64).unwrap();
        fill(stream, &own).unwrap();
        read(stream, &own).unwrap();
    }
    control.assert_no_violations();
}

#[test]
fn a_lost_device_fails_closed() {
    let (device, control) = device();
    let streams: Vec<_> = (0..4).map(|_| Stream::new(&device).unwrap()).collect();
    let buffers: Vec<_> = streams.iter().map(|stream| stream.allocate(64).unwrap()).collect();
    let points: Vec<_> = streams
        .iter()
        .zip(&buffers)
        .map(|(stream, buffer)| fill(stream, buffer).unwrap())
        .collect();
    for stream in &streams {
        stream.flush().unwrap();
    }
    // A thread that already waits is released.
    for stream in &streams {
        control.hang(stream.id(), true);
    }
    let waiting = points[0];
    let waiter = std::thread::spawn(move || waiting.wait());
    while device.counters().blocks == 0 {
        std::thread::yield_now();
    }
    control.lose();
    assert!(matches!(points[1].wait(), Err(Error::DeviceLost { .. })));
    assert!(matches!(waiter.join().unwrap(), Err(Error::DeviceLost { .. })));
    for (stream, buffer) in streams.iter().zip(&buffers) {
        assert!(matches!(fill(stream, buffer), Err(Error::DeviceLost { .. })));
        assert!(matches!(stream.synchronize(), Err(Error::DeviceLost { .. })));
        assert!(matches!(stream.allocate(64), Err(Error::DeviceLost { .. })));
    }
    assert!(matches!(Stream::new(&device), Err(Error::DeviceLost { .. })));
    let health = device.health();
    assert_eq!(health.state, HealthState::Lost);
    assert!(matches!(health.last_error, Some(Error::DeviceLost { .. })));
    drop(buffers);
    control.assert_no_violations();
}

#[test]
fn a_device_lost_at_a_submit_tells_that_call() {
    let (device, control) = device();
    let stream = Stream::new(&device).unwrap();
    let buffer = stream.allocate(64).unwrap();
    let point = fill(&stream, &buffer).unwrap();
    control.lose_after(0);
    assert!(matches!(point.wait(), Err(Error::DeviceLost { .. })));
    assert_eq!(device.health().state, HealthState::Lost);
}

#[test]
fn blocks_of_failed_work_come_back() {
    let (device, control) = device();
    let (home, reader) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    for _ in 0..100 {
        let (a, b) = (home.allocate(1 << 20).unwrap(), reader.allocate(1 << 20).unwrap());
        fill(&home, &a).unwrap();
        let fails = copy(&reader, &b, &a).unwrap();
        control.fail_command(reader.id(), fails.sequence());
        assert!(fails.wait().is_err());
    }
    assert_eq!(device.memory().in_use, 0);
    device.empty_cache().unwrap();
    assert_eq!(control.memory_taken(), 0);
    control.assert_no_violations();
}
