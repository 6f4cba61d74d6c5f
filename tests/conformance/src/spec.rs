//! Operations as data, from which a Command is built.

use millstream_core::{
    Activation, Axes, BinaryOp, BufferLike, Command, ConvParams, Distribution, HostBytes, OpKind,
    Operand, PadParams, PoolParams, Recurrent, RecurrentCell, RecurrentParams, ReduceOp,
    ResizeParams, Result, Scalar, ScatterReduction, UnaryOp,
};

/// What a case computes. Operands are outputs first, then inputs, as in a [`Command`].
#[derive(Clone, Debug, PartialEq)]
pub enum Spec {
    /// `dst ←` one value.
    Fill {
        /// The value.
        value: Scalar,
    },
    /// `dst ← src`.
    Copy,
    /// `dst ← src`.
    Unary(UnaryOp),
    /// `dst ← a, b`.
    Binary(BinaryOp),
    /// `dst ← condition, a, b`.
    Where,
    /// `dst ← src`.
    Clip {
        /// The lower limit.
        min: Option<Scalar>,
        /// The upper limit.
        max: Option<Scalar>,
    },
    /// `dst ← src`.
    Reduce {
        /// How elements are combined.
        op: ReduceOp,
        /// The axes that vanish.
        axes: Axes,
    },
    /// `dst ← src`.
    CumSum {
        /// The axis.
        axis: usize,
        /// Leave out the element itself.
        exclusive: bool,
        /// Run from the end.
        reverse: bool,
    },
    /// `dst ← src`.
    Softmax {
        /// The axis.
        axis: usize,
        /// Give the logarithm.
        log: bool,
    },
    /// `dst ← src, [weight], [bias]`.
    LayerNorm {
        /// How many trailing axes are normalised over.
        axes: usize,
        /// Added to the variance.
        epsilon: f32,
        /// Whether a weight is given.
        weight: bool,
        /// Whether a bias is given.
        bias: bool,
    },
    /// `dst ← src, [weight]`.
    RmsNorm {
        /// How many trailing axes are normalised over.
        axes: usize,
        /// Added to the mean square.
        epsilon: f32,
        /// Whether a weight is given.
        weight: bool,
    },
    /// `dst ← src, [weight], [bias]`.
    GroupNorm {
        /// Number of groups.
        groups: usize,
        /// Added to the variance.
        epsilon: f32,
        /// Whether a weight is given.
        weight: bool,
        /// Whether a bias is given.
        bias: bool,
    },
    /// `dst ← a, b, [bias], [residual]`.
    MatMul {
        /// Multiplies the product.
        scale: f32,
        /// Whether a bias is given.
        bias: bool,
        /// Whether a residual is given.
        residual: bool,
        /// Applied last.
        activation: Activation,
    },
    /// `dst, [indices] ← src`.
    Pool {
        /// Geometry and kind.
        params: PoolParams,
        /// Whether the places of the largest elements are asked for.
        indices: bool,
    },
    /// `dst ← src, indices`.
    Gather {
        /// The axis.
        axis: usize,
    },
    /// `dst ← src, indices`.
    GatherElements {
        /// The axis.
        axis: usize,
    },
    /// `dst ← src, indices`.
    GatherNd {
        /// Leading axes that both share.
        batch_axes: usize,
    },
    /// `dst ← src, indices, updates`.
    ScatterElements {
        /// The axis.
        axis: usize,
        /// How an update meets the old value.
        reduction: ScatterReduction,
    },
    /// `dst ← src, indices, updates`.
    ScatterNd {
        /// How an update meets the old value.
        reduction: ScatterReduction,
    },
    /// `dst ← table, ids`.
    Embedding,
    /// `values, indices ← src`.
    TopK {
        /// The axis.
        axis: usize,
        /// Largest rather than smallest.
        largest: bool,
        /// From the best on, else in the order of the indices.
        sorted: bool,
    },
    /// `dst ← src`.
    Resize(ResizeParams),
    /// `dst ← src`.
    Pad(PadParams),
    /// `dst ← src, weight, [bias], [residual]`.
    Conv {
        /// The other direction; it has no residual.
        transposed: bool,
        /// Geometry.
        params: ConvParams,
        /// Multiplies the sums.
        scale: f32,
        /// Whether a bias is given.
        bias: bool,
        /// Whether a residual is given.
        residual: bool,
        /// Applied last.
        activation: Activation,
    },
    /// `dst ← query, key, value, [mask]`.
    Attention {
        /// Multiplies the scores.
        scale: f32,
        /// A query sees only keys up to its own position.
        causal: bool,
        /// Whether a mask is given.
        mask: bool,
    },
    /// `sequence, hidden, [cell] ← src, w_input, w_hidden, [bias], [hidden_0], [cell_0], [lengths]`.
    Recurrent(RecurrentParams),
    /// `dst ← src`.
    Dft {
        /// The axis.
        axis: usize,
        /// The inverse transform.
        inverse: bool,
        /// Only the non-redundant half.
        onesided: bool,
    },
    /// `dst ← signal, [window]`.
    Stft {
        /// Samples per frame.
        frame: usize,
        /// Samples between frames.
        hop: usize,
        /// Only the non-redundant half.
        onesided: bool,
        /// Whether a window is given.
        window: bool,
    },
    /// `dst ← src, scale, [zero]`.
    Quantize {
        /// The axis of per-channel scales.
        axis: Option<usize>,
        /// Whether a zero point is given.
        zero: bool,
        /// The other direction.
        back: bool,
    },
    /// `dst ← a, b, [a_zero], [b_zero]`.
    MatMulInteger {
        /// Whether `a_zero` is given.
        a_zero: bool,
        /// Whether `b_zero` is given.
        b_zero: bool,
    },
    /// `dst ← src, weight, [src_zero], [weight_zero]`.
    ConvInteger {
        /// Geometry.
        params: ConvParams,
        /// Whether `src_zero` is given.
        src_zero: bool,
        /// Whether `weight_zero` is given.
        weight_zero: bool,
    },
    /// `dst ←` random numbers.
    Random {
        /// The distribution.
        distribution: Distribution,
        /// The seed.
        seed: u64,
        /// Where in the sequence the first element lies.
        offset: u64,
    },
    /// `dst ←` bytes of the host.
    Upload {
        /// The bytes, dense in row-major order.
        bytes: Vec<u8>,
    },
    /// `← src`, to bytes of the host.
    Download,
    /// `dst ←` the device's clock.
    Timestamp,
}

impl Spec {
    /// The kind of operation.
    pub fn kind(&self) -> OpKind {
        match self {
            Spec::Fill { .. } => OpKind::Fill,
            Spec::Copy => OpKind::Copy,
            Spec::Unary(_) => OpKind::Unary,
            Spec::Binary(_) => OpKind::Binary,
            Spec::Where => OpKind::Where,
            Spec::Clip { .. } => OpKind::Clip,
            Spec::Reduce { .. } => OpKind::Reduce,
            Spec::CumSum { .. } => OpKind::CumSum,
            Spec::Softmax { .. } => OpKind::Softmax,
            Spec::LayerNorm { .. } => OpKind::LayerNorm,
            Spec::RmsNorm { .. } => OpKind::RmsNorm,
            Spec::GroupNorm { .. } => OpKind::GroupNorm,
            Spec::MatMul { .. } => OpKind::MatMul,
            Spec::Pool { .. } => OpKind::Pool,
            Spec::Gather { .. } => OpKind::Gather,
            Spec::GatherElements { .. } => OpKind::GatherElements,
            Spec::GatherNd { .. } => OpKind::GatherNd,
            Spec::ScatterElements { .. } => OpKind::ScatterElements,
            Spec::ScatterNd { .. } => OpKind::ScatterNd,
            Spec::Embedding => OpKind::Embedding,
            Spec::TopK { .. } => OpKind::TopK,
            Spec::Resize(_) => OpKind::Resize,
            Spec::Pad(_) => OpKind::Pad,
            Spec::Conv { transposed: false, .. } => OpKind::Conv,
            Spec::Conv { transposed: true, .. } => OpKind::ConvTranspose,
            Spec::Attention { .. } => OpKind::Attention,
            Spec::Recurrent(_) => OpKind::Recurrent,
            Spec::Dft { .. } => OpKind::Dft,
            Spec::Stft { .. } => OpKind::Stft,
            Spec::Quantize { back: false, .. } => OpKind::Quantize,
            Spec::Quantize { back: true, .. } => OpKind::Dequantize,
            Spec::MatMulInteger { .. } => OpKind::MatMulInteger,
            Spec::ConvInteger { .. } => OpKind::ConvInteger,
            Spec::Random { .. } => OpKind::Random,
            Spec::Upload { .. } => OpKind::Upload,
            Spec::Download => OpKind::Download,
            Spec::Timestamp => OpKind::Timestamp,
        }
    }

    /// How many of the operands are written.
    pub fn outputs(&self) -> usize {
        match self {
            Spec::Download => 0,
            Spec::TopK { .. } | Spec::Pool { indices: true, .. } => 2,
            Spec::Recurrent(params) => 2 + usize::from(params.cell == RecurrentCell::Lstm),
            _ => 1,
        }
    }

    /// The Command for these operands. A download gets fresh host bytes, which the Command's
    /// [`Op::Download`](millstream_core::Op::Download) names.
    ///
    /// # Errors
    ///
    /// Operands that do not fit the operation.
    ///
    /// # Panics
    ///
    /// Fewer operands than the operation has.
    pub fn command<B: BufferLike + Clone>(&self, operands: &[Operand<B>]) -> Result<Command<B>> {
        let mut operands = operands.iter().cloned();
        let mut next = || operands.next().expect("the case has an operand for every place");
        match self {
            Spec::Fill { value } => Command::fill(next(), *value),
            Spec::Copy => Command::copy(next(), next()),
            Spec::Unary(op) => Command::unary(*op, next(), next()),
            Spec::Binary(op) => Command::binary(*op, next(), next(), next()),
            Spec::Where => Command::where_(next(), next(), next(), next()),
            Spec::Clip { min, max } => Command::clip(next(), next(), *min, *max),
            Spec::Reduce { op, axes } => Command::reduce(*op, next(), next(), *axes),
            Spec::CumSum { axis, exclusive, reverse } => {
                Command::cumsum(next(), next(), *axis, *exclusive, *reverse)
            }
            Spec::Softmax { axis, log } => Command::softmax(next(), next(), *axis, *log),
            Spec::LayerNorm { axes, epsilon, weight, bias } => {
                let (dst, src) = (next(), next());
                let weight = weight.then(&mut next);
                let bias = bias.then(&mut next);
                Command::layer_norm(dst, src, weight, bias, *axes, *epsilon)
            }
            Spec::RmsNorm { axes, epsilon, weight } => {
                let (dst, src) = (next(), next());
                Command::rms_norm(dst, src, weight.then(&mut next), *axes, *epsilon)
            }
            Spec::GroupNorm { groups, epsilon, weight, bias } => {
                let (dst, src) = (next(), next());
                let weight = weight.then(&mut next);
                let bias = bias.then(&mut next);
                Command::group_norm(dst, src, weight, bias, *groups, *epsilon)
            }
            Spec::MatMul { scale, bias, residual, activation } => {
                let (dst, a, b) = (next(), next(), next());
                let bias = bias.then(&mut next);
                let residual = residual.then(&mut next);
                Command::matmul(dst, a, b, bias, residual, *scale, *activation)
            }
            Spec::Pool { params, indices } => {
                let dst = next();
                let indices = indices.then(&mut next);
                Command::pool(dst, indices, next(), *params)
            }
            Spec::Gather { axis } => Command::gather(next(), next(), next(), *axis),
            Spec::GatherElements { axis } => {
                Command::gather_elements(next(), next(), next(), *axis)
            }
            Spec::GatherNd { batch_axes } => {
                Command::gather_nd(next(), next(), next(), *batch_axes)
            }
            Spec::ScatterElements { axis, reduction } => {
                Command::scatter_elements(next(), next(), next(), next(), *axis, *reduction)
            }
            Spec::ScatterNd { reduction } => {
                Command::scatter_nd(next(), next(), next(), next(), *reduction)
            }
            Spec::Embedding => Command::embedding(next(), next(), next()),
            Spec::TopK { axis, largest, sorted } => {
                Command::top_k(next(), next(), next(), *axis, *largest, *sorted)
            }
            Spec::Resize(params) => Command::resize(next(), next(), *params),
            Spec::Pad(params) => Command::pad(next(), next(), *params),
            Spec::Conv { transposed, params, scale, bias, residual, activation } => {
                let (dst, src, weight) = (next(), next(), next());
                let bias = bias.then(&mut next);
                if *transposed {
                    return Command::conv_transpose(
                        dst,
                        src,
                        weight,
                        bias,
                        *params,
                        *scale,
                        *activation,
                    );
                }
                let residual = residual.then(&mut next);
                Command::conv(dst, src, weight, bias, residual, *params, *scale, *activation)
            }
            Spec::Attention { scale, causal, mask } => {
                let (dst, query, key, value) = (next(), next(), next(), next());
                let mask = mask.then(&mut next);
                Command::attention(dst, query, key, value, mask, *scale, *causal)
            }
            Spec::Recurrent(params) => Command::recurrent(Recurrent {
                cell: params.cell,
                direction: params.direction,
                sequence: next(),
                last_hidden: next(),
                last_cell: (params.cell == RecurrentCell::Lstm).then(&mut next),
                src: next(),
                input_weight: next(),
                hidden_weight: next(),
                bias: params.bias.then(&mut next),
                initial_hidden: params.initial_hidden.then(&mut next),
                initial_cell: params.initial_cell.then(&mut next),
                lengths: params.lengths.then(&mut next),
            }),
            Spec::Dft { axis, inverse, onesided } => {
                Command::dft(next(), next(), *axis, *inverse, *onesided)
            }
            Spec::Stft { frame, hop, onesided, window } => {
                let (dst, signal) = (next(), next());
                Command::stft(dst, signal, window.then(&mut next), *frame, *hop, *onesided)
            }
            Spec::Quantize { axis, zero, back } => {
                let (dst, src, scale) = (next(), next(), next());
                let zero = zero.then(&mut next);
                match back {
                    true => Command::dequantize(dst, src, scale, zero, *axis),
                    false => Command::quantize(dst, src, scale, zero, *axis),
                }
            }
            Spec::MatMulInteger { a_zero, b_zero } => {
                let (dst, a, b) = (next(), next(), next());
                let a_zero = a_zero.then(&mut next);
                Command::matmul_integer(dst, a, b, a_zero, b_zero.then(&mut next))
            }
            Spec::ConvInteger { params, src_zero, weight_zero } => {
                let (dst, src, weight) = (next(), next(), next());
                let src_zero = src_zero.then(&mut next);
                let weight_zero = weight_zero.then(&mut next);
                Command::conv_integer(dst, src, weight, src_zero, weight_zero, *params)
            }
            Spec::Random { distribution, seed, offset } => {
                Command::random(next(), *distribution, *seed, *offset)
            }
            Spec::Upload { bytes } => Command::upload(next(), HostBytes::copy_of(bytes)),
            Spec::Download => {
                let src = next();
                Command::download(HostBytes::zeroed(src.layout.dense_bytes()), src)
            }
            Spec::Timestamp => Command::timestamp(next()),
        }
    }
}
