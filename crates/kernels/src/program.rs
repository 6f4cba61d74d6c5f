//! The list of programs.

use crate::lower;

/// A program text and its constants. Each family in [`crate::lower`] defines its own.
pub(crate) struct Definition {
    /// The name, which is part of a C identifier.
    pub name: &'static str,
    /// The text.
    pub text: &'static str,
    /// The names of the constants, as the text uses them.
    pub constants: &'static [&'static str],
    /// The declaration of `struct Params`, from [`params!`](crate::params::params).
    pub params: fn() -> String,
}

macro_rules! programs {
    ($($(#[$doc:meta])* $name:ident => $definition:path),* $(,)?) => {
        /// A program text: what a [`Key`](crate::Key) specializes.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum Program { $($(#[$doc])* $name),* }

        impl Program {
            /// Every program.
            pub const ALL: &[Program] = &[$(Program::$name),*];

            pub(crate) fn definition(self) -> &'static Definition {
                match self { $(Program::$name => &$definition),* }
            }
        }
    };
}

// One line per program, in alphabetical order.
programs! {
    /// Attention.
    Attention => lower::attention::PROGRAM,
    /// Attention of many queries, with simdgroup matrices.
    AttentionMatrices => lower::attention_matrices::PROGRAM,
    /// Attention of 16-bit numbers by tensor cores.
    AttentionTensorCores => lower::attention_tensor_cores::PROGRAM,
    /// Attention of many queries, in tiles of keys.
    AttentionTiles => lower::attention_tiles::PROGRAM,
    /// Functions of two elements.
    Binary => lower::binary::PROGRAM,
    /// Writes into caches.
    CacheWrite => lower::cache_write::PROGRAM,
    /// Elementwise steps in one pass.
    Chain => lower::chain::PROGRAM,
    /// Limits of each element.
    Clip => lower::clip::PROGRAM,
    /// The positions of flags that are set.
    Compact => lower::compact::PROGRAM,
    /// Convolutions in tiles.
    Conv => lower::conv::PROGRAM,
    /// Convolutions with simdgroup matrices.
    ConvMatrices => lower::conv::MATRICES_PROGRAM,
    /// Depthwise convolutions.
    ConvDepthwise => lower::conv_depthwise::PROGRAM,
    /// Convolutions of 16-bit numbers by tensor cores.
    ConvTensorCores => lower::conv_tensor_cores::PROGRAM,
    /// Small convolutions with split k.
    ConvSplitK => lower::conv::SPLIT_K_PROGRAM,
    /// Convolutions with a thread for each output.
    ConvDirect => lower::conv::DIRECT_PROGRAM,
    /// Strided copies and conversions.
    Copy => lower::copy::PROGRAM,
    /// Running sums and products.
    CumSum => lower::cumsum::PROGRAM,
    /// Deformable convolutions.
    DeformConv => lower::deform_conv::PROGRAM,
    /// Dynamic quantization to 8 bits.
    DynamicQuantize => lower::dynamic::PROGRAM,
    /// The epilogue of a library's matrix product.
    Epilogue => lower::epilogue::PROGRAM,
    /// One value everywhere.
    Fill => lower::fill::PROGRAM,
    /// Fourier transforms.
    Fourier => lower::fourier::PROGRAM,
    /// Roots of unity.
    FourierRoots => lower::fourier::ROOTS_PROGRAM,
    /// Elements by index.
    Gather => lower::gather::PROGRAM,
    /// Matrix products with few rows.
    Gemv => lower::gemv::PROGRAM,
    /// Matrix products of few rows with block-quantized weights.
    GemvBlocks => lower::blocks::GEMV_PROGRAM,
    /// Matrix products with few rows, by columns.
    GemvColumns => lower::gemv::COLUMNS_PROGRAM,
    /// Evenly spaced numbers.
    Iota => lower::iota::PROGRAM,
    /// Sampling at the positions of a grid.
    GridSample => lower::grid_sample::PROGRAM,
    /// Matrix products in tiles.
    Matmul => lower::matmul::PROGRAM,
    /// Matrix products with block-quantized weights.
    MatmulBlocks => lower::blocks::PROGRAM,
    /// Matrix products of f32 with a small batch of rows.
    MatmulFewRows => lower::matmul_few_rows::PROGRAM,
    /// Matrix products with simdgroup matrices.
    MatmulMatrices => lower::matmul_matrices::PROGRAM,
    /// Matrix products of 16-bit numbers by tensor cores, with what they need copied ahead.
    MatmulPipelined => lower::matmul_pipelined::PROGRAM,
    /// Matrix products of f32 with what they need copied ahead.
    MatmulPipelinedF32 => lower::matmul_pipelined_f32::PROGRAM,
    /// Small matrix products of 16-bit numbers by tensor cores.
    MatmulTensorCores => lower::matmul_tensor_cores::PROGRAM,
    /// Small matrix products with split k.
    MatmulSplitK => lower::matmul_split_k::PROGRAM,
    /// Coordinates of the nonzero elements.
    NonZero => lower::compact::NONZERO,
    /// Layer, group and root-mean-square normalization.
    Norm => lower::norm::PROGRAM,
    /// Layer normalization that also gives mean and inverse standard deviation.
    NormMoments => lower::norm::MOMENTS_PROGRAM,
    /// Padding and cropping.
    Pad => lower::pad::PROGRAM,
    /// Pooling.
    Pool => lower::pool::PROGRAM,
    /// Quantization and dequantization.
    Quantize => lower::quantize::PROGRAM,
    /// Quantization to 4 bits and back.
    QuantizePacked => lower::quantize_packed::PROGRAM,
    /// Random numbers.
    Random => lower::random::PROGRAM,
    /// The final states of a recurrent layer.
    RecurrentFinish => lower::recurrent_params::FINISH_PROGRAM,
    /// The initial states of a recurrent layer.
    RecurrentStart => lower::recurrent_params::START_PROGRAM,
    /// Steps of a recurrent layer.
    RecurrentSteps => lower::recurrent_params::STEPS_PROGRAM,
    /// Dequantization of the 8-bit weights of a recurrent layer.
    RecurrentWeights => lower::recurrent_weights::PROGRAM,
    /// Reductions.
    Reduce => lower::reduce::PROGRAM,
    /// Rescaling of exact integer sums.
    Rescale => lower::rescale::PROGRAM,
    /// Interpolation.
    Resize => lower::resize::PROGRAM,
    /// The taps of an interpolation.
    ResizeTaps => lower::resize::TAPS,
    /// Rotary embedding.
    Rope => lower::rope::PROGRAM,
    /// Reversed order of elements.
    Reverse => lower::reverse::PROGRAM,
    /// Regions of interest, each resampled to the same size.
    RoiAlign => lower::roi_align::PROGRAM,
    /// Elements written by index.
    Scatter => lower::scatter::PROGRAM,
    /// One of two elements, by a condition.
    Select => lower::select::PROGRAM,
    /// Softmax and its logarithm.
    Softmax => lower::softmax::PROGRAM,
    /// Softmax along an axis whose elements lie apart.
    SoftmaxColumns => lower::softmax_columns::PROGRAM,
    /// Softmax along an axis whose elements lie apart, of few long rows.
    SoftmaxColumnsSplit => lower::softmax_columns::SPLIT_PROGRAM,
    /// Rows sorted in memory.
    Sort => lower::top_k::SORT,
    /// Conversion to and from storage-only types.
    Storage => lower::storage::PROGRAM,
    /// Non-maximum suppression of boxes.
    Suppress => lower::suppress::PROGRAM,
    /// The list of the selected boxes.
    SuppressFinish => lower::suppress::FINISH,
    /// Items by their indices.
    Take => lower::compact::TAKE,
    /// The best elements of tiles.
    TopK => lower::top_k::TILES,
    /// Functions of one element.
    Unary => lower::unary::PROGRAM,
    /// Sorting of items, and which of them differ from their predecessor.
    Unique => lower::unique::PROGRAM,
    /// Indices and counts of the distinct items.
    UniqueFinish => lower::unique::FINISH,
}

impl Program {
    /// The name, which is part of a C identifier.
    pub fn name(self) -> &'static str {
        self.definition().name
    }

    /// The text, without the prelude that a [`source`](crate::source()) has.
    pub fn text(self) -> &'static str {
        self.definition().text
    }

    /// The names of the constants, as the text uses them.
    pub fn constant_names(self) -> &'static [&'static str] {
        self.definition().constants
    }
}
