//! Prepared lists as indirect command buffers.

use millstream::command::{Command, UnaryOp};
use millstream::memory::Layout;
use millstream::{Buffer, DType, Device, Result, Stream};
use millstream_metal_driver::control::{self, Refusal};

use crate::kit::{alone, no_rule_is_broken, open, row, set_number, set_variable, value, warm_up};

/// A device with indirect commands.
fn indirect() -> Device {
    set_variable("MILLSTREAM_METAL_INDIRECT", "1");
    open()
}

/// How many indirect command buffers live.
fn living() -> i64 {
    let found = control::living().into_iter();
    found
        .filter(|(class, _)| *class == "MillstreamIndirectCommandBuffer")
        .map(|(_, count)| count)
        .sum()
}

/// A call of launches that depend on each other, in memory that is the same each time.
struct Call {
    stream: Stream,
    buffers: Vec<Buffer>,
}

impl Call {
    fn new(device: &Device) -> Self {
        let stream = device.stream().unwrap();
        let buffers = (0..5).map(|_| stream.allocate(row().dense_bytes()).unwrap()).collect();
        Self { stream, buffers }
    }

    /// The first number comes from the host, so that every call gives another.
    fn run(&self, start: f32) -> Result<f32> {
        let Self { stream, buffers } = self;
        stream.upload(buffers[0].operand(row()), &[start; 64])?;
        for pair in buffers.windows(2) {
            let (from, to) = (pair[0].operand(row()), pair[1].operand(row()));
            stream.record(Command::unary(UnaryOp::Neg, to, from)?)?;
        }
        value(stream, &buffers[4])
    }
}

/// Rows of a table, by numbers of which one may be wrong: such launches name a fault record.
fn gathered(stream: &Stream, table: &Buffer, wanted: i32, to: &Buffer) -> Result<f32> {
    let rows = Layout::contiguous(DType::F32, &[4, 64])?;
    let (one, indices) =
        (Layout::contiguous(DType::F32, &[1, 64])?, Layout::contiguous(DType::I32, &[1])?);
    let index = stream.allocate(4)?;
    stream.upload(index.operand(indices), &[wanted])?;
    let gather = Command::gather(to.operand(one), table.operand(rows), index.operand(indices), 0)?;
    stream.record(gather)?;
    value(stream, to)
}

alone! {
    fn a_call_that_comes_again_runs_commands_that_are_there() {
        let device = indirect();
        let call = Call::new(&device);
        for seed in 1..=set_number("MILLSTREAM_METAL_SEEDS", 5) {
            control::set_seed(seed);
            for round in 0..10 {
                let start = (seed * 100 + round) as f32;
                assert_eq!(call.run(start).unwrap(), start, "seed {seed}");
            }
            no_rule_is_broken();
        }
        let made = living();
        assert!(made > 0, "they are used");
        assert_eq!(call.run(7.0).unwrap(), 7.0);
        assert_eq!(living(), made, "and not made again");
    }

    fn threads_with_indirect_commands_do_not_mix_their_calls() {
        let device = indirect();
        warm_up(&device.stream().unwrap());
        control::set_seed(4);
        let device = &device;
        std::thread::scope(|scope| {
            for thread in 0..set_number("MILLSTREAM_METAL_THREADS", 8) {
                scope.spawn(move || {
                    let call = Call::new(device);
                    for round in 0..30 {
                        let start = (thread * 1000 + round) as f32;
                        assert_eq!(call.run(start).unwrap(), start, "thread {thread}");
                    }
                });
            }
        });
        no_rule_is_broken();
        assert!(living() > 0);
    }

    /// Batches have fault records of their own, and a command names one of them.
    fn a_launch_that_fails_fails_its_own_call() {
        let device = indirect();
        let stream = device.stream().unwrap();
        let (table, to) = (stream.allocate(4 * 64 * 4).unwrap(), stream.allocate(64 * 4).unwrap());
        let numbers: Vec<f32> = (0..4).flat_map(|row| [row as f32; 64]).collect();
        let rows = Layout::contiguous(DType::F32, &[4, 64]).unwrap();
        stream.upload(table.operand(rows), &numbers).unwrap();
        for round in 0..60 {
            match round % 7 {
                3 => assert!(gathered(&stream, &table, 9, &to).is_err(), "round {round}"),
                row => {
                    let found = gathered(&stream, &table, row % 4, &to).unwrap();
                    assert_eq!(found, (row % 4) as f32, "round {round}");
                }
            }
        }
        assert!(living() > 0);
        no_rule_is_broken();
    }

    /// Without residency sets what commands name is declared to the encoder.
    fn indirect_commands_need_no_residency_sets() {
        set_variable("MILLSTREAM_METAL_RESIDENCY", "0");
        let call = Call::new(&indirect());
        (1..20).for_each(|start| assert_eq!(call.run(start as f32).unwrap(), start as f32));
        assert!(living() > 0);
        no_rule_is_broken();
    }

    fn a_batch_whose_commands_cannot_be_had_is_encoded() {
        (0..100).for_each(|_| control::refuse_next(Refusal::IndirectCommandBuffer));
        let call = Call::new(&indirect());
        (1..20).for_each(|start| assert_eq!(call.run(start as f32).unwrap(), start as f32));
        assert_eq!(living(), 0);
        no_rule_is_broken();
    }

    fn without_the_switch_or_the_feature_there_are_none() {
        let call = Call::new(&open());
        (1..20).for_each(|start| assert_eq!(call.run(start as f32).unwrap(), start as f32));
        assert_eq!(living(), 0);
    }

    fn a_hosted_machine_has_no_indirect_commands() {
        control::set_paravirtual(true);
        let call = Call::new(&indirect());
        (1..20).for_each(|start| assert_eq!(call.run(start as f32).unwrap(), start as f32));
        assert_eq!(living(), 0);
        no_rule_is_broken();
    }

    /// A device is closed when its last batch is through, which its handler says later. Commands stay until then.
    fn commands_go_after_the_batches_that_use_them() {
        for seed in 1..=set_number("MILLSTREAM_METAL_SEEDS", 5) {
            control::set_seed(seed);
            for _ in 0..10 {
                let device = indirect();
                let call = Call::new(&device);
                (1..6).for_each(|start| assert_eq!(call.run(start as f32).unwrap(), start as f32));
                assert!(living() > 0);
                drop(call);
                device.close().unwrap();
            }
            no_rule_is_broken();
        }
    }
}
