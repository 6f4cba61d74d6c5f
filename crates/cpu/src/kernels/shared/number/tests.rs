use super::*;

#[test]
fn bf16_conversions_are_those_of_the_half_crate() {
    for high in 0..=u16::MAX {
        for low in [0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF] {
            let value = f32::from_bits(u32::from(high) << 16 | low);
            assert_eq!(bf16::narrow(value).to_bits(), bf16::from_f32(value).to_bits());
        }
        let stored = bf16::from_bits(high);
        let (found, expected) = (Stored::widen(stored), stored.to_f32());
        assert!(found == expected || (found.is_nan() && expected.is_nan()));
    }
}
