use super::*;

#[test]
fn runs_of_any_place_and_length_arrive_whole() {
    for first in [0, 1, 5, 16] {
        for count in [0, 1, 15, 16, 17, 100, 513] {
            let from: Vec<u32> = (1..=count).collect();
            let mut to = vec![0u32; 600];
            // SAFETY: the vector has room for the run from there on.
            unsafe { store(&from, to.as_mut_ptr().add(first)) };
            fence();
            assert_eq!(to[first..first + from.len()], from);
            assert!(to[..first].iter().chain(&to[first + from.len()..]).all(|&x| x == 0));
        }
    }
}

#[test]
fn every_isa_stores_whole_lines() {
    #[repr(align(64))]
    struct Lines([u8; 5 * LINE]);

    let from = Lines(std::array::from_fn(|i| i as u8));
    for isa in Isa::available() {
        let mut to = Lines([0; 5 * LINE]);
        // SAFETY: the ISA is available, and four lines are valid on both sides.
        unsafe { store_lines(isa, from.0.as_ptr(), to.0.as_mut_ptr(), 4) };
        fence();
        assert_eq!(to.0[..4 * LINE], from.0[..4 * LINE]);
        assert_eq!(to.0[4 * LINE..], [0; LINE]);
    }
}
