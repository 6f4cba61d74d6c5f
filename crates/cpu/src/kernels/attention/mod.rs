//! Scaled dot-product attention without the matrix of scores.
//!
//! A panel of queries, as many as a vector has lanes, meets the keys block by block: scores of one
//! block, the softmax so far, and its product with the values. Queries are lanes and keys are rows
//! throughout, so keys and values are read where they lie, scores need no turning between the two
//! products, and a lane depends on no other. Blocks of keys are the same for every query, so the bits
//! of a query depend neither on the batch nor on the other queries.

mod mask;
mod softmax;
mod transpose;
mod visible;

#[cfg(test)]
mod tests;

use millstream_core::{AttentionParams, DType, Operand, RawBuffer};

use crate::kernels::matmul::panels::{PanelElement, Product};
use crate::kernels::shared::block::base;
use crate::kernels::shared::fault::{Result, try_share};
use crate::kernels::shared::lengths::Lengths;
use crate::kernels::shared::number::{Float, StoredFloat, with_float};
use crate::kernels::shared::parallel::{Parallel, Shared};
use crate::kernels::shared::scratch::with_areas;
use crate::kernels::shared::simd::Isa;
use mask::Mask;
use softmax::Softmax;
use visible::VisibleKeys;

/// Keys of a block.
const BLOCK_KEYS: usize = 128;

/// Multiplications that take about as long as one element of simple work.
const PRODUCTS_PER_ELEMENT: usize = 16;

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn attention(
    params: &AttentionParams,
    dst: &Operand<RawBuffer>,
    inputs: [&Operand<RawBuffer>; 3],
    mask: Option<&Operand<RawBuffer>>,
    lengths: Option<&Operand<RawBuffer>>,
    parallel: &dyn Parallel,
) -> Result {
    if dst.layout.is_empty() {
        return Ok(());
    }
    with_float!(dst.layout.dtype(), T => {
        // SAFETY: passed on.
        let attention = unsafe { Attention::<T>::new(params, dst, inputs, mask, lengths) };
        // SAFETY: passed on.
        unsafe { attention.run(Isa::detect(), parallel) }
    })
}

/// An operand of four axes.
#[derive(Clone, Copy)]
struct Tensor<T> {
    first: Shared<T>,
    strides: [usize; 4],
}

impl<T: Copy> Tensor<T> {
    /// # Safety
    ///
    /// The operand has the type `T`, and its address is a host pointer.
    unsafe fn new(operand: &Operand<RawBuffer>) -> Self {
        Tensor {
            // SAFETY: passed on.
            first: Shared::new(unsafe { base(operand) }),
            strides: std::array::from_fn(|axis| operand.layout.strides()[axis]),
        }
    }

    /// Where an element lies. An operand without elements may have any strides, and no element that
    /// could be reached.
    fn at(&self, place: [usize; 4]) -> *mut T {
        let offsets = place.iter().zip(&self.strides).map(|(at, by)| at.wrapping_mul(*by));
        self.first.get().wrapping_add(offsets.fold(0, usize::wrapping_add))
    }
}

struct Attention<'a, T> {
    params: &'a AttentionParams,
    batch: usize,
    heads: usize,
    key_heads: usize,
    queries: usize,
    keys: usize,
    size: usize,
    value_size: usize,
    dst: Tensor<T>,
    query: Tensor<T>,
    key: Tensor<T>,
    value: Tensor<T>,
    mask: Option<Mask<T>>,
    lengths: Option<Lengths>,
}

/// The queries that one panel holds: those of the query heads of one key head, one after another.
#[derive(Clone, Copy)]
struct Panel {
    batch: usize,
    key_head: usize,
    first: usize,
    lanes: usize,
}

/// Areas that a panel works in.
struct Areas<'a, F> {
    /// The queries, transposed: `[size][width]`.
    query: &'a mut [F],
    /// Scores of a block of keys, then their shares: `[keys][width]`.
    scores: &'a mut [F],
    /// The results so far: `[value size][width]`.
    results: &'a mut [F],
    /// A block of keys or values in the type that is computed in.
    wide: &'a mut [F],
}

impl<'a, T: StoredFloat<Compute: PanelElement>> Attention<'a, T> {
    unsafe fn new(
        params: &'a AttentionParams,
        dst: &Operand<RawBuffer>,
        [query, key, value]: [&Operand<RawBuffer>; 3],
        mask: Option<&Operand<RawBuffer>>,
        lengths: Option<&Operand<RawBuffer>>,
    ) -> Self {
        let (shape, key_shape) = (query.layout.shape(), key.layout.shape());
        // SAFETY: passed on; truth values are bytes.
        unsafe {
            let mask = mask.map(|mask| match mask.layout.dtype() {
                DType::Bool => Mask::Bool(Tensor::new(mask)),
                _ => Mask::Additive(Tensor::new(mask)),
            });
            Attention {
                params,
                batch: shape[0],
                heads: shape[1],
                key_heads: key_shape[1],
                queries: shape[2],
                keys: key_shape[2],
                size: shape[3],
                value_size: value.layout.shape()[3],
                dst: Tensor::new(dst),
                query: Tensor::new(query),
                key: Tensor::new(key),
                value: Tensor::new(value),
                mask,
                lengths: lengths.map(|lengths| Lengths::new(lengths)),
            }
        }
    }

    /// # Safety
    ///
    /// As for [`execute`](crate::kernels::execute), and the CPU has this ISA.
    unsafe fn run(&self, isa: Isa, parallel: &dyn Parallel) -> Result {
        let width = T::Compute::width(isa);
        let columns = self.heads / self.key_heads * self.queries;
        let panels = columns.div_ceil(width);
        let products = self
            .keys
            .saturating_mul(self.size.saturating_add(self.value_size))
            .saturating_mul(width);
        let work = products / PRODUCTS_PER_ELEMENT + width * self.value_size;
        let sizes = [
            self.size.saturating_mul(width),
            BLOCK_KEYS.min(self.keys) * width,
            self.value_size * width,
            if T::DIRECT { 0 } else { BLOCK_KEYS.saturating_mul(self.size.max(self.value_size)) },
        ];
        try_share(parallel, self.batch * self.key_heads * panels, work, |range| {
            with_areas(sizes, |[query, scores, results, wide]: [&mut [T::Compute]; 4]| {
                let mut areas = Areas { query, scores, results, wide };
                for index in range.clone() {
                    let (head, panel) = (index / panels, index % panels);
                    let panel = Panel {
                        batch: head / self.key_heads,
                        key_head: head % self.key_heads,
                        first: panel * width,
                        lanes: width.min(columns - panel * width),
                    };
                    // SAFETY: panels are disjoint parts of the output; the rest is passed on.
                    unsafe { self.panel(isa, width, panel, &mut areas) };
                }
            })
        })
    }

    /// The head and the query of a lane.
    fn query_of(&self, panel: Panel, lane: usize) -> (usize, usize) {
        let column = panel.first + lane;
        let head = panel.key_head * (self.heads / self.key_heads) + column / self.queries;
        (head, column % self.queries)
    }

    unsafe fn panel(
        &self,
        isa: Isa,
        width: usize,
        panel: Panel,
        areas: &mut Areas<'_, T::Compute>,
    ) {
        areas.query.fill(T::Compute::ZERO);
        // SAFETY: passed on.
        unsafe { self.transpose_queries(isa, width, panel, areas.query) };
        // SAFETY: passed on.
        let length =
            unsafe { self.lengths.map_or(self.keys, |given| given.at(panel.batch, self.keys)) };
        let visible = VisibleKeys::new(self, panel, length);
        if visible.blocks().is_empty() {
            areas.results.fill(T::Compute::ZERO);
        }
        let mut softmax = Softmax::new();
        for first in visible.blocks().step_by(BLOCK_KEYS) {
            // Beyond the length there may be anything, and even no share of it is a number.
            let keys = BLOCK_KEYS.min(length - first);
            let scores = &mut areas.scores[..keys * width];
            // SAFETY: passed on; the areas have the sizes that the products say.
            unsafe {
                let rows = (first, keys, self.size);
                let (lhs, lhs_row_stride, lhs_k_stride) =
                    self.block(&self.key, panel, rows, areas.wide);
                let product = Product {
                    rows: keys,
                    columns: width,
                    k: self.size,
                    lhs,
                    lhs_row_stride,
                    lhs_k_stride,
                    rhs: areas.query.as_ptr(),
                    rhs_panel_stride: 0,
                    rhs_k_stride: width,
                    sums: scores.as_mut_ptr(),
                    stride: width,
                    begin: true,
                };
                product.run(isa);
                self.prepare(isa, width, panel, &visible, first, scores);
                softmax.add(isa, width, scores, areas.results);
                let rows = (first, keys, self.value_size);
                let (lhs, lhs_k_stride, lhs_row_stride) =
                    self.block(&self.value, panel, rows, areas.wide);
                let product = Product {
                    rows: self.value_size,
                    k: keys,
                    lhs,
                    lhs_row_stride,
                    lhs_k_stride,
                    rhs: scores.as_ptr(),
                    sums: areas.results.as_mut_ptr(),
                    begin: first == visible.blocks().start,
                    ..product
                };
                product.run(isa);
            }
        }
        softmax.divide(isa, width, areas.results);
        // SAFETY: passed on.
        unsafe { self.transpose_results(isa, width, panel, areas.results) };
    }

    /// Some keys or values in the type that is computed in, with the distances between them and between
    /// their elements.
    unsafe fn block(
        &self,
        from: &Tensor<T>,
        panel: Panel,
        (first, count, size): (usize, usize, usize),
        wide: &mut [T::Compute],
    ) -> (*const T::Compute, usize, usize) {
        let [.., row, step] = from.strides;
        let start = from.at([panel.batch, panel.key_head, first, 0]).cast_const();
        if T::DIRECT {
            return (start.cast(), row, step);
        }
        for (index, to) in wide.chunks_exact_mut(size.max(1)).take(count).enumerate() {
            for (i, to) in to[..size].iter_mut().enumerate() {
                // SAFETY: passed on.
                *to = unsafe { start.add(index * row + i * step).read() }.widen();
            }
        }
        (wide.as_ptr(), size, 1)
    }
}
