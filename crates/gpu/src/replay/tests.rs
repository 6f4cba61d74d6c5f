use super::*;

fn look_up(cache: &mut ReplayCache<Plain>, number: u64) -> Lookup {
    cache.look_up(|| number, &[number, 7], |_| {})
}

/// A captured list with a number, which is never in flight.
struct Plain(u32);

impl Reusable for Plain {
    fn is_busy(&self) -> bool {
        false
    }
}

#[test]
fn the_second_occurrence_captures_and_the_third_replays() {
    let mut cache = ReplayCache::<Plain>::default();
    assert_eq!(look_up(&mut cache, 5), Lookup::Launch);
    assert_eq!(look_up(&mut cache, 5), Lookup::Capture(0));
    let instance = cache.add(0, Plain(50));
    assert_eq!(look_up(&mut cache, 5), Lookup::Replay(0, instance));
    assert_eq!(cache.instance(0, instance).0, 50);
    // Another batch with the same number is another batch.
    assert_eq!(cache.look_up(|| 5, &[1], |_| {}), Lookup::Capture(1));
}

#[test]
fn two_batches_do_not_get_in_each_others_way() {
    let mut cache = ReplayCache::<Plain>::default();
    for number in [1, 2, 1, 2] {
        if let Lookup::Capture(entry) = look_up(&mut cache, number) {
            cache.add(entry, Plain(number as u32));
        }
    }
    for number in [1, 2, 2, 1] {
        let Lookup::Replay(entry, instance) = look_up(&mut cache, number) else { panic!() };
        assert_eq!(cache.instance(entry, instance).0, number as u32);
    }
}

#[test]
fn batches_that_occur_once_leave_no_entry_and_push_none_out() {
    let mut cache = ReplayCache::<Plain>::default();
    look_up(&mut cache, 5);
    look_up(&mut cache, 5);
    cache.add(0, Plain(1));
    for number in 1000..3000 {
        assert_eq!(look_up(&mut cache, number), Lookup::Launch);
    }
    assert_eq!((cache.len(), look_up(&mut cache, 5)), (1, Lookup::Replay(0, 0)));
    // The oldest are forgotten, the newest are not.
    assert_eq!(look_up(&mut cache, 3000 - OCCURRENCES as u64 - 1), Lookup::Launch);
    assert_eq!(look_up(&mut cache, 3000 - OCCURRENCES as u64 + 1), Lookup::Capture(1));
}

#[test]
fn the_entry_unused_for_longest_goes() {
    let mut cache = ReplayCache::<Plain>::default();
    let mut gone = Vec::new();
    for number in 0..ENTRIES as u64 + 1 {
        look_up(&mut cache, number);
        let known = cache.look_up(|| number, &[number, 7], |instance| gone.push(instance.0));
        let Lookup::Capture(entry) = known else { panic!("{known:?}") };
        cache.add(entry, Plain(number as u32));
        // Number 0 is used all the time.
        assert!(matches!(look_up(&mut cache, 0), Lookup::Replay(..)));
    }
    assert_eq!((cache.len(), gone), (ENTRIES, vec![1]));
}

#[test]
fn captures_that_were_not_worth_it_make_it_harder_for_the_next() {
    let mut cache = ReplayCache::<Plain>::default();
    let captures = |cache: &mut ReplayCache<Plain>, numbers: std::ops::Range<u64>| {
        let captured = numbers.filter(|&number| {
            look_up(cache, number);
            match look_up(cache, number) {
                Lookup::Capture(entry) => {
                    cache.add(entry, Plain(0));
                    true
                }
                _ => false,
            }
        });
        captured.count()
    };
    // As many as fit are captured; the next pushes out one that was never replayed.
    assert_eq!(captures(&mut cache, 0..200), ENTRIES + 1);
    // One that is worth it makes it easy again.
    for _ in 0..WORTH {
        assert!(matches!(look_up(&mut cache, 60), Lookup::Replay(..)));
    }
    assert_eq!(captures(&mut cache, 1000..1001), 1);
}

#[test]
fn what_cannot_be_captured_is_not_tried_again() {
    let mut cache = ReplayCache::<Plain>::default();
    look_up(&mut cache, 5);
    assert_eq!(look_up(&mut cache, 5), Lookup::Capture(0));
    cache.refuse(0);
    assert_eq!(look_up(&mut cache, 5), Lookup::Launch);
}
