use super::*;

#[test]
fn an_affinity_ends_once_and_its_owner_sees_it() {
    let slot = Affinity::default();
    assert!(!slot.end(), "nobody had it");
    let first = slot.begin(7);
    assert_eq!((slot.idle(7), slot.idle(8)), (Some((first, false)), Some((first, true))));
    assert!(slot.end() && !slot.end());
    assert!(!slot.is(first) && !slot.leave(first), "it is another's by now");
    let second = slot.begin(8);
    assert!(slot.is(second) && slot.leave(second) && !slot.is(second));
}

#[test]
fn a_pinned_slot_is_not_taken_from_its_owner() {
    let slot = Affinity::default();
    let epoch = slot.begin(0);
    slot.pin();
    slot.pin();
    assert!(!slot.end() && slot.idle(0).is_none() && slot.is(epoch));
    assert!(!slot.unpin() && !slot.end());
    assert!(!slot.unpin() && slot.end());
}

#[test]
fn the_last_pin_gives_back_what_its_owner_left() {
    let slot = Affinity::default();
    let epoch = slot.begin(0);
    slot.pin();
    slot.pin();
    assert!(!slot.leave(epoch), "it is pinned");
    assert!(!slot.unpin() && slot.unpin());
    assert!(slot.leave(slot.begin(0)), "as good as new");
}
