use millstream_core::Device;

use super::*;

#[test]
fn a_device_leaves_room_unless_a_limit_is_asked_for() {
    let limit = |device: Result<Device>| device.unwrap().memory().limit;
    assert_eq!(limit(Device::builder("cpu").open()), memory::default_limit());
    let all = memory::total();
    assert_eq!(limit(Device::builder("cpu").memory_limit(all).open()), all);
}
