//! Runs of plans share the device's arenas, on a device of two permits whose workers start when a test says so.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use millstream_core::{
    BinaryOp, Buffer, Command, Config, DType, Device, Error, Layout, Plan, Slot, Stream,
};

use crate::backend::CpuBackend;
use crate::engine::Engine;

const PERMITS: usize = 2;
/// Elements of a temporary value, which has a size class of just its size.
const ELEMENTS: usize = 1 << 18;
const BYTES: usize = ELEMENTS * 4;

fn device(memory_limit: Option<usize>) -> (Device, Arc<Engine>) {
    let engine = Engine::new(PERMITS, false, false);
    let backend = Box::new(CpuBackend::without_workers(Arc::clone(&engine)));
    let config = Config { memory_limit, ..Config::default() };
    (Device::with_backend(backend, config).unwrap(), engine)
}

fn row(elements: usize) -> Layout {
    Layout::contiguous(DType::F32, &[elements]).unwrap()
}

/// Rows of a table by an index that is given, spread over the arena, and their sum with another input: fails in the
/// arena if there is no such row.
struct Spread {
    plan: Plan,
    table: Buffer,
    one: Buffer,
}

impl Spread {
    fn new(device: &Device, stream: &Stream) -> Self {
        let mut plan = Plan::builder(device);
        let (table, ids) =
            (row(4).reshaped(&[4, 1]), Layout::contiguous(DType::I64, &[1]).unwrap());
        let cell = row(1);
        let [from, at, one, out] =
            [plan.input(table), plan.input(ids), plan.input(cell), plan.output(cell)];
        let (found, spread) = (plan.temporary(4), plan.temporary(BYTES));
        let found_row = found.operand(cell.reshaped(&[1, 1]));
        plan.record(Command::embedding(found_row, from.operand(table), at.operand(ids)).unwrap())
            .unwrap();
        let repeated = Layout::strided(DType::F32, &[ELEMENTS], &[0], 0).unwrap();
        let add = |to: Slot, to_layout, a: Slot, a_layout, b: Slot, b_layout| {
            let operands = (to.operand(to_layout), a.operand(a_layout), b.operand(b_layout));
            Command::binary(BinaryOp::Add, operands.0, operands.1, operands.2).unwrap()
        };
        let wide = row(ELEMENTS);
        plan.record(add(spread, wide, found, repeated, one, repeated)).unwrap();
        let last = cell.shifted(ELEMENTS - 1).unwrap();
        plan.record(add(out, cell, spread, last, one, cell)).unwrap();
        let plan = plan.finish().unwrap();
        let table = stream.allocate(16).unwrap();
        stream.upload(table.operand(row(4)), &[10f32, 20.0, 30.0, 40.0]).unwrap();
        let one = stream.allocate(4).unwrap();
        stream.upload(one.operand(cell), &[1f32]).unwrap();
        for weights in [&table, &one] {
            weights.settle().unwrap();
        }
        Self { plan, table, one }
    }

    /// Records a run for this row.
    fn run(&self, stream: &Stream, index: i64) -> Result<Buffer, Error> {
        let ids = stream.allocate(8)?;
        stream.upload(ids.operand(Layout::contiguous(DType::I64, &[1])?), &[index])?;
        let out = stream.allocate(4)?;
        stream.run(&self.plan, &[&self.table, &ids, &self.one], &[&out])?;
        Ok(out)
    }

    fn answer(&self, stream: &Stream, out: &Buffer) -> Result<f32, Error> {
        Ok(stream.download(out.operand(row(1)))?.read::<f32>()?[0])
    }
}

trait Reshaped {
    fn reshaped(&self, shape: &[usize]) -> Layout;
}

impl Reshaped for Layout {
    fn reshaped(&self, shape: &[usize]) -> Layout {
        Layout::contiguous(self.dtype(), shape).unwrap()
    }
}

/// What the arenas take at most.
fn arenas(count: usize, device: &Device) -> usize {
    let arenas = device.memory().arenas;
    assert!(arenas >= count * BYTES && arenas < count * BYTES * 5 / 4 + 1, "{arenas}");
    arenas
}

#[test]
fn runs_of_many_streams_share_as_many_arenas_as_there_are_permits() {
    let (device, _) = device(None);
    let streams: Vec<Stream> = (0..31).map(|_| Stream::new(&device).unwrap()).collect();
    let model = Spread::new(&device, &streams[0]);
    // All are recorded before the first is executed.
    let recorded: Vec<(usize, Buffer)> = (0..31)
        .map(|index| (index, model.run(&streams[index], index as i64 % 4).unwrap()))
        .collect();
    arenas(PERMITS, &device);
    for (index, out) in recorded {
        let expected = (index % 4 + 1) as f32 * 10.0 + 2.0;
        assert_eq!(model.answer(&streams[index], &out).unwrap(), expected);
    }
    let memory = device.memory();
    arenas(PERMITS, &device);
    assert!(memory.cached >= memory.arenas, "nobody uses them: {memory}");
    device.empty_cache().unwrap();
    assert_eq!(device.memory().arenas, 0);
}

#[test]
fn one_caller_uses_one_arena() {
    let (device, _) = device(None);
    let stream = Stream::new(&device).unwrap();
    let model = Spread::new(&device, &stream);
    for index in 0..8 {
        let out = model.run(&stream, index % 4).unwrap();
        model.answer(&stream, &out).unwrap();
    }
    arenas(1, &device);
}

#[test]
fn a_temporary_value_that_failed_says_nothing_about_the_next_run_in_its_place() {
    let (device, _) = device(None);
    let streams = [(); 2].map(|()| Stream::new(&device).unwrap());
    let model = Spread::new(&device, &streams[0]);
    for round in 0..3 {
        let bad = model.run(&streams[round % 2], 99).unwrap();
        let error = model.answer(&streams[round % 2], &bad).unwrap_err();
        assert!(matches!(error, Error::Fault { command: "embedding", .. }), "{error}");
        for stream in &streams {
            let good = model.run(stream, 2).unwrap();
            assert_eq!(model.answer(stream, &good).unwrap(), 32.0);
        }
    }
    arenas(1, &device);
}

/// Too short for [`Slow`]'s last Command, whatever the machine.
const SHORT: Duration = Duration::from_millis(2);

/// A plan that reads its first temporary value again after a Command that is never begun in [`SHORT`] time.
struct Slow(Plan);

impl Slow {
    const LARGE: usize = 4 << 20;

    fn new(device: &Device) -> Self {
        let mut plan = Plan::builder(device);
        let (cell, wide) = (row(1), row(Self::LARGE));
        let (x, out) = (plan.input(cell), plan.output(cell));
        let (first, large) = (plan.temporary(4), plan.temporary(wide.dense_bytes()));
        let repeated = Layout::strided(DType::F32, &[Self::LARGE], &[0], 0).unwrap();
        let mut add = |to, a, b| {
            plan.record(Command::binary(BinaryOp::Add, to, a, b).unwrap()).unwrap();
        };
        add(first.operand(cell), x.operand(cell), x.operand(cell));
        add(large.operand(wide), first.operand(repeated), x.operand(repeated));
        add(out.operand(cell), first.operand(cell), large.operand(cell));
        Slow(plan.finish().unwrap())
    }

    fn run(&self, stream: &Stream, value: f32) -> Result<Buffer, Error> {
        let input = stream.allocate(4)?;
        stream.upload(input.operand(row(1)), &[value])?;
        let out = stream.allocate(4)?;
        stream.run(&self.0, &[&input], &[&out])?;
        Ok(out)
    }

    fn answer(stream: &Stream, out: &Buffer) -> Result<f32, Error> {
        Ok(stream.download(out.operand(row(1)))?.read::<f32>()?[0])
    }
}

/// A run that was begun, and put back before its second Command.
fn interrupted(model: &Slow, stream: &Stream) -> Buffer {
    let out = model.run(stream, 7.0).unwrap();
    let error = stream.synchronize_within(SHORT).unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    out
}

#[test]
fn a_batch_that_is_interrupted_keeps_its_arena() {
    let (device, engine) = device(None);
    let streams: Vec<Stream> = (0..PERMITS + 3).map(|_| Stream::new(&device).unwrap()).collect();
    let model = Slow::new(&device);
    let held: Vec<Buffer> =
        streams[..PERMITS + 1].iter().map(|stream| interrupted(&model, stream)).collect();
    assert_eq!(device.memory().arenas / model.0.arena_bytes(), PERMITS + 1);
    // Others have arenas of their own meanwhile.
    for (index, stream) in streams[PERMITS + 1..].iter().enumerate() {
        let value = index as f32;
        let out = model.run(stream, value).unwrap();
        assert_eq!(Slow::answer(stream, &out).unwrap(), value * 5.0);
    }
    let workers = engine.start_workers(1).unwrap();
    for (stream, out) in streams.iter().zip(&held) {
        assert_eq!(Slow::answer(stream, out).unwrap(), 35.0);
    }
    engine.stop_workers(workers);
    assert_eq!(device.memory().arenas / model.0.arena_bytes(), PERMITS, "no more are kept");
}

#[test]
fn a_run_for_which_there_is_no_arena_is_not_recorded() {
    let (device, _) = device(Some(8 << 20));
    let stream = Stream::new(&device).unwrap();
    let model = Spread::new(&device, &stream);
    let kept = stream.allocate(7 << 20).unwrap();
    let error = model.run(&stream, 0).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    drop(kept);
    let out = model.run(&stream, 0).unwrap();
    assert_eq!(model.answer(&stream, &out).unwrap(), 12.0);
}

/// Out of memory where it cannot be returned when the run is recorded: the arenas that were counted on are with batches
/// that are interrupted.
#[test]
fn a_run_that_gets_no_arena_fails_alone() {
    let arena = Slow::new(&device(None).0).0.arena_bytes();
    let (device, engine) = device(Some(arena * 5 / 2 + (4 << 20)));
    let streams: Vec<Stream> = (0..PERMITS + 1).map(|_| Stream::new(&device).unwrap()).collect();
    let model = Slow::new(&device);
    let held: Vec<Buffer> =
        streams[..PERMITS].iter().map(|stream| interrupted(&model, stream)).collect();
    let out = model.run(&streams[PERMITS], 1.0).unwrap();
    let error = Slow::answer(&streams[PERMITS], &out).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    let workers = engine.start_workers(1).unwrap();
    for (stream, out) in streams.iter().zip(&held) {
        assert_eq!(Slow::answer(stream, out).unwrap(), 35.0);
    }
    for _ in 0..4 {
        streams[PERMITS].synchronize().expect("the fault of the whole run was reported before");
    }
    let out = model.run(&streams[PERMITS], 1.0).unwrap();
    assert_eq!(Slow::answer(&streams[PERMITS], &out).unwrap(), 5.0);
    engine.stop_workers(workers);
}

#[test]
fn an_arena_larger_than_any_block_is_out_of_memory() {
    let (device, _) = device(None);
    let stream = Stream::new(&device).unwrap();
    let mut plan = Plan::builder(&device);
    let cell = row(1);
    let (x, out) = (plan.input(cell), plan.output(cell));
    let huge = plan.temporary(isize::MAX as usize);
    for (to, from) in [(huge, x), (out, huge)] {
        plan.record(Command::copy(to.operand(cell), from.operand(cell)).unwrap()).unwrap();
    }
    let plan = plan.finish().unwrap();
    let [input, output] = [(); 2].map(|()| stream.allocate(4).unwrap());
    stream.upload(input.operand(cell), &[1f32]).unwrap();
    let error = stream.run(&plan, &[&input], &[&output]).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
}

/// What a thread does when it ends and its variables are dropped.
struct AtExit(RefCell<Option<Box<dyn FnOnce()>>>);

impl Drop for AtExit {
    fn drop(&mut self) {
        if let Some(last) = self.0.take() {
            last();
        }
    }
}

/// Its buffers are gone by then.
#[test]
fn a_thread_that_ends_may_still_run_a_model() {
    thread_local!(static AT_EXIT: AtExit = const { AtExit(RefCell::new(None)) });
    let (device, _) = device(None);
    let stream = Stream::new(&device).unwrap();
    let model = Arc::new(Spread::new(&device, &stream));
    let (send, answer) = std::sync::mpsc::channel();
    let thread = {
        let (stream, model) = (stream.clone(), Arc::clone(&model));
        std::thread::spawn(move || {
            // Known before the buffers of the thread, so that it is dropped after them.
            AT_EXIT.with(|last| drop(last.0.take()));
            let out = model.run(&stream, 1).unwrap();
            assert_eq!(model.answer(&stream, &out).unwrap(), 22.0);
            let last = move || {
                // A panic here would end the process.
                let run = || model.run(&stream, 2).and_then(|out| model.answer(&stream, &out));
                let _ = send.send(catch_unwind(AssertUnwindSafe(run)));
            };
            AT_EXIT.with(|at_exit| *at_exit.0.borrow_mut() = Some(Box::new(last)));
        })
    };
    thread.join().unwrap();
    assert_eq!(answer.recv().unwrap().expect("no panic").unwrap(), 32.0);
    let out = model.run(&stream, 0).unwrap();
    assert_eq!(model.answer(&stream, &out).unwrap(), 12.0, "the stream goes on");
}
