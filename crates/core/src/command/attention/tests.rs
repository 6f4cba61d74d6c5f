use super::*;

#[test]
fn a_window_moves_with_the_query_and_ends_with_the_keys() {
    let causal = KeyWindow::causal(Alignment::End);
    assert_eq!([0, 2].map(|query| causal.seen(query, 3, 5)), [0..3, 0..5]);
    assert_eq!(causal.seen(0, 5, 3), 0..0);
    let start = KeyWindow::causal(Alignment::Start { offset: 0 });
    assert_eq!([0, 2].map(|query| start.seen(query, 3, 5)), [0..1, 0..3]);
    let align = Alignment::Start { offset: 2 };
    let both = KeyWindow { align, left: Some(1), right: Some(2) };
    assert_eq!([0, 3, 6, 9].map(|query| both.seen(query, 10, 7)), [1..5, 4..7, 7..7, 7..7]);
    assert_eq!(KeyWindow::ALL.seen(0, 9, 4), 0..4);
}

#[test]
fn a_window_of_extremes_overflows_nothing() {
    for offset in [i64::MIN, i64::MAX] {
        let align = Alignment::Start { offset };
        let window = KeyWindow { align, left: Some(u32::MAX), right: Some(u32::MAX) };
        assert!(window.seen(0, 1, 4).is_empty());
        let seen = window.seen(usize::MAX, usize::MAX, usize::MAX);
        assert!(seen.start <= seen.end);
    }
}
