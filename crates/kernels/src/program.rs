//! The list of programs.

use crate::lower;

/// A program text and what it is specialized by. Each family in [`crate::lower`] defines its own.
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

// One line per program, in the order of the alphabet.
programs! {
    /// Attention.
    Attention => lower::attention::PROGRAM,
    /// Attention of many queries, in tiles of keys.
    AttentionTiles => lower::attention_tiles::PROGRAM,
    /// Functions of two elements.
    Binary => lower::binary::PROGRAM,
    /// Parts written into caches.
    CacheWrite => lower::cache_write::PROGRAM,
    /// Elementwise steps in one pass.
    Chain => lower::chain::PROGRAM,
    /// Limits of each element.
    Clip => lower::clip::PROGRAM,
    /// Where flags are set.
    Compact => lower::compact::PROGRAM,
    /// Convolutions in tiles.
    Conv => lower::conv::PROGRAM,
    /// Small convolutions with split k.
    ConvSplitK => lower::conv::SPLIT_K_PROGRAM,
    /// Convolutions with a thread for each output.
    ConvDirect => lower::conv::DIRECT_PROGRAM,
    /// Strided copies and conversions.
    Copy => lower::copy::PROGRAM,
    /// Running sums and products.
    CumSum => lower::cumsum::PROGRAM,
    /// Convolutions whose taps are moved by data.
    DeformConv => lower::deform_conv::PROGRAM,
    /// To 8-bit integers with the scale that suits the data.
    DynamicQuantize => lower::dynamic::PROGRAM,
    /// What a library's matrix product leaves to be done.
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
    /// Matrix products of few rows with weights of few bits.
    GemvBlocks => lower::blocks::GEMV_PROGRAM,
    /// Matrix products with few rows, by columns.
    GemvColumns => lower::gemv::COLUMNS_PROGRAM,
    /// Numbers in a row.
    Iota => lower::iota::PROGRAM,
    /// Elements at places that a grid names.
    GridSample => lower::grid_sample::PROGRAM,
    /// Matrix products in tiles.
    Matmul => lower::matmul::PROGRAM,
    /// Matrix products with weights of few bits.
    MatmulBlocks => lower::blocks::PROGRAM,
    /// Small matrix products with split k.
    MatmulSplitK => lower::matmul_split_k::PROGRAM,
    /// Coordinates of what was found.
    NonZero => lower::compact::NONZERO,
    /// Layer, group and root-mean-square normalization.
    Norm => lower::norm::PROGRAM,
    /// Padding and cropping.
    Pad => lower::pad::PROGRAM,
    /// Pooling.
    Pool => lower::pool::PROGRAM,
    /// To and from integers with a scale.
    Quantize => lower::quantize::PROGRAM,
    /// Random numbers.
    Random => lower::random::PROGRAM,
    /// The last states of a recurrent layer.
    RecurrentFinish => lower::recurrent_params::FINISH_PROGRAM,
    /// The first states of a recurrent layer.
    RecurrentStart => lower::recurrent_params::START_PROGRAM,
    /// Steps of a recurrent layer.
    RecurrentSteps => lower::recurrent_params::STEPS_PROGRAM,
    /// 8-bit weights of a recurrent layer as numbers.
    RecurrentWeights => lower::recurrent_weights::PROGRAM,
    /// Reductions.
    Reduce => lower::reduce::PROGRAM,
    /// What is made of exact sums.
    Rescale => lower::rescale::PROGRAM,
    /// Interpolation.
    Resize => lower::resize::PROGRAM,
    /// Which elements are interpolated between.
    ResizeTaps => lower::resize::TAPS,
    /// Rotary embedding.
    Rope => lower::rope::PROGRAM,
    /// Elements in the opposite order.
    Reverse => lower::reverse::PROGRAM,
    /// Regions of interest, each brought to the same size.
    RoiAlign => lower::roi_align::PROGRAM,
    /// Elements written by index.
    Scatter => lower::scatter::PROGRAM,
    /// One of two elements, by a condition.
    Select => lower::select::PROGRAM,
    /// Softmax and its logarithm.
    Softmax => lower::softmax::PROGRAM,
    /// Rows sorted in memory.
    Sort => lower::top_k::SORT,
    /// To and from types that are only stored.
    Storage => lower::storage::PROGRAM,
    /// Boxes that no better one overlaps.
    Suppress => lower::suppress::PROGRAM,
    /// The list of those boxes.
    SuppressFinish => lower::suppress::FINISH,
    /// Items by their numbers.
    Take => lower::compact::TAKE,
    /// The best of tiles.
    TopK => lower::top_k::TILES,
    /// Functions of one element.
    Unary => lower::unary::PROGRAM,
    /// Items in order, and which differ from the one before.
    Unique => lower::unique::PROGRAM,
    /// Numbers of the different items.
    UniqueFinish => lower::unique::FINISH,
}

impl Program {
    /// The name, which is part of a C identifier.
    pub fn name(self) -> &'static str {
        self.definition().name
    }

    /// The text, without what comes before it in a [`source`](crate::source()).
    pub fn text(self) -> &'static str {
        self.definition().text
    }

    /// The names of the constants, as the text uses them.
    pub fn constant_names(self) -> &'static [&'static str] {
        self.definition().constants
    }
}
