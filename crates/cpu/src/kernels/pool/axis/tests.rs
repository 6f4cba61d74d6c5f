use super::*;

#[test]
fn every_view_of_the_windows_agrees_with_their_definition() {
    for (kernel, stride, dilation, before, after) in
        [(3, 1, 1, 1, 1), (2, 3, 2, 1, 0), (3, 2, 3, 4, 2), (1, 1, 1, 0, 0), (5, 2, 1, 2, 2)]
    {
        let (size, windows) = (7, 5);
        let axis = Axis { kernel, stride, dilation, before, after, size, windows, ..Axis::NONE };
        let place = |window: usize, tap: usize| {
            (window * stride + tap * dilation) as isize - before as isize
        };
        let is_inside = |window, tap| (0..size as isize).contains(&place(window, tap));
        for window in 0..windows {
            let (first, end) = axis.inside(window);
            for tap in 0..kernel {
                assert_eq!((first..end).contains(&tap), is_inside(window, tap));
                let (low, high) = axis.reached(tap, 0, windows);
                assert_eq!((low..high).contains(&window), is_inside(window, tap));
                if is_inside(window, tap) {
                    assert_eq!(axis.place(window, tap) as isize, place(window, tap));
                }
            }
            let limit = (size + after) as isize;
            let padded = (0..kernel).filter(|&tap| place(window, tap) < limit).count();
            assert_eq!(axis.padded(window), padded);
        }
    }
}
