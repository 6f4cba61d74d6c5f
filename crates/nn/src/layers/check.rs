//! Errors of inputs that do not fit a layer. No text is formatted unless one is returned.

use millstream_core::DType;

use crate::error::{refused, shown};
use crate::{Result, Tensor};

/// The error of an input that does not fit; `takes` continues the sentence "…, but the layer".
#[cold]
pub(super) fn misfit<T>(layer: &'static str, input: &Tensor, takes: &str) -> Result<T> {
    misfit_of(layer, "input", input, takes)
}

/// As [`misfit`], for an argument of another name.
#[cold]
pub(super) fn misfit_of<T>(
    layer: &'static str,
    what: &str,
    input: &Tensor,
    takes: &str,
) -> Result<T> {
    refused(layer, format!("{what} {}, but the layer {takes}", shown(input)))
}

/// Checks that an input has the type of the layer's weights.
#[inline]
pub(super) fn wants_dtype(layer: &'static str, input: &Tensor, dtype: DType) -> Result<()> {
    if input.dtype() == dtype { Ok(()) } else { other_dtype(layer, input, dtype) }
}

#[cold]
fn other_dtype<T>(layer: &'static str, input: &Tensor, dtype: DType) -> Result<T> {
    misfit(layer, input, &format!("has weights of {dtype}: convert one with to_dtype"))
}

/// Checks that an input is `[batch, channels, spatial…]` with `N` spatial axes, or the same without the batch.
#[inline]
pub(super) fn wants_channels<const N: usize>(
    layer: &'static str,
    input: &Tensor,
    channels: usize,
) -> Result<()> {
    let rank = input.rank();
    if (N + 1..=N + 2).contains(&rank) && input.shape()[rank - N - 1] == channels {
        return Ok(());
    }
    match rank.checked_sub(N + 1) {
        Some(0 | 1) => misfit(layer, input, &format!("takes {channels} channels")),
        _ => other_rank::<N>(layer, input, &channels.to_string()),
    }
}

/// As [`wants_channels`], for any number of channels.
#[inline]
pub(super) fn wants_spatial<const N: usize>(layer: &'static str, input: &Tensor) -> Result<()> {
    let fits = (N + 1..=N + 2).contains(&input.rank());
    if fits { Ok(()) } else { other_rank::<N>(layer, input, "channels") }
}

#[cold]
fn other_rank<const N: usize>(layer: &'static str, input: &Tensor, channels: &str) -> Result<()> {
    let spatial = match N {
        1 => "length",
        2 => "height, width",
        _ => "depth, height, width",
    };
    let takes = format!("takes [batch, {channels}, {spatial}] or [{channels}, {spatial}]");
    misfit(layer, input, &takes)
}
