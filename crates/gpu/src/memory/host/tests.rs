use super::*;
use crate::fake::Fake;

#[test]
fn memory_from_the_heap_is_not_reached() {
    let host = HostBytes::zeroed(1 << 20);
    assert!(device_address::<Fake>(0, &host).is_none());
}
