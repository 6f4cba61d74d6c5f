//! What the runtime itself costs, and whether streams disturb each other.
//!
//! `cargo bench --bench runtime` prints tables; `-- --json` prints JSON. Every figure that is compared
//! with another one comes from the same run: repetitions of all settings are interleaved, and the best
//! of each counts.

use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millstream::{
    Activation, Backend, BackendInfo, Batch, Command, Config, DType, Device, Distribution, Layout,
    OpKind, Progress, Queue, QueueContext, Result, Segment, Stream,
};

/// Repetitions of each setting.
const ROUNDS: usize = 10;

fn main() -> Result<()> {
    // Cargo passes `--bench`; only `--json` matters.
    let json = std::env::args().any(|argument| argument == "--json");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let submit = submit_cost(cores)?;
    let scaling = two_streams()?;
    if json {
        let rows: Vec<String> = submit
            .iter()
            .map(|row| {
                format!(
                    r#"{{"device":"{}","batch":{},"streams":{},"cpu_ns":{:.1},"wall_ns":{:.1}}}"#,
                    row.device, row.batch, row.streams, row.cpu, row.wall
                )
            })
            .collect();
        println!(
            r#"{{"cores":{cores},"submit":[{}],"two_streams_over_one":{scaling:.3}}}"#,
            rows.join(",")
        );
        return Ok(());
    }
    println!("record + submit per command, {cores} cores, best of {ROUNDS}:");
    println!(
        "ns of processor time (all threads of the process), and ns of elapsed time × cores used\n"
    );
    println!(
        "{:<26} {:>6} {:>8} {:>9} {:>10} {:>9} {:>10}",
        "device", "batch", "streams", "cpu ns", "to 1 str.", "wall ns", "to 1 str."
    );
    for row in &submit {
        let one = submit
            .iter()
            .find(|other| (other.device, other.batch, other.streams) == (row.device, row.batch, 1))
            .expect("one stream is measured");
        println!(
            "{:<26} {:>6} {:>8} {:>9.0} {:>10.2} {:>9.0} {:>10.2}",
            row.device,
            row.batch,
            row.streams,
            row.cpu,
            row.cpu / one.cpu,
            row.wall,
            row.wall / one.wall
        );
    }
    println!("\ntwo streams over one, matmul 256³, intra-op threads off: {scaling:.2}");
    Ok(())
}

struct Row {
    device: &'static str,
    batch: usize,
    streams: usize,
    cpu: f64,
    wall: f64,
}

fn submit_cost(cores: usize) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for batch in [1, 64] {
        let config = Config { batch_commands: batch, ..Config::default() };
        let nothing = Device::with_backend(Box::new(Nothing), config.clone())?;
        let cpu = Device::builder("cpu").config(Config { intra_op: false, ..config }).open()?;
        for (name, device) in [("none (runtime alone)", nothing), ("cpu (fill of 16 run too)", cpu)]
        {
            let counts = [1, 2, 8, 31];
            let mut best = [(f64::INFINITY, f64::INFINITY); 4];
            for _ in 0..ROUNDS {
                for (best, streams) in best.iter_mut().zip(counts) {
                    let (cpu, wall) = round(device, streams, cores)?;
                    *best = (best.0.min(cpu), best.1.min(wall));
                }
            }
            for ((cpu, wall), streams) in best.into_iter().zip(counts) {
                rows.push(Row { device: name, batch, streams, cpu, wall });
            }
        }
    }
    Ok(rows)
}

/// One thread per stream records fills; nanoseconds per command, of the processor and on the clock.
fn round(device: Device, streams: usize, cores: usize) -> Result<(f64, f64)> {
    // Long enough for the scheduler to spread the threads over the cores.
    let commands = 300_000 / streams;
    let barrier = Arc::new(Barrier::new(streams));
    let cpu_before = process_cpu_ns();
    let threads: Vec<_> = (0..streams)
        .map(|_| {
            let barrier = Arc::clone(&barrier);
            std::thread::spawn(move || -> Result<Span> {
                let stream = Stream::new(&device)?;
                let layout = Layout::contiguous(DType::F32, &[16])?;
                let buffer = stream.allocate(layout.dense_bytes())?;
                stream.record(Command::fill(buffer.operand(layout), 0.0f32)?)?;
                stream.synchronize()?;
                barrier.wait();
                let started = Instant::now();
                for _ in 0..commands {
                    stream.record(Command::fill(buffer.operand(layout), 1.0f32)?)?;
                }
                stream.synchronize()?;
                Ok((started, Instant::now()))
            })
        })
        .collect();
    let busy = elapsed(threads)?.as_nanos() as f64 * streams.min(cores) as f64;
    let total = (commands * streams) as f64;
    Ok(((process_cpu_ns() - cpu_before) / total, busy / total))
}

/// Processor time of the whole process. Unlike the clock it does not count time that other processes,
/// or other machines on the same host, took away.
#[cfg(unix)]
fn process_cpu_ns() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

#[cfg(not(unix))]
fn process_cpu_ns() -> f64 {
    f64::NAN
}

/// Throughput of two threads on two streams over that of one, on a compute-bound Command.
fn two_streams() -> Result<f64> {
    let device = Device::builder("cpu").intra_op(false).open()?;
    let mut best = [0f64; 2];
    for _ in 0..ROUNDS {
        for (best, threads) in best.iter_mut().zip([1, 2]) {
            *best = best.max(matmuls_per_second(device, threads)?);
        }
    }
    Ok(best[1] / best[0])
}

fn matmuls_per_second(device: Device, threads: usize) -> Result<f64> {
    const CALLS: usize = 200;
    let barrier = Arc::new(Barrier::new(threads));
    let handles: Vec<_> = (0..threads)
        .map(|_| {
            let barrier = Arc::clone(&barrier);
            std::thread::spawn(move || -> Result<Span> {
                let stream = Stream::new(&device)?;
                let layout = Layout::contiguous(DType::F32, &[256, 256])?;
                let [a, b, c] = [(); 3].map(|()| stream.allocate(layout.dense_bytes()));
                let (a, b, c) = (a?, b?, c?);
                let normal = Distribution::Normal { mean: 0.0, deviation: 1.0 };
                for buffer in [&a, &b] {
                    stream.record(Command::random(buffer.operand(layout), normal, 1, 0)?)?;
                }
                stream.synchronize()?;
                barrier.wait();
                let started = Instant::now();
                for _ in 0..CALLS {
                    let (dst, a, b) = (c.operand(layout), a.operand(layout), b.operand(layout));
                    stream.record(Command::matmul(
                        dst,
                        a,
                        b,
                        None,
                        None,
                        1.0,
                        Activation::None,
                    )?)?;
                    stream.synchronize()?;
                }
                Ok((started, Instant::now()))
            })
        })
        .collect();
    Ok((threads * CALLS) as f64 / elapsed(handles)?.as_secs_f64())
}

/// When a thread began and ended its timed part.
type Span = (Instant, Instant);

/// From the first beginning to the last end.
fn elapsed(threads: Vec<JoinHandle<Result<Span>>>) -> Result<Duration> {
    let spans = threads
        .into_iter()
        .map(|thread| thread.join().expect("a bench thread panicked"))
        .collect::<Result<Vec<Span>>>()?;
    let first = spans.iter().map(|span| span.0).min().expect("at least one thread");
    let last = spans.iter().map(|span| span.1).max().expect("at least one thread");
    Ok(last - first)
}

/// A backend that is done with everything at once, so that only the runtime is measured.
struct Nothing;

struct NothingQueue(Arc<Progress>);

impl Backend for Nothing {
    fn info(&self) -> BackendInfo {
        BackendInfo {
            name: "nothing".into(),
            description: "does nothing".into(),
            memory_bytes: 1 << 30,
            parallelism: 1,
            queue_capacity: 64,
            alignment: 64,
            streams: 32,
            f64: true,
        }
    }

    fn supports(&self, _: OpKind) -> bool {
        true
    }

    fn allocate(&self, bytes: usize) -> Result<Option<Segment>> {
        Ok(Some(Segment { address: 0x1000, bytes, host: None, owner: Box::new(()) }))
    }

    fn new_queue(&self, context: QueueContext) -> Result<Arc<dyn Queue>> {
        Ok(Arc::new(NothingQueue(context.progress)))
    }
}

impl Queue for NothingQueue {
    fn submit(&self, batch: Batch) -> Result<()> {
        self.0.advance(batch.last);
        Ok(())
    }

    fn wait(&self, _: u64, _: Instant) -> Result<()> {
        Ok(())
    }
}
