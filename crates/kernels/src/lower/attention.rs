//! Attention.

use millstream_core::{
    Alignment, AttentionOperands, AttentionParams, BoundCommand, DType, Operand, RawBuffer,
};
use smallvec::smallvec;

use super::{attention_matrices, attention_tensor_cores, attention_tiles};
use crate::params::params;
use crate::program::Definition;
use crate::walk::is_wide;
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

/// The most simd groups of a group.
const MAX_SIMDS: usize = 8;
/// Elements of a row that are loaded at once.
pub(super) const VECTOR: usize = 4;
/// The largest query that is kept in group memory.
const MAX_HELD: usize = 128;

/// Larger than any distance between a query and a key, and small enough that sums do not overflow.
const FAR: i64 = i64::MAX >> 2;

/// The index of the key among the operands.
const KEY: usize = 2;

params! {
    /// The params of `attention`, `attention_tiles`, `attention_tensor_cores` and `attention_matrices`.
    AttentionLaunch {
        /// Offsets of output, query, key, value, mask and lengths.
        offset: [u64; 6],
        /// Strides of batch, head, row and column, for each of them.
        stride: [[u64; 4]; 6],
        /// All heads of the batch.
        items: u64,
        heads: u64,
        /// Query heads per key head.
        sharing: u64,
        queries: u64,
        keys: u64,
        size: u64,
        value_size: u64,
        /// Query `i` sees key `j` if `i + lower <= j <= i + upper`.
        lower: i64,
        upper: i64,
        scale: f32,
        softcap: f32,
        /// Whether the number of keys of the batch minus the number of queries is added to both bounds.
        from_end: u32,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "attention",
    text: include_str!("../../programs/attention.kernel"),
    constants: &[
        "DTYPE", "MASK", "LENGTHS", "LEFT", "CAPPED", "QUERIES", "CHUNKS", "VECTOR", "HELD", "WIDE",
    ],
    params: AttentionLaunch::declaration,
};

/// An attention in the form that its kernels need.
pub(super) struct Attention<'a> {
    /// Output, query, key, value, mask and lengths.
    pub operands: [Option<&'a Operand<RawBuffer>>; 6],
    /// All heads of the batch.
    pub items: usize,
    pub queries: usize,
    pub keys: usize,
    pub size: usize,
    pub value_size: usize,
    pub dtype: DType,
    /// Constants `MASK`, `LENGTHS`, `LEFT` and `CAPPED`.
    pub scores: [i32; 4],
    /// Constant `WIDE`: positions need 64 bits.
    pub wide: bool,
    params: AttentionLaunch,
}

impl<'a> Attention<'a> {
    /// The attention of a Command; `None` if its output is empty.
    fn of(command: &'a BoundCommand, params: &AttentionParams) -> Option<Self> {
        let AttentionOperands { dst, query, key, value, mask, lengths } =
            AttentionOperands::of(command);
        if dst.layout.is_empty() {
            return None;
        }
        let shape = |operand: &Operand<RawBuffer>, axis: usize| operand.layout.shape()[axis];
        let (items, heads) = (shape(dst, 0) * shape(dst, 1), shape(dst, 1));
        let (queries, keys) = (shape(query, 2), shape(key, 2));
        let (size, value_size) = (shape(query, 3), shape(value, 3));
        let operands = [Some(dst), Some(query), Some(key), Some(value), mask, lengths];
        let offset = |operand: &Operand<RawBuffer>| operand.layout.offset() as u64;
        let strides = |operand: &Operand<RawBuffer>| {
            let strides = operand.layout.strides();
            std::array::from_fn(|axis| strides.get(axis).map_or(0, |&stride| stride as u64))
        };
        let (window, capped) = (params.window, params.softcap.is_some());
        let place = match window.align {
            Alignment::Start { offset } => offset,
            Alignment::End if lengths.is_some() => 0,
            Alignment::End => keys as i64 - queries as i64,
        }
        .clamp(-FAR, FAR);
        let params = AttentionLaunch {
            offset: operands.map(|operand| operand.map_or(0, offset)),
            stride: operands.map(|operand| operand.map_or([0; 4], strides)),
            items: items as u64,
            heads: heads as u64,
            sharing: (heads / shape(key, 1)) as u64,
            queries: queries as u64,
            keys: keys as u64,
            size: size as u64,
            value_size: value_size as u64,
            lower: window.left.map_or(-FAR, |left| place - i64::from(left)),
            upper: window.right.map_or(FAR, |right| place + i64::from(right)),
            scale: params.scale,
            softcap: params.softcap.unwrap_or(0.0),
            from_end: (window.align == Alignment::End && lengths.is_some()).into(),
        };
        let lengths =
            lengths.map_or(0, |lengths| 1 + i32::from(lengths.layout.dtype() == DType::I64));
        let mask = match mask {
            None => 0,
            Some(mask) if mask.layout.dtype() == DType::Bool => 1,
            Some(_) => 2,
        };
        let (dtype, wide) = (dst.layout.dtype(), is_wide(operands.into_iter().flatten()));
        let scores = [mask, lengths, window.left.is_some().into(), capped.into()];
        Some(Self { operands, items, queries, keys, size, value_size, dtype, scores, wide, params })
    }

    /// A launch with groups along queries, heads and columns.
    pub fn launch(&self, key: Key, queries: usize, columns: usize, threads: usize) -> Launch {
        // The output stands in for an absent mask or absent lengths. Kernels do not read it as such.
        let slot = |operand: &Option<_>| operand.or(self.operands[0]).map(Slot::from);
        Launch {
            key,
            groups: [queries as u32, self.items.min(65535) as u32, columns as u32],
            threads: threads as u32,
            slots: self.operands.iter().filter_map(slot).collect(),
            params: self.params.pack(),
        }
    }
}

pub(super) fn lower(command: &BoundCommand, params: &AttentionParams, limits: &Limits) -> Lowered {
    let Some(attention) = Attention::of(command, params) else { return Lowered::default() };
    let launch = attention_tensor_cores::launch(&attention, limits)
        .or_else(|| attention_matrices::launch(&attention, limits))
        .or_else(|| attention_tiles::launch(&attention, limits))
        .unwrap_or_else(|| launch(&attention, limits));
    Lowered { launches: smallvec![launch], workspace: 0 }
}

/// The launch for an attention whose keys are shared by the simd groups of a group.
fn launch(attention: &Attention, limits: &Limits) -> Launch {
    let &Attention { items, queries, keys, size, value_size, dtype, .. } = attention;
    let rows = rows(queries, items, limits);
    let chunks = value_size.div_ceil(32).next_power_of_two().min(4);
    let [mask, lengths, left, capped] = attention.scores;
    let constants = [
        dtype as i32,
        mask,
        lengths,
        left,
        capped,
        rows as i32,
        chunks as i32,
        vector(&attention.operands[KEY..=KEY], VECTOR) as i32,
        (size <= MAX_HELD).into(),
        attention.wide.into(),
    ];
    let max_simds = if dtype == DType::F64 { MAX_SIMDS / 2 } else { MAX_SIMDS };
    let simds = keys.div_ceil(32).clamp(1, max_simds).min(limits.max_threads as usize / 32);
    let key = Key::new(Program::Attention, &constants);
    attention.launch(key, queries.div_ceil(rows), value_size.div_ceil(32 * chunks), 32 * simds)
}

/// Queries per group. If there are few queries, a group takes few, so that the whole device has work. If there are
/// many, a group takes more, so that each key is read less often.
fn rows(queries: usize, items: usize, limits: &Limits) -> usize {
    let groups = queries.div_ceil(8).saturating_mul(items);
    match queries {
        1 => 1,
        _ if groups >= limits.parallel_groups as usize / 2 => 8,
        _ => 4,
    }
}

/// How many elements of a row can be loaded at once in all these operands: `most` or one.
pub(super) fn vector(operands: &[Option<&Operand<RawBuffer>>], most: usize) -> usize {
    let whole = |operand: &Operand<RawBuffer>| takes_vectors(operand, most);
    if operands.iter().flatten().all(|operand| whole(operand)) { most } else { 1 }
}

/// Whether so many elements of any row can be loaded at once.
pub(super) fn takes_vectors(operand: &Operand<RawBuffer>, vector: usize) -> bool {
    let (layout, element) = (&operand.layout, operand.layout.dtype().size());
    let start = operand.buffer.address + layout.start_bytes();
    layout.shape()[3].is_multiple_of(vector)
        && layout.strides()[3] == 1
        && start.is_multiple_of(vector * element)
        && layout.strides()[..3].iter().all(|stride| stride.is_multiple_of(vector))
}

#[cfg(test)]
pub(super) mod tests;
