params! {
    /// Of every width.
    Mixed { large: u64, small: u32, half: f32, more: [i32; 3], last: [[u64; 2]; 2] }
}

#[test]
fn fields_lie_where_c_puts_them() {
    let mixed = Mixed { large: 1, small: 2, half: 0.5, more: [3, -4, 5], last: [[6, 7], [8, 9]] };
    let packed = mixed.pack();
    let bytes = packed.as_bytes();
    assert_eq!(bytes.len(), 8 + 4 + 4 + 12 + 4 + 32);
    assert_eq!(bytes[8..12], 2u32.to_ne_bytes());
    assert_eq!(bytes[12..16], 0.5f32.to_ne_bytes());
    assert_eq!(bytes[20..24], (-4i32).to_ne_bytes());
    assert_eq!(bytes[28..32], [0; 4]);
    assert_eq!(bytes[56..64], 9u64.to_ne_bytes());
    assert!(Mixed::declaration().contains("u64 last[2][2];"), "{}", Mixed::declaration());
}
