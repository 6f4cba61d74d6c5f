//! Layers, with PyTorch's names, arguments and parameter names.

mod activations;
mod adaptive;
mod attention;
mod batch_norm;
mod cache;
mod check;
mod conv;
mod conv_transpose;
mod debug;
mod decoder;
mod describe;
mod embedding;
mod encoder;
mod linear;
mod mask;
mod matrix;
mod module;
mod norm;
mod pool;
mod prelu;
mod projection;
mod recurrent;
mod sequential;
mod stack;
#[cfg(test)]
mod tests;
mod transformer;

pub use activations::*;
pub use adaptive::{AdaptiveAvgPool, AdaptiveAvgPool1d, AdaptiveAvgPool2d, Upsample, UpsampleMode};
pub use attention::{MultiheadAttention, MultiheadAttentionOptions};
pub use batch_norm::{BatchNorm, BatchNorm1d, BatchNorm2d, BatchNormOptions};
pub(crate) use cache::KeyValueCache;
pub use conv::{Conv, Conv1d, Conv2d, Conv3d, ConvOptions};
pub use conv_transpose::{ConvTranspose, ConvTranspose1d, ConvTranspose2d, ConvTransposeOptions};
pub use decoder::{TransformerDecoder, TransformerDecoderLayer};
pub use describe::Description;
pub use embedding::Embedding;
pub use encoder::{TransformerEncoder, TransformerEncoderLayer};
pub use linear::Linear;
pub use mask::AttentionMask;
pub use module::Module;
pub use norm::{
    GroupNorm, GroupNormOptions, InstanceNorm, InstanceNormOptions, LayerNorm, LayerNormOptions,
    RMSNorm, RMSNormOptions,
};
pub use pool::{AvgPool, AvgPool1d, AvgPool2d, MaxPool, MaxPool1d, MaxPool2d};
pub use prelu::PReLU;
pub(crate) use projection::AttentionKind;
pub use recurrent::{GRU, LSTM, RNN, RecurrentOptions, RecurrentState};
pub use sequential::Sequential;
pub(crate) use stack::{MAX_LAYERS, Stack};
pub use transformer::TransformerOptions;
pub(crate) use transformer::{FeedForward, Residual};
