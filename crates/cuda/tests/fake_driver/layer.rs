//! What most tests compute.

use millstream_core::{Activation, Buffer, Command, Result, Stream};

use super::linux::{matrix, row};

/// `relu(2 x × w + b)`, with `w` all ones below the diagonal and on it.
pub struct Layer {
    pub x: Buffer,
    w: Buffer,
    b: Buffer,
    pub y: Buffer,
}

pub const SIZE: usize = 23;
/// So many that the library is asked: products of fewer rows, and those that can be read in packs, have kernels, which do nothing here.
pub const ROWS: usize = 5;

impl Layer {
    pub fn new(stream: &Stream) -> Result<Self> {
        let [x, y] = [(); 2].map(|()| stream.allocate(matrix(ROWS, SIZE).dense_bytes()));
        let (x, y, b) = (x?, y?, stream.allocate(row(SIZE).dense_bytes())?);
        let w = stream.allocate(matrix(SIZE, SIZE).dense_bytes())?;
        let ones: Vec<f32> =
            (0..SIZE * SIZE).map(|i| f32::from(u8::from(i / SIZE >= i % SIZE))).collect();
        stream.upload(w.operand(matrix(SIZE, SIZE)), &ones)?;
        stream.upload(b.operand(row(SIZE)), &[-3.0f32; SIZE])?;
        w.settle()?;
        b.settle()?;
        Ok(Self { x, w, b, y })
    }

    /// Records the layer from one buffer to another.
    pub fn record(&self, stream: &Stream, to: &Buffer, from: &Buffer) -> Result<()> {
        let one = matrix(ROWS, SIZE);
        let product = Command::matmul(
            to.operand(one),
            from.operand(one),
            self.w.operand(matrix(SIZE, SIZE)),
            Some(self.b.operand(row(SIZE))),
            None,
            2.0,
            Activation::Relu,
        )?;
        stream.record(product).map(drop)
    }

    pub fn call(&self, stream: &Stream, input: &[f32]) -> Result<Vec<f32>> {
        let one = matrix(ROWS, SIZE);
        stream.upload(self.x.operand(one), input)?;
        self.record(stream, &self.y, &self.x)?;
        stream.download(self.y.operand(one))?.read()
    }

    /// Two layers, with memory that is allocated for the call.
    pub fn call_twice(&self, stream: &Stream, input: &[f32], seed: usize) -> Result<Vec<f32>> {
        let one = matrix(ROWS, SIZE);
        let mut step = seed;
        // Lets other threads come between, now here, now there.
        let mut pause = || {
            step = step.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            if (step >> 33).is_multiple_of(3) {
                std::thread::yield_now();
            }
        };
        let mut value = stream.allocate(one.dense_bytes())?;
        pause();
        stream.upload(value.operand(one), input)?;
        for _ in 0..2 {
            pause();
            let next = stream.allocate(one.dense_bytes())?;
            pause();
            self.record(stream, &next, &value)?;
            value = next;
        }
        pause();
        let result = stream.download(value.operand(one))?;
        pause();
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
