use super::*;

#[test]
fn batches_in_flight_have_slots_of_their_own_and_slots_are_aligned() {
    let ticks = 100..100 + MAX_IN_FLIGHT as u64;
    let mut slots: Vec<_> = ticks.map(|tick| slot_at(tick, 6)).collect();
    slots.sort_unstable();
    assert!(slots.windows(2).all(|pair| pair[1] - pair[0] == slot_bytes(6)));
    assert!(slots[0] == SLOTS_AT && slots.iter().all(|slot| slot % 8 == 0));
    assert_eq!(slot_at(3, 6), slot_at(3 + MAX_IN_FLIGHT as u64, 6));
}
