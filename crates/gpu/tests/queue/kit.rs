//! What the tests share.

use std::ops::Deref;
use std::time::{Duration, Instant};

use millstream_core::{
    Activation, Buffer, Command, Config, DType, Device, Download, Error, Layout, Result, Stream,
};
use millstream_gpu::Failure;
use millstream_gpu::fake::{self, FakeControl, FakeOptions};

/// A device on a fake GPU. When it goes, everything launched must have named memory that was there.
pub struct Gpu {
    pub device: Device,
    pub control: FakeControl,
}

impl Gpu {
    pub fn new() -> Self {
        Self::with(Config::default(), FakeOptions::default())
    }

    pub fn with_seed(seed: u64) -> Self {
        Self::with(Config::default(), FakeOptions { seed, ..FakeOptions::default() })
    }

    pub fn with(config: Config, options: FakeOptions) -> Self {
        let (device, control) = fake::device(config, options).unwrap();
        Self { device, control }
    }

    pub fn stream(&self) -> Stream {
        Stream::new(&self.device).unwrap()
    }
}

impl Deref for Gpu {
    type Target = FakeControl;

    fn deref(&self) -> &FakeControl {
        &self.control
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.control.release();
        // Some tests have closed or lost it.
        let _ = self.device.close();
        assert_eq!(self.control.violations(), Vec::<String>::new());
    }
}

pub fn row(count: usize) -> Layout {
    Layout::contiguous(DType::F32, &[count]).unwrap()
}

pub fn bytes(count: usize) -> Layout {
    Layout::contiguous(DType::U8, &[count]).unwrap()
}

pub fn matrix(rows: usize, columns: usize) -> Layout {
    Layout::contiguous(DType::F32, &[rows, columns]).unwrap()
}

pub fn filled(stream: &Stream, value: f32) -> Buffer {
    let buffer = stream.allocate(row(4).dense_bytes()).unwrap();
    stream.upload(buffer.operand(row(4)), &[value; 4]).unwrap();
    buffer
}

pub fn read(stream: &Stream, buffer: &Buffer) -> Download {
    stream.download(buffer.operand(row(4))).unwrap()
}

/// A failure that harms nothing else.
pub fn harmless() -> Failure {
    Failure::new("planted", "PLANTED", "as planted")
}

/// A failure after which nothing works.
pub fn deadly() -> Failure {
    Failure { sticky: true, ..harmless() }
}

/// Waits for a condition; the time only ends a test that would hang.
pub fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !condition() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::yield_now();
    }
}

pub const SIZE: usize = 24;
/// Enough for the library to be asked; products of fewer rows have a kernel, which does nothing here.
pub const ROWS: usize = 5;

/// `relu(2 x × w + b)`, with `w` all ones below the diagonal and on it.
pub struct Layer {
    pub x: Buffer,
    weights: Buffer,
    bias: Buffer,
    pub y: Buffer,
}

impl Layer {
    pub fn new(stream: &Stream) -> Self {
        let one = matrix(ROWS, SIZE).dense_bytes();
        let [x, y] = [(); 2].map(|()| stream.allocate(one).unwrap());
        let bias = stream.allocate(row(SIZE).dense_bytes()).unwrap();
        let weights = stream.allocate(matrix(SIZE, SIZE).dense_bytes()).unwrap();
        let ones = (0..SIZE * SIZE).map(|i| f32::from(u8::from(i / SIZE >= i % SIZE)));
        let ones: Vec<f32> = ones.collect();
        stream.upload(weights.operand(matrix(SIZE, SIZE)), &ones).unwrap();
        stream.upload(bias.operand(row(SIZE)), &[-3.0f32; SIZE]).unwrap();
        weights.settle().unwrap();
        bias.settle().unwrap();
        Self { x, weights, bias, y }
    }

    /// Records the layer from one buffer to another.
    pub fn record(&self, stream: &Stream, to: &Buffer, from: &Buffer) -> Result<()> {
        let one = matrix(ROWS, SIZE);
        let product = Command::matmul(
            to.operand(one),
            from.operand(one),
            self.weights.operand(matrix(SIZE, SIZE)),
            Some(self.bias.operand(row(SIZE))),
            None,
            2.0,
            Activation::Relu,
        )?;
        stream.record(product).map(drop)
    }

    pub fn start(&self, stream: &Stream, input: &[f32]) -> Result<Download> {
        let one = matrix(ROWS, SIZE);
        stream.upload(self.x.operand(one), input)?;
        self.record(stream, &self.y, &self.x)?;
        stream.download(self.y.operand(one))
    }

    pub fn call(&self, stream: &Stream, input: &[f32]) -> Result<Vec<f32>> {
        self.start(stream, input)?.read()
    }

    /// With memory that is allocated for the call, and dropped before it is through.
    pub fn call_with_own_memory(&self, stream: &Stream, input: &[f32]) -> Result<Vec<f32>> {
        let one = matrix(ROWS, SIZE);
        let [from, to] = [(); 2].map(|()| stream.allocate(one.dense_bytes()));
        let (from, to) = (from?, to?);
        stream.upload(from.operand(one), input)?;
        self.record(stream, &to, &from)?;
        let result = stream.download(to.operand(one))?;
        drop((from, to));
        result.read()
    }

    pub fn expected(input: &[f32]) -> Vec<f32> {
        let tail = |row: &[f32], from: usize| 2.0 * row[from..].iter().sum::<f32>() - 3.0;
        let row = |row| (0..SIZE).map(move |column| tail(row, column).max(0.0));
        input.chunks(SIZE).flat_map(row).collect()
    }

    pub fn input(seed: usize) -> Vec<f32> {
        (0..ROWS * SIZE).map(|i| ((i * 7 + seed * 5) % 11) as f32 - 4.0).collect()
    }
}

/// A table of three rows, of which each element is the number of its row.
pub struct Table(Buffer);

/// An index that no table has.
pub const BAD: i64 = 9;

impl Table {
    pub fn new(stream: &Stream) -> Self {
        let values = stream.allocate(matrix(3, 4).dense_bytes()).unwrap();
        let rows: Vec<f32> = (0..12).map(|i| (i / 4) as f32).collect();
        stream.upload(values.operand(matrix(3, 4)), &rows).unwrap();
        values.settle().unwrap();
        Self(values)
    }

    /// Records the look-up of a row, which is a fault if there is no such row.
    pub fn look_up(&self, stream: &Stream, index: i64) -> Buffer {
        let to = stream.allocate(row(4).dense_bytes()).unwrap();
        self.look_up_into(stream, index, &to, &stream.allocate(8).unwrap());
        to
    }

    /// With memory for result and index.
    pub fn look_up_into(&self, stream: &Stream, index: i64, to: &Buffer, at: &Buffer) {
        let one = Layout::contiguous(DType::I64, &[1]).unwrap();
        stream.upload(at.operand(one), &[index]).unwrap();
        let (to, table) = (to.operand(matrix(1, 4)), self.0.operand(matrix(3, 4)));
        stream.record(Command::embedding(to, table, at.operand(one)).unwrap()).unwrap();
    }
}

/// Expects the fault of a bad look-up; gives its sequence number.
pub fn expect_fault(download: Download) -> u64 {
    let error = download.read::<f32>().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("outside its axis"), "{text}");
    match error {
        Error::Fault { command: "embedding", sequence, .. } => sequence,
        _ => panic!("{text}"),
    }
}
