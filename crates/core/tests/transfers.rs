//! Transfers and the pooled host memory that a device has for them, on the fake device.

mod common;

use common::*;
use millstream_core::{Buffer, Command, Device, Error, HostBytes, Stream};

/// Floats of a transfer that the fake device has pooled memory for: four pieces of that size fit its bounds.
const LENT: usize = 2048;

fn setup() -> (Device, millstream_core::fake::FakeControl, Stream, Buffer) {
    let (device, control) = device();
    let stream = Stream::new(&device).unwrap();
    let buffer = stream.allocate(LENT * 4).unwrap();
    (device, control, stream, buffer)
}

#[test]
fn memory_of_transfers_comes_back_and_is_used_again() {
    let (_, control, stream, buffer) = setup();
    for _ in 0..50 {
        stream.upload(whole(&buffer), &[1f32; LENT]).unwrap();
        let download = stream.download(whole(&buffer)).unwrap();
        assert_eq!(control.host_pieces(), (2, 2));
        assert_eq!(download.read::<f32>().unwrap().len(), LENT);
        assert_eq!(control.host_pieces(), (2, 0));
    }
    control.assert_no_violations();
}

#[test]
fn small_transfers_have_memory_from_the_heap() {
    let (_, control, stream, _) = setup();
    let buffer = stream.allocate(64).unwrap();
    stream.upload(whole(&buffer), &[1f32; 16]).unwrap();
    assert_eq!(stream.download(whole(&buffer)).unwrap().elements(), 16);
    assert_eq!(control.host_pieces(), (0, 0));
}

#[test]
fn a_dropped_download_keeps_its_memory_until_the_device_is_through() {
    let (_, control, stream, buffer) = setup();
    fill(&stream, &buffer).unwrap();
    drop(stream.download(whole(&buffer)).unwrap());
    assert_eq!(control.host_pieces(), (1, 1), "recorded");
    stream.flush().unwrap();
    assert_eq!(control.host_pieces(), (1, 1), "submitted");
    stream.synchronize().unwrap();
    assert_eq!(control.host_pieces(), (1, 0), "passed");
    control.assert_no_violations();
}

#[test]
fn a_download_that_failed_gives_its_memory_back() {
    let (_, control, stream, buffer) = setup();
    let point = fill(&stream, &buffer).unwrap();
    control.fail_command(stream.id(), point.sequence());
    let download = stream.download(whole(&buffer)).unwrap();
    assert!(matches!(download.view::<f32>(), Err(Error::Fault { .. })));
    assert!(matches!(download.read_into(&mut [0f32; LENT]), Err(Error::Fault { .. })));
    assert_eq!(control.host_pieces(), (1, 0));
    fill(&stream, &buffer).unwrap();
    control.refuse_submit_after(0);
    let refused = stream.download(whole(&buffer)).unwrap();
    assert!(refused.read::<f32>().is_err());
    assert_eq!(control.host_pieces(), (1, 0));
}

#[test]
fn emptying_the_cache_gives_back_what_is_not_lent() {
    let (device, control, stream, buffer) = setup();
    stream.upload(whole(&buffer), &[1f32; LENT]).unwrap();
    let download = stream.download(whole(&buffer)).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(control.host_pieces(), (2, 1));
    device.empty_cache().unwrap();
    assert_eq!(control.host_pieces(), (1, 1));
    assert_eq!(download.read::<f32>().unwrap().len(), LENT);
    device.empty_cache().unwrap();
    assert_eq!(control.host_pieces(), (0, 0));
    control.assert_no_violations();
}

#[test]
fn at_the_bounds_of_the_pool_transfers_have_memory_from_the_heap() {
    let (_, control, stream, buffer) = setup();
    fill(&stream, &buffer).unwrap();
    let downloads: Vec<_> = (0..9).map(|_| stream.download(whole(&buffer)).unwrap()).collect();
    assert_eq!(control.host_pieces(), (4, 4));
    stream.synchronize().unwrap();
    for download in &downloads[..4] {
        assert_eq!(download.view::<f32>().unwrap(), [0f32; LENT]);
    }
    drop(downloads);
    assert_eq!(control.host_pieces(), (4, 0));
    control.assert_no_violations();
}

#[test]
fn reading_checks_type_and_number_of_elements() {
    let (_, _, stream, buffer) = setup();
    fill(&stream, &buffer).unwrap();
    let download = || stream.download(whole(&buffer)).unwrap();
    let refused = |result: Result<(), Error>| match result.unwrap_err() {
        Error::Invalid { op: "download", reason } => reason,
        other => panic!("{other}"),
    };
    assert_eq!(refused(download().read_into(&mut [0i32; LENT])), "i32 elements for f32");
    assert_eq!(refused(download().view::<f64>().map(drop)), "f64 elements for f32");
    let few = refused(download().read_into(&mut [0f32; 7]));
    assert_eq!(few, "room for 7 elements, 2048 given");
    let mut values = [1f32; LENT];
    download().read_into(&mut values).unwrap();
    assert_eq!(values, [0f32; LENT]);
    assert_eq!(download().view_bytes().unwrap().len(), LENT * 4);
}

#[test]
fn bytes_can_be_kept_where_the_device_reads_them() {
    let (device, control, stream, buffer) = setup();
    let host = stream.host_copy_of(&[7; LENT * 4]);
    for _ in 0..3 {
        stream.record(Command::upload(whole(&buffer), host.clone()).unwrap()).unwrap();
    }
    stream.synchronize().unwrap();
    assert_eq!(control.host_pieces(), (1, 1));
    device.close().unwrap();
    // SAFETY: nothing writes them.
    assert_eq!(unsafe { host.as_slice() }, [7; LENT * 4]);
    assert_eq!(stream.host_copy_of(&[1; LENT * 4]).len(), LENT * 4, "from the heap now");
    assert!(HostBytes::copy_of(&[1]).keep_address().is_none());
}

#[test]
fn what_is_uploaded_can_be_made_in_place() {
    let (_, control, stream, _) = setup();
    let ramp = |values: &mut [f32]| (0..).zip(values).for_each(|(i, value)| *value = i as f32);
    for elements in [0, 3, LENT] {
        let host = stream.host_filled_by(elements, ramp);
        assert_eq!(host.len(), elements * 4);
        assert_eq!(host.keep_address().is_some(), elements == LENT);
        let mut expected = vec![0f32; elements];
        ramp(&mut expected);
        // SAFETY: nothing writes them any more.
        assert_eq!(unsafe { host.as_slice() }, millstream_core::as_bytes(&expected));
    }
    let panicked = std::panic::catch_unwind(|| {
        stream.host_filled_by(LENT, |_: &mut [f32]| panic!("of whoever writes"))
    });
    assert!(panicked.is_err());
    assert_eq!(control.host_pieces(), (1, 0));
}

#[test]
fn bytes_of_the_host_are_the_target_of_one_download_and_of_nothing_else() {
    let (_, control, stream, buffer) = setup();
    fill(&stream, &buffer).unwrap();
    let record = |command: Result<Command<&Buffer>, Error>| stream.record(command.unwrap());
    let refused = |result: Result<_, Error>, part: &str| {
        let error = result.map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Invalid { .. }), "{error:?}");
        assert!(error.to_string().contains(part), "{error} lacks {part:?}");
    };
    let target = HostBytes::zeroed(LENT * 4);
    let download = Command::download(target.clone(), whole(&buffer)).unwrap();
    stream.record(download.clone()).unwrap();
    refused(stream.record(download), "a download's already");
    refused(record(Command::upload(whole(&buffer), target)), "a download's already");

    let source = HostBytes::zeroed(LENT * 4);
    for _ in 0..3 {
        record(Command::upload(whole(&buffer), source.clone())).unwrap();
    }
    refused(record(Command::download(source, whole(&buffer))), "an upload's already");

    // What is refused for another reason claims nothing.
    let foreign = device().0.stream().unwrap();
    let target = HostBytes::zeroed(LENT * 4);
    let download = Command::download(target, whole(&buffer)).unwrap();
    assert!(matches!(foreign.record(download.clone()), Err(Error::WrongDevice { .. })));
    stream.record(download).unwrap();
    stream.synchronize().unwrap();
    control.assert_no_violations();
}

#[test]
fn bytes_of_the_host_are_claimed_also_where_streams_share_the_buffer() {
    let (device, control, home, buffer) = setup();
    let other = Stream::new(&device).unwrap();
    fill(&other, &buffer).unwrap();
    for stream in [&home, &other] {
        let target = HostBytes::zeroed(LENT * 4);
        let download = Command::download(target, whole(&buffer)).unwrap();
        stream.record(download.clone()).unwrap();
        assert!(matches!(stream.record(download), Err(Error::Invalid { .. })));
    }
    device.synchronize().unwrap();
    control.assert_no_violations();
}

#[test]
fn transfers_without_memory_on_the_host_are_refused_and_nothing_ends() {
    let (device, _, stream, buffer) = setup();
    for elements in [usize::MAX, usize::MAX / 2, isize::MAX as usize / 4, 1 << 50] {
        let host = stream.host_filled_by(elements, |_: &mut [f32]| panic!("there is no memory"));
        assert!(!host.is_backed());
        assert_eq!(host.len(), elements.saturating_mul(4));
    }
    let one = millstream_core::Layout::scalar(millstream_core::DType::F32);
    let wide = one.broadcast_to(&[1 << 50]).unwrap();
    let error = stream.download(buffer.operand(wide)).unwrap_err();
    assert_eq!(error, Error::OutOfHostMemory { requested: 4 << 50 });
    fill(&stream, &buffer).unwrap();
    assert_eq!(stream.download(whole(&buffer)).unwrap().read::<f32>().unwrap().len(), LENT);
    device.close().unwrap();
}

#[test]
fn a_caller_never_sees_what_lent_memory_held_before() {
    let (_, control, stream, _) = setup();
    let secret = stream.host_copy_of(&[7; LENT * 4]);
    let address = secret.as_ptr();
    drop(secret);
    let mut found = vec![1f32; LENT];
    let host = stream.host_filled_by(LENT, |values: &mut [f32]| found.copy_from_slice(values));
    assert_eq!((host.as_ptr(), control.host_pieces()), (address, (1, 1)));
    assert!(found.iter().all(|&value| value == 0.0));
}
