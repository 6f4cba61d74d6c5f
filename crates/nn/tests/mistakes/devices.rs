//! Tensors of two devices, which may have one name.

use millstream_core::{DType, Device};
use millstream_nn::{Linear, Module, Tensor, Weights};

use super::check;

#[test]
fn two_devices_of_one_name_are_told_apart() {
    let [here, there] = [(); 2].map(|()| Device::builder("cpu").open().unwrap());
    assert_ne!(here.label(), there.label());
    let on = |device: &Device| Tensor::zeros(&[2, 4], DType::F32, device).unwrap();
    let weights = Weights::random(1, DType::F32, &here).child("fc");
    let linear = weights.load(|weights| Linear::new(4, 4, true, weights)).unwrap();
    let (here, there) = (here, there);
    let [one, other] = [here.label(), there.label()];
    let mixed = on(&here).add(on(&there)).map(drop).unwrap_err().to_string();
    assert_eq!(mixed, format!("add: a is on {one}, but b is on {other}: move one with to_device"));
    let away = linear.forward(&on(&there)).map(drop).unwrap_err().to_string();
    let expected = format!(
        "fc: input on {other}, but the layer's weights are on {one}: move it with to_device"
    );
    assert_eq!(away, expected);
    assert_eq!(format!("{:?}", on(&there)), format!("Tensor(f32[2, 4] on {other})"));
    check([(linear.forward(&on(&there).to_device(&here).unwrap()).map(drop), "no error")]);
}
