//! Millstream runs neural networks from many threads of one process on one device.
//!
//! Load a model once, call it from any number of threads: it never crashes, never mixes up answers, and takes no global
//! lock. Tensors and layers have PyTorch's names; weights come from safetensors files.
//!
//! ```
//! use millstream::nn::{Linear, Module, Weights};
//! use millstream::{DType, Device, Tensor};
//!
//! let device = Device::best()?; // a GPU if there is one, else the CPU
//! let weights = Weights::random(1, DType::F32, &device); // or Weights::open(file, &device)?
//! let model = weights.load(|weights| Linear::new(4, 2, true, weights))?;
//! let input = Tensor::new(&[[1.0f32, 2.0, 3.0, 4.0]], &device)?;
//! std::thread::scope(|scope| {
//!     for _ in 0..8 {
//!         scope.spawn(|| model.forward(&input)?.to_vec2::<f32>()); // no copy, no lock
//!     }
//! });
//! # Ok::<(), millstream::Error>(())
//! ```
//!
//! Start with [`nn`]: layers, weights and [models](nn::models). Going deeper: [`command`], [`memory`] and [`plan`].

#[doc(inline)]
pub use millstream_core::api::{
    Config, DType, Device, Error, Event, Result, Stream, Timepoint, backend, command, device,
    dtype, error, memory, plan, profiler, random, stats, stream,
};
#[doc(inline)]
pub use millstream_graph::{Batched, Session};
#[doc(inline)]
pub use millstream_nn::Tensor;

/// Models of files: what a [`Session`] takes, gives and is made of, and what an importer makes.
#[doc(inline)]
pub use millstream_graph as graph;

#[doc(inline)]
pub use millstream_nn as nn;

// Linked so that `Device::open("cuda")` and `Device::open("metal")` find them; everything else is in the common interface.
#[cfg(feature = "cuda")]
use millstream_cuda as _;
#[cfg(feature = "metal")]
use millstream_metal as _;

// Linked so that `Session::open` reads ONNX files.
#[cfg(feature = "onnx")]
use millstream_onnx as _;

// Names as they stood in the root before there were modules. Programs that use them still compile; the docs do not
// show them, and nothing new is added.
#[doc(hidden)]
pub use millstream_core::*;
#[doc(hidden)]
pub use millstream_cpu as cpu;

/// The README's code is compiled and run with the other examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

/// The same for the page on async code.
#[cfg(doctest)]
#[doc = include_str!("../docs/async.md")]
pub struct Async;

/// The same for the page on ONNX models.
#[cfg(all(doctest, feature = "onnx"))]
#[doc = include_str!("../docs/onnx.md")]
pub struct Onnx;

/// The same for the page on batching.
#[cfg(all(doctest, feature = "onnx"))]
#[doc = include_str!("../docs/batching.md")]
pub struct Batching;

/// The same for the page for those who come from elsewhere.
#[cfg(doctest)]
#[doc = include_str!("../docs/coming-from.md")]
pub struct ComingFrom;
