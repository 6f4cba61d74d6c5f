use super::*;

#[test]
fn element_sizes_match_their_dtype() {
    fn check<T: Element>() {
        assert_eq!(size_of::<T>(), T::DTYPE.size(), "{}", T::DTYPE);
    }
    let floats: [fn(); 4] = [check::<f32>, check::<f16>, check::<bf16>, check::<f64>];
    let signed: [fn(); 4] = [check::<i8>, check::<i16>, check::<i32>, check::<i64>];
    let unsigned: [fn(); 4] = [check::<u8>, check::<u16>, check::<u32>, check::<u64>];
    [floats, signed, unsigned].iter().flatten().for_each(|check| check());
}

#[test]
fn types_are_listed_in_the_order_of_their_numbers() {
    for (number, dtype) in DType::ALL.into_iter().enumerate() {
        assert_eq!(dtype as usize, number, "{dtype}");
    }
}

#[test]
fn bytes_round_trip() {
    let values = [1.5f32, -0.0, f32::INFINITY];
    assert_eq!(from_bytes::<f32>(as_bytes(&values)), values);
}
