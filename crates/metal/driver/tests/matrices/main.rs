//! Simdgroup matrices: spread over lanes, and no barrier in disguise.

#[path = "../common/mod.rs"]
mod common;

use millstream_metal_driver::control;
use millstream_metal_driver::rules::{self, Rule};
use objc2::rc::{Retained, autoreleasepool};
use objc2_foundation::NSString;
use objc2_metal::*;

use common::alone;
use common::gpu::*;

const TEXT: &str = include_str!("matrices.metal");

/// The device with these texts, for one type of matrices.
fn open(element: &str) -> Gpu {
    let device = MTLCreateSystemDefaultDevice().expect("a device");
    let text = format!("#define FACTOR {element}\n{TEXT}");
    let library = autoreleasepool(|_| compile(&device, &text)).expect("a text that compiles");
    Gpu { device, library }
}

/// Runs one group of a kernel on numbers, and gives what it wrote.
fn run(gpu: &Gpu, kernel: &str, from: &[f32], threads: usize) -> Vec<f32> {
    let (pipeline, stream) = (gpu.pipeline(kernel).expect("a kernel"), Stream::new(gpu));
    let [a, b] = [(); 2].map(|()| gpu.floats());
    write(&a, 0);
    // SAFETY: the buffer is larger, and the GPU does not use it.
    unsafe {
        let place = a.contents().cast::<f32>().as_ptr();
        place.copy_from_nonoverlapping(from.as_ptr(), from.len());
        b.contents().cast::<f32>().as_ptr().write_bytes(0, COUNT);
    }
    let done = stream.submit(&[], |encoder| {
        encoder.setComputePipelineState(&pipeline);
        // SAFETY: the kernel's indices, and buffers that outlive the work.
        unsafe {
            encoder.setBuffer_offset_atIndex(Some(&a), 0, 0);
            encoder.setBuffer_offset_atIndex(Some(&b), 0, 1);
        }
        encoder.dispatchThreadgroups_threadsPerThreadgroup(size(1), size(threads));
    });
    stream.wait(done);
    stream.drain();
    read(&b)
}

fn numbers() -> Vec<f32> {
    (0..128u8).map(|i| f32::from(i % 100 % 11) - 4.0).collect()
}

#[test]
fn matrices_of_every_type_multiply_with_sums_of_f32() {
    let _alone = alone();
    let from = numbers();
    for element in ["float", "half", "bfloat"] {
        let found = run(&open(element), "product", &from, 32);
        for row in 0..8 {
            for column in 0..8 {
                let sum: f32 = (0..8).map(|k| from[row * 8 + k] * from[64 + k * 8 + column]).sum();
                let at = (row + 1) * 16 + column + 2;
                assert_eq!(found[at], sum + 1.0, "{element}: row {row}, column {column}");
            }
        }
        assert!(found[..18].iter().all(|x| *x == 0.0), "nothing else is written");
    }
    assert!(rules::take().is_empty());
}

#[test]
fn diagonal_matrices_scale() {
    let _alone = alone();
    let from = numbers();
    let found = run(&open("float"), "diagonal", &from, 32);
    for at in 0..64 {
        assert_eq!(found[at % 8 * 8 + at / 8], 3.0 * from[at]);
        assert_eq!(found[64 + at], 2.0 * from[at]);
    }
}

#[test]
fn each_lane_has_two_neighbors_of_a_row_and_sees_no_others() {
    let _alone = alone();
    let from: Vec<f32> = (0..64u8).map(f32::from).collect();
    let found = run(&open("float"), "elements", &from, 32);
    let (pairs, _) = found[..64].as_chunks::<2>();
    let mut first: Vec<f32> = pairs.iter().map(|pair| pair[0]).collect();
    assert!(pairs.iter().all(|[x, y]| x + 1.0 == *y && (*x as u32).is_multiple_of(2)), "{pairs:?}");
    first.sort_by(f32::total_cmp);
    assert!(first.iter().zip(0u8..).all(|(x, i)| *x == f32::from(2 * i)), "{first:?}");
    assert_ne!(pairs[1][0], 2.0 * 2.0, "lanes do not follow the order of memory");
    // A lane that writes its own changes nothing else.
    for (at, x) in found[64..128].iter().enumerate() {
        assert_eq!(*x, if at % 2 == 0 { -1.0 } else { from[at] });
    }
}

/// How many of some runs give something else than the numbers.
fn wrong(kernel: &str, count: usize, threads: usize) -> usize {
    let gpu = open("float");
    let from: Vec<f32> = (0..64u8).map(|i| f32::from(i) + 1.0).collect();
    let differs = |seed: u64| {
        control::set_seed(seed);
        let found = run(&gpu, kernel, &from, threads);
        usize::from((0..count).any(|i| found[i] != from[i % 64]))
    };
    let wrong = (1..=8).map(differs).sum();
    control::set_seed(0);
    wrong
}

#[test]
fn lanes_that_count_on_each_other_without_a_barrier_get_garbage() {
    let _alone = alone();
    for kernel in ["load_without_barrier", "store_without_barrier", "overwrite_without_barrier"] {
        assert!(wrong(kernel, 64, 32) > 0, "{kernel}: the mistake was not noticed");
    }
    assert!(wrong("group_without_barrier", 128, 64) > 0, "the mistake was not noticed");
    assert!(rules::take().is_empty());
}

#[test]
fn lanes_that_do_not_come_are_noticed() {
    let _alone = alone();
    for kernel in ["divergent_load", "divergent_product"] {
        run(&open("float"), kernel, &numbers(), 32);
        let broken = rules::take();
        assert!(broken.iter().any(|broken| broken.rule == Rule::DivergentBarrier), "{broken:?}");
    }
}

#[test]
fn matrices_that_metal_lacks_do_not_compile() {
    let _alone = alone();
    let refused = |body: &str| {
        let text = format!(
            "#include <metal_stdlib>\nusing namespace metal;\nkernel void k(device float* x [[buffer(0)]]) {{ {body} }}"
        );
        control::check_text(&text).expect_err(body)
    };
    assert!(refused("simdgroup_matrix<int, 8, 8> m;").contains("no matrices of this type"));
    assert!(refused("simdgroup_matrix<float, 4, 4> m;").contains("no other matrices"));
    let sums = refused(
        "simdgroup_float8x8 a(1); simdgroup_half8x8 d; simdgroup_multiply_accumulate(d, a, a, d);",
    );
    assert!(sums.contains("no such sums"), "{sums}");
    let mixed = "simdgroup_float8x8 a(1); simdgroup_half8x8 b(1); simdgroup_multiply(a, a, b);";
    assert!(refused(mixed).contains("no matching function"));
    control::set_system_version(13, 0);
    let old = refused("simdgroup_bfloat8x8 m;");
    control::set_system_version(15, 0);
    assert!(old.contains("simdgroup_bfloat8x8"), "{old}");
}

#[test]
fn a_device_without_matrices_makes_no_pipeline_with_them() {
    let _alone = alone();
    control::set_paravirtual(true);
    let hosted = control::another_device();
    control::set_paravirtual(false);
    // SAFETY: a device that was just made, with one reference.
    let hosted: Obj<dyn MTLDevice> =
        unsafe { Retained::from_raw(hosted.cast()) }.expect("a device");
    autoreleasepool(|_| {
        let library = compile(&hosted, TEXT).expect("a text that compiles");
        let function = library.newFunctionWithName(&NSString::from_str("product")).expect("it");
        let refused = hosted.newComputePipelineStateWithFunction_error(&function);
        assert!(refused.is_err());
        let descriptor = MTLComputePipelineDescriptor::new();
        descriptor.setComputeFunction(Some(&function));
        let refused = hosted.newComputePipelineStateWithDescriptor_options_reflection_error(
            &descriptor,
            MTLPipelineOption::empty(),
            None,
        );
        assert!(refused.is_err());
    });
    let broken = rules::take();
    let of_rule = broken.iter().filter(|broken| broken.rule == Rule::NoSuchFeature).count();
    assert_eq!(of_rule, 2, "{broken:?}");
    // A text that does nothing with them is not refused.
    autoreleasepool(|_| {
        let plain = compile(&hosted, include_str!("../common/kernels.metal")).expect("a text");
        let function = plain.newFunctionWithName(&NSString::from_str("scale")).expect("it");
        assert!(hosted.newComputePipelineStateWithFunction_error(&function).is_ok());
    });
    assert!(rules::take().is_empty());
}
