use std::sync::Barrier;

use super::*;

const LONG: Duration = Duration::from_secs(60);

#[test]
fn the_value_unused_for_longest_goes_first() {
    let cache = RecentCache::<u32, u32>::new(2, LONG);
    let built = |key: u32| {
        let before = cache.builds();
        assert_eq!(*cache.get_or_build(key, |key| Ok(key + 10)).unwrap(), key + 10);
        cache.builds() > before
    };
    assert!(built(1) && built(2));
    assert!(!built(1));
    assert!(built(3), "2 goes");
    assert!(!built(1) && !built(3));
    assert!(built(2));
    assert_eq!(cache.values().len(), 2);
}

#[test]
fn threads_that_need_one_key_wait_for_one_build_and_others_do_not() {
    let cache = Arc::new(RecentCache::<u32, u32>::new(4, LONG));
    let (started, done) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let slow = {
        let (cache, started, done) = (cache.clone(), started.clone(), done.clone());
        std::thread::spawn(move || {
            *cache
                .get_or_build(1, |_| {
                    started.wait();
                    done.wait();
                    Ok(10)
                })
                .unwrap()
        })
    };
    started.wait();
    assert_eq!(*cache.get_or_build(2, |_| Ok(20)).unwrap(), 20);
    let waiter = {
        let cache = cache.clone();
        std::thread::spawn(move || *cache.get_or_build(1, |_| panic!("built twice")).unwrap())
    };
    done.wait();
    assert_eq!((slow.join().unwrap(), waiter.join().unwrap()), (10, 10));
}

#[test]
fn a_wait_for_another_build_ends_at_its_deadline() {
    let cache = Arc::new(RecentCache::<u32, u32>::new(4, Duration::from_millis(1)));
    let (started, done) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let slow = {
        let (cache, started, done) = (cache.clone(), started.clone(), done.clone());
        std::thread::spawn(move || {
            cache.get_or_build(1, |_| {
                started.wait();
                done.wait();
                Ok(10)
            })
        })
    };
    started.wait();
    let error = cache.get_or_build(1, |_| Ok(11)).unwrap_err();
    assert!(error.to_string().contains("still building"), "{error}");
    done.wait();
    assert_eq!(*slow.join().unwrap().unwrap(), 10);
}

#[test]
fn a_build_that_needs_itself_is_an_error() {
    let cache = RecentCache::<u32, u32>::new(4, LONG);
    let error = cache.get_or_build(1, |_| cache.get_or_build(1, |_| Ok(1)).map(|value| *value));
    assert!(error.unwrap_err().to_string().contains("asked for itself"));
    assert_eq!(*cache.get_or_build(1, |_| Ok(2)).unwrap(), 2);
}

#[test]
fn uses_of_caches_with_one_clock_can_be_compared() {
    let clock = clock();
    let [a, b] = [0; 2].map(|_| RecentCache::<u32, u32>::with_clock(4, LONG, Arc::clone(&clock)));
    let time = |cache: &RecentCache<u32, u32>| cache.uses()[0].0;
    a.get_or_build(1, |_| Ok(10)).unwrap();
    b.get_or_build(1, |_| Ok(20)).unwrap();
    assert!(time(&a) < time(&b));
    b.get_or_build(2, |_| Ok(30)).unwrap();
    a.find(&1).unwrap();
    assert!(time(&a) > b.uses()[1].0);
}

#[test]
fn a_value_is_taken_out_alone() {
    let cache = RecentCache::<u32, u32>::new(4, LONG);
    let kept = cache.get_or_build(1, |_| Ok(10)).unwrap();
    let gone = cache.get_or_build(2, |_| Ok(10)).unwrap();
    cache.remove(&gone);
    cache.remove(&gone);
    assert!(cache.find(&2).is_none() && Arc::ptr_eq(&cache.find(&1).unwrap(), &kept));
    assert_eq!(*gone, 10);
}
