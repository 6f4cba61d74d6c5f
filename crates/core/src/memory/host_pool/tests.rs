use super::*;

struct Plain(Box<[u64]>);

// SAFETY: the box has that many bytes, aligned, initialized and its own.
unsafe impl HostPiece for Plain {
    fn start(&self) -> NonNull<u8> {
        NonNull::from(&self.0[0]).cast()
    }

    fn bytes(&self) -> usize {
        self.0.len() * 8
    }
}

fn make(bytes: usize) -> Option<Plain> {
    Some(Plain(vec![0; bytes.div_ceil(8)].into()))
}

fn pool() -> HostPool<Plain> {
    HostPool::new(HostBounds {
        smallest: 16,
        smallest_of_one_user: 8,
        largest: 1024,
        pieces: 4,
        total: 2048,
    })
}

fn take(pool: &HostPool<Plain>, bytes: usize) -> Option<HostBytes> {
    pool.take(bytes, make)
}

#[test]
fn a_piece_comes_back_from_any_thread_and_is_used_again() {
    let pool = pool();
    let host = take(&pool, 100).unwrap();
    assert_eq!((host.len(), pool.count()), (100, (1, 1)));
    assert_eq!(host.piece::<Plain>().unwrap().bytes(), 128);
    let (address, clone) = (host.as_ptr(), host.clone());
    std::thread::spawn(move || drop(host)).join().unwrap();
    assert_eq!(pool.count(), (1, 1));
    drop(clone);
    assert_eq!(pool.count(), (1, 0));
    assert_eq!(take(&pool, 128).unwrap().as_ptr(), address);
}

#[test]
fn a_caller_that_does_the_same_gets_the_same_addresses() {
    let pool = pool();
    let addresses = || {
        let pieces = [100, 500, 100].map(|bytes| take(&pool, bytes).unwrap());
        // Given back in another order than taken.
        let addresses = pieces.each_ref().map(HostBytes::as_ptr);
        let [first, second, third] = pieces;
        drop((second, first, third));
        addresses
    };
    let first = addresses();
    assert!((0..5).all(|_| addresses() == first));
    assert_eq!(pool.count(), (3, 0));
}

#[test]
fn threads_that_work_as_one_user_get_the_same_pieces_and_smaller_ones() {
    let (device, _) = crate::fake::device(crate::Config::default(), 1 << 20, 1).unwrap();
    let stream = crate::Stream::new(&device).unwrap();
    let pool = pool();
    assert!(take(&pool, 8).is_none());
    let address = || stream.as_one_user(|| take(&pool, 8).unwrap().as_ptr().addr());
    let first = address();
    let others = std::thread::scope(|scope| scope.spawn(address).join().unwrap());
    assert_eq!((others, pool.count()), (first, (1, 0)));
    assert_ne!(take(&pool, 16).unwrap().as_ptr().addr(), first);
}

#[test]
fn threads_keep_pieces_of_their_own_until_a_bound_is_reached() {
    let pool = pool();
    let own = take(&pool, 100).unwrap().as_ptr().addr();
    let other = || take(&pool, 100).unwrap().as_ptr().addr();
    let theirs = std::thread::scope(|scope| scope.spawn(other).join().unwrap());
    assert_ne!(own, theirs);
    assert_eq!(take(&pool, 100).unwrap().as_ptr().addr(), own);
    assert_eq!(pool.count(), (2, 0));
    // The rest is taken, so a third thread gets what another had.
    let _held = [take(&pool, 1024).unwrap(), take(&pool, 512).unwrap()];
    let third = std::thread::scope(|scope| scope.spawn(other).join().unwrap());
    assert!(third == own || third == theirs);
}

#[test]
fn at_a_bound_spare_pieces_are_dropped_and_then_there_is_none() {
    let pool = pool();
    assert!(take(&pool, 15).is_none() && take(&pool, 1025).is_none());
    let held = [(); 4].map(|()| take(&pool, 16).unwrap());
    assert!(take(&pool, 16).is_none());
    // Free, but a backend relies on its address.
    let kept = held[0].keep_address().unwrap();
    drop(held);
    assert_eq!(pool.count(), (4, 0));
    let large = take(&pool, 1024).unwrap();
    assert_eq!(pool.count(), (4, 1));
    // As much as there may be in all is not there beside the small one that is kept.
    assert!(take(&pool, 1024).is_none());
    drop((kept, large));
    let both = [take(&pool, 1024), take(&pool, 1024)];
    assert!(both.iter().all(Option::is_some) && pool.count() == (2, 2));
}

#[test]
fn pieces_that_nobody_relies_on_can_be_freed_early() {
    let pool = pool();
    let [taken, relied_on, spare] = [16, 32, 64].map(|bytes| take(&pool, bytes).unwrap());
    let address = relied_on.keep_address();
    drop((relied_on, spare));
    pool.trim();
    assert_eq!(pool.count(), (2, 1));
    drop((taken, address));
    pool.trim();
    assert_eq!(pool.count(), (0, 0));
    assert!(take(&pool, 16).is_some());
}

#[test]
fn a_piece_outlives_a_pool_that_is_closed() {
    let pool = pool();
    let host = take(&pool, 16).unwrap().written_with(&[7; 16]);
    pool.close();
    assert!(take(&pool, 16).is_none() && pool.count() == (0, 0));
    drop(pool);
    // SAFETY: written, and no command is under way.
    assert_eq!(unsafe { host.into_vec::<u8>() }.unwrap(), [7; 16]);
}

#[test]
fn where_no_piece_can_be_made_there_is_none() {
    assert!(pool().take(16, |_| None).is_none());
    assert!(pool().take(16, |_| make(8)).is_none());
}
