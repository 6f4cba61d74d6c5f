//! Kinds and names of operations, and questions about several of them.

use super::{Activation, Op};

macro_rules! kinds {
    ($($kind:ident => $name:literal),* $(,)?) => {
        /// The kind of an [`Op`], without its parameters.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[allow(missing_docs)]
        pub enum OpKind { $($kind),* }

        impl OpKind {
            /// Every kind.
            pub const ALL: &[OpKind] = &[$(OpKind::$kind),*];

            /// The name used in errors, traces and counters.
            pub const fn name(self) -> &'static str {
                match self { $(OpKind::$kind => $name),* }
            }
        }

        impl Op {
            /// The kind of operation.
            pub fn kind(&self) -> OpKind {
                match self { $(Op::$kind { .. } => OpKind::$kind),* }
            }
        }
    };
}

kinds! {
    Fill => "fill", Iota => "iota", Copy => "copy", Unary => "unary", Binary => "binary", Where => "where",
    Clip => "clip", Chain => "chain", Reduce => "reduce", CumSum => "cumsum", Softmax => "softmax",
    LayerNorm => "layer_norm", RmsNorm => "rms_norm", GroupNorm => "group_norm",
    MatMul => "matmul", Conv => "conv", ConvTranspose => "conv_transpose", Pool => "pool",
    Gather => "gather", GatherElements => "gather_elements", GatherNd => "gather_nd",
    ScatterElements => "scatter_elements", ScatterNd => "scatter_nd", Embedding => "embedding",
    CacheWrite => "cache_write", Rope => "rope",
    TopK => "top_k", Resize => "resize", Pad => "pad", Reverse => "reverse", GridSample => "grid_sample",
    RoiAlign => "roi_align", DeformConv => "deform_conv",
    NonZero => "nonzero", Compress => "compress", Unique => "unique",
    NonMaxSuppression => "non_max_suppression", Attention => "attention",
    Recurrent => "recurrent", Dft => "dft", Stft => "stft", Quantize => "quantize",
    Dequantize => "dequantize", DynamicQuantize => "dynamic_quantize",
    MatMulInteger => "matmul_integer", ConvInteger => "conv_integer", PackWeights => "pack_weights",
    MatMulPacked => "matmul_packed", MatMulBlocks => "matmul_blocks",
    Random => "random", Upload => "upload", Download => "download", Timestamp => "timestamp",
}

impl Op {
    /// The name used in errors, traces and counters.
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// The output that says how many results there are, for operations where the data decides: one `i64`. The sizes
    /// of the other outputs are upper bounds, and what is not used of them is 0.
    pub fn count_output(&self) -> Option<usize> {
        match self {
            Op::NonZero | Op::Compress { .. } | Op::NonMaxSuppression { .. } => Some(1),
            Op::Unique { .. } => Some(4),
            _ => None,
        }
    }

    /// The activation at the end of the operation, if it has one.
    pub fn activation(&self) -> Activation {
        match self {
            Op::MatMul { epilogue }
            | Op::MatMulPacked { epilogue, .. }
            | Op::MatMulBlocks { epilogue, .. }
            | Op::Conv { epilogue, .. }
            | Op::ConvTranspose { epilogue, .. } => epilogue.activation,
            Op::MatMulInteger { rescale: Some(rescale), .. }
            | Op::ConvInteger { rescale: Some(rescale), .. } => rescale.activation,
            _ => Activation::None,
        }
    }
}
