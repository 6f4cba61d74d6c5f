//! Many threads at once.

use super::*;

/// Every row carries a number of its own, and must come back to its caller. `MILLSTREAM_IDENTITY_CALLS` asks for more calls.
#[test]
fn every_row_comes_back_to_its_caller() {
    let asked =
        std::env::var("MILLSTREAM_IDENTITY_CALLS").ok().and_then(|calls| calls.parse().ok());
    let (threads, calls) = (64, asked.unwrap_or(6_400usize));
    let each = calls / threads;
    assert!(calls < 1 << 24, "f32 has no number of its own for each call");
    let session = perceptron_identity();
    session.warm_up(&[("x", &[1, 8])]).unwrap();
    let held = Held::new(&session, &[&tensor(&[-1.0; 8], &[1, 8])]);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let session = &session;
            scope.spawn(move || {
                for call in 0..each {
                    let id = (thread * each + call) as f32;
                    let outputs = session.run([&tensor(&[id; 8], &[1, 8])]).unwrap();
                    let expected = [id + 0.5; 8];
                    assert_eq!(outputs.read::<f32>("y").unwrap()[..], expected);
                }
            });
        }
        // Each thread has one call in the queue: the next batches have all of these.
        while held.group.waiting() < threads {
            std::thread::yield_now();
        }
        held.go_on();
    });
    let stats = session.batching_stats();
    assert_eq!(stats.calls(), 1 + (threads * each) as u64);
    assert!(stats.batches() < stats.calls(), "nothing was joined: {stats}");
}

/// `y = x + 1/2`, joined whenever calls meet.
fn perceptron_identity() -> Session {
    let mut writer = Writer::new();
    let x = writer.input("x", DType::F32, rows());
    let half = writer.constant(Array::scalar(0.5f32));
    let y = writer.node(binary(BinaryOp::Add), &[x, half]);
    writer.session(y, joining())
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(12))]

    /// Any interleaving gives the bits of calls one after another.
    #[test]
    fn any_interleaving_gives_the_bits_of_calls_one_after_another(
        seeds in proptest::collection::vec(0usize..1000, 1..40),
        threads in 1usize..6,
        in_flight in 1usize..4,
        most in 2usize..9,
    ) {
        let session = perceptron(Batching::new().always().in_flight(in_flight).most(most));
        session.warm_up(&[("x", &[1, 8])]).unwrap();
        let alone = perceptron(Batching::off());
        let inputs: Vec<Tensor> =
            seeds.iter().map(|&seed| tensor(&numbers(8, seed), &[1, 8])).collect();
        let expected: Vec<_> = inputs.iter().map(|input| y(&alone.run([input]).unwrap())).collect();
        let next = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| loop {
                    let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(input) = inputs.get(at) else { return };
                    assert_eq!(y(&session.run([input]).unwrap()), expected[at]);
                });
            }
        });
    }
}

/// Threads that call have all streams. Those that lead for them have none of their own then.
#[test]
fn calls_whose_threads_have_all_streams_are_answered() {
    use millstream_core::{Exhaustion, Stream};
    const THREADS: u32 = 3;
    // One is the default stream; the session has one while it loads the model.
    let builder = Device::builder("cpu").streams(THREADS + 2).exhaustion(Exhaustion::Fail);
    let device = builder.open().unwrap();
    let session = perceptron_on(&device, joining());
    session.warm_up(&[("x", &[1, 8])]).unwrap();
    let gate = std::sync::Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                Stream::current_unleased(&device).unwrap();
                gate.wait();
                for _ in 0..500 {
                    let input = Array::from_slice(&numbers(8, 1), &[1, 8]).unwrap();
                    session.run([input]).unwrap();
                }
            });
        }
    });
}
