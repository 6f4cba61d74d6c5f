use super::*;
use crate::{Config, Device, fake};

fn entries() -> usize {
    CURRENT.with(|entries| entries.borrow().len())
}

fn open() -> Device {
    fake::device(Config::default(), 1 << 20, 1).unwrap().0
}

#[test]
fn a_thread_that_outlives_many_devices_keeps_no_stream_of_them() {
    for _ in 0..100 {
        let device = open();
        device.stream().unwrap();
        device.close().unwrap();
    }
    assert_eq!(entries(), 1, "the last one, until the list is cleaned up again");
}

#[test]
fn the_stream_of_an_open_scope_stays_in_its_place_when_its_device_is_closed() {
    let (closed, open_one) = (open(), open());
    let stream = Stream::new(&closed).unwrap();
    stream.scope(|| {
        closed.close().unwrap();
        let other = Stream::new(&open_one).unwrap();
        other.scope(|| {
            open().stream().unwrap();
            assert_eq!(open_one.stream().unwrap().id(), other.id());
        });
        assert_ne!(open_one.stream().unwrap().id(), other.id());
    });
    assert_eq!(entries(), 2);
}
