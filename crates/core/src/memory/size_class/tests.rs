use proptest::prelude::*;

use super::*;

#[test]
fn classes_are_tight_and_in_order() {
    for class in 0..150 {
        assert_eq!(class_of(class_bytes(class)), class);
        assert_eq!(class_of(class_bytes(class) + 1), class + 1);
        assert_eq!(class_bytes(class) % 64, 0);
    }
}

proptest! {
    #[test]
    fn a_block_holds_its_size_and_wastes_little(bytes in 0usize..1 << 50) {
        let size = class_bytes(class_of(bytes));
        prop_assert!(size >= bytes);
        prop_assert!(size <= SMALLEST || size - bytes <= size / 5);
    }
}
