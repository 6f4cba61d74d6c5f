use super::*;

#[test]
fn even_ranges_follow_each_other_and_are_of_about_one_size() {
    for (count, most) in [(0, 4), (1, 4), (4, 4), (5, 4), (1023, 100), (7, 1)] {
        let parts: Vec<_> = even_ranges(count, most).collect();
        assert_eq!(parts.len(), count.div_ceil(most));
        assert_eq!(
            parts.iter().flat_map(Clone::clone).collect::<Vec<_>>(),
            Vec::from_iter(0..count)
        );
        let sizes = || parts.iter().map(ExactSizeIterator::len);
        assert!(sizes().max().unwrap_or(0) - sizes().min().unwrap_or(0) <= 1);
    }
    // A repeated axis may be of any size.
    let (count, most) = ((1 << 60) + 1, 1024);
    let first: Vec<_> = even_ranges(count, most).take(2).collect();
    assert_eq!((first[0].start, first[0].end), (0, first[1].start));
    assert!(first.iter().all(|part| part.len() <= most));
}
