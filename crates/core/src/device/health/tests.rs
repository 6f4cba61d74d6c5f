use super::*;
use crate::{Config, Stream, fake};

#[test]
fn a_stream_that_is_made_while_the_device_is_lost_is_lost_too() {
    let (device, control) = fake::device(Config::default(), 1 << 20, 1).unwrap();
    let first = Stream::new(&device).unwrap();
    let lost = Error::DeviceLost { device: "fake".into(), reason: "planted".into() };
    // The loss is noted when the stream is made and nobody can find it yet.
    let (inner, noted) = (device.inner(), lost.clone());
    control.at_next_queue(move || inner.note_error(&noted));
    let second = Stream::new(&device);
    assert_eq!(device.inner().pool().created().count(), 2, "it was made");
    for stream in device.inner().pool().created() {
        assert!(matches!(stream.progress().lost(), Some(Error::DeviceLost { .. })));
    }
    drop((first, second));
}
