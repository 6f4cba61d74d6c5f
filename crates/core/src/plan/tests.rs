//! Plans that are wrong are noticed: by the check when they are made, and by the fake device when they run.

use super::builder::Placed;
use super::*;
use crate::fake::{self, FakeControl};
use crate::{BinaryOp, Command, Config, DType, Error, Result, UnaryOp};

fn row() -> Layout {
    Layout::contiguous(DType::F32, &[64]).unwrap()
}

/// `y = relu(x) + tanh(x)`, whose two temporary values live at the same time.
fn two_values(device: &Device) -> PlanBuilder {
    let mut plan = Plan::builder(device);
    let (x, y) = (plan.input(row()), plan.output(row()));
    let [a, b, sum] = [(); 3].map(|()| plan.temporary(row().dense_bytes()));
    let unary =
        |op, to: Slot, from: Slot| Command::unary(op, to.operand(row()), from.operand(row()));
    plan.record(unary(UnaryOp::Relu, a, x).unwrap()).unwrap();
    plan.record(unary(UnaryOp::Tanh, b, x).unwrap()).unwrap();
    let [to, from, and] = [sum, a, b].map(|slot| slot.operand(row()));
    plan.record(Command::binary(BinaryOp::Add, to, from, and).unwrap()).unwrap();
    plan.record(unary(UnaryOp::Neg, y, sum).unwrap()).unwrap();
    plan
}

fn run(device: &Device, control: &FakeControl, plan: &Plan) -> Vec<String> {
    let stream = device.stream().unwrap();
    let [x, y] = [(); 2].map(|()| stream.allocate(row().dense_bytes()).unwrap());
    stream.upload(x.operand(row()), &[1f32; 64]).unwrap();
    for _ in 0..3 {
        stream.run(plan, &[&x], &[&y]).unwrap();
    }
    stream.synchronize().unwrap();
    control.violations()
}

fn device() -> (Device, FakeControl) {
    fake::device(Config::default(), 1 << 20, 1).unwrap()
}

#[test]
fn a_result_takes_the_place_of_what_is_read_for_the_last_time() {
    let (device, control) = device();
    let plan = two_values(&device).finish().unwrap();
    assert_eq!((plan.commands(), plan.arena_bytes()), (4, 2 * row().dense_bytes()));
    assert_eq!(run(&device, &control, &plan), [""; 0]);
}

/// `y = tanh(relu(x)) + relu(x)`: `relu(x)` is read again after `tanh` has read it.
#[test]
fn invariant_07_a_result_does_not_take_the_place_of_what_is_read_again() {
    let (device, control) = device();
    let mut plan = Plan::builder(&device);
    let (x, y) = (plan.input(row()), plan.output(row()));
    let [a, b] = [(); 2].map(|()| plan.temporary(row().dense_bytes()));
    let [x, y, a, b] = [x, y, a, b].map(|slot| slot.operand(row()));
    plan.record(Command::unary(UnaryOp::Relu, a, x).unwrap()).unwrap();
    plan.record(Command::unary(UnaryOp::Tanh, b, a).unwrap()).unwrap();
    plan.record(Command::binary(BinaryOp::Add, y, b, a).unwrap()).unwrap();
    let plan = plan.finish().unwrap();
    assert_eq!(plan.arena_bytes(), 2 * row().dense_bytes());
    assert_eq!(run(&device, &control, &plan), [""; 0]);
}

#[test]
fn wrong_places_are_noticed_when_a_plan_is_made_and_when_it_runs() {
    let overlapping: Placed = |lives, _| (vec![0; lives.len()], lives[0].bytes);
    let by_half: Placed = |lives, _| (vec![0, 128], 128 + lives[0].bytes);
    let beyond: Placed = |lives, _| (vec![0, 256], 128 + lives[0].bytes);
    for (places, word) in
        [(overlapping, "another value"), (by_half, "another value"), (beyond, "beyond")]
    {
        let (device, control) = device();
        let made = two_values(&device).finish_placed(places, true);
        assert!(matches!(made, Err(Error::Invalid { .. })), "{word}");
        let plan = two_values(&device).finish_placed(places, false).unwrap();
        let violations = run(&device, &control, &plan);
        assert!(violations.iter().any(|text| text.contains(word)), "{violations:#?}");
    }
}

#[test]
fn what_no_command_writes_is_cleared() {
    let (device, control) = device();
    let half = Layout::contiguous(DType::F32, &[32]).unwrap();
    let mut plan = Plan::builder(&device);
    let (x, y) = (plan.input(row()), plan.output(row()));
    let a = plan.temporary(row().dense_bytes());
    let upper = x.operand(half.shifted(32).unwrap());
    plan.record(Command::copy(a.operand(half.shifted(32).unwrap()), upper).unwrap()).unwrap();
    let (to, from) = (y.operand(half), a.operand(half.shifted(16).unwrap()));
    plan.record(Command::copy(to, from).unwrap()).unwrap();
    let plan = plan.finish().unwrap();
    // One fill for the value, and one for the half of the output that nobody writes.
    assert_eq!(plan.commands(), 4);
    assert_eq!(run(&device, &control, &plan), [""; 0]);
}

/// A cache of two batches with four places each, and what is written to one place of each.
fn cache() -> [Layout; 2] {
    [[2, 4, 8], [2, 1, 8]].map(|shape| Layout::contiguous(DType::F32, &shape).unwrap())
}

#[test]
fn a_cache_is_written_where_it_lies() {
    let (device, control) = device();
    let [whole, part] = cache();
    let mut plan = Plan::builder(&device);
    let (x, y) = (plan.input(row()), plan.output(row()));
    let [old, new] = [(); 2].map(|()| plan.temporary(whole.dense_bytes()));
    plan.record(Command::copy(old.operand(row()), x.operand(row())).unwrap()).unwrap();
    let [from, to] = [old, new].map(|slot| slot.operand(whole));
    let update = x.operand(part);
    plan.record(Command::cache_write(to, from, update, None, 1, false).unwrap()).unwrap();
    plan.record(Command::copy(y.operand(row()), new.operand(row())).unwrap()).unwrap();
    let plan = plan.finish().unwrap();
    // The cache before and behind the Command is one value.
    assert_eq!((plan.commands(), plan.arena_bytes()), (3, whole.dense_bytes()));
    assert_eq!(run(&device, &control, &plan), [""; 0]);
}

#[test]
fn a_state_is_kept_from_run_to_run_and_cleared_before_the_first() {
    let (device, control) = device();
    let [whole, part] = cache();
    let mut plan = Plan::builder(&device);
    let (x, state) = (plan.input(part), plan.state(whole));
    let at = state.operand(whole);
    plan.record(Command::cache_write(at, at, x.operand(part), None, 1, false).unwrap()).unwrap();
    let plan = plan.finish().unwrap();
    assert_eq!((plan.commands(), plan.arena_bytes(), plan.outputs().len()), (1, 0, 1));
    let stream = device.stream().unwrap();
    let x = stream.allocate(part.dense_bytes()).unwrap();
    let cache = stream.allocate(whole.dense_bytes()).unwrap();
    stream.upload(x.operand(part), &[1f32; 16]).unwrap();
    let mut recorded = stream.counters().commands;
    for commands in [2, 1, 1] {
        stream.run(&plan, &[&x], &[&cache]).unwrap();
        // Nobody has written the cache before the first run, so that is one Command more.
        assert_eq!(stream.counters().commands - recorded, commands);
        recorded += commands;
    }
    stream.synchronize().unwrap();
    assert_eq!(control.violations(), [""; 0]);
}

fn refused(work: impl FnOnce(&mut PlanBuilder, Slot, Slot) -> Result<()>) -> String {
    let (device, _) = device();
    let mut plan = Plan::builder(&device);
    let (x, y) = (plan.input(row()), plan.output(row()));
    work(&mut plan, x, y).unwrap_err().to_string()
}

#[test]
fn what_a_plan_cannot_hold_is_refused() {
    let inputs = refused(|plan, x, _| plan.record(Command::fill(x.operand(row()), 1f32)?));
    assert!(inputs.contains("input"), "{inputs}");
    let bytes = crate::HostBytes::zeroed(row().dense_bytes());
    let download = refused(|plan, x, _| plan.record(Command::download(bytes, x.operand(row()))?));
    assert!(download.contains("after the run"), "{download}");
    let other = refused(|plan, _, _| {
        let (other, _) = device();
        let foreign = Plan::builder(&other).output(row());
        plan.record(Command::fill(foreign.operand(row()), 1f32)?)
    });
    assert!(other.contains("another plan"), "{other}");
    let unsettled = refused(|plan, _, _| {
        let weights = plan_device(plan).stream()?.allocate(64)?;
        plan.weights(&weights).map(drop)
    });
    assert!(unsettled.contains("settle"), "{unsettled}");
    let empty = Plan::builder(&device().0).finish().unwrap_err().to_string();
    assert!(empty.contains("no Commands"), "{empty}");
}

fn plan_device(plan: &PlanBuilder) -> Device {
    Device::from_inner(plan.device())
}
