//! A decoder's cache of keys and values, which every run of one plan adds to in place.

use millstream::{
    Alignment, AttentionParams, BinaryOp, Buffer, Command, DType, Device, Error, KeyWindow, Layout,
    Plan, Result, Stream,
};

const HEADS: usize = 2;
const SIZE: usize = 16;
const LONGEST: usize = 9;

fn rows(count: usize) -> Layout {
    Layout::contiguous(DType::F32, &[1, HEADS, count, SIZE]).unwrap()
}

fn number() -> Layout {
    Layout::contiguous(DType::I32, &[1]).unwrap()
}

/// Takes a query, a key, a value, the place that both go to, and how many there are then. The result comes
/// first, then the caches.
fn decoder(device: &Device) -> Result<Plan> {
    let mut plan = Plan::builder(device);
    let [query, key, value] = [(); 3].map(|()| plan.input(rows(1)));
    let [place, length] = [(); 2].map(|()| plan.input(number()));
    let dst = plan.output(rows(1));
    let caches = [(); 2].map(|()| plan.state(rows(LONGEST)).operand(rows(LONGEST)));
    for (cache, new) in caches.into_iter().zip([key, value]) {
        let (new, place) = (new.operand(rows(1)), place.operand(number()));
        plan.record(Command::cache_write(cache, cache, new, Some(place), 2, false)?)?;
    }
    let window = KeyWindow::causal(Alignment::End);
    let params = AttentionParams { window, ..AttentionParams::new(0.25) };
    let [keys, values] = caches;
    let [dst, query] = [dst, query].map(|slot| slot.operand(rows(1)));
    let lengths = Some(length.operand(number()));
    plan.record(Command::attention_with(params, dst, [query, keys, values], None, lengths)?)?;
    plan.finish()
}

/// Numbers that differ from step to step and from operand to operand.
fn numbers(step: usize, which: usize) -> Vec<f32> {
    let number = |i: usize| ((step * 31 + which * 17 + i * 7) % 23) as f32 / 8.0 - 1.25;
    (0..HEADS * SIZE).map(number).collect()
}

/// All rows up to a step, head by head.
fn so_far(step: usize, which: usize) -> Vec<f32> {
    let row = |head: usize, step| numbers(step, which)[head * SIZE..][..SIZE].to_vec();
    (0..HEADS).flat_map(|head| (0..=step).flat_map(move |step| row(head, step))).collect()
}

fn upload(stream: &Stream, layout: Layout, values: &[f32]) -> Result<Buffer> {
    let buffer = stream.allocate(layout.dense_bytes())?;
    stream.upload(buffer.operand(layout), values)?;
    Ok(buffer)
}

#[test]
fn a_cache_that_grows_in_place_gives_the_bits_of_all_keys_at_once() -> Result<()> {
    let device = Device::builder("cpu").threads(2).open()?;
    let stream = device.stream()?;
    let plan = decoder(&device)?;
    let [keys, values] = [(); 2].map(|()| stream.allocate(rows(LONGEST).dense_bytes()));
    let (keys, values) = (keys?, values?);
    let dst = stream.allocate(rows(1).dense_bytes())?;
    for step in 0..LONGEST {
        let given = [0, 1, 2].map(|which| upload(&stream, rows(1), &numbers(step, which)));
        let [query, key, value] = given;
        let (query, key, value) = (query?, key?, value?);
        let [place, length] = [(); 2].map(|()| stream.allocate(4));
        let (place, length) = (place?, length?);
        stream.upload(place.operand(number()), &[step as i32])?;
        stream.upload(length.operand(number()), &[step as i32 + 1])?;
        stream.run(&plan, &[&query, &key, &value, &place, &length], &[&dst, &keys, &values])?;
        let found = stream.download(dst.operand(rows(1)))?.read::<f32>()?;

        let all = rows(step + 1);
        let [k, v] = [1, 2].map(|which| upload(&stream, all, &so_far(step, which)));
        let (k, v, to) = (k?, v?, stream.allocate(rows(1).dense_bytes())?);
        let [to, q] = [&to, &query].map(|buffer| buffer.operand(rows(1)));
        let [k, v] = [&k, &v].map(|buffer| buffer.operand(all));
        stream.record(Command::attention(to, q, k, v, None, 0.25, true)?)?;
        assert_eq!(found, stream.download(to)?.read::<f32>()?, "step {step}");
    }
    Ok(())
}

/// Adds one to what is there, and copies the row that is asked for.
fn counter(device: &Device, count: Layout) -> Result<Plan> {
    let mut plan = Plan::builder(device);
    let (ids, seen) = (plan.input(number()), plan.output(count));
    let state = plan.state(count);
    let one = plan.temporary(count.dense_bytes()).operand(count);
    let [state, seen] = [state, seen].map(|slot| slot.operand(count));
    plan.record(Command::fill(one, 1.0f32)?)?;
    plan.record(Command::binary(BinaryOp::Add, state, state, one)?)?;
    // A row that does not exist fails.
    plan.record(Command::embedding(seen, state, ids.operand(number()))?)?;
    plan.finish()
}

fn ids(stream: &Stream, id: i32) -> Result<Buffer> {
    let buffer = stream.allocate(4)?;
    stream.upload(buffer.operand(number()), &[id])?;
    Ok(buffer)
}

#[test]
fn a_state_that_nobody_has_written_is_zero_before_the_first_run() -> Result<()> {
    let device = Device::builder("cpu").streams(2).open()?;
    let stream = device.stream()?;
    let count = Layout::contiguous(DType::F32, &[1, 4])?;
    let plan = counter(&device, count)?;
    let left = upload(&stream, count, &[7.0; 4])?;
    stream.synchronize()?;
    drop(left);
    // The block that has just been given back.
    let state = stream.allocate(count.dense_bytes())?;
    let (seen, ids) = (stream.allocate(count.dense_bytes())?, ids(&stream, 0)?);
    for run in 1..=3 {
        stream.run(&plan, &[&ids], &[&seen, &state])?;
        let found = stream.download(seen.operand(count))?.read::<f32>()?;
        assert_eq!(found, [run as f32; 4]);
    }
    Ok(())
}

#[test]
fn a_state_with_a_fault_fails_who_reads_it_until_it_is_written_anew() -> Result<()> {
    let device = Device::builder("cpu").streams(2).open()?;
    let stream = device.stream()?;
    let count = Layout::contiguous(DType::F32, &[1, 4])?;
    let plan = counter(&device, count)?;
    let [state, seen] = [(); 2].map(|()| stream.allocate(count.dense_bytes()));
    let (state, seen) = (state?, seen?);
    let (good, bad) = (ids(&stream, 0)?, ids(&stream, 5)?);
    let read = |from: &Buffer| stream.download(from.operand(count))?.read::<f32>();
    let is_fault =
        |result: Result<Vec<f32>>| matches!(result, Err(Error::Fault { command: "embedding", .. }));
    stream.run(&plan, &[&bad], &[&seen, &state])?;
    assert!(is_fault(read(&seen)));
    assert_eq!(read(&state)?, [1.0; 4], "only what failed is bad");
    stream.run(&plan, &[&good], &[&seen, &state])?;
    assert_eq!(read(&seen)?, [2.0; 4]);
    // The state itself gets a bad value from elsewhere.
    let table = upload(&stream, count, &[1.0; 4])?;
    let [to, from] = [&state, &table].map(|buffer| buffer.operand(count));
    stream.record(Command::embedding(to, from, bad.operand(number()))?)?;
    for _ in 0..2 {
        stream.run(&plan, &[&good], &[&seen, &state])?;
        assert!(is_fault(read(&seen)) && is_fault(read(&state)));
    }
    stream.upload(state.operand(count), &[4.0f32; 4])?;
    stream.run(&plan, &[&good], &[&seen, &state])?;
    assert_eq!(read(&seen)?, [5.0; 4]);
    Ok(())
}
