//! How often a call allocates host memory once it is warm, counted by the allocator itself.
//!
//! Each thread is counted by itself: the test's harness and workers allocate when they like. With one thread and none
//! inside operations, a call is executed by its caller.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use millstream_core::{DType, Device};
use millstream_cpu as _;
use millstream_nn::{
    Module, Plan, Result, Sequential, Tensor, TransformerEncoderLayer, TransformerOptions, Weights,
};

struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

fn count() {
    // A thread that is ending is not counted.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: all of it is the system's; only a number is counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller says.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller says.
        unsafe { System.realloc(pointer, layout, bytes) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller says.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of each of some calls, once they are warm.
fn counted(mut call: impl FnMut() -> Result<()>) -> Result<Vec<usize>> {
    for _ in 0..20 {
        call()?;
    }
    let mut counts = Vec::with_capacity(50);
    for _ in 0..50 {
        let before = COUNT.get();
        call()?;
        counts.push(COUNT.get() - before);
    }
    Ok(counts)
}

/// The layer's two products with bias and residual have more operands than a Command has room for, and so have the
/// Commands that are bound from them.
const RECORDING: usize = 4;
/// Reading the answer allocates its bytes and what counts their holders, and waiting a list of streams.
const READING: usize = 3;

#[test]
fn warm_calls_allocate_as_often_as_stated() -> Result<()> {
    let device = Device::builder("cpu").threads(1).intra_op(false).open()?;
    let options =
        TransformerOptions { dim_feedforward: 64, batch_first: true, ..Default::default() };
    let model = Weights::random(1, DType::F32, &device).load(|weights| {
        let layer = TransformerEncoderLayer::new(16, 4, options, weights)?;
        Ok(Sequential::new().push(layer))
    })?;
    let plan = Plan::of_module(&model, &[1, 8, 16], DType::F32, &device)?;
    let input = Tensor::randn(&[1, 8, 16], 1, DType::F32, &device)?;
    let mut answer = [0f32; 8 * 16];
    let direct = counted(|| model.forward(&input)?.read_into(&mut answer))?;
    let planned = counted(|| plan.forward(&input)?.read_into(&mut answer))?;
    // Recording alone, which a run does without any.
    let stream = device.stream()?;
    let recorded = |module: &dyn Module| -> Result<Vec<usize>> {
        let mut counts = Vec::with_capacity(10);
        for call in 0..20 {
            let before = COUNT.get();
            let output = module.forward(&input)?;
            if call >= 10 {
                counts.push(COUNT.get() - before);
            }
            drop(output);
            stream.synchronize()?;
        }
        Ok(counts)
    };
    assert_eq!(recorded(&model)?, [RECORDING; 10]);
    assert_eq!(recorded(&plan)?, [0; 10]);
    assert_eq!(direct, [RECORDING + READING; 50], "a call");
    assert_eq!(planned, [READING; 50], "a run");
    device.close()?;
    Ok(())
}
