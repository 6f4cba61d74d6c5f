use millstream_core::{BinaryOp, Command, DType, Device, Layout, Plan, Stream};

use super::*;
use crate::kernels::with_scratch_bytes;

/// After this long something hangs; the machine may be busy.
const HANG: std::time::Duration = std::time::Duration::from_secs(120);

#[test]
fn a_device_leaves_room_unless_a_limit_is_asked_for() {
    let limit = |device: Result<Device>| device.unwrap().memory().limit;
    assert_eq!(limit(Device::builder("cpu").open()), memory::default_limit());
    let all = memory::total();
    assert_eq!(limit(Device::builder("cpu").memory_limit(all).open()), all);
}

#[test]
fn scratch_memory_is_in_the_statistics_of_the_device() {
    let device = Device::builder("cpu").threads(1).open().unwrap();
    let bytes = 3 << 20;
    let counted = with_scratch_bytes(bytes, || device.memory().scratch);
    assert!(counted >= bytes, "{counted}");
}

/// A call stands in line once, so that calls of long models are not as late as those of all others together for each of their batches.
#[test]
fn a_plan_of_any_length_is_one_batch_with_what_is_recorded_behind_it() {
    const STEPS: usize = 200;
    let device = Device::builder("cpu").batch_commands(8).wait_timeout(HANG).open().unwrap();
    let stream = Stream::new(&device).unwrap();
    let row = Layout::contiguous(DType::F32, &[4]).unwrap();
    let mut plan = Plan::builder(&device);
    let (x, y) = (plan.input(row), plan.output(row));
    let mut from = x;
    for step in 1..=STEPS {
        let to = if step == STEPS { y } else { plan.temporary(row.dense_bytes()) };
        let [out, a, b] = [to, from, x].map(|slot| slot.operand(row));
        plan.record(Command::binary(BinaryOp::Add, out, a, b).unwrap()).unwrap();
        from = to;
    }
    let plan = plan.finish().unwrap();
    let ones: Vec<u8> = [1f32; 4].iter().flat_map(|one| one.to_ne_bytes()).collect();
    let input = stream.allocate_with(&row, &ones).unwrap();
    for _ in 0..3 {
        let output = stream.allocate(row.dense_bytes()).unwrap();
        let before = stream.counters();
        stream.run(&plan, &[&input], &[&output]).unwrap();
        let answer = stream.download(output.operand(row)).unwrap();
        assert_eq!(answer.read::<f32>().unwrap(), [STEPS as f32 + 1.0; 4]);
        let after = stream.counters();
        assert_eq!(after.submits - before.submits, 1);
        assert_eq!(after.commands - before.commands, STEPS as u64 + 1);
    }
    // Commands that are recorded one by one still are batches of eight, and a second run does not wait for anybody.
    let before = stream.counters();
    let outputs = [(); 2].map(|()| stream.allocate(row.dense_bytes()).unwrap());
    for output in &outputs {
        stream.run(&plan, &[&input], &[output]).unwrap();
        for _ in 0..8 {
            stream
                .record(
                    Command::binary(
                        BinaryOp::Add,
                        output.operand(row),
                        output.operand(row),
                        input.operand(row),
                    )
                    .unwrap(),
                )
                .unwrap();
        }
    }
    assert_eq!(stream.counters().submits - before.submits, 2);
    for output in &outputs {
        let answer = stream.download(output.operand(row)).unwrap();
        assert_eq!(answer.read::<f32>().unwrap(), [STEPS as f32 + 9.0; 4]);
    }
}
