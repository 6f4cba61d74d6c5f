use super::*;

#[test]
fn sums_of_floors_are_those_of_a_loop() {
    for count in 0..12 {
        for modulus in 1..12u128 {
            for (step, first) in (0..15).flat_map(|step| (0..15).map(move |first| (step, first))) {
                let loop_sum: u128 = (0..count).map(|i| (step * i + first) / modulus).sum();
                assert_eq!(floor_sum(count, modulus, step, first), loop_sum);
            }
        }
    }
}

#[test]
fn windows_without_an_element_are_found_without_looking_at_each() {
    let has_element = |window: &Window, at: u128, size: u128| {
        let taps = (0..window.kernel).map(|tap| at * window.stride + tap * window.dilation);
        taps.into_iter().any(|tap| (window.before..window.before + size).contains(&tap))
    };
    for case in 0..5 * 5 * 6 * 7 * 4 * 4u128 {
        let mut rest = case;
        let mut digit = |base: u128| {
            let digit = rest % base;
            rest /= base;
            digit
        };
        let (kernel, stride, dilation) = (digit(5) + 1, digit(5) + 1, digit(6) + 1);
        let (before, after, size) = (digit(7), digit(4), digit(4));
        let window = Window { kernel, stride, dilation, before, after };
        let (floor, ceil) = window.sizes(size as usize);
        for windows in [floor, ceil].into_iter().filter(|&windows| windows > 0) {
            let expected = (0..windows).all(|at| has_element(&window, at, size));
            let found = window.all_have_elements(windows, size as usize);
            assert_eq!(found, expected, "{windows} of {window:?} over {size}");
        }
    }
}
