use super::*;

fn fault(text: &str) -> Fault {
    Fault::new(Error::DeviceClosed { device: text.into() })
}

fn bytes(range: Range<usize>) -> Layout {
    Layout::contiguous(DType::U8, &[range.len()]).unwrap().shifted(range.start).unwrap()
}

fn found(marks: &Marks, range: Range<usize>) -> Option<Error> {
    marks.find(1, &bytes(range)).map(|fault| fault.error().clone())
}

#[test]
fn a_write_mends_what_it_covers_and_nothing_else() {
    let (mut marks, bad) = (Marks::default(), fault("bad"));
    marks.fail(1, &bytes(10..90), &bad);
    assert!(marks.overwrite(1, &bytes(30..50)));
    assert_eq!(found(&marks, 30..50), None);
    assert_eq!(found(&marks, 0..10), None);
    for range in [10..30, 50..90, 29..31, 49..50 + 1, 0..100] {
        assert_eq!(found(&marks, range), Some(bad.error().clone()));
    }
    assert!(!marks.overwrite(1, &bytes(0..100)));
    assert_eq!(found(&marks, 0..100), None);
}

#[test]
fn the_latest_fault_of_a_place_counts() {
    let mut marks = Marks::default();
    marks.fail(1, &bytes(0..20), &fault("first"));
    let second = fault("second");
    marks.fail(1, &bytes(5..10), &second);
    assert_eq!(found(&marks, 5..10), Some(second.error().clone()));
    assert_ne!(found(&marks, 10..20), Some(second.error().clone()));
}

#[test]
fn values_between_which_others_lie_are_mended_by_the_same_places_only() {
    let column = |first| Layout::strided(DType::U8, &[4], &[4], first).unwrap();
    let mut marks = Marks::default();
    marks.fail(1, &column(0), &fault("bad"));
    assert!(marks.overwrite(1, &column(1)), "another column");
    assert!(!marks.overwrite(1, &column(0)));
}

#[test]
fn values_that_lie_between_those_that_failed_are_good() {
    let column = |first, width| Layout::strided(DType::U8, &[5, width], &[8, 1], first).unwrap();
    let mut marks = Marks::default();
    marks.fail(1, &column(3, 2), &fault("bad"));
    for (first, width) in [(3, 1), (4, 1), (0, 4), (4, 4), (0, 8), (2, 2)] {
        assert!(marks.find(1, &column(first, width)).is_some(), "{width} from {first}");
    }
    for (first, width) in [(0, 3), (5, 3), (1, 1), (7, 1), (5, 6)] {
        assert!(marks.find(1, &column(first, width)).is_none(), "{width} from {first}");
    }
    // What lies as densely as its bytes, and other distances.
    assert!(found(&marks, 11..12).is_some() && found(&marks, 13..19).is_none());
    assert!(found(&marks, 13..20).is_some());
    let every = |step, first| Layout::strided(DType::U8, &[4], &[step], first).unwrap();
    assert!(marks.find(1, &every(4, 1)).is_none() && marks.find(1, &every(4, 0)).is_some());
    assert!(marks.find(1, &every(3, 1)).is_some(), "every place in time");
}

/// Against the bytes themselves.
#[test]
fn what_is_found_apart_shares_no_byte() {
    let layouts: Vec<Layout> = (0..400u64)
        .filter_map(|seed| {
            let mut words = (0..).flat_map(|index| crate::philox::block(seed, index));
            let mut below = |most: u32| (words.next().unwrap() % most) as usize;
            let shape = [1 + below(3), 1 + below(4)];
            let strides = [below(12), below(5)];
            let dtype = if below(2) == 0 { DType::U8 } else { DType::F32 };
            Layout::strided(dtype, &shape, &strides, below(9)).ok()
        })
        .collect();
    let touched = |layout: &Layout| -> std::collections::BTreeSet<usize> {
        let size = layout.dtype().size();
        let firsts = (0..layout.elements()).map(|index| layout.position(index) * size);
        firsts.flat_map(|first| first..first + size).collect()
    };
    let mut apart = 0;
    for one in &layouts {
        let bytes = touched(one);
        let overlaps = layouts.iter().filter(|other| !touched(other).is_disjoint(&bytes));
        for other in overlaps {
            assert!(!Runs::of(one).are_apart(&Runs::of(other)), "{one:?} and {other:?}");
        }
        apart += layouts.iter().filter(|other| Runs::of(one).are_apart(&Runs::of(other))).count();
    }
    assert!(apart > 0);
}

#[test]
fn another_allocation_of_the_block_starts_without_marks() {
    let mut marks = Marks::default();
    marks.fail(1, &bytes(0..20), &fault("bad"));
    assert!(marks.find(2, &bytes(0..20)).is_none());
    assert!(marks.any(1).is_some() && marks.any(2).is_none());
    marks.fail(2, &bytes(30..40), &fault("later"));
    assert!(marks.find(2, &bytes(0..20)).is_none());
}

#[test]
fn pieces_of_one_value_are_one_mark() {
    let (mut marks, bad) = (Marks::default(), fault("bad"));
    for piece in 0..1000 {
        marks.fail(1, &bytes(piece * 10..piece * 10 + 10), &bad);
    }
    assert_eq!(marks.list.len(), 1);
    assert!(!marks.overwrite(1, &bytes(0..10_000)));
}

/// Faults without end cost neither memory nor time without end, and none is lost.
#[test]
fn the_marks_of_a_block_are_bounded() {
    let mut marks = Marks::default();
    let column = |first| Layout::strided(DType::U8, &[3], &[1 << 20], first).unwrap();
    for piece in 0..5000 {
        marks.fail(1, &bytes(piece * 10..piece * 10 + 5), &fault("bad"));
        marks.fail(1, &column(piece * 10 + 5), &fault("bad"));
        assert!(marks.list.len() <= MAX_MARKS);
    }
    for piece in 0..5000 {
        assert!(found(&marks, piece * 10..piece * 10 + 1).is_some());
        assert!(marks.find(1, &column(piece * 10 + 5)).is_some());
    }
    assert_eq!(found(&marks, 3 << 20..4 << 20), None);
    assert!(!marks.overwrite(1, &bytes(0..4 << 20)));
}

#[test]
fn all_clones_know_that_a_fault_was_reported() {
    let (first, second) = (fault("bad"), fault("other"));
    let clone = first.clone();
    assert!(!clone.is_reported());
    first.report();
    assert!(clone.is_reported() && !second.is_reported());
}
