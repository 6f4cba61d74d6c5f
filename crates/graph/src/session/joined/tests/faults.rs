//! What goes wrong with a whole batch, on a fake device that fails on demand: every call of the batch meets it, and no
//! other does.

use millstream_core::fake::{self, FakeControl};
use millstream_core::{Buffer, Command, Config, Error, Exhaustion, Layout, Stream, Timepoint};

use super::*;

/// A fake device, which computes nothing, with a session that joins calls.
struct Scene {
    control: FakeControl,
    session: Session,
}

impl Scene {
    fn new(batching: Batching) -> Self {
        let (device, control) = fake::device(Config::default(), 64 << 20, 1).unwrap();
        let session = perceptron_on(&device, batching);
        session.warm_up(&[("x", &[1, 8])]).unwrap();
        Self { control, session }
    }

    fn input(&self) -> Array {
        Array::from_slice(&numbers(8, 1), &[1, 8]).unwrap()
    }

    fn hold(&self) -> Held {
        Held::with(&self.session, [self.input()])
    }

    fn submit(&self) -> Submitted {
        self.session.submit([self.input()], &Call::new())
    }

    /// Lets the device finish what it has, until the call has ended.
    fn ended(&self, submitted: &mut Submitted) -> crate::Result<Outputs> {
        let begun = Instant::now();
        loop {
            if let Some(result) = submitted.poll() {
                return result;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "the call does not end");
            self.control.run_all();
        }
    }

    /// A batch of four calls, which begins when `at_once` has been called.
    fn batch(&self, at_once: impl FnOnce()) -> Vec<crate::Result<Outputs>> {
        let held = self.hold();
        let mut calls = [0; 3].map(|_| self.submit());
        at_once();
        let first = held.try_to_go_on();
        [first].into_iter().chain(calls.iter_mut().map(|call| self.ended(call))).collect()
    }

    fn repeated(&self) -> u64 {
        self.session.batching_stats().repeated
    }

    fn context(&self) -> &Arc<super::super::Context> {
        &self.session.0.joined.as_ref().unwrap().context
    }

    /// The stream that the next batch runs on.
    fn lane(&self) -> Stream {
        self.context().lane().unwrap().stream.clone()
    }

    /// A Command of its own on a stream.
    fn record(stream: &Stream) -> Timepoint {
        let buffer = stream.allocate(4).unwrap();
        let layout = Layout::contiguous(DType::F32, &[1]).unwrap();
        stream.record(Command::fill(buffer.operand(layout), 0.0f32).unwrap()).unwrap()
    }

    /// Makes the next Commands of a stream fail, and says which is the last of them.
    fn fail(&self, stream: &Stream, commands: u64) -> u64 {
        let last = Self::record(stream);
        last.wait().unwrap();
        let next = last.sequence() + 1;
        (next..next + commands).for_each(|at| self.control.fail_command(stream.id(), at));
        last.sequence() + commands
    }

    /// Goes past the Commands of a stream that are to fail.
    fn pass(stream: &Stream, last: u64) {
        while Self::record(stream).sequence() <= last {}
    }

    /// Calls by themselves and in a batch are answered as if nothing had been.
    fn assert_works(&self) {
        assert!(self.session.run([self.input()]).unwrap().read::<f32>("y").is_ok());
        let before = self.repeated();
        for result in self.batch(|| {}) {
            assert!(result.unwrap().read::<f32>("y").is_ok());
        }
        assert_eq!(self.repeated(), before);
        self.control.assert_no_violations();
    }
}

/// The batch fails, its calls by themselves do not: all have their answers.
#[test]
fn a_fault_of_the_batch_alone_reaches_nobody() {
    let scene = Scene::new(joining());
    let lane = scene.lane();
    let mut last = 0;
    let results = scene.batch(|| last = scene.fail(&lane, 50));
    assert!(results.iter().all(|result| result.is_ok()), "{results:?}");
    assert_eq!(scene.repeated(), 1);
    Scene::pass(&lane, last);
    scene.assert_works();
}

/// The batch fails, and so does each of its calls by itself. Another leader was there before, and others queue.
#[test]
fn a_fault_reaches_every_call_of_its_batch_and_nobody_else() {
    let scene = Scene::new(joining().in_flight(2));
    let (held, elsewhere) = (scene.hold(), scene.hold());
    let mut calls = [0; 3].map(|_| scene.submit());
    let (lane, here) = (scene.lane(), Stream::current_unleased(&scene.session.device()).unwrap());
    let last = [scene.fail(&lane, 50), scene.fail(&here, 200)];
    let first = held.try_to_go_on();
    assert!(matches!(first, Err(Error::Fault { .. })), "{first:?}");
    let stats = scene.session.batching_stats();
    assert_eq!((stats.sizes[1], stats.batches(), stats.repeated), (1, 1, 1), "half of four calls");
    Scene::pass(&lane, last[0]);
    Scene::pass(&here, last[1]);
    assert!(elsewhere.try_to_go_on().is_ok());
    let failed = calls.each_mut().map(|call| match scene.ended(call) {
        Ok(outputs) => outputs.read::<f32>("y").is_err(),
        Err(error) => matches!(error, Error::Fault { .. }),
    });
    assert_eq!(failed, [true, false, false]);
    scene.assert_works();
}

/// While a call of the batch is run again by itself, it fails; the others do not.
#[test]
fn a_fault_of_one_call_by_itself_reaches_that_call() {
    let scene = Scene::new(joining());
    let (lane, here) = (scene.lane(), Stream::current_unleased(&scene.session.device()).unwrap());
    let mut last = 0;
    let results = scene.batch(|| {
        last = scene.fail(&lane, 50);
        // The first Command of those that are run again.
        scene.fail(&here, 1);
    });
    let failed: Vec<bool> = results.iter().map(Result::is_err).collect();
    assert_eq!(failed, [true, false, false, false], "{results:?}");
    Scene::pass(&lane, last);
    scene.assert_works();
}

/// There is memory for the outputs of four calls, but not for their inputs side by side too.
#[test]
fn without_memory_for_a_batch_its_calls_run_by_themselves() {
    const ROW: usize = 1 << 18;
    let (device, control) = fake::device(Config::default(), 64 << 20, 1).unwrap();
    let mut writer = Writer::new();
    let x = writer.input("x", DType::F32, vec![Dim::Named("batch".into()), Dim::Known(ROW)]);
    let exp = writer.node(Apply(Op::Unary { op: UnaryOp::Exp }), &[x]);
    let session = writer.session_on(&device, exp, joining().most(4));
    session.warm_up(&[("x", &[1, ROW])]).unwrap();
    let inputs = [0; 4].map(|_| Tensor::from_slice(&vec![1f32; ROW], &[1, ROW], &device).unwrap());
    let stream = Stream::current_unleased(&device).unwrap();
    let mut taken: Vec<Buffer> = std::iter::from_fn(|| stream.allocate(4 * ROW).ok()).collect();
    taken.truncate(taken.len() - 6);
    for result in together(&session, &inputs) {
        assert!(result.is_ok(), "{result:?}");
    }
    assert_eq!(session.batching_stats().repeated, 1);
    drop(taken);
    for result in together(&session, &inputs) {
        assert!(result.is_ok(), "{result:?}");
    }
    assert_eq!(session.batching_stats().repeated, 1, "there is memory again");
    control.assert_no_violations();
}

/// There is no memory at all for a while: every call of the batch says so.
#[test]
fn without_any_memory_every_call_of_the_batch_says_so() {
    let scene = Scene::new(joining());
    // Those that are there have memory of their own.
    let mut taken = Vec::new();
    let results = scene.batch(|| {
        taken = std::mem::take(&mut *scene.context().lanes.lock().unwrap());
        scene.control.no_memory_after(0);
    });
    for result in results {
        assert!(matches!(result, Err(Error::OutOfMemory { .. })), "{result:?}");
    }
    scene.control.memory_again();
    scene.assert_works();
}

/// A lost device is lost for all, at once, and nobody hangs.
#[test]
fn a_lost_device_is_reported_to_every_call() {
    let scene = Scene::new(joining());
    for result in scene.batch(|| scene.control.lose()) {
        assert!(matches!(result, Err(Error::DeviceLost { .. })), "{result:?}");
    }
    let later = scene.session.run([scene.input()]).and_then(|outputs| outputs.wait());
    assert!(matches!(later, Err(Error::DeviceLost { .. })), "{later:?}");
}

/// Makes the next batch panic, on the thread that begins it: it has to make a stream, as those that are there are taken, and the
/// device panics then.
fn plant_a_panic(scene: &Scene) -> Vec<Stream> {
    scene.control.at_next_queue(|| std::panic::resume_unwind(Box::new("planted")));
    std::mem::take(&mut *scene.context().lanes.lock().unwrap())
}

fn assert_all_panicked(scene: &Scene, results: Vec<crate::Result<Outputs>>) {
    assert_eq!(results.len(), 4);
    for result in results {
        let error = result.unwrap_err().to_string();
        assert!(error.contains("the batch panicked: planted"), "{error}");
    }
    assert_eq!(scene.repeated(), 0, "what panics is not run again");
    scene.assert_works();
}

#[test]
fn a_panic_of_a_leader_reaches_every_call_of_its_batch_and_nobody_else() {
    let scene = Scene::new(joining());
    let mut taken = Vec::new();
    let results = scene.batch(|| taken = plant_a_panic(&scene));
    assert_all_panicked(&scene, results);
}

/// The same where the leader is a future.
#[test]
fn a_panic_of_a_polled_leader_reaches_every_call_of_its_batch_and_nobody_else() {
    let scene = Scene::new(joining());
    let held = scene.hold();
    let mut calls = [0; 4].map(|_| scene.submit());
    // Its place goes to the oldest of those that queue.
    drop(held);
    let _taken = plant_a_panic(&scene);
    let results = calls.iter_mut().map(|call| scene.ended(call)).collect();
    assert_all_panicked(&scene, results);
}

/// The device does not answer: all calls of the batch hear of it after one wait, and none is computed again.
#[test]
fn a_device_that_hangs_is_waited_for_once() {
    let config = Config { wait_timeout: Some(Duration::from_millis(50)), ..Config::default() };
    let (device, control) = fake::device(config, 64 << 20, 1).unwrap();
    let session = perceptron_on(&device, joining());
    session.warm_up(&[("x", &[1, 8])]).unwrap();
    let scene = Scene { control, session };
    let held = scene.hold();
    let mut calls = [0; 7].map(|_| scene.submit());
    let lane = scene.lane();
    scene.control.hang(lane.id(), true);
    let error = held.try_to_go_on().unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    for call in &mut calls {
        let found = call.poll().expect("it is answered with the others").unwrap_err();
        assert!(matches!(found, Error::Timeout { .. }), "{found}");
    }
    assert_eq!(scene.repeated(), 0);
    scene.control.hang(lane.id(), false);
    scene.control.run_all();
    scene.assert_works();
}

/// Outputs that are kept do not keep the model.
#[test]
fn outputs_of_a_call_by_itself_let_the_model_go() {
    let scene = Scene::new(joining());
    let outputs = scene.session.run([scene.input()]).unwrap();
    assert!(outputs.is_alone());
    let context = Arc::downgrade(scene.context());
    drop(scene);
    assert!(context.upgrade().is_none());
}

/// A session keeps no stream that others wait for: there are two beside the default stream, and every thread gets both.
#[test]
fn leaders_leave_the_streams_to_others() {
    let exhaustion = Exhaustion::Wait(Some(Duration::from_millis(100)));
    let config = Config { streams: Some(3), exhaustion, ..Config::default() };
    let (device, control) = fake::device(config, 64 << 20, 1).unwrap();
    let session = perceptron_on(&device, joining());
    let scene = Scene { control, session };
    let both = || [0; 2].map(|_| Stream::new(&device).unwrap());
    // Tests have threads of their own, and none of them keeps a stream.
    let on_a_thread = |work: &(dyn Fn() + Sync)| {
        std::thread::scope(|scope| scope.spawn(work).join()).unwrap();
    };
    on_a_thread(&|| scene.session.warm_up(&[("x", &[1, 8])]).unwrap());
    for _ in 0..3 {
        on_a_thread(&|| drop(both()));
        // It has one as a thread, and one as a leader.
        on_a_thread(&|| scene.assert_works());
    }
    // Somebody has both: leaders do without.
    let own = both();
    on_a_thread(&|| own[0].scope(|| scene.assert_works()));
}

/// Where threads share streams, leaders keep some.
#[test]
fn leaders_keep_streams_that_nobody_waits_for() {
    let kept = |streams: u32| {
        let config = Config { streams: Some(streams), ..Config::default() };
        let (device, control) = fake::device(config, 64 << 20, 1).unwrap();
        let session = perceptron_on(&device, joining());
        session.warm_up(&[("x", &[1, 8])]).unwrap();
        let scene = Scene { control, session };
        scene.assert_works();
        scene.context().lanes.lock().unwrap().len()
    };
    assert_eq!([2, 8, 64].map(kept), [0, 2, 8]);
}

/// All streams are leased, and who needs one gets an error. A leader without one runs a batch, and its calls again by themselves.
#[test]
fn a_leader_without_a_stream_runs_calls_again() {
    let config = Config { streams: Some(2), exhaustion: Exhaustion::Fail, ..Config::default() };
    let (device, control) = fake::device(config, 64 << 20, 1).unwrap();
    let session = perceptron_on(&device, joining());
    let scene = Scene { control, session };
    let own = Stream::new(&device).unwrap();
    own.scope(|| scene.session.warm_up(&[("x", &[1, 8])]).unwrap());
    let default = Stream::default_of(&device).unwrap();
    let (held, mut calls) = own.scope(|| (scene.hold(), [0; 3].map(|_| scene.submit())));
    scene.fail(&default, 1);
    let first = held.try_to_go_on();
    assert!(first.is_ok(), "{first:?}");
    own.scope(|| {
        assert!(calls.iter_mut().all(|call| scene.ended(call).is_ok()));
        assert_eq!(scene.repeated(), 1);
        scene.assert_works();
    });
}

/// There is no memory when plans for batches are made. They are made later, and until then no batch has more rows than any may have.
#[test]
fn a_plan_that_cannot_be_made_is_made_later() {
    let (device, control) = fake::device(Config::default(), 64 << 20, 1).unwrap();
    let session = perceptron_on(&device, joining());
    let scene = Scene { control, session };
    scene.session.run([scene.input()]).unwrap().wait().unwrap();
    let group = scene.session.group(&[scene.input()].into()).unwrap().unwrap();
    scene.control.no_memory_after(0);
    group.warm_up();
    assert!(matches!(group.joinable(), Joinable::Yes { .. }));
    assert!(group.plan_for(2).is_none() && group.most() == 2);
    scene.control.memory_again();
    let begun = Instant::now();
    while group.plan_for(2).is_none() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it is not tried again");
        std::thread::yield_now();
    }
    assert!(group.most() > 2);
    scene.assert_works();
}

/// The call before it is led by a future that nobody polls.
#[test]
fn a_call_does_not_wait_for_its_turn_for_ever() {
    let config = Config { wait_timeout: Some(Duration::from_millis(300)), ..Config::default() };
    let (device, control) = fake::device(config, 64 << 20, 1).unwrap();
    let session = perceptron_on(&device, joining());
    session.warm_up(&[("x", &[1, 8])]).unwrap();
    let scene = Scene { control, session };
    let held = scene.hold();
    let error = scene.session.run([scene.input()]).unwrap_err();
    assert!(matches!(error, Error::NoTurn { .. }) && error.is_retryable(), "{error}");
    assert!(error.to_string().contains("must be polled or dropped"), "{error}");
    let stats = scene.session.batching_stats();
    assert_eq!((stats.canceled, stats.late), (1, 0));
    drop(held);
    scene.assert_works();
}
