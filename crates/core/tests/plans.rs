//! Plans on the fake device: order, memory, faults, and random plans on random schedules.

mod common;

use common::*;
use millstream_core::fake::{self, FakeControl};
use millstream_core::{
    BinaryOp, Buffer, Command, DType, Device, Error, LayerName, Layout, Plan, Slot, Stream, UnaryOp,
};
use proptest::prelude::*;

fn row(count: usize) -> Layout {
    Layout::contiguous(DType::F32, &[count]).unwrap()
}

/// A chain of `steps` Commands, the last of which writes the output.
fn chain(device: &Device, steps: usize) -> Plan {
    let mut plan = Plan::builder(device);
    let (x, y) = (plan.input(row(64)), plan.output(row(64)));
    let mut from = x;
    for step in 1..=steps {
        let to = if step == steps { y } else { plan.temporary(256) };
        // Nothing is done in place, so that values lie beside each other.
        let parts = [to, from].map(|slot| slot.operand(row(64)));
        let [to_part, from_part] = parts;
        plan.record(
            Command::binary(BinaryOp::Add, to_part, from_part, x.operand(row(64))).unwrap(),
        )
        .unwrap();
        from = to;
    }
    plan.finish().unwrap()
}

fn values(stream: &Stream, count: usize) -> Vec<Buffer> {
    (0..count).map(|_| stream.allocate(256).unwrap()).collect()
}

#[test]
fn a_run_is_one_batch_with_what_is_recorded_behind_it() {
    let (device, control) = device();
    let stream = device.stream().unwrap();
    let buffers = values(&stream, 2);
    fill(&stream, &buffers[0]).unwrap();
    stream.synchronize().unwrap();
    let plan = chain(&device, 7);
    let before = (control.submits(), stream.counters().commands);
    let point = stream.run(&plan, &[&buffers[0]], &[&buffers[1]]).unwrap();
    assert_eq!(stream.timepoint(), point);
    let values = stream.download(whole(&buffers[1])).unwrap();
    values.read::<f32>().unwrap();
    assert_eq!((control.submits(), stream.counters().commands), (before.0 + 1, before.1 + 8));
    control.assert_no_violations();
}

#[test]
fn a_plan_that_is_longer_than_a_batch_is_several() {
    let (device, control) = device_with(|config| {
        config.batch_commands = 4;
        config.in_flight = 1;
    });
    let stream = device.stream().unwrap();
    let buffers = values(&stream, 2);
    fill(&stream, &buffers[0]).unwrap();
    let plan = chain(&device, 15);
    for _ in 0..3 {
        stream.run(&plan, &[&buffers[0]], &[&buffers[1]]).unwrap();
    }
    stream.synchronize().unwrap();
    // One to fill the input, one to clear the output.
    assert_eq!(stream.counters().commands, 2 + 3 * 15);
    control.assert_no_violations();
}

#[test]
fn runs_wait_for_their_inputs_and_are_waited_for() {
    let (device, control) = device();
    let [first, second, third] = [(); 3].map(|()| Stream::new(&device).unwrap());
    let plan = chain(&device, 3);
    let x = first.allocate(256).unwrap();
    for _ in 0..5 {
        fill(&first, &x).unwrap();
        let y = second.allocate(256).unwrap();
        second.run(&plan, &[&x], &[&y]).unwrap();
        let z = third.allocate(256).unwrap();
        third.run(&plan, &[&y], &[&z]).unwrap();
        // Written again while the runs may still read.
        fill(&second, &z).unwrap();
    }
    assert!(second.counters().waits > 0 && third.counters().waits > 0);
    device.synchronize().unwrap();
    control.assert_no_violations();
}

/// Invariant 9 holds inside a run: what does not depend on the Command that failed is there.
#[test]
fn invariant_09_a_fault_in_a_run_fails_the_outputs_that_depend_on_it_and_names_its_layer() {
    let (device, control) = device();
    let stream = device.stream().unwrap();
    let mut plan = Plan::builder(&device);
    let x = plan.input(row(64));
    let [good, bad] = [(); 2].map(|()| plan.output(row(64)));
    let [a, b, c] = [(); 3].map(|()| plan.temporary(256));
    let mut unary = |to: Slot, from: Slot| {
        let command = Command::unary(UnaryOp::Relu, to.operand(row(64)), from.operand(row(64)));
        plan.record(command.unwrap()).unwrap();
    };
    unary(a, x); // 1
    {
        let _layer = LayerName::new("the.bad.one").enter();
        unary(b, x); // 2, fails
    }
    unary(c, b); // 3
    unary(bad, c); // 4
    unary(good, a); // 5
    let plan = plan.finish().unwrap();
    let buffers = values(&stream, 3);
    fill(&stream, &buffers[0]).unwrap();
    let before = stream.timepoint().sequence();
    control.fail_command(stream.id(), before + 2);
    stream.run(&plan, &[&buffers[0]], &[&buffers[1], &buffers[2]]).unwrap();
    stream.download(whole(&buffers[1])).unwrap().read::<f32>().unwrap();
    let error = stream.download(whole(&buffers[2])).unwrap().read::<f32>().unwrap_err();
    assert!(
        matches!(error, Error::Fault { sequence, command: "relu" | "unary", layer: Some("the.bad.one"), .. }
            if sequence == before + 2),
        "{error:?}"
    );
    // The next run has the same memory and is right.
    stream.run(&plan, &[&buffers[0]], &[&buffers[1], &buffers[2]]).unwrap();
    for buffer in &buffers {
        stream.download(whole(buffer)).unwrap().read::<f32>().unwrap();
    }
    control.assert_no_violations();
}

#[test]
fn buffers_that_do_not_fit_are_refused_and_nothing_is_recorded() {
    let (device, _) = device();
    let stream = device.stream().unwrap();
    let plan = chain(&device, 3);
    let [x, y] = [(); 2].map(|()| stream.allocate(256).unwrap());
    let small = stream.allocate(255).unwrap();
    fill(&stream, &x).unwrap();
    let settled = stream.allocate(256).unwrap();
    fill(&stream, &settled).unwrap();
    settled.settle().unwrap();
    let before = stream.timepoint();
    for (inputs, outputs) in [
        (&[&small][..], &[&y][..]),
        (&[&x], &[&small]),
        (&[&x], &[&x]),
        (&[&x], &[]),
        (&[&x, &x], &[&y]),
        (&[&x], &[&y, &y]),
    ] {
        let refused = stream.run(&plan, inputs, outputs);
        assert!(matches!(refused, Err(Error::Invalid { op: "run", .. })), "{refused:?}");
    }
    let refused = stream.run(&plan, &[&x], &[&settled]);
    assert!(matches!(refused, Err(Error::Settled { op: "run" })), "{refused:?}");
    let (other, _) = common::device();
    let refused = other.stream().unwrap().run(&plan, &[&x], &[&y]);
    assert!(matches!(refused, Err(Error::WrongDevice { .. })), "{refused:?}");
    assert_eq!(stream.timepoint(), before);
    stream.run(&plan, &[&settled], &[&y]).unwrap();
    device.synchronize().unwrap();
}

#[test]
fn a_plan_may_have_many_inputs_and_outputs_each_in_a_buffer_of_its_own() {
    let (device, control) = device();
    let plan_of = |count: usize| {
        let mut plan = Plan::builder(&device);
        for _ in 0..count {
            let (x, y) = (plan.input(row(1)), plan.output(row(1)));
            let (to, from) = (y.operand(row(1)), x.operand(row(1)));
            plan.record(Command::unary(UnaryOp::Neg, to, from).unwrap()).unwrap();
        }
        plan.finish()
    };
    let error = plan_of(2049).unwrap_err().to_string();
    assert!(error.contains("2049 inputs and 2049 outputs: at most 2048 each"), "{error}");
    let (plan, stream) = (plan_of(600).unwrap(), device.stream().unwrap());
    let [inputs, outputs] = [(); 2].map(|()| values(&stream, 600));
    let inputs: Vec<&Buffer> = inputs.iter().collect();
    let outputs: Vec<&Buffer> = outputs.iter().collect();
    for input in &inputs {
        fill(&stream, input).unwrap();
    }
    stream.run(&plan, &inputs, &outputs).unwrap();
    stream.synchronize().unwrap();
    control.assert_no_violations();
    let mut twice = outputs.clone();
    twice[599] = outputs[0];
    assert!(stream.run(&plan, &inputs, &twice).is_err(), "one buffer for two outputs");
    twice[599] = inputs[300];
    assert!(stream.run(&plan, &inputs, &twice).is_err(), "a buffer that is read and written");
}

#[test]
fn threads_share_one_plan_and_one_set_of_weights() {
    let (device, control) = device();
    let home = Stream::default_of(&device).unwrap();
    let weights = home.allocate(1 << 20).unwrap();
    fill(&home, &weights).unwrap();
    weights.settle().unwrap();
    let layout = row(weights.bytes() / 4);
    let mut plan = Plan::builder(&device);
    let (x, y) = (plan.input(row(64)), plan.output(row(64)));
    let [big, kept] = [plan.temporary(1 << 20), plan.weights(&weights).unwrap()];
    plan.record(Command::copy(big.operand(layout), kept.operand(layout)).unwrap()).unwrap();
    let sum = Command::binary(
        BinaryOp::Add,
        y.operand(row(64)),
        big.operand(row(64)),
        x.operand(row(64)),
    );
    plan.record(sum.unwrap()).unwrap();
    let plan = plan.finish().unwrap();
    drop(weights);
    assert_eq!((plan.weight_bytes(), plan.arena_bytes()), (1 << 20, 1 << 20));
    let barrier = std::sync::Barrier::new(31);
    std::thread::scope(|scope| {
        for _ in 0..31 {
            scope.spawn(|| {
                let stream = device.stream().unwrap();
                let buffers = values(&stream, 2);
                fill(&stream, &buffers[0]).unwrap();
                for _ in 0..20 {
                    stream.run(&plan, &[&buffers[0]], &[&buffers[1]]).unwrap();
                    stream.download(whole(&buffers[1])).unwrap().read::<f32>().unwrap();
                }
                // All have a stream at the same time.
                barrier.wait();
            });
        }
    });
    let memory = device.memory();
    let arenas = memory.streams.iter().filter(|stream| stream.peak >= 1 << 20).count();
    let home_peak = memory.streams.iter().find(|stream| stream.stream == home.id()).unwrap().peak;
    assert_eq!((arenas, home_peak), (32, 1 << 20), "31 arenas and one set of weights");
    assert!(memory.streams.iter().all(|stream| stream.peak < (1 << 20) + (1 << 16)), "{memory:#?}");
    assert_eq!(memory.in_use, 1 << 20, "the weights: arenas are back");
    control.assert_no_violations();
    drop(plan);
    device.synchronize().unwrap();
    device.empty_cache().unwrap();
    assert_eq!((device.memory().in_use, control.memory_taken()), (0, 0));
}

#[test]
fn what_is_read_on_the_host_cannot_be_traced() {
    let (device, _) = device();
    let stream = device.stream().unwrap();
    let outside = stream.allocate(256).unwrap();
    fill(&stream, &outside).unwrap();
    let traced = |work: &dyn Fn(&Buffer) -> Result<Buffer, Error>| {
        let plan = Plan::trace(&device, &[row(64)], |inputs| {
            work(&inputs[0]).map(|buffer| vec![millstream_core::Operand::new(buffer, row(64))])
        });
        plan.map(|plan| plan.commands()).map_err(|error: Error| error.to_string())
    };
    let result = |to: &Buffer| Ok(to.clone());
    let read = traced(&|input| stream.download(whole(input)).and_then(|_| result(input)));
    assert!(read.unwrap_err().contains("after a run"));
    let changed = traced(&|input| {
        let to = stream.allocate(256)?;
        add(&stream, &to, input, &outside)?;
        result(&to)
    });
    assert!(changed.unwrap_err().contains("settle"));
    let written = traced(&|input| copy(&stream, &outside, input).and_then(|_| result(input)));
    assert!(written.unwrap_err().contains("not allocated by the traced code"));
    let input = traced(&|input| fill(&stream, input).and_then(|_| result(input)));
    assert!(input.unwrap_err().contains("input is written"));
    // Tracing has ended each time.
    stream.download(whole(&outside)).unwrap().read::<f32>().unwrap();
    // An input that is returned is copied.
    assert_eq!(traced(&|input| result(input)), Ok(1));
}

#[test]
fn uploads_and_what_is_computed_from_them_become_weights() {
    let (device, control) = device();
    let stream = device.stream().unwrap();
    let plan = Plan::trace(&device, &[row(64)], |inputs| {
        let [constant, doubled, result] = [(); 3].map(|()| stream.allocate(256).unwrap());
        stream.upload(whole(&constant), &[3f32; 64])?;
        add(&stream, &doubled, &constant, &constant)?;
        add(&stream, &result, &inputs[0], &doubled)?;
        Ok::<_, Error>(vec![millstream_core::Operand::new(result, row(64))])
    });
    let plan = plan.unwrap();
    assert_eq!((plan.commands(), plan.weight_bytes(), plan.arena_bytes()), (1, 256, 0));
    let buffers = values(&stream, 2);
    fill(&stream, &buffers[0]).unwrap();
    stream.run(&plan, &[&buffers[0]], &[&buffers[1]]).unwrap();
    stream.synchronize().unwrap();
    control.assert_no_violations();
}

/// One Command of a random plan: what it does, the size of its result, and which values it reads.
type Recipe = (u8, usize, usize, usize);

/// A plan of two inputs and two outputs.
fn random_plan(device: &Device, recipes: &[Recipe]) -> Plan {
    let mut plan = Plan::builder(device);
    let inputs = [plan.input(row(96)), plan.input(row(64))];
    let outputs = [plan.output(row(64)), plan.output(row(80))];
    let mut values: Vec<(Slot, usize)> = vec![(inputs[0], 96), (inputs[1], 64)];
    let pick = |values: &[(Slot, usize)], index: usize| {
        values[values.len() - 1 - index % values.len().min(6)]
    };
    for &(kind, size, first, second) in recipes {
        let (one, ones) = pick(&values, first);
        let (two, twos) = pick(&values, second);
        let count = ones.min(twos).min(size);
        let to = plan.temporary(size * 4);
        let at = |slot: Slot, first: usize| slot.operand(row(count).shifted(first).unwrap());
        let command = match kind % 5 {
            0 => Command::unary(UnaryOp::Relu, at(to, 0), at(one, ones - count)),
            1 => Command::binary(BinaryOp::Add, at(to, 0), at(one, 0), at(two, 0)),
            // Behind a gap.
            2 => Command::copy(at(to, size - count), at(one, 0)),
            // Every second element, with others between.
            3 if count > 1 => {
                let every = Layout::strided(DType::F32, &[count / 2], &[2], 0).unwrap();
                Command::copy(to.operand(every), one.operand(row(count / 2)))
            }
            _ => Command::fill(at(to, 0), 1f32),
        };
        plan.record(command.unwrap()).unwrap();
        values.push((to, size));
    }
    for (output, count) in outputs.into_iter().zip([64, 80]) {
        let (from, has) = pick(&values, count);
        let part = row(count.min(has));
        plan.record(Command::copy(output.operand(part), from.operand(part)).unwrap()).unwrap();
    }
    plan.finish().unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    Run { stream: usize, plan: usize, buffers: [usize; 4] },
    Fill { stream: usize, buffer: usize },
    Replace { stream: usize, buffer: usize },
    Flush { stream: usize },
    Wait { stream: usize },
    RunAll,
    Trim,
    FailNext { stream: usize, after: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (stream, buffer) = (0usize..4, 0usize..8);
    let step = prop_oneof![
        8 => (stream.clone(), 0usize..3, [buffer.clone(), buffer.clone(), buffer.clone(), buffer.clone()])
            .prop_map(|(stream, plan, buffers)| Step::Run { stream, plan, buffers }),
        2 => (stream.clone(), buffer.clone()).prop_map(|(stream, buffer)| Step::Fill { stream, buffer }),
        2 => (stream.clone(), buffer).prop_map(|(stream, buffer)| Step::Replace { stream, buffer }),
        1 => stream.clone().prop_map(|stream| Step::Flush { stream }),
        1 => stream.clone().prop_map(|stream| Step::Wait { stream }),
        1 => Just(Step::RunAll),
        1 => Just(Step::Trim),
        1 => (stream, 1u64..12).prop_map(|(stream, after)| Step::FailNext { stream, after }),
    ];
    prop::collection::vec(step, 1..40)
}

fn take_steps(device: Device, control: &FakeControl, plans: &[Plan], steps: &[Step]) {
    let streams: Vec<Stream> = (0..4).map(|_| Stream::new(&device).unwrap()).collect();
    let new = |stream: usize| streams[stream % 4].allocate(96 * 4).unwrap();
    let mut buffers: Vec<Buffer> = (0..8).map(new).collect();
    for step in steps {
        let result = match *step {
            Step::Run { stream, plan, buffers: [a, b, c, d] } => {
                let [a, b, c, d] = [a, b, c, d].map(|index| &buffers[index]);
                let run = streams[stream].run(&plans[plan], &[a, b], &[c, d]).map(drop);
                // The same buffer in two places.
                match run {
                    Err(Error::Invalid { op: "run", .. }) => Ok(()),
                    other => other,
                }
            }
            Step::Fill { stream, buffer } => fill(&streams[stream], &buffers[buffer]).map(drop),
            Step::Replace { stream, buffer } => {
                buffers[buffer] = new(stream);
                Ok(())
            }
            Step::Flush { stream } => streams[stream].flush(),
            Step::Wait { stream } => streams[stream].synchronize(),
            Step::RunAll => {
                control.run_all();
                Ok(())
            }
            Step::Trim => device.empty_cache(),
            Step::FailNext { stream, after } => {
                let next = streams[stream].timepoint().sequence() + after;
                control.fail_command(streams[stream].id(), next);
                Ok(())
            }
        };
        assert!(matches!(result, Ok(()) | Err(Error::Fault { .. })), "{result:?}");
    }
    drop(buffers);
    let end = device.synchronize();
    assert!(matches!(end, Ok(()) | Err(Error::Fault { .. })), "{end:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(384))]

    #[test]
    fn random_plans_keep_to_what_is_theirs_on_every_schedule(
        recipes in prop::collection::vec(
            prop::collection::vec((0u8..5, 1usize..200, 0usize..6, 0usize..6), 0..12), 3..4),
        steps in steps(),
        seed in any::<u64>(),
    ) {
        let mut settings = config();
        settings.batch_commands = [3, 8, 64][(seed % 3) as usize];
        settings.in_flight = 1 + (seed % 4) as usize;
        let (device, control) = fake::device(settings, MEMORY, seed).unwrap();
        let plans: Vec<Plan> = recipes.iter().map(|recipes| random_plan(&device, recipes)).collect();
        take_steps(device, &control, &plans, &steps);
        prop_assert!(control.violations().is_empty(), "{:#?}", control.violations());
        prop_assert_eq!(device.memory().in_use, 0);
        device.empty_cache().unwrap();
        prop_assert_eq!(control.memory_taken(), 0, "memory leaked: {:?}", device.memory());
    }
}

/// Threads that share streams run plans between other Commands.
#[test]
fn threads_on_shared_streams_run_plans() {
    let (device, control) = device_with(|config| {
        config.streams = Some(3);
        config.batch_commands = 6;
        config.in_flight = 2;
    });
    let plans = [chain(&device, 2), chain(&device, 5), chain(&device, 13)];
    std::thread::scope(|scope| {
        for thread in 0..8usize {
            let plans = &plans;
            scope.spawn(move || {
                let stream = device.stream().unwrap();
                let buffers = values(&stream, 3);
                fill(&stream, &buffers[0]).unwrap();
                for turn in 0..60 {
                    let plan = &plans[(thread + turn) % 3];
                    stream.run(plan, &[&buffers[0]], &[&buffers[1]]).unwrap();
                    add(&stream, &buffers[2], &buffers[0], &buffers[1]).unwrap();
                    if turn % 7 == thread % 7 {
                        stream.download(whole(&buffers[2])).unwrap().read::<f32>().unwrap();
                    }
                }
            });
        }
    });
    device.synchronize().unwrap();
    control.assert_no_violations();
}
