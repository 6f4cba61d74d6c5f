use super::*;

#[test]
fn a_batch_is_taken_when_its_tick_has_come() {
    let flight = InFlight::default();
    assert!(!flight.is_ready(u64::MAX - 1));
    flight.push(3, 'a');
    flight.push(4, 'b');
    assert!(!flight.is_ready(2) && flight.take(|| 2).is_none());
    assert!(flight.is_ready(3));
    assert_eq!(flight.take(|| 4), Some((3, 'a')));
    // One at a time, so that progress is made in order.
    assert_eq!(flight.take(|| 4), None);
    flight.put_back(3, 'a');
    assert_eq!(flight.take(|| 3), Some((3, 'a')));
    flight.finish(|| {});
    assert!(!flight.is_ready(3) && flight.is_ready(4));
    assert_eq!(flight.take(|| 4), Some((4, 'b')));
}

#[test]
fn no_more_are_in_flight_than_have_slots() {
    let flight = InFlight::default();
    let mut count = 0;
    while flight.has_room() {
        flight.push(1, ());
        count += 1;
    }
    assert_eq!(count, MAX_IN_FLIGHT);
    // One that is being taken off still has its slot.
    flight.take(|| 1).unwrap();
    assert!(!flight.has_room());
    flight.finish(|| {});
    assert!(flight.has_room());
}
