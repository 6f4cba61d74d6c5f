use super::*;

#[test]
fn areas_are_aligned_and_apart_and_nested_uses_too() {
    with_areas([3, 0, 40], |[a, b, c]: [&mut [f32]; 3]| {
        assert_eq!((a.len(), b.len(), c.len()), (3, 0, 40));
        assert_eq!(c.as_ptr() as usize % 64, 0);
        a.fill(1.0);
        c.fill(2.0);
        with_areas([100, 100], |areas: [&mut [u8]; 2]| {
            areas.into_iter().for_each(|area| area.fill(7));
        })
        .unwrap();
        assert!(a.iter().all(|&x| x == 1.0) && c.iter().all(|&x| x == 2.0));
    })
    .unwrap();
}

#[test]
fn large_areas_are_given_back_when_a_command_is_done() {
    let kept = || {
        KEPT.with_borrow(|kept| kept.iter().map(|memory| size_of_val(&memory[..])).sum::<usize>())
    };
    with_areas([KEPT_BYTES], |_: [&mut [u8]; 1]| ()).unwrap();
    trim();
    assert_eq!(kept(), KEPT_BYTES);
    with_areas([KEPT_BYTES + 1], |_: [&mut [u8]; 1]| ()).unwrap();
    assert!(kept() > KEPT_BYTES);
    trim();
    assert_eq!(kept(), 0);
}

#[test]
fn memory_that_cannot_be_had_is_a_fault() {
    for size in [usize::MAX, 1 << 50] {
        let fault = with_areas([1, size], |_: [&mut [f64]; 2]| ()).unwrap_err();
        assert!(fault.message().contains("scratch memory"), "{fault}");
        assert!(filled(size, 0u64).is_err());
    }
    // The thread goes on.
    assert_eq!(with_areas([2], |[area]: [&mut [i32]; 1]| area.len()), Ok(2));
    let mut list = Vec::new();
    (0..100).for_each(|i| push(&mut list, i).unwrap());
    assert_eq!(list, collected(0..100).unwrap());
}
