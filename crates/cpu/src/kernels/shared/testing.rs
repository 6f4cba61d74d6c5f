//! What the tests of kernels share: host memory as operands, and ways to run chunks.

use std::alloc::Layout as Allocation;

use half::{bf16, f16};
use millstream_core::{BoundCommand, DType, Element, Layout, Operand, RawBuffer};

use super::number::StoredFloat;
use crate::kernels::{Parallel, Sequential, execute};

/// Aligned host memory with a layout.
pub struct Tensor {
    memory: *mut u8,
    bytes: usize,
    pub layout: Layout,
}

impl Tensor {
    /// Memory for a layout, with every byte set to 0xA5 so that stray reads show.
    pub fn uninit(layout: Layout) -> Self {
        let bytes = layout.extent_bytes();
        // SAFETY: the size is not 0 and the alignment is a power of two.
        let memory = unsafe { std::alloc::alloc(allocation(bytes)) };
        assert!(!memory.is_null());
        // SAFETY: so many bytes were just allocated.
        unsafe { memory.write_bytes(0xA5, bytes) };
        Tensor { memory, bytes, layout }
    }

    /// Elements of any layout; the values are in row-major order.
    pub fn strided<T: Element>(layout: Layout, values: &[T]) -> Self {
        assert_eq!(values.len(), layout.elements());
        let tensor = Self::uninit(layout);
        for (index, &value) in values.iter().enumerate() {
            // SAFETY: the position lies inside the extent, and the types have one size.
            unsafe { tensor.memory.cast::<T>().add(layout.position(index)).write(value) };
        }
        tensor
    }

    /// Dense elements.
    pub fn new<T: Element>(shape: &[usize], values: &[T]) -> Self {
        Self::strided(Layout::contiguous(T::DTYPE, shape).unwrap(), values)
    }

    /// Truth values.
    pub fn bools(shape: &[usize], values: &[u8]) -> Self {
        Self::strided(Layout::contiguous(DType::Bool, shape).unwrap(), values)
    }

    /// Dense memory to be written.
    pub fn output(dtype: DType, shape: &[usize]) -> Self {
        Self::uninit(Layout::contiguous(dtype, shape).unwrap())
    }

    /// Floating-point values rounded to a type.
    pub fn floats(dtype: DType, shape: &[usize], values: &[f64]) -> Self {
        Self::floats_strided(Layout::contiguous(dtype, shape).unwrap(), values)
    }

    /// Floating-point values rounded to the type of a layout.
    pub fn floats_strided(layout: Layout, values: &[f64]) -> Self {
        match layout.dtype() {
            DType::F32 => Self::strided(layout, &convert(values, |v| v as f32)),
            DType::F64 => Self::strided(layout, values),
            DType::F16 => Self::strided(layout, &convert(values, <f16 as StoredFloat>::from_f64)),
            DType::BF16 => Self::strided(layout, &convert(values, <bf16 as StoredFloat>::from_f64)),
            other => panic!("{other} is not floating point"),
        }
    }

    pub fn operand(&self) -> Operand<RawBuffer> {
        Operand::new(RawBuffer { address: self.memory as usize, bytes: self.bytes }, self.layout)
    }

    /// The elements in row-major order.
    pub fn values<T: Element>(&self) -> Vec<T> {
        assert_eq!(size_of::<T>(), self.layout.dtype().size());
        (0..self.layout.elements())
            // SAFETY: the position lies inside the extent, and any bits are an `Element`.
            .map(|i| unsafe { self.memory.cast::<T>().add(self.layout.position(i)).read() })
            .collect()
    }

    /// Elements of any floating-point type as `f64`.
    pub fn to_f64(&self) -> Vec<f64> {
        match self.layout.dtype() {
            DType::F32 => convert(&self.values::<f32>(), f64::from),
            DType::F64 => self.values(),
            DType::F16 => convert(&self.values::<f16>(), f16::to_f64),
            DType::BF16 => convert(&self.values::<bf16>(), bf16::to_f64),
            other => panic!("{other} is not floating point"),
        }
    }

    /// All bytes of the memory.
    pub fn bytes(&self) -> Vec<u8> {
        // SAFETY: the bytes were allocated and initialized, and no command runs now.
        unsafe { std::slice::from_raw_parts(self.memory, self.bytes) }.to_vec()
    }
}

fn allocation(bytes: usize) -> Allocation {
    Allocation::from_size_align(bytes.max(1), 64).unwrap()
}

fn convert<A: Copy, B>(values: &[A], function: impl Fn(A) -> B) -> Vec<B> {
    values.iter().map(|&value| function(value)).collect()
}

impl Drop for Tensor {
    fn drop(&mut self) {
        // SAFETY: allocated in `uninit` with this size and alignment.
        unsafe { std::alloc::dealloc(self.memory, allocation(self.bytes)) };
    }
}

/// Runs chunks from the last to the first.
pub struct Reversed;

impl Parallel for Reversed {
    fn run(&self, chunks: usize, body: &(dyn Fn(usize) + Sync)) {
        (0..chunks).rev().for_each(body);
    }

    fn is_shared(&self) -> bool {
        true
    }
}

/// Runs chunks on this many threads, each taking every so-manyth chunk.
pub struct Threads(pub usize);

impl Parallel for Threads {
    fn run(&self, chunks: usize, body: &(dyn Fn(usize) + Sync)) {
        std::thread::scope(|scope| {
            for thread in 0..self.0 {
                scope.spawn(move || (thread..chunks).step_by(self.0).for_each(body));
            }
        });
    }

    fn is_shared(&self) -> bool {
        true
    }
}

/// Executes a command whose operands are [`Tensor`]s.
pub fn run(command: millstream_core::Result<BoundCommand>) {
    // SAFETY: operands are tensors of this thread, aligned to 64 bytes, each in memory of its own.
    unsafe { execute(&command.unwrap(), &Sequential, 0) }.unwrap();
}

/// What a command says that its data, or the memory of the machine, makes impossible.
pub fn fault(command: millstream_core::Result<BoundCommand>) -> String {
    let ways: [&dyn Parallel; 3] = [&Sequential, &Reversed, &Threads(3)];
    let [first, others @ ..] = ways.map(|way| {
        // SAFETY: as in `run`; the threads are joined before the call returns.
        let fault = unsafe { execute(command.as_ref().unwrap(), way, 0) }.unwrap_err();
        fault.message().to_string()
    });
    assert!(others.iter().all(|other| *other == first), "{first}, {others:?}");
    first
}

/// Executes a command in several ways and checks that `output` gets the same bytes.
pub fn assert_same_bits_in_any_order(command: &BoundCommand, output: &Tensor) {
    let ways: [&dyn Parallel; 4] = [&Sequential, &Reversed, &Threads(2), &Threads(5)];
    let results = ways.map(|way| {
        // SAFETY: as in `run`; the threads are joined before the call returns.
        unsafe { execute(command, way, 0) }.unwrap();
        output.bytes()
    });
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "{}", command.op().name());
}

/// Values that look random, between -1 and 1.
pub fn noise(count: usize, seed: u64) -> Vec<f64> {
    (0..count as u64)
        .map(|i| f64::from(millstream_core::philox::uniform_at(seed, i)) * 2.0 - 1.0)
        .collect()
}

#[track_caller]
pub fn assert_close(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (index, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let same = found == expected || (found.is_nan() && expected.is_nan());
        let error = (found - expected).abs();
        assert!(
            same || error <= tolerance * expected.abs().max(1.0),
            "element {index}: found {found}, expected {expected}"
        );
    }
}

/// Storage tolerance of a floating-point type: half a unit in the last place of 1, and some.
pub fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-14,
        DType::F32 => 4e-7,
        DType::F16 => 6e-4,
        _ => 4.5e-3,
    }
}

pub const FLOATS: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];
