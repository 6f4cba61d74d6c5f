use super::*;

#[test]
fn areas_are_aligned_and_a_nested_use_has_its_own() {
    with_area::<f32, _>(&SUMS, 40, None, |outer, _| {
        assert_eq!(outer as usize % 64, 0);
        with_area::<f64, _>(&SUMS, 40, None, |inner, _| {
            assert_ne!(inner.cast(), outer);
        })
        .unwrap();
    })
    .unwrap();
}

#[test]
fn an_area_knows_its_content() {
    let (first, second) = (new_name(), new_name());
    assert_ne!(first, second);
    let known =
        |name| with_area::<f32, _>(&LHS, 100, Some((name, 0, 0)), |_, known| known).unwrap();
    assert_eq!([first, first, second, first].map(known), [false, true, false, false]);
    with_area::<f32, _>(&LHS, 1000, Some((first, 0, 0)), |_, known| assert!(!known)).unwrap();
    with_area::<f32, _>(&LHS, 10, None, |_, known| assert!(!known)).unwrap();
    assert!(!known(first));
}

#[test]
fn names_differ_between_threads() {
    let here = new_name();
    let there = std::thread::spawn(new_name).join().unwrap();
    assert_ne!(here, there);
}
