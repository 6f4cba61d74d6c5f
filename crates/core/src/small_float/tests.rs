use super::*;

const ALL: [DType; 6] = [
    DType::F8E4M3FN,
    DType::F8E5M2,
    DType::F8E4M3FNUZ,
    DType::F8E5M2FNUZ,
    DType::F8E8M0,
    DType::F4E2M1,
];

#[test]
fn every_number_survives_a_round_trip() {
    for dtype in ALL {
        let format = SmallFloat::of(dtype).unwrap();
        let codes = if dtype == DType::F4E2M1 { 0..=15 } else { 0..=255 };
        for bits in codes {
            let value = format.value_of(bits);
            let back = format.bits_of(value, false);
            assert!(
                back == bits || value.is_nan() && format.value_of(back).is_nan(),
                "{dtype} {bits:x}"
            );
        }
    }
}

#[test]
fn limits_are_those_of_the_types() {
    let largest = |dtype| {
        let format = SmallFloat::of(dtype).unwrap();
        format.value_of(format.bits_of(f32::MAX, true))
    };
    let expected = [448.0, 57344.0, 240.0, 57344.0, 2f32.powi(127), 6.0];
    assert_eq!(ALL.map(largest), expected);
    let e4 = SmallFloat::of(DType::F8E4M3FN).unwrap();
    assert_eq!((e4.bits_of(464.0, false), e4.bits_of(465.0, false)), (0x7E, 0x7F));
    assert_eq!(e4.bits_of(f32::NEG_INFINITY, true), 0xFE);
    let e5 = SmallFloat::of(DType::F8E5M2).unwrap();
    assert_eq!((e5.bits_of(-1e9, false), e5.bits_of(-1e9, true)), (0xFC, 0xFB));
    let uz = SmallFloat::of(DType::F8E4M3FNUZ).unwrap();
    assert_eq!([-0.0, f32::NAN, 1e9].map(|x| uz.bits_of(x, false)), [0, 0x80, 0x80]);
    assert_eq!(uz.bits_of(-1e9, true), 0xFF);
    let e8 = SmallFloat::of(DType::F8E8M0).unwrap();
    assert_eq!([1.0, 1.1, 2.0, 0.0].map(|x| e8.bits_of(x, true)), [127, 128, 128, 0]);
    assert_eq!([f32::MAX, -1.0].map(|x| e8.bits_of(x, false)), [0xFF, 0xFF]);
}

#[test]
fn halves_go_to_even() {
    let format = SmallFloat::of(DType::F4E2M1).unwrap();
    let halves = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 5.1, -0.3];
    let rounded = halves.map(|x| format.value_of(format.bits_of(x, true)));
    assert_eq!(rounded, [0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 6.0, -0.5]);
}
