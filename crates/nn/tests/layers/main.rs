//! Every layer against PyTorch, in f32, f16 and bf16: see `fixtures/generate.py`.
//!
//! The largest difference is compared with the largest output. For f32 it is at most 1e-5 of it. For f16
//! and bf16 the expected output is computed in f32, and differences are those of rounding between the steps
//! of a layer: at most 2⁻⁹ and 2⁻⁶, four units in the last place of the largest output.

mod attention;
mod feed_forward;
mod fixture;
mod recurrent;
mod windows;

use millstream_cpu as _;
