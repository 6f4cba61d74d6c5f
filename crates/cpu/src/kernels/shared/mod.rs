//! What kernels of several families use.
//!
//! - Elements: [`number`] has the element types, [`math`] and [`integer`] the functions of single elements, [`byte`]
//!   8-bit integers, [`conversion`] what becomes of one type in another.
//! - Layouts: [`walk`] turns layouts into runs of elements, [`untyped`] moves runs between buffers and [`block`]s,
//!   [`operand`] converts them to the type that is computed in, [`elementwise`] applies a function to all of them.
//! - Vectors: [`simd`] compiles loops for each instruction set, [`lanes`] fixes the order of sums, [`streaming`] has
//!   stores that bypass the caches.
//! - Threads: [`parallel`] splits work in chunks, [`fault`] ends it early.
//! - Memory: [`scratch`].

pub(crate) mod activation;
pub(crate) mod block;
pub(crate) mod byte;
pub(crate) mod conversion;
pub(crate) mod elementwise;
pub(crate) mod fault;
pub(crate) mod integer;
pub(crate) mod lanes;
pub(crate) mod lengths;
pub(crate) mod math;
pub(crate) mod number;
pub(crate) mod operand;
pub(crate) mod parallel;
pub(crate) mod scratch;
pub(crate) mod simd;
pub(crate) mod slice;
pub(crate) mod streaming;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod transpose;
pub(crate) mod untyped;
pub(crate) mod walk;
