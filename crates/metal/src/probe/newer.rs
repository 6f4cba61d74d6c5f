//! What not every device has, or not every system allows: simdgroup matrices, and files as memory.

use std::io::Write;
use std::ptr::NonNull;

use millstream_core::f16_from_f64;
use objc2_metal::MTLDevice;

use super::lab::{Lab, Params, Shared, dispatch_groups};
use super::{Check, RowResult, compared};
use crate::memory::OPTIONS;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "matrix-sums",
        assumed: "simdgroup_multiply_accumulate takes factors of half with sums of float, and keeps subnormal factors",
        run: matrix_sums,
    },
    Check {
        name: "wrapped-file",
        assumed: "newBufferWithBytesNoCopy takes pages of a file that is mapped for reading, and the GPU reads them",
        run: wrapped_file,
    },
];

/// 8 × 8 numbers of 16 bits, two in a word.
fn halves(lab: &Lab, number: impl Fn(usize, usize) -> f64) -> Result<Shared, String> {
    let memory = lab.words(32)?;
    let bits = |at: usize| u32::from(f16_from_f64(number(at / 8, at % 8)).to_bits());
    (0..32).for_each(|word| memory.set(word, bits(2 * word) | bits(2 * word + 1) << 16));
    Ok(memory)
}

/// Whether a product of matrices is exact, as it is for numbers of few bits.
fn product(
    lab: &Lab,
    left: impl Fn(usize, usize) -> f64,
    right: impl Fn(usize, usize) -> f64,
) -> Result<bool, String> {
    let library = lab.compiler.begin(include_str!("matrices.metal")).wait()?;
    let kernel = lab.compiler.pipeline(&library, "probe_matrices", 32)?;
    let (a, b, out) = (halves(lab, &left)?, halves(lab, &right)?, lab.words(64)?);
    let queue = lab.queue(8)?;
    lab.compute(&queue, |compute| {
        dispatch_groups(compute, &kernel, &[(&a, 0), (&b, 0), (&out, 0)], &[0], [1, 32]);
    })?
    .finish()?;
    let exact = |at: usize| (0..8).map(|k| left(at / 8, k) * right(k, at % 8)).sum::<f64>();
    Ok((0..64).all(|at| f64::from(f32::from_bits(out.get(at))) == exact(at)))
}

fn matrix_sums(lab: &Lab) -> RowResult {
    if !lab.features.matrices {
        return Err("this device has no simdgroup matrices: they came with Apple family 7".into());
    }
    let sums = product(lab, |i, j| (i * 8 + j) as f64 - 30.0, |i, j| (i * 3 + j) as f64 * 17.0)?;
    let diagonal = |i: usize, j: usize| if i == j { 1024.0 } else { 0.0 };
    let subnormal = product(lab, |i, j| (i * 8 + j) as f64 * 2f64.powi(-24), diagonal)?;
    compared(
        sums && subnormal,
        format!("sums are exact: {sums}; subnormal factors are kept: {subnormal}"),
    )
}

/// A file that is mapped for reading as long as this lives.
struct Mapped {
    start: NonNull<std::ffi::c_void>,
    bytes: usize,
}

impl Mapped {
    /// One with these numbers in it, which has no name any more.
    fn new(numbers: &[f32]) -> Result<Self, String> {
        let text = |error: std::io::Error| error.to_string();
        let path = std::env::temp_dir().join(format!("millstream-probe-{}", std::process::id()));
        let mut file = std::fs::File::create(&path).map_err(text)?;
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
        file.write_all(&bytes).map_err(text)?;
        let file = std::fs::File::open(&path).map_err(text)?;
        std::fs::remove_file(&path).map_err(text)?;
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
        // SAFETY: asks for pages of a file that is open; where they go is the system's choice.
        let start = unsafe {
            let (to, flags) = (std::ptr::null_mut(), libc::MAP_PRIVATE);
            libc::mmap(to, bytes.len(), libc::PROT_READ, flags, descriptor, 0)
        };
        match NonNull::new(start) {
            Some(start) if start.as_ptr() != libc::MAP_FAILED => {
                Ok(Self { start, bytes: bytes.len() })
            }
            _ => Err(format!("the file cannot be mapped: {}", std::io::Error::last_os_error())),
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped with this size; whoever wraps it is gone by then.
        unsafe { libc::munmap(self.start.as_ptr(), self.bytes) };
    }
}

fn wrapped_file(lab: &Lab) -> RowResult {
    let numbers: Vec<f32> = (0..16 << 10).map(|i| i as f32 * 0.5).collect();
    let mapped = Mapped::new(&numbers)?;
    // SAFETY: so many pages, which stay until the command buffer that reads them is through.
    let made = unsafe {
        lab.device.newBufferWithBytesNoCopy_length_options_deallocator(
            mapped.start,
            mapped.bytes,
            OPTIONS,
            None,
        )
    };
    let Some(buffer) = made else { return compared(false, "Metal does not take them") };
    let (wrapped, out) = (Shared::of(buffer, numbers.len()), lab.words(numbers.len())?);
    let (queue, kernel) = (lab.queue(8)?, lab.pipeline("probe_function")?);
    let params = Params { count: numbers.len() as u32, ..Params::default() };
    let done = lab.run(&queue, &kernel, &[&wrapped, &wrapped, &out], params, numbers.len());
    if let Err(reason) = done {
        // The GPU may not be through with the pages.
        std::mem::forget(mapped);
        return Err(reason);
    }
    let right = (0..numbers.len()).filter(|&i| out.get(i) == numbers[i].to_bits()).count();
    compared(right == numbers.len(), format!("{right} of {} numbers were read", numbers.len()))
}
