//! What is measured: each Command at several sizes.

use std::collections::VecDeque;

use millstream::cpu::peak::Traffic;
use millstream::{
    Activation, Axes, BinaryOp, Buffer, Command, ConvParams, DType, Device, Distribution, Layout,
    Operand, ReduceOp, Result, Stream, UnaryOp,
};

/// What one run of a Command does.
#[derive(Clone, Copy)]
pub(crate) enum Amount {
    /// Floating-point operations, where they are what takes time.
    Flops(f64),
    /// Bytes of all operands, where moving them is, and how they are moved.
    Bytes(f64, Traffic),
}

/// Records one Command.
pub(crate) type Once = Box<dyn FnMut(&Stream) -> Result<()>>;

/// Makes the operands of a Command and what records it.
pub(crate) type Prepare = Box<dyn Fn(&Device, &Stream) -> Result<Once>>;

/// One row of the table.
pub(crate) struct Subject {
    pub name: &'static str,
    pub size: String,
    pub amount: Amount,
    pub prepare: Prepare,
}

/// A buffer with its layout.
struct Value(Buffer, Layout);

impl Value {
    /// Of f32.
    fn new(stream: &Stream, shape: &[usize]) -> Result<Self> {
        Self::of(stream, DType::F32, shape)
    }

    fn of(stream: &Stream, dtype: DType, shape: &[usize]) -> Result<Self> {
        let layout = Layout::contiguous(dtype, shape)?;
        let value = Value(stream.allocate(layout.dense_bytes())?, layout);
        let uniform = Distribution::Uniform { low: -2.0, high: 2.0 };
        stream.record(Command::random(value.operand(), uniform, 1, 0)?)?;
        Ok(value)
    }

    fn operand(&self) -> Operand<&Buffer> {
        self.0.operand(self.1)
    }
}

type Build = for<'a> fn(&'a Value, &'a [Value]) -> Result<Command<&'a Buffer>>;

/// A Command that is bound by memory, of one output and some inputs.
fn moving(name: &'static str, dst: &[usize], inputs: &[&[usize]], build: Build) -> Subject {
    let dst = dst.to_vec();
    let inputs: Vec<Vec<usize>> = inputs.iter().map(|shape| shape.to_vec()).collect();
    let elements = |shape: &Vec<usize>| shape.iter().product::<usize>();
    let (written, read) = (elements(&dst), inputs.iter().map(elements).sum::<usize>());
    let traffic = if read == 0 {
        Traffic::Write
    } else if read >= 4 * written {
        Traffic::Read
    } else if 2 * read >= 3 * written {
        Traffic::Add
    } else {
        Traffic::Copy
    };
    let size = inputs.first().unwrap_or(&dst);
    let size = size.iter().map(ToString::to_string).collect::<Vec<_>>().join("×");
    let prepare = move |_: &Device, stream: &Stream| -> Result<Once> {
        let dst = Value::new(stream, &dst)?;
        let inputs =
            inputs.iter().map(|shape| Value::new(stream, shape)).collect::<Result<Vec<_>>>()?;
        Ok(Box::new(move |stream| stream.record(build(&dst, &inputs)?).map(drop)))
    };
    let amount = Amount::Bytes(((written + read) * size_of::<f32>()) as f64, traffic);
    Subject { name, size, amount, prepare: Box::new(prepare) }
}

fn matmul(m: usize, n: usize, k: usize, packed: bool) -> Subject {
    let prepare = move |device: &Device, stream: &Stream| -> Result<Once> {
        let [dst, a, b] = [[m, n], [m, k], [k, n]].map(|shape| Value::new(stream, &shape));
        let (dst, a, mut b) = (dst?, a?, b?);
        let layout = device.packed_layout(&b.1).filter(|_| packed);
        let packed = layout.is_some();
        if let Some(layout) = layout {
            let weights = Value(stream.allocate(layout.dense_bytes())?, layout);
            stream.record(Command::pack_weights(weights.operand(), b.operand())?)?;
            weights.0.settle()?;
            b = weights;
        }
        Ok(Box::new(move |stream| {
            let product = if packed { Command::matmul_packed } else { Command::matmul };
            let (dst, a, b) = (dst.operand(), a.operand(), b.operand());
            stream.record(product(dst, a, b, None, None, 1.0, Activation::None)?).map(drop)
        }))
    };
    Subject {
        name: if packed { "matmul_packed" } else { "matmul" },
        size: format!("{m}×{n}×{k}"),
        amount: Amount::Flops(2.0 * m as f64 * n as f64 * k as f64),
        prepare: Box::new(prepare),
    }
}

/// A linear layer: weights as PyTorch keeps them, bias and an activation.
fn linear([rows, outputs, inputs]: [usize; 3], dtype: DType, activation: Activation) -> Subject {
    let prepare = move |_: &Device, stream: &Stream| -> Result<Once> {
        let value = |shape: &[usize]| Value::of(stream, dtype, shape);
        let (dst, src) = (value(&[rows, outputs])?, value(&[rows, inputs])?);
        let (weight, bias) = (value(&[outputs, inputs])?, value(&[outputs])?);
        Ok(Box::new(move |stream| {
            let (weight, bias) = (
                weight.0.operand(weight.1.transpose(0, 1)?),
                bias.0.operand(bias.1.broadcast_to(&[rows, outputs])?),
            );
            let (dst, src) = (dst.operand(), src.operand());
            let command = Command::matmul(dst, src, weight, Some(bias), None, 1.0, activation)?;
            stream.record(command).map(drop)
        }))
    };
    Subject {
        name: match dtype {
            DType::F16 => "linear_f16",
            _ => "linear",
        },
        size: format!("{rows}×{outputs}×{inputs}"),
        amount: Amount::Flops(2.0 * rows as f64 * outputs as f64 * inputs as f64),
        prepare: Box::new(prepare),
    }
}

/// Attention of heads of some size, over queries and keys as a projection leaves them.
fn attention([heads, length, size]: [usize; 3], dtype: DType) -> Subject {
    let prepare = move |_: &Device, stream: &Stream| -> Result<Once> {
        let all = Value::of(stream, dtype, &[1, length, 3 * heads, size])?;
        let dst = Value::of(stream, dtype, &[1, length, heads, size])?;
        Ok(Box::new(move |stream| {
            let part = |which: usize| -> Result<Operand<&Buffer>> {
                let rows = all.1.slice(2, which * heads, heads, 1)?.transpose(1, 2)?;
                Ok(all.0.operand(rows))
            };
            let dst = dst.0.operand(dst.1.transpose(1, 2)?);
            let (query, key, value) = (part(0)?, part(1)?, part(2)?);
            let command = Command::attention(dst, query, key, value, None, 0.125, false)?;
            stream.record(command).map(drop)
        }))
    };
    Subject {
        name: if dtype == DType::F16 { "attention_f16" } else { "attention" },
        size: format!("{heads}×{length}×{size}"),
        amount: Amount::Flops(4.0 * (heads * length * length * size) as f64),
        prepare: Box::new(prepare),
    }
}

/// A convolution of one axis with three taps, bias and ReLU.
fn conv1d(outputs: usize, inputs: usize, length: usize) -> Subject {
    let prepare = move |_: &Device, stream: &Stream| -> Result<Once> {
        let [dst, src] =
            [[1, outputs, length], [1, inputs, length]].map(|shape| Value::new(stream, &shape));
        let [weight, bias] =
            [&[outputs, inputs, 3][..], &[outputs]].map(|shape| Value::new(stream, shape));
        let (dst, src, weight, bias) = (dst?, src?, weight?, bias?);
        let params = ConvParams { pad_before: [1; 3], pad_after: [1; 3], ..ConvParams::new(1) };
        Ok(Box::new(move |stream| {
            let (dst, src) = (dst.operand(), src.operand());
            let (weight, bias) = (weight.operand(), Some(bias.operand()));
            let command =
                Command::conv(dst, src, weight, bias, None, params, 1.0, Activation::Relu)?;
            stream.record(command).map(drop)
        }))
    };
    Subject {
        name: "conv1d",
        size: format!("{outputs}×{inputs}×3×{length}"),
        amount: Amount::Flops(6.0 * (outputs * inputs * length) as f64),
        prepare: Box::new(prepare),
    }
}

/// A convolution of two axes with three taps each, bias and ReLU.
fn conv2d([outputs, inputs, side]: [usize; 3], dtype: DType) -> Subject {
    let prepare = move |_: &Device, stream: &Stream| -> Result<Once> {
        let value = |shape: &[usize]| Value::of(stream, dtype, shape);
        let (dst, src) = (value(&[1, outputs, side, side])?, value(&[1, inputs, side, side])?);
        let (weight, bias) = (value(&[outputs, inputs, 3, 3])?, value(&[outputs])?);
        let params = ConvParams { pad_before: [1; 3], pad_after: [1; 3], ..ConvParams::new(2) };
        Ok(Box::new(move |stream| {
            let (dst, src) = (dst.operand(), src.operand());
            let (weight, bias) = (weight.operand(), Some(bias.operand()));
            let relu = Activation::Relu;
            let command = Command::conv(dst, src, weight, bias, None, params, 1.0, relu)?;
            stream.record(command).map(drop)
        }))
    };
    Subject {
        name: if dtype == DType::F16 { "conv2d_f16" } else { "conv2d" },
        size: format!("{outputs}×{inputs}×9×{side}²"),
        amount: Amount::Flops(18.0 * (outputs * inputs * side * side) as f64),
        prepare: Box::new(prepare),
    }
}

/// Bytes from a slice of the caller to the device.
fn upload_slice(elements: usize) -> Subject {
    let prepare = move |_: &Device, stream: &Stream| -> Result<Once> {
        let value = Value::new(stream, &[elements])?;
        let host = vec![1f32; elements];
        Ok(Box::new(move |stream| stream.upload(value.operand(), &host).map(drop)))
    };
    let amount = Amount::Bytes((2 * elements * size_of::<f32>()) as f64, Traffic::Copy);
    let (name, size) = ("upload slice", elements.to_string());
    Subject { name, size, amount, prepare: Box::new(prepare) }
}

/// From this many elements on callers wait for their downloads.
const LARGE: usize = 1 << 22;

/// Downloads that a caller has on their way before it reads the first.
const DOWNLOADS: usize = 2;

/// Bytes between host and device.
fn transfer(name: &'static str, elements: usize, up: bool) -> Subject {
    let prepare = move |_: &Device, stream: &Stream| -> Result<Once> {
        let value = Value::new(stream, &[elements])?;
        let host = up.then(|| stream.host_copy_of(&vec![0; elements * size_of::<f32>()]));
        let mut pending = VecDeque::new();
        Ok(Box::new(move |stream| {
            if let Some(host) = &host {
                return stream.record(Command::upload(value.operand(), host.clone())?).map(drop);
            }
            // Bytes take one download only, so each has its own. Nobody has memory for many large ones.
            pending.push_back(stream.download(value.operand())?);
            if elements >= LARGE && pending.len() > DOWNLOADS {
                pending.pop_front().map_or(Ok(()), |oldest| oldest.view_bytes().map(drop))?;
            } else if elements < LARGE {
                pending.clear();
            }
            Ok(())
        }))
    };
    let amount = Amount::Bytes((2 * elements * size_of::<f32>()) as f64, Traffic::Copy);
    Subject { name, size: elements.to_string(), amount, prepare: Box::new(prepare) }
}

/// Every row.
pub(crate) fn all() -> Vec<Subject> {
    let mut all = Vec::new();
    for size in [256, 512, 1024, 2048] {
        all.extend([false, true].map(|packed| matmul(size, size, size, packed)));
    }
    all.extend([[64, 2048, 2048], [128, 1024, 256]].map(|[m, n, k]| matmul(m, n, k, true)));
    all.extend([1, 4, 16, 31].map(|m| matmul(m, 1024, 1024, true)));
    // Those of the models of `millstream bench`.
    let layers = [
        [1, 1024, 1024],
        [128, 768, 256],
        [128, 256, 256],
        [128, 1024, 256],
        [128, 256, 1024],
        [512, 512, 512],
        [64, 2048, 2048],
    ];
    all.extend(layers.map(|sizes| linear(sizes, DType::F32, Activation::Relu)));
    // As in transformers: 16 bits, and an activation that libraries do not have.
    let layers = [
        [16, 256, 256],
        [64, 512, 512],
        [128, 384, 384],
        [128, 1152, 384],
        [128, 1536, 384],
        [128, 384, 1536],
        [512, 3072, 768],
        [2048, 4096, 1024],
    ];
    all.extend(layers.map(|sizes| linear(sizes, DType::F16, Activation::Gelu)));
    let sizes = [[4, 128, 64], [8, 256, 64], [8, 512, 64], [16, 1024, 64]];
    all.extend(sizes.map(|sizes| attention(sizes, DType::F32)));
    all.extend(sizes.map(|sizes| attention(sizes, DType::F16)));
    all.push(attention([12, 128, 32], DType::F16));
    for dtype in [DType::F32, DType::F16] {
        all.extend([[64, 64, 56], [256, 256, 28]].map(|sizes| conv2d(sizes, dtype)));
    }
    all.extend([[256, 80, 200], [256, 256, 200]].map(|[m, n, length]| conv1d(m, n, length)));
    let heads: &[usize] = &[1, 16, 512, 64];
    all.push(moving("rope", heads, &[heads, &[1, 512, 32], &[1, 512, 32]], |d, i| {
        let [src, cos, sin] = [0, 1, 2].map(|index| i[index].operand());
        Command::rope(d.operand(), src, cos, sin, None, false)
    }));
    all.push(moving("layer_norm", &[128, 256], &[&[128, 256], &[256], &[256]], |d, i| {
        let [src, weight, bias] = [0, 1, 2].map(|index| i[index].operand());
        Command::layer_norm(d.operand(), src, Some(weight), Some(bias), 1, 1e-5)
    }));
    // In the caches of a core, of the machine, about as large as those, and far beyond.
    for count in [1 << 14, 1 << 20, 1 << 24, 1 << 26] {
        let flat: &[usize] = &[count];
        let rows: &[usize] = &[count / 512, 512];
        all.push(moving("fill", flat, &[], |d, _| Command::fill(d.operand(), 1.0f32)));
        all.push(moving("copy", flat, &[flat], |d, i| Command::copy(d.operand(), i[0].operand())));
        let transposed = [512, count / 512];
        all.push(moving("copy transposed", &transposed, &[rows], |d, i| {
            let transposed = i[0].1.transpose(0, 1)?;
            Command::copy(d.operand(), i[0].0.operand(transposed))
        }));
        for (name, build) in UNARY {
            all.push(moving(name, flat, &[flat], *build));
        }
        all.push(moving("binary add", flat, &[flat, flat], |d, i| {
            Command::binary(BinaryOp::Add, d.operand(), i[0].operand(), i[1].operand())
        }));
        all.push(moving("softmax", rows, &[rows], |d, i| {
            Command::softmax(d.operand(), i[0].operand(), 1, false)
        }));
        all.push(moving("softmax axis 0", rows, &[rows], |d, i| {
            Command::softmax(d.operand(), i[0].operand(), 0, false)
        }));
        all.push(moving("layer_norm", rows, &[rows, &[512], &[512]], |d, i| {
            let [src, weight, bias] = [0, 1, 2].map(|index| i[index].operand());
            Command::layer_norm(d.operand(), src, Some(weight), Some(bias), 1, 1e-5)
        }));
        all.push(moving("reduce sum", &[count / 512, 1], &[rows], |d, i| {
            Command::reduce(ReduceOp::Sum, d.operand(), i[0].operand(), Axes::new(&[1])?)
        }));
        all.push(moving("reduce sum axis 0", &[1, 512], &[rows], |d, i| {
            Command::reduce(ReduceOp::Sum, d.operand(), i[0].operand(), Axes::new(&[0])?)
        }));
        all.push(moving("random uniform", flat, &[], |d, _| {
            let uniform = Distribution::Uniform { low: 0.0, high: 1.0 };
            Command::random(d.operand(), uniform, 1, 0)
        }));
        all.push(moving("random normal", flat, &[], |d, _| {
            let normal = Distribution::Normal { mean: 0.0, deviation: 1.0 };
            Command::random(d.operand(), normal, 1, 0)
        }));
        all.push(transfer("upload", count, true));
        all.push(upload_slice(count));
        all.push(transfer("download", count, false));
    }
    all
}

/// The functions of one element that are measured.
const UNARY: &[(&str, Build)] = &[
    ("unary relu", |d, i| Command::unary(UnaryOp::Relu, d.operand(), i[0].operand())),
    ("unary exp", |d, i| Command::unary(UnaryOp::Exp, d.operand(), i[0].operand())),
    ("unary gelu", |d, i| Command::unary(UnaryOp::Gelu, d.operand(), i[0].operand())),
    ("unary tanh", |d, i| Command::unary(UnaryOp::Tanh, d.operand(), i[0].operand())),
];
