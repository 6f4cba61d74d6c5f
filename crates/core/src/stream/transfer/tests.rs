use super::*;
use crate::{Config, Layout, fake};

#[test]
fn a_download_that_was_not_written_is_not_read() {
    let (device, _) = fake::device(Config::default(), 1 << 20, 1).unwrap();
    let stream = device.stream().unwrap();
    let buffer = stream.allocate(16).unwrap();
    let layout = Layout::contiguous(DType::F32, &[4]).unwrap();
    stream.upload(buffer.operand(layout), &[0f32; 4]).unwrap();
    let download = || {
        let download = stream.download(buffer.operand(layout)).unwrap();
        download.bytes.fail(&Error::OutOfHostMemory { requested: 1 }.into());
        download
    };
    let kept = Error::OutOfHostMemory { requested: 1 };
    assert_eq!(download().view::<f32>().unwrap_err(), kept);
    assert_eq!(download().read::<f32>().unwrap_err(), kept);
    assert_eq!(download().read_into(&mut [0f32; 4]).unwrap_err(), kept);
    assert_eq!(download().bytes().unwrap_err(), kept);
    // The command itself has passed, and what comes behind it is as ever.
    stream.synchronize().unwrap();
}

#[test]
fn a_device_with_memory_of_its_own_reads_by_a_copy_and_wraps_nothing() {
    let (device, _) = fake::device(Config::default(), 1 << 20, 1).unwrap();
    let stream = device.stream().unwrap();
    let buffer = stream.allocate(16).unwrap();
    let layout = Layout::contiguous(DType::F32, &[4]).unwrap();
    stream.upload(buffer.operand(layout), &[0f32; 4]).unwrap();
    let before = stream.counters().commands;
    assert_eq!(stream.read(buffer.operand(layout)).unwrap().elements(), 4);
    assert_eq!(stream.counters().commands, before + 1);
    let bytes: HostOwner = std::sync::Arc::new(vec![1u8; 64]);
    assert!(stream.wrap(std::sync::Arc::clone(&bytes), 0..64).unwrap().is_none());
    assert!(stream.wrap(std::sync::Arc::clone(&bytes), 4..4).unwrap().is_none());
    for range in [0..65, 65..66, usize::MAX - 1..usize::MAX] {
        let error = stream.wrap(std::sync::Arc::clone(&bytes), range).unwrap_err();
        assert!(matches!(error, Error::Invalid { op: "wrap", .. }), "{error}");
    }
}
