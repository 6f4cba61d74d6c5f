use millstream_core::Device;

use super::*;
use crate::kernels::with_scratch_bytes;

#[test]
fn a_device_leaves_room_unless_a_limit_is_asked_for() {
    let limit = |device: Result<Device>| device.unwrap().memory().limit;
    assert_eq!(limit(Device::builder("cpu").open()), memory::default_limit());
    let all = memory::total();
    assert_eq!(limit(Device::builder("cpu").memory_limit(all).open()), all);
}

#[test]
fn scratch_memory_is_in_the_statistics_of_the_device() {
    let device = Device::builder("cpu").threads(1).open().unwrap();
    let bytes = 3 << 20;
    let counted = with_scratch_bytes(bytes, || device.memory().scratch);
    assert!(counted >= bytes, "{counted}");
}
