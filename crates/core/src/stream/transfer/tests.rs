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
