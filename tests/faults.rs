//! Faults on the CPU device, as users meet them: whoever reads what failed gets the error, and nobody else.

use std::collections::HashMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use millstream::nn::{Embedding, Linear, Module, Weights};
use millstream::{
    Activation, BinaryOp, Buffer, Command, DType, Device, Error, Layout, Result, Stream, Tensor,
    UnaryOp,
};

fn row(count: usize) -> Layout {
    Layout::contiguous(DType::F32, &[count]).unwrap()
}

fn filled(stream: &Stream, layout: Layout, value: f32) -> Result<Buffer> {
    let buffer = stream.allocate(layout.dense_bytes())?;
    stream.record(Command::fill(buffer.operand(layout), value)?)?;
    Ok(buffer)
}

fn read(stream: &Stream, buffer: &Buffer) -> Result<Vec<f32>> {
    stream.download(buffer.operand(row(64)))?.read::<f32>()
}

fn is_fault(error: &Error) -> bool {
    matches!(error, Error::Fault { command: "embedding", .. })
}

/// Rows of a table by an index that it does not have: fails when it runs.
struct Bad {
    table: Buffer,
    ids: Buffer,
}

impl Bad {
    fn new(stream: &Stream) -> Result<Self> {
        let table = filled(stream, Layout::contiguous(DType::F32, &[4, 64])?, 1.0)?;
        let ids = stream.allocate(8)?;
        stream.upload(ids.operand(Layout::contiguous(DType::I64, &[1])?), &[99i64])?;
        stream.synchronize()?;
        Ok(Self { table, ids })
    }

    fn record(&self, stream: &Stream) -> Result<Buffer> {
        let to = stream.allocate(256)?;
        let table = self.table.operand(Layout::contiguous(DType::F32, &[4, 64])?);
        let ids = self.ids.operand(Layout::contiguous(DType::I64, &[1])?);
        let dst = to.operand(Layout::contiguous(DType::F32, &[1, 64])?);
        stream.record(Command::embedding(dst, table, ids)?)?;
        Ok(to)
    }
}

/// Work for a while, submitted, so that what comes after it is pending.
fn keep_busy(stream: &Stream, count: usize) -> Result<Buffer> {
    let layout = Layout::contiguous(DType::F32, &[256, 256])?;
    let (a, c) = (filled(stream, layout, 0.001)?, stream.allocate(layout.dense_bytes())?);
    for _ in 0..count {
        let [to, a, b] = [&c, &a, &a].map(|buffer| buffer.operand(layout));
        stream.record(Command::matmul(to, a, b, None, None, 1.0, Activation::None)?)?;
    }
    Ok(c)
}

/// One caller asks for a row that does not exist, again and again. It gets the error every time; nobody else does,
/// however many threads share a stream with it.
#[test]
fn one_bad_caller_among_many_gets_its_error_every_time_and_nobody_else_does() {
    for (streams, threads, calls) in
        [(32u32, 64usize, 60i64), (2, 16, 200), (64, 64, 60), (1, 4, 300)]
    {
        let device = Device::builder("cpu").streams(streams).open().unwrap();
        let weights = Weights::random(1, DType::F32, &device);
        let embedding = Embedding::new(100, 64, &weights.child("emb")).unwrap();
        let linear = Linear::new(64, 64, true, &weights.child("fc")).unwrap();
        let call = |id: i64| {
            let ids = Tensor::from_slice(&[id], &[1], &device)?;
            linear.forward(&embedding.forward(&ids)?)?.to_vec::<f32>()
        };
        let expected: Vec<_> = (0..100).map(|id| call(id).unwrap()).collect();
        let reported = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..threads as i64 {
                let (call, expected, reported) = (&call, &expected, &reported);
                scope.spawn(move || {
                    for index in 0..calls {
                        if thread > 0 {
                            let id = (index + thread) % 100;
                            assert_eq!(
                                call(id).unwrap(),
                                expected[id as usize],
                                "{streams} streams"
                            );
                            continue;
                        }
                        let error = call(100).unwrap_err().to_string();
                        assert!(error.contains("embedding in layer emb"), "{error}");
                        reported.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(reported.into_inner(), calls as u64);
        assert_eq!(device.health().faults, calls as u64);
    }
}

/// Three results pending on one thread, as in async code: each is its own.
#[test]
fn results_pending_on_one_thread_fail_alone() {
    let device = Device::builder("cpu").open().unwrap();
    let weights = Weights::random(1, DType::F32, &device);
    let embedding = Embedding::new(100, 64, &weights.child("emb")).unwrap();
    let pending = [1i64, 100, 2]
        .map(|id| embedding.forward(&Tensor::from_slice(&[id], &[1], &device).unwrap()).unwrap());
    let sum = (&pending[0] + &pending[1]).unwrap();
    let results = pending.each_ref().map(|result| result.to_vec::<f32>());
    assert!(results[0].is_ok() && results[2].is_ok());
    assert!(results[1].is_err() && sum.to_vec::<f32>().is_err());
    // Reading again gives the same answers.
    assert_eq!(pending[0].to_vec::<f32>().unwrap(), *results[0].as_ref().unwrap());
    assert!(pending[1].to_vec::<f32>().is_err());
}

/// A Command waits for room on another stream while its operand fails and another thread begins a batch on
/// its own stream. What it would read was never written.
#[test]
fn an_operand_that_fails_while_the_command_waits_is_noticed() {
    let device = Device::builder("cpu").threads(2).intra_op(false).in_flight(1).open().unwrap();
    let (own, other) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let bad = Bad::new(&own).unwrap();
    let elsewhere = own.allocate(256).unwrap();
    // The other stream has one batch in flight, as many as it may, and one that is not submitted.
    let _busy = keep_busy(&other, 50).unwrap();
    other.flush().unwrap();
    let y = filled(&other, row(64), 1.0).unwrap();
    let x = bad.record(&own).unwrap();
    let (fails, sum) = (own.timepoint(), own.allocate(256).unwrap());
    let begin = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            begin.wait();
            own.flush().unwrap();
            while fails.query().is_ok() {
                std::thread::yield_now();
            }
            // The fault is known. A batch is begun that has nothing to do with it.
            own.record(Command::fill(elsewhere.operand(row(64)), 3f32).unwrap()).unwrap();
        });
        begin.wait();
        let [to, x, y] = [&sum, &x, &y].map(|buffer| buffer.operand(row(64)));
        own.record(Command::binary(BinaryOp::Add, to, x, y).unwrap()).unwrap();
    });
    assert!(is_fault(&read(&own, &sum).unwrap_err()));
    assert_eq!(read(&own, &elsewhere).unwrap(), [3.0; 64]);
}

/// Three streams in a chain; the first fails. Whoever reads the last, without ever waiting, gets the error.
#[test]
fn asking_without_waiting_tells_of_a_chain_that_failed() {
    let device = Device::builder("cpu").threads(2).intra_op(false).open().unwrap();
    let [a, b, c] = [(); 3].map(|()| Stream::new(&device).unwrap());
    let bad = Bad::new(&a).unwrap();
    let _busy = keep_busy(&a, 20).unwrap();
    let x = bad.record(&a).unwrap();
    let (y, z) = (b.allocate(256).unwrap(), c.allocate(256).unwrap());
    let negate = |stream: &Stream, to: &Buffer, from: &Buffer| {
        let (to, from) = (to.operand(row(64)), from.operand(row(64)));
        stream.record(Command::unary(UnaryOp::Neg, to, from).unwrap()).unwrap()
    };
    negate(&b, &y, &x);
    let point = negate(&c, &z, &y);
    // A chain that goes well is reported, too.
    let (good, w) = (filled(&a, row(64), 2.0).unwrap(), c.allocate(256).unwrap());
    let well = negate(&c, &w, &good);
    c.flush().unwrap();
    let error = loop {
        match point.query() {
            Ok(_) => std::thread::yield_now(),
            Err(error) => break error,
        }
    };
    assert!(is_fault(&error), "{error}");
    while !well.query().unwrap() {
        std::thread::yield_now();
    }
    assert_eq!(read(&c, &w).unwrap(), [-2.0; 64]);
}

/// Results are good for ever, whatever fails later on their stream.
#[test]
fn a_kept_result_outlives_any_number_of_faults_of_others() {
    let device = Device::builder("cpu").open().unwrap();
    let stream = Stream::new(&device).unwrap();
    let bad = Bad::new(&stream).unwrap();
    let fault = || assert!(is_fault(&read(&stream, &bad.record(&stream).unwrap()).unwrap_err()));
    fault();
    let kept = filled(&stream, row(64), 5.0).unwrap();
    for _ in 0..300 {
        fault();
        assert_eq!(read(&stream, &kept).unwrap(), [5.0; 64]);
    }
}

/// Contents are complete although a bad request has read them; memory of a failed call is written and read by
/// another stream.
#[test]
fn what_a_bad_request_has_touched_is_as_good_as_before() {
    let device = Device::builder("cpu").open().unwrap();
    let (home, other) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let bad = Bad::new(&home).unwrap();
    let x = bad.record(&other).unwrap();
    assert!(is_fault(&other.synchronize().unwrap_err()));
    bad.table.settle().unwrap();
    assert!(is_fault(&x.settle().unwrap_err()));
    let failed = bad.record(&home).unwrap();
    let fresh = home.allocate(256).unwrap();
    assert!(is_fault(&home.synchronize().unwrap_err()));
    drop(failed);
    other.record(Command::fill(fresh.operand(row(64)), 2f32).unwrap()).unwrap();
    assert_eq!(read(&other, &fresh).unwrap(), [2.0; 64]);
}

/// Two threads write one buffer, each on its own stream: one of two values everywhere, never both.
#[test]
fn two_writers_leave_one_value_in_the_buffer() {
    const COUNT: usize = 1 << 16;
    let device = Device::builder("cpu").threads(2).intra_op(false).open().unwrap();
    let streams = [(); 2].map(|()| Stream::new(&device).unwrap());
    let buffer = streams[0].allocate(4 * COUNT).unwrap();
    let barrier = Barrier::new(3);
    std::thread::scope(|scope| {
        for (index, stream) in streams.iter().enumerate() {
            let (barrier, buffer) = (&barrier, &buffer);
            scope.spawn(move || {
                for _ in 0..500 {
                    barrier.wait();
                    let operand = buffer.operand(row(COUNT));
                    stream.record(Command::fill(operand, index as f32 + 1.0).unwrap()).unwrap();
                    stream.flush().unwrap();
                    barrier.wait();
                }
            });
        }
        let mut values = vec![0f32; COUNT];
        let mut seen = HashMap::<u32, usize>::new();
        for round in 0..500 {
            barrier.wait();
            barrier.wait();
            let download = streams[0].download(buffer.operand(row(COUNT))).unwrap();
            download.read_into(&mut values).unwrap();
            assert!(values.iter().all(|&value| value == values[0]), "round {round}");
            *seen.entry(values[0].to_bits()).or_default() += 1;
        }
        assert!(seen.keys().all(|bits| [1f32, 2f32].contains(&f32::from_bits(*bits))));
    });
}

/// A buffer shows nobody else's data, also on a device with real memory.
#[test]
fn memory_that_was_never_written_reads_as_zero() {
    let device = Device::builder("cpu").open().unwrap();
    let stream = Stream::new(&device).unwrap();
    for bytes in [256, 4096, 1 << 20] {
        let secret = stream.allocate(bytes).unwrap();
        let operand = secret.operand(row(bytes / 4));
        stream.record(Command::fill(operand, 42f32).unwrap()).unwrap();
        stream.synchronize().unwrap();
        drop(secret);
        let fresh = stream.allocate(bytes).unwrap();
        let values = stream.download(fresh.operand(row(bytes / 4))).unwrap().read::<f32>().unwrap();
        assert!(values.iter().all(|&value| value == 0.0), "{bytes} bytes");
        drop(fresh);
        // A part that is written, and the rest.
        let part = stream.allocate(bytes).unwrap();
        let layout = row(bytes / 8).shifted(bytes / 8).unwrap();
        stream.record(Command::fill(part.operand(layout), 7f32).unwrap()).unwrap();
        let values = stream.download(part.operand(row(bytes / 4))).unwrap().read::<f32>().unwrap();
        assert!(values[..bytes / 8].iter().all(|&value| value == 0.0));
        assert!(values[bytes / 8..].iter().all(|&value| value == 7.0));
    }
}
