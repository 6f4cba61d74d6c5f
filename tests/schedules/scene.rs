//! What scenarios are made of: a device with settings of the seed's choice, and a few Commands that the CPU
//! device and the host driver of the CUDA queue both compute, with values that are known exactly.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::runtime::{
    Activation, Buffer, Command, DType, Device, DeviceBuilder, Download, Error, Layout, Plan,
    Result, Slot, Stream, Timepoint,
};

/// Waits end late: the machine may be busy. A wait that gets there has found a hang.
pub const HANG: Duration = Duration::from_secs(30);

/// Enough rows, and columns that are no packs, for products to go to the library on CUDA.
pub const ROWS: usize = 5;
pub const COLUMNS: usize = 9;
/// Elements of a value.
pub const COUNT: usize = ROWS * COLUMNS;

/// A seed, and what it opens.
pub struct Scene {
    name: String,
    seed: u64,
}

/// Numbers of one thread.
pub struct Numbers(Cell<u64>);

impl Numbers {
    pub fn below(&self, end: u64) -> u64 {
        self.0.set(self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        let mut mixed = self.0.get();
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    pub fn one_in(&self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub fn pick<'a, T>(&self, among: &'a [T]) -> &'a T {
        &among[self.below(among.len() as u64) as usize]
    }

    /// A time that most waits are longer than, some are not.
    pub fn moment(&self) -> Duration {
        Duration::from_micros(self.below(1 << self.below(9)))
    }
}

impl Scene {
    pub fn new(name: &str, seed: u64) -> Self {
        Self { name: name.to_owned(), seed }
    }

    /// The numbers of a thread; `0` is the scenario's own.
    pub fn numbers(&self, thread: u64) -> Numbers {
        let numbers = Numbers(Cell::new(self.seed ^ thread << 48));
        numbers.below(1);
        numbers
    }

    pub fn is_cpu(&self) -> bool {
        self.name == "cpu"
    }

    /// Settings that are different for every seed.
    pub fn builder(&self) -> DeviceBuilder {
        let numbers = self.numbers(99);
        let mut builder = Device::builder(&self.name)
            .wait_timeout(HANG)
            .batch_commands(*numbers.pick(&[1, 2, 3, 64]))
            .in_flight(*numbers.pick(&[1, 2, 16]));
        if self.is_cpu() {
            builder = builder.intra_op(numbers.one_in(2));
            if !numbers.one_in(3) {
                builder = builder.threads(1 + numbers.below(3) as usize);
            }
        }
        builder
    }

    /// A device with so many streams for threads.
    pub fn open(&self, streams: u32) -> Device {
        self.builder().streams(streams + 1).open().expect("the device opens")
    }

    /// Runs `work` on threads numbered from 1 on.
    pub fn threads(&self, count: u64, work: impl Fn(u64, &Numbers) + Sync) {
        std::thread::scope(|scope| {
            let work = &work;
            let run = |index| {
                let run = move || work(index, &self.numbers(index));
                let thread = std::thread::Builder::new().name(format!("caller {index}"));
                thread.spawn_scoped(scope, run).expect("a thread")
            };
            // Joined, since a scope does not wait until its threads have given their streams back.
            let threads: Vec<_> = (1..=count).map(run).collect();
            threads.into_iter().for_each(|thread| thread.join().expect("a caller"));
        });
    }
}

pub fn matrix(rows: usize, columns: usize) -> Layout {
    Layout::contiguous(DType::F32, &[rows, columns]).unwrap()
}

fn value_layout() -> Layout {
    matrix(ROWS, COLUMNS)
}

fn indices(count: usize) -> Layout {
    Layout::contiguous(DType::I64, &[count]).unwrap()
}

/// The elements of value `v`. They differ, so that a value of which a part is another's is seen.
pub fn elements(v: u64) -> Vec<f32> {
    (0..COUNT).map(|index| (v * 64 + index as u64) as f32).collect()
}

/// Which value these elements are, if they are one.
pub fn value_of(elements: &[f32]) -> Option<u64> {
    let v = elements[0] as u64 / 64;
    (elements == crate::scene::elements(v)).then_some(v)
}

/// Weights that all threads use, settled.
pub struct Shared {
    identity: Buffer,
    /// One value further.
    next: Buffer,
    rows: Buffer,
}

impl Shared {
    pub fn new(stream: &Stream) -> Result<Self> {
        let put = |layout: Layout, values: &[f32]| {
            let buffer = stream.allocate(layout.dense_bytes())?;
            stream.upload(buffer.operand(layout), values)?;
            buffer.settle()?;
            Ok(buffer)
        };
        let diagonal = |at: usize| f32::from(u8::from(at / COLUMNS == at % COLUMNS));
        let ones: Vec<f32> = (0..COLUMNS * COLUMNS).map(diagonal).collect();
        let identity = put(matrix(COLUMNS, COLUMNS), &ones)?;
        let next = put(Layout::contiguous(DType::F32, &[COLUMNS])?, &[64.0; COLUMNS])?;
        let rows = stream.allocate(ROWS * 8)?;
        stream.upload(rows.operand(indices(ROWS)), &[0i64, 1, 2, 3, 4])?;
        rows.settle()?;
        Ok(Self { identity, next, rows })
    }

    /// Records that `to` is the value after that in `from`.
    pub fn step(&self, stream: &Stream, to: &Buffer, from: &Buffer) -> Result<Timepoint> {
        let [to, from] = [to, from].map(|buffer| buffer.operand(value_layout()));
        let weights = self.identity.operand(matrix(COLUMNS, COLUMNS));
        let bias = self.next.operand(Layout::contiguous(DType::F32, &[COLUMNS])?);
        let command = Command::matmul(to, from, weights, Some(bias), None, 1.0, Activation::None)?;
        stream.record(command)
    }

    /// A plan of two results: the value after the next of the first input, and the next value of those of its rows
    /// that the second input names.
    pub fn plan(&self, device: &Device) -> Result<Plan> {
        let mut plan = Plan::builder(device);
        let (from, rows) = (plan.input(value_layout()), plan.input(indices(ROWS)));
        let [further, copied] = [(); 2].map(|()| plan.output(value_layout()));
        let [first, second] = [(); 2].map(|()| plan.temporary(value_layout().dense_bytes()));
        let (identity, next) = (plan.weights(&self.identity)?, plan.weights(&self.next)?);
        let step = |to: Slot, from: Slot| {
            let [to, from] = [to, from].map(|slot| slot.operand(value_layout()));
            let weights = identity.operand(matrix(COLUMNS, COLUMNS));
            let bias = next.operand(Layout::contiguous(DType::F32, &[COLUMNS])?);
            Command::matmul(to, from, weights, Some(bias), None, 1.0, Activation::None)
        };
        plan.record(step(first, from)?)?;
        let [to, table] = [second, from].map(|slot| slot.operand(value_layout()));
        plan.record(Command::embedding(to, table, rows.operand(indices(ROWS)))?)?;
        plan.record(step(further, first)?)?;
        plan.record(step(copied, second)?)?;
        plan.finish()
    }

    /// Rows for a plan, of which one does not exist where that is wanted.
    pub fn rows(stream: &Stream, bad: bool) -> Result<Buffer> {
        let rows = stream.allocate(ROWS * 8)?;
        let third = if bad { 99 } else { 2 };
        stream.upload(rows.operand(indices(ROWS)), &[0i64, 1, third, 3, 4])?;
        Ok(rows)
    }

    /// Records a copy, row by row.
    pub fn copy(&self, stream: &Stream, to: &Buffer, from: &Buffer) -> Result<Timepoint> {
        let [to, from] = [to, from].map(|buffer| buffer.operand(value_layout()));
        stream.record(Command::embedding(to, from, self.rows.operand(indices(ROWS)))?)
    }

    /// Records a copy of rows of which one does not exist, which fails when it runs.
    pub fn bad_copy(&self, stream: &Stream, to: &Buffer, from: &Buffer) -> Result<Timepoint> {
        let rows = Self::rows(stream, true)?;
        let [to, from] = [to, from].map(|buffer| buffer.operand(value_layout()));
        stream.record(Command::embedding(to, from, rows.operand(indices(ROWS)))?)
    }
}

pub fn room(stream: &Stream) -> Result<Buffer> {
    stream.allocate(value_layout().dense_bytes())
}

/// Records that `to` is value `v`.
pub fn write(stream: &Stream, to: &Buffer, v: u64) -> Result<Timepoint> {
    stream.upload(to.operand(value_layout()), &elements(v))
}

/// A new buffer with value `v`.
pub fn value(stream: &Stream, v: u64) -> Result<Buffer> {
    let buffer = room(stream)?;
    write(stream, &buffer, v)?;
    Ok(buffer)
}

pub fn download(stream: &Stream, from: &Buffer) -> Result<Download> {
    stream.download(from.operand(value_layout()))
}

/// The value that a buffer has.
pub fn read(stream: &Stream, from: &Buffer) -> Result<u64> {
    let elements = download(stream, from)?.read::<f32>()?;
    Ok(value_of(&elements).unwrap_or_else(|| panic!("no value: {elements:?}")))
}

pub fn is_fault(error: &Error) -> bool {
    matches!(error, Error::Fault { command: "embedding", .. })
}

pub fn is_timeout(error: &Error) -> bool {
    matches!(error, Error::Timeout { waited, .. } if *waited < HANG)
}

pub fn is_closed(error: &Error) -> bool {
    matches!(error, Error::DeviceClosed { .. })
}

/// Asks until it has passed, and never waits: the device gets there by itself. `bad` says that the Command fails.
pub fn poll(point: Timepoint, bad: bool) {
    let started = Instant::now();
    loop {
        match point.query() {
            Ok(true) => return assert!(!bad, "a Command that fails was done"),
            Ok(false) => assert!(started.elapsed() < HANG, "nobody gets to {point:?}"),
            Err(error) => return assert!(bad && is_fault(&error), "{error}"),
        }
        std::thread::yield_now();
    }
}

/// Waits now and then, mostly for too short a time. `bad` says that the Command fails.
pub fn perhaps_wait(numbers: &Numbers, point: Timepoint, bad: bool) {
    if numbers.one_in(2) {
        return;
    }
    match point.wait_within(numbers.moment()) {
        Ok(()) => assert!(!bad, "a Command that fails was done"),
        Err(error) => assert!(is_timeout(&error) || bad && is_fault(&error), "{error}"),
    }
}
