//! Our own share of a replayed call: on the Metal device and on the CUDA device, call by call in turn, in one process.
//!
//! Both run on drivers of our own that complete at once, on the calling thread, and count the time that they take themselves.
//! That is taken off, so what is printed is what recording, submitting, replaying, waiting and reading cost the calling thread,
//! completed handlers among it. Medians. Fails if Metal's is more than 1.5 times that of CUDA.
//!
//! `scripts/metal-driver.sh share` runs it.

#[path = "../../../../cuda/tests/fake_driver/library.rs"]
mod library;

use std::process::{Command as Process, ExitCode};
use std::time::{Duration, Instant};

use millstream::command::{Activation, Command};
use millstream::memory::{Buffer, Layout};
use millstream::{DType, Device, Download, Result, Stream};
use millstream_metal_driver::control;

/// Enough for batches to be replayed, and for times to be measured.
const WARM: usize = 500;
const CALLS: usize = 5000;
const MAX_RATIO: f64 = 1.5;
const WIDTH: usize = 16;
/// Products of a call: those of `mlp` in `bench/host.rs`, and more.
const LAYERS: [usize; 2] = [3, 12];
const DRIVER: &str = "MILLSTREAM_SHARE_DRIVER";

fn main() -> ExitCode {
    match std::env::var_os(DRIVER) {
        Some(_) => measure(),
        None => restart(),
    }
}

/// Starts the program again, where the loader finds the CUDA driver.
fn restart() -> ExitCode {
    let Some(folder) = library::build("share-driver") else {
        eprintln!("there is no C compiler (cc)");
        return ExitCode::FAILURE;
    };
    let own = std::env::current_exe().expect("the path of this program");
    let variables = [("FAKE_DRIVER_AT_ONCE", "1"), ("MILLSTREAM_CACHE_DIR", "off"), (DRIVER, "1")];
    let status = Process::new(own).env("LD_LIBRARY_PATH", folder).envs(variables).status();
    if status.expect("a child process").success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn measure() -> ExitCode {
    control::start_own_time();
    control::set_at_once(true);
    let cuda = Device::open("cuda").expect("the CUDA device");
    let metal = Device::open("metal").expect("the Metal device");
    let mut within = true;
    for layers in LAYERS {
        let subjects = [Subject::new(&cuda, layers), Subject::new(&metal, layers)];
        let mut subjects = subjects.map(|subject| subject.expect("layers"));
        let own: [fn() -> Duration; 2] = [cuda_own_time, control::own_time];
        for _ in 0..WARM + CALLS {
            for (subject, own) in subjects.iter_mut().zip(own) {
                subject.call(own).expect("a call");
            }
        }
        for subject in &subjects {
            assert!(
                subject.stream.device().counters().replays > CALLS as u64,
                "calls are replayed"
            );
        }
        let [cuda, metal] = subjects.map(|subject| subject.median());
        let ratio = metal / cuda;
        println!(
            "{} Commands, replayed: cuda {cuda:.2} µs, metal {metal:.2} µs, {ratio:.2} times; medians of {CALLS}",
            layers + 2
        );
        within &= ratio <= MAX_RATIO;
    }
    if within { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What the CUDA driver has taken of this thread.
fn cuda_own_time() -> Duration {
    type OwnNanoseconds = unsafe extern "C" fn() -> u64;
    // SAFETY: the library is loaded by the CUDA device, and has the function.
    let nanoseconds = unsafe {
        let handle = libc::dlopen(c"libcuda.so".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
        let symbol = libc::dlsym(handle, c"fake_own_ns".as_ptr());
        assert!(!symbol.is_null(), "this is another CUDA driver");
        std::mem::transmute::<*mut libc::c_void, OwnNanoseconds>(symbol)()
    };
    Duration::from_nanos(nanoseconds)
}

/// Calls on one device.
struct Subject {
    stream: Stream,
    layers: Vec<[Buffer; 2]>,
    times: Vec<Duration>,
}

impl Subject {
    fn new(device: &Device, layers: usize) -> Result<Self> {
        let stream = Stream::new(device)?;
        let filled = |shape: &[usize]| -> Result<Buffer> {
            let layout = Layout::contiguous(DType::F32, shape)?;
            let buffer = stream.allocate(layout.dense_bytes())?;
            stream.record(Command::fill(buffer.operand(layout), 0.5f32)?)?;
            buffer.settle()?;
            Ok(buffer)
        };
        let layers = (0..layers).map(|_| Ok([filled(&[WIDTH, WIDTH])?, filled(&[WIDTH])?]));
        let layers = layers.collect::<Result<_>>()?;
        Ok(Self { stream, layers, times: Vec::new() })
    }

    /// Makes a call, and keeps what of its time is ours.
    fn call(&mut self, own_time: fn() -> Duration) -> Result<()> {
        let (own, started) = (own_time(), Instant::now());
        let output = self.begin()?;
        self.stream.flush()?;
        let values = output.read::<f32>()?;
        let whole = started.elapsed();
        self.times.push(whole.saturating_sub(own_time() - own));
        std::hint::black_box(values);
        Ok(())
    }

    fn begin(&self) -> Result<Download> {
        let stream = &self.stream;
        let row = Layout::contiguous(DType::F32, &[1, WIDTH])?;
        let mut value = stream.allocate(row.dense_bytes())?;
        stream.upload(value.operand(row), &[0.5f32; WIDTH])?;
        for [weight, bias] in &self.layers {
            let output = stream.allocate(row.dense_bytes())?;
            let matrix = Layout::contiguous(DType::F32, &[WIDTH, WIDTH])?.transpose(0, 1)?;
            let bias_row = Layout::contiguous(DType::F32, &[WIDTH])?.broadcast_to(&[1, WIDTH])?;
            stream.record(Command::matmul(
                output.operand(row),
                value.operand(row),
                weight.operand(matrix),
                Some(bias.operand(bias_row)),
                None,
                1.0,
                Activation::Relu,
            )?)?;
            value = output;
        }
        stream.download(value.operand(row))
    }

    /// In microseconds, of all calls but the first.
    fn median(mut self) -> f64 {
        let mut times = self.times.split_off(WARM);
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64() * 1e6
    }
}
