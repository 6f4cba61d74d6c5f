//! Kernels of this backend alone.

use millstream_core::{Error, Result};
use objc2_metal::{MTLComputeCommandEncoder, MTLComputePipelineState, MTLSize};

use crate::compile::Compiler;
use crate::objects::{Obj, Raw, Ref};

/// Their text.
pub(crate) const SOURCE: &str = include_str!("builtin.metal");

/// Threads of their groups.
pub(crate) const COPY_THREADS: u32 = 256;
/// Groups of a copy at most: each thread goes on until all is copied.
const MAX_COPY_GROUPS: usize = 1024;
/// Bytes that a vector has.
const VECTOR: usize = 16;

/// The pipelines, for the life of the process.
pub(crate) struct Builtins {
    bytes: Obj<dyn MTLComputePipelineState>,
    vectors: Obj<dyn MTLComputePipelineState>,
    nothing: Obj<dyn MTLComputePipelineState>,
}

/// How a copy is launched.
pub(crate) struct Copy {
    pub pipeline: Raw<dyn MTLComputePipelineState>,
    pub groups: u32,
    /// Where the bindings begin: what an offset of a binding must be a multiple of is cut off.
    pub target: usize,
    pub source: usize,
    /// Bytes, and what was cut off.
    pub params: [u64; 2],
}

impl Builtins {
    /// How many there are.
    pub const COUNT: usize = 3;

    /// # Errors
    ///
    /// What the compiler said.
    pub fn new(compiler: &Compiler) -> Result<Self> {
        let failed =
            |message: String| Error::Compile { key: "builtin".into(), message: message.into() };
        let library = compiler.begin(SOURCE).wait().map_err(failed)?;
        let pipeline = |name: &str| compiler.pipeline(&library, name, COPY_THREADS).map_err(failed);
        let own = Self {
            bytes: pipeline("ms_copy_bytes")?,
            vectors: pipeline("ms_copy_vectors")?,
            nothing: pipeline("ms_nothing")?,
        };
        library.keep();
        Ok(own)
    }

    /// A dispatch that does nothing.
    pub fn encode_nothing(&self, compute: &Ref<dyn MTLComputeCommandEncoder>) {
        let one = MTLSize { width: 1, height: 1, depth: 1 };
        let threads = MTLSize { width: COPY_THREADS as usize, ..one };
        compute.setComputePipelineState(&self.nothing);
        compute.dispatchThreadgroups_threadsPerThreadgroup(one, threads);
    }

    /// A copy of some bytes between offsets of two buffers.
    pub fn copy(&self, target: usize, source: usize, bytes: usize) -> Copy {
        let vectors = target.is_multiple_of(VECTOR) && source.is_multiple_of(VECTOR);
        let (pipeline, items) = match vectors {
            true => (&self.vectors, bytes.div_ceil(VECTOR)),
            false => (&self.bytes, bytes),
        };
        let groups = items.div_ceil(COPY_THREADS as usize).clamp(1, MAX_COPY_GROUPS);
        let [over_target, over_source] = [target % VECTOR, source % VECTOR];
        Copy {
            pipeline: Raw::of(pipeline),
            groups: groups as u32,
            target: target - over_target,
            source: source - over_source,
            params: [bytes as u64, (over_target | over_source << 32) as u64],
        }
    }
}
