//! Which keys a query sees.

use millstream_core::DType;

use crate::error::invalid;
use crate::{Result, Tensor};

/// Which keys each query sees, made once and used by any number of layers and calls.
///
/// As in PyTorch's modules, `true` in a mask of `bool` *hides* a key, and a mask of numbers is added to the
/// scores.
///
/// # Example
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::AttentionMask;
/// use millstream::{Device, Tensor};
///
/// let device = Device::cpu()?;
/// let padding = Tensor::from_slice(&[false, false, true], &[1, 3], &device)?;
/// let mask = AttentionMask::causal().and_key_padding(&padding)?; // for the `forward` of attention layers
/// # let _ = mask;
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct AttentionMask {
    /// As the Command takes it: `bool`, true where a key is seen, or numbers that are added to the scores.
    seen: Option<Tensor>,
    causal: bool,
}

impl AttentionMask {
    /// Every query sees every key.
    pub fn none() -> Self {
        Self::default()
    }

    /// A query sees the keys up to its own position.
    pub fn causal() -> Self {
        Self { seen: None, causal: true }
    }

    /// True where a key is seen, of a shape that broadcasts to `[batch, heads, queries, keys]`.
    pub(crate) fn of_seen(seen: Option<Tensor>) -> Self {
        Self { seen, causal: false }
    }

    /// PyTorch's `attn_mask`: `[queries, keys]`, or a shape that broadcasts to
    /// `[batch, heads, queries, keys]`.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::nn::AttentionMask;
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let hidden = Tensor::ones(&[4, 4], DType::F32, &Device::cpu()?)?.triu(1)?.to_dtype(DType::Bool)?;
    /// let mask = AttentionMask::new(&hidden)?; // the same as AttentionMask::causal()
    /// # let _ = mask;
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A mask of three axes, as PyTorch has for heads: split the first with [`unflatten`](Tensor::unflatten). Or no
    /// memory.
    pub fn new(attn_mask: &Tensor) -> Result<Self> {
        if !matches!(attn_mask.rank(), 2 | 4) {
            let shape = attn_mask.shape();
            return invalid("attn_mask", format!("shape {shape:?}, but it takes 2 or 4 axes"));
        }
        let seen = match attn_mask.dtype() {
            DType::Bool => attn_mask.logical_not()?,
            _ => attn_mask.clone(),
        };
        Ok(Self { seen: Some(seen), causal: false })
    }

    /// Also hides the keys where PyTorch's `key_padding_mask` `[batch, keys]` is true.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::nn::AttentionMask;
    /// use millstream::{Device, Tensor};
    ///
    /// // Two inputs of three tokens; the last token of the second is padding.
    /// let padding = Tensor::new(&[[false, false, false], [false, false, true]], &Device::cpu()?)?;
    /// let mask = AttentionMask::none().and_key_padding(&padding)?;
    /// # let _ = mask;
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A mask that is not `bool` or has another number of axes, or no memory.
    pub fn and_key_padding(self, key_padding_mask: &Tensor) -> Result<Self> {
        let &[batch, keys] = key_padding_mask.shape() else {
            let shape = key_padding_mask.shape();
            return invalid(
                "key_padding_mask",
                format!("shape {shape:?}, but it takes [batch, keys]"),
            );
        };
        let padding = key_padding_mask.logical_not()?.reshape(&[batch, 1, 1, keys])?;
        let seen = match &self.seen {
            None => padding,
            Some(seen) if seen.dtype() == DType::Bool => seen.logical_and(&padding)?,
            Some(added) => padding.where_cond(added, f64::NEG_INFINITY)?,
        };
        Ok(Self { seen: Some(seen), causal: self.causal })
    }

    pub(super) fn seen(&self) -> Option<&Tensor> {
        self.seen.as_ref()
    }

    pub(super) fn is_causal(&self) -> bool {
        self.causal
    }
}
