//! Attention with several heads.

use std::fmt;

use millstream_core::{Activation, Command, LayerName};

use super::cache::KeyValueCache;
use super::check::misfit_of;
use super::projection::{AttentionKind, Projected, Projection, same};
use super::{AttentionMask, Description, Linear};
use crate::error::{invalid, refused, shown};
use crate::tensor::OpRecorder;
use crate::{Result, Tensor, Weights};

/// The options of a [`MultiheadAttention`], with PyTorch's defaults.
#[derive(Clone, Copy, Debug)]
pub struct MultiheadAttentionOptions {
    /// Whether the projections have biases.
    pub bias: bool,
    /// Whether tensors are `[batch, length, embed_dim]` rather than `[length, batch, embed_dim]`.
    pub batch_first: bool,
    /// The size of keys, where it is not `embed_dim`.
    pub kdim: Option<usize>,
    /// The size of values, where it is not `embed_dim`.
    pub vdim: Option<usize>,
}

impl Default for MultiheadAttentionOptions {
    fn default() -> Self {
        Self { bias: true, batch_first: false, kdim: None, vdim: None }
    }
}

/// Attention with several heads. A call records three Commands if query, key and value are one tensor.
///
/// Parameters: `in_proj_weight` `[3 · embed_dim, embed_dim]`, `in_proj_bias`, `out_proj.weight`,
/// `out_proj.bias`. Tensors are `[length, batch, embed_dim]`, or `[batch, length, embed_dim]` if
/// `batch_first`, or have no batch. The attention weights are not returned (`need_weights=False` in PyTorch).
/// If `kdim` or `vdim` is given, there are `q_proj_weight`, `k_proj_weight` and `v_proj_weight` in place of
/// `in_proj_weight`.
///
/// `in_proj_weight` is packed twice, for self-attention and for cross-attention. Transformer layers pack it once, since
/// they know which they need.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{AttentionMask, MultiheadAttention, MultiheadAttentionOptions, Weights};
/// use millstream::{DType, Device, Tensor};
///
/// let device = Device::cpu()?;
/// let options = MultiheadAttentionOptions { batch_first: true, ..Default::default() };
/// let layer = MultiheadAttention::new(32, 4, options, &Weights::random(1, DType::F32, &device))?;
/// let input = Tensor::randn(&[2, 5, 32], 3, DType::F32, &device)?;
/// let output = layer.forward(&input, &input, &input, &AttentionMask::causal())?;
/// assert_eq!(output.shape(), [2, 5, 32]);
/// # Ok::<(), millstream::Error>(())
/// ```
#[doc(alias = "SelfAttention")]
#[doc(alias = "CrossAttention")]
pub struct MultiheadAttention {
    projection: Projection,
    out_proj: Linear,
    embed_dim: usize,
    /// The size of keys, and of values.
    sources: [usize; 2],
    heads: usize,
    batch_first: bool,
    name: LayerName,
}

impl MultiheadAttention {
    /// Takes the parameters.
    ///
    /// # Errors
    ///
    /// Heads that do not divide `embed_dim`, weights that are missing or of another shape, or no memory.
    pub fn new(
        embed_dim: usize,
        num_heads: usize,
        options: MultiheadAttentionOptions,
        weights: &Weights,
    ) -> Result<Self> {
        Self::of_kind(AttentionKind::Any, embed_dim, num_heads, options, weights)
    }

    pub(super) fn of_kind(
        kind: AttentionKind,
        embed_dim: usize,
        num_heads: usize,
        options: MultiheadAttentionOptions,
        weights: &Weights,
    ) -> Result<Self> {
        let projection = |weights: &Weights| Projection::new(kind, embed_dim, &options, weights);
        Self::of(embed_dim, num_heads, options, weights, &weights.child("out_proj"), projection)
    }

    /// From linear layers of these names for query, key and value, and an output layer. Tensors are
    /// `[batch, length, embed_dim]`.
    pub(crate) fn named(
        kind: AttentionKind,
        embed_dim: usize,
        num_heads: usize,
        names: [&str; 3],
        weights: &Weights,
        out: &Weights,
    ) -> Result<Self> {
        let options = MultiheadAttentionOptions { batch_first: true, ..Default::default() };
        Self::of(embed_dim, num_heads, options, weights, out, |weights| {
            Projection::named(kind, embed_dim, names, weights)
        })
    }

    fn of(
        embed_dim: usize,
        num_heads: usize,
        options: MultiheadAttentionOptions,
        weights: &Weights,
        out: &Weights,
        projection: impl FnOnce(&Weights) -> Result<Projection>,
    ) -> Result<Self> {
        let name = weights.layer_name("MultiheadAttention");
        if num_heads == 0 || !embed_dim.is_multiple_of(num_heads) {
            let reason = format!("{num_heads} heads do not divide {embed_dim} features");
            return refused(name.as_str(), reason);
        }
        Ok(Self {
            projection: projection(weights)?,
            out_proj: Linear::new(embed_dim, embed_dim, options.bias, out)?,
            embed_dim,
            sources: [options.kdim, options.vdim].map(|size| size.unwrap_or(embed_dim)),
            heads: num_heads,
            batch_first: options.batch_first,
            name,
        })
    }

    /// How a model prints it whose linear layers for query, key and value have these names.
    pub(crate) fn describe_named(&self, kind: &'static str, names: [&str; 3]) -> Description {
        let linear = Linear::description(self.embed_dim, self.embed_dim, true);
        names.iter().fold(Description::new(kind), |made, name| made.child(name, &linear))
    }

    pub(crate) fn out_proj(&self) -> &Linear {
        &self.out_proj
    }

    /// Attention of queries to keys and values.
    ///
    /// # Errors
    ///
    /// Shapes, types or a mask that do not fit, or no memory.
    pub fn forward(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        mask: &AttentionMask,
    ) -> Result<Tensor> {
        self.forward_fused(query, key, value, mask, None)
    }

    /// As [`forward`](Self::forward), plus a residual.
    pub(crate) fn forward_fused(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        mask: &AttentionMask,
        residual: Option<&Tensor>,
    ) -> Result<Tensor> {
        let _layer = self.name.enter();
        self.check(query, key, value)?;
        let batch_axis = usize::from(!self.batch_first);
        if query.rank() == 2 {
            let query = query.unsqueeze(batch_axis)?;
            let key = key.unsqueeze(batch_axis)?;
            let value = value.unsqueeze(batch_axis)?;
            let residual = residual.map(|residual| residual.unsqueeze(batch_axis)).transpose()?;
            let result = self.forward_fused(&query, &key, &value, mask, residual.as_ref())?;
            return result.squeeze(batch_axis);
        }
        let attended = self.attend(self.projection.apply(query, key, value)?, mask)?;
        self.out_proj.forward_fused(&attended, residual, Activation::None)
    }

    /// Checks that query, key and value fit the layer.
    fn check(&self, query: &Tensor, key: &Tensor, value: &Tensor) -> Result<()> {
        let rank = query.rank();
        let fits = |tensor: &Tensor, size: usize| {
            tensor.rank() == rank && tensor.shape().last() == Some(&size)
        };
        let [kdim, vdim] = self.sources;
        if !matches!(rank, 2 | 3) || !fits(query, self.embed_dim) {
            let what = if same(query, key) { "input" } else { "query" };
            return self.other_shape(what, query, self.embed_dim);
        }
        if !fits(key, kdim) {
            return self.other_shape("key", key, kdim);
        }
        if !fits(value, vdim) {
            return self.other_shape("value", value, vdim);
        }
        let batch = |tensor: &Tensor| tensor.shape()[usize::from(!self.batch_first)];
        if key.shape()[..rank - 1] != value.shape()[..rank - 1] {
            let (key, value) = (shown(key), shown(value));
            let reason = format!("key {key} and value {value} have different lengths");
            return refused(self.name.as_str(), reason);
        }
        if rank == 3 && batch(query) != batch(key) {
            let (query, key) = (shown(query), shown(key));
            let reason = format!("query {query} and key {key} have different batches");
            return refused(self.name.as_str(), reason);
        }
        Ok(())
    }

    #[cold]
    fn other_shape<T>(&self, what: &str, given: &Tensor, size: usize) -> Result<T> {
        let axes = if self.batch_first { "batch, length" } else { "length, batch" };
        let takes = format!("takes [{axes}, {size}] or [length, {size}]");
        misfit_of(self.name.as_str(), what, given, &takes)
    }

    /// Self-attention of the tokens of a step, `[batch, length, embed_dim]`, to all tokens so far, plus a residual.
    pub(crate) fn forward_cached(
        &self,
        input: &Tensor,
        cache: &mut KeyValueCache,
        mask: &AttentionMask,
        residual: &Tensor,
    ) -> Result<Tensor> {
        let _layer = self.name.enter();
        let product = self.projection.all(input)?;
        let kept = cache.extend(&product, self.embed_dim)?;
        let attended = self.attend(beside(product, kept), mask)?;
        self.out_proj.forward_fused(&attended, Some(residual), Activation::None)
    }

    /// Keys and values of a memory, for [`forward_remembered`](Self::forward_remembered).
    pub(crate) fn remember(&self, memory: &Tensor) -> Result<Tensor> {
        let _layer = self.name.enter();
        self.projection.key_and_value(memory)
    }

    /// Attention to the keys and values from [`remember`](Self::remember), plus a residual.
    pub(crate) fn forward_remembered(
        &self,
        query: &Tensor,
        remembered: &Tensor,
        mask: &AttentionMask,
        residual: &Tensor,
    ) -> Result<Tensor> {
        let _layer = self.name.enter();
        let query = self.projection.query(query)?;
        let attended = self.attend(beside(query, remembered.clone()), mask)?;
        self.out_proj.forward_fused(&attended, Some(residual), Activation::None)
    }

    fn attend(&self, [query, key, value]: [Projected; 3], mask: &AttentionMask) -> Result<Tensor> {
        let [q, k, v] = [self.heads(&query)?, self.heads(&key)?, self.heads(&value)?];
        let recorder = OpRecorder::new("attention", &query.product.device())?;
        let &[first, second, _] = query.product.shape() else { return self.no_axes(&query) };
        let attended = recorder.output(q.dtype(), &[first, second, self.embed_dim])?;
        let result = self.heads(&Projected { product: attended.clone(), index: 0 })?;
        recorder.record(Command::attention(
            result.operand(),
            q.operand(),
            k.operand(),
            v.operand(),
            mask.seen().map(Tensor::operand),
            1.0 / ((self.embed_dim / self.heads) as f32).sqrt(),
            mask.is_causal(),
        ))?;
        Ok(attended)
    }

    #[cold]
    fn no_axes<T>(&self, part: &Projected) -> Result<T> {
        invalid("attention", format!("shape {:?}, but it takes 3 axes", part.product.shape()))
    }

    /// A part of a product as `[batch, heads, length, size]`.
    fn heads(&self, part: &Projected) -> Result<Tensor> {
        let &[first, second, _] = part.product.shape() else {
            return self.no_axes(part);
        };
        let (strides, size) = (part.product.layout().strides(), self.embed_dim / self.heads);
        let (batch, length) = match self.batch_first {
            true => ((first, strides[0]), (second, strides[1])),
            false => ((second, strides[1]), (first, strides[0])),
        };
        part.product.strided(
            "attention",
            &[batch.0, self.heads, length.0, size],
            &[batch.1, size, length.1, 1],
            part.index * self.embed_dim,
        )
    }
}

/// A query, and keys and values that lie side by side.
fn beside(query: Tensor, rest: Tensor) -> [Projected; 3] {
    let key = Projected { product: rest.clone(), index: 0 };
    [Projected { product: query, index: 0 }, key, Projected { product: rest, index: 1 }]
}

impl fmt::Debug for MultiheadAttention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Description::new("MultiheadAttention").child("out_proj", &self.out_proj).write(f)
    }
}
