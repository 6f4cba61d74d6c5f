use super::*;

fn check<T: Copy + PartialEq + std::fmt::Debug>(number: impl Fn(usize) -> T) {
    for (lines, length) in [(1, 1), (3, 20), (4, 4), (7, 30), (8, 8), (14, 33), (17, 9)] {
        let (from_stride, to_stride) = (length + 3, lines + 2);
        let from: Vec<T> = (1..=lines * from_stride).map(&number).collect();
        for isa in Isa::available() {
            let mut to = vec![number(0); length * to_stride];
            let (target, source) = (to.as_mut_ptr(), from.as_ptr());
            let all =
                Transposition { from: source, from_stride, to: target, to_stride, lines, length };
            // SAFETY: both vectors hold all lines; the ISA is available.
            unsafe { all.run(isa) };
            for (place, &found) in to.iter().enumerate() {
                let (element, line) = (place / to_stride, place % to_stride);
                let expected =
                    if line < lines { from[line * from_stride + element] } else { number(0) };
                assert_eq!(found, expected, "{lines} × {length} on {isa:?}");
            }
        }
    }
}

#[test]
fn elements_of_every_size_change_places_and_nothing_else_is_touched() {
    check(|i| i as u8);
    check(|i| i as u16);
    check(|i| i as u32);
    check(|i| i as f32);
    check(|i| i as u64);
}
