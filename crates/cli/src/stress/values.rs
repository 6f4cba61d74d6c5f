//! Small helpers that turn arithmetic into Commands on the current stream.

use millstream::{
    Activation, Axes, BinaryOp, Buffer, Command, DType, Device, Distribution, Layout, Operand,
    ReduceOp, Result, Stream, UnaryOp,
};

/// A buffer of f32 with its layout.
#[derive(Clone)]
pub(crate) struct Value {
    pub buffer: Buffer,
    pub layout: Layout,
}

impl Value {
    pub fn operand(&self) -> Operand<&Buffer> {
        self.buffer.operand(self.layout)
    }

    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    pub fn transposed(&self) -> Result<Value> {
        let rank = self.layout.rank();
        let layout = self.layout.transpose(rank - 2, rank - 1)?;
        Ok(Value { buffer: self.buffer.clone(), layout })
    }

    pub fn reshaped(&self, shape: &[usize]) -> Result<Value> {
        Ok(Value { buffer: self.buffer.clone(), layout: self.layout.reshape(shape)? })
    }

    pub fn permuted(&self, order: &[usize]) -> Result<Value> {
        Ok(Value { buffer: self.buffer.clone(), layout: self.layout.permute(order)? })
    }
}

/// Arithmetic on one stream.
pub(crate) struct Math {
    pub stream: Stream,
}

impl Math {
    /// On the calling thread's current stream.
    pub fn current(device: &Device) -> Result<Self> {
        Ok(Self { stream: device.stream()? })
    }

    pub fn empty(&self, shape: &[usize]) -> Result<Value> {
        let layout = Layout::contiguous(DType::F32, shape)?;
        Ok(Value { buffer: self.stream.allocate(layout.dense_bytes())?, layout })
    }

    /// Normal random numbers that the seed decides.
    pub fn randn(&self, shape: &[usize], seed: u64) -> Result<Value> {
        let value = self.empty(shape)?;
        let normal = Distribution::Normal { mean: 0.0, deviation: 1.0 };
        self.stream.record(Command::random(value.operand(), normal, seed, 0)?)?;
        Ok(value)
    }

    pub fn fill(&self, value: &Value, number: f32) -> Result<()> {
        self.stream.record(Command::fill(value.operand(), number)?).map(drop)
    }

    pub fn unary(&self, op: UnaryOp, a: &Value) -> Result<Value> {
        let result = self.empty(a.shape())?;
        self.stream.record(Command::unary(op, result.operand(), a.operand())?)?;
        Ok(result)
    }

    pub fn binary(&self, op: BinaryOp, a: &Value, b: &Value) -> Result<Value> {
        let result = self.empty(a.shape())?;
        self.stream.record(Command::binary(op, result.operand(), a.operand(), b.operand())?)?;
        Ok(result)
    }

    pub fn copy(&self, a: &Value) -> Result<Value> {
        let result = self.empty(a.shape())?;
        self.stream.record(Command::copy(result.operand(), a.operand())?)?;
        Ok(result)
    }

    pub fn matmul(&self, a: &Value, b: &Value) -> Result<Value> {
        self.linear(a, b, None, None, 1.0, Activation::None)
    }

    pub fn linear(
        &self,
        a: &Value,
        weight: &Value,
        bias: Option<&Value>,
        residual: Option<&Value>,
        scale: f32,
        activation: Activation,
    ) -> Result<Value> {
        let mut shape = a.shape().to_vec();
        let columns = weight.shape()[weight.shape().len() - 1];
        if let Some(last) = shape.last_mut() {
            *last = columns;
        }
        let result = self.empty(&shape)?;
        self.stream.record(Command::matmul(
            result.operand(),
            a.operand(),
            weight.operand(),
            bias.map(Value::operand),
            residual.map(Value::operand),
            scale,
            activation,
        )?)?;
        Ok(result)
    }

    pub fn softmax(&self, a: &Value) -> Result<Value> {
        let result = self.empty(a.shape())?;
        let axis = a.layout.rank() - 1;
        self.stream.record(Command::softmax(result.operand(), a.operand(), axis, false)?)?;
        Ok(result)
    }

    pub fn layer_norm(&self, a: &Value, weight: &Value, bias: &Value) -> Result<Value> {
        let result = self.empty(a.shape())?;
        self.stream.record(Command::layer_norm(
            result.operand(),
            a.operand(),
            Some(weight.operand()),
            Some(bias.operand()),
            1,
            1e-5,
        )?)?;
        Ok(result)
    }

    pub fn sum(&self, a: &Value, axis: usize) -> Result<Value> {
        let mut shape = a.shape().to_vec();
        shape[axis] = 1;
        let result = self.empty(&shape)?;
        let axes = Axes::new(&[axis])?;
        self.stream.record(Command::reduce(ReduceOp::Sum, result.operand(), a.operand(), axes)?)?;
        Ok(result)
    }

    /// Waits for the elements.
    pub fn read(&self, value: &Value) -> Result<Vec<u8>> {
        self.stream.download(value.operand())?.bytes()
    }
}

/// Settled weights that all threads read.
pub(crate) struct Weights(pub Vec<Value>);

impl Weights {
    pub fn random(device: &Device, shapes: &[&[usize]], seed: u64) -> Result<Self> {
        let math = Math::current(device)?;
        let values: Vec<Value> = shapes
            .iter()
            .zip(seed..)
            .map(|(shape, seed)| {
                let rows = shape.iter().rev().nth(1).copied().unwrap_or(1) as f32;
                let value = math.empty(shape)?;
                let spread = Distribution::Normal { mean: 0.0, deviation: rows.sqrt().recip() };
                math.stream.record(Command::random(value.operand(), spread, seed, 0)?)?;
                Ok(value)
            })
            .collect::<Result<_>>()?;
        for value in &values {
            value.buffer.settle()?;
        }
        Ok(Self(values))
    }
}
