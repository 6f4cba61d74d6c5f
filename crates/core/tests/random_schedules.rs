//! Random programs on random schedules: threads, streams, shared buffers, drops, faults and pressure.
//! The fake device checks order and lifetime of every access.

mod common;

use common::*;
use millstream_core::fake::{self, FakeControl};
use millstream_core::{Buffer, Device, Error, Stream};
use proptest::prelude::*;

/// One step of a program; numbers choose among what there is.
#[derive(Clone, Debug)]
enum Step {
    Allocate { stream: usize, size: usize },
    Fill { stream: usize, buffer: usize },
    Copy { stream: usize, to: usize, from: usize },
    Drop { buffer: usize },
    Settle { buffer: usize },
    Flush { stream: usize },
    Wait { stream: usize },
    Run,
    Trim,
    FailNext { stream: usize },
}

fn steps(faults: bool) -> impl Strategy<Value = Vec<Step>> {
    let index = 0usize..16;
    let stream = 0usize..4;
    let step = prop_oneof![
        4 => (stream.clone(), 1usize..40).prop_map(|(stream, size)| Step::Allocate { stream, size: size * 50_000 }),
        3 => (stream.clone(), index.clone()).prop_map(|(stream, buffer)| Step::Fill { stream, buffer }),
        6 => (stream.clone(), index.clone(), index.clone())
            .prop_map(|(stream, to, from)| Step::Copy { stream, to, from }),
        3 => index.clone().prop_map(|buffer| Step::Drop { buffer }),
        1 => index.prop_map(|buffer| Step::Settle { buffer }),
        1 => stream.clone().prop_map(|stream| Step::Flush { stream }),
        1 => stream.clone().prop_map(|stream| Step::Wait { stream }),
        1 => Just(Step::Run),
        1 => Just(Step::Trim),
        if faults { 1 } else { 0 } => stream.prop_map(|stream| Step::FailNext { stream }),
    ];
    prop::collection::vec(step, 1..80)
}

/// Errors that a program with planted faults and little memory may meet.
fn tolerated(error: &Error) -> bool {
    matches!(error, Error::Fault { .. } | Error::OutOfMemory { .. } | Error::Settled { .. })
}

fn run(device: Device, control: &FakeControl, steps: &[Step]) -> Result<(), Error> {
    let streams: Vec<Stream> = (0..4).map(|_| Stream::new(&device)).collect::<Result<_, _>>()?;
    let mut buffers: Vec<Buffer> = Vec::new();
    for step in steps {
        let pick = |index: usize| buffers.get(index % buffers.len().max(1));
        let result = match *step {
            Step::Allocate { stream, size } => {
                streams[stream].allocate(size).map(|buffer| buffers.push(buffer))
            }
            Step::Fill { stream, buffer } => match pick(buffer) {
                Some(buffer) => fill(&streams[stream], buffer).map(drop),
                None => Ok(()),
            },
            Step::Copy { stream, to, from } => match (pick(to), pick(from)) {
                (Some(to), Some(from)) => copy_common(&streams[stream], to, from),
                _ => Ok(()),
            },
            Step::Drop { buffer } => {
                if !buffers.is_empty() {
                    buffers.swap_remove(buffer % buffers.len());
                }
                Ok(())
            }
            Step::Settle { buffer } => pick(buffer).map_or(Ok(()), Buffer::settle),
            Step::Flush { stream } => streams[stream].flush(),
            Step::Wait { stream } => streams[stream].synchronize(),
            Step::Run => {
                control.run_all();
                Ok(())
            }
            Step::Trim => device.empty_cache(),
            Step::FailNext { stream } => {
                let next = streams[stream].timepoint().sequence() + 1;
                control.fail_command(streams[stream].id(), next);
                Ok(())
            }
        };
        if let Err(error) = result
            && !tolerated(&error)
        {
            return Err(error);
        }
    }
    drop(buffers);
    match device.synchronize() {
        Err(error) if !tolerated(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Copies as much as both buffers have.
fn copy_common(stream: &Stream, to: &Buffer, from: &Buffer) -> Result<(), Error> {
    if std::ptr::eq(to, from) {
        return Ok(());
    }
    let size = to.bytes().min(from.bytes()) / 4;
    let layout = millstream_core::Layout::contiguous(millstream_core::DType::F32, &[size])?;
    stream
        .record(millstream_core::Command::copy(to.operand(layout), from.operand(layout))?)
        .map(drop)
}

fn check(steps: &[Step], seed: u64, memory: usize) -> Result<(), TestCaseError> {
    let mut settings = config();
    settings.batch_commands = 1 + (seed % 5) as usize;
    settings.in_flight = 1 + (seed % 3) as usize;
    let (device, control) = fake::device(settings, memory, seed).unwrap();
    run(device, &control, steps).map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert!(control.violations().is_empty(), "{:#?}", control.violations());
    prop_assert_eq!(device.memory().in_use, 0);
    device.empty_cache().unwrap();
    prop_assert_eq!(control.memory_taken(), 0, "memory leaked: {:?}", device.memory());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_access_is_ordered_and_every_block_comes_back(steps in steps(false), seed in any::<u64>()) {
        check(&steps, seed, MEMORY)?;
    }

    #[test]
    fn the_same_with_faults(steps in steps(true), seed in any::<u64>()) {
        check(&steps, seed, MEMORY)?;
    }

    #[test]
    fn the_same_with_little_memory(steps in steps(true), seed in any::<u64>()) {
        check(&steps, seed, 6 << 20)?;
    }
}

/// Real threads share streams and buffers; only order and lifetime are checked, not values.
#[test]
fn threads_on_shared_streams_keep_the_protocol() {
    let (device, control) = device_with(|config| {
        config.streams = Some(4);
        config.batch_commands = 3;
        config.in_flight = 2;
    });
    let pool: std::sync::Mutex<Vec<Buffer>> = std::sync::Mutex::default();
    std::thread::scope(|scope| {
        for thread in 0..12u64 {
            let pool = &pool;
            scope.spawn(move || {
                let stream = device.stream().unwrap();
                let mut random = thread * 2 + 1;
                for _ in 0..200 {
                    random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
                    let other = {
                        let mut pool = pool.lock().unwrap();
                        match pool.len() {
                            0 => None,
                            len if random & 1 == 0 => Some(pool.swap_remove(random as usize % len)),
                            len => Some(pool[random as usize % len].clone()),
                        }
                    };
                    let own = stream.allocate(1 << 12).unwrap();
                    match other {
                        Some(other) => copy(&stream, &own, &other).unwrap(),
                        None => fill(&stream, &own).unwrap(),
                    };
                    pool.lock().unwrap().push(own);
                    if random & 0xf00 == 0 {
                        stream.synchronize().unwrap();
                    }
                }
            });
        }
    });
    pool.into_inner().unwrap().clear();
    device.synchronize().unwrap();
    assert_eq!(device.memory().in_use, 0);
    control.assert_no_violations();
}
