//! Millstream runs neural networks from many threads of one process on one device.
//!
//! Load a model once, call it from any number of threads: it never crashes, never mixes up answers, and
//! takes no global lock. This crate is the front door: it re-exports the runtime and brings the embedded
//! CPU device along, and the CUDA device with its feature `cuda`, which is on by default.
//!
//! # Quick start
//!
//! Eight threads share one settled weight. Each has a stream of its own, and nobody takes a lock.
//!
//! ```
//! use millstream::{Activation, Command, DType, Device, Layout};
//!
//! # fn main() -> millstream::Result<()> {
//! let device = Device::cpu()?;
//! let matrix = Layout::contiguous(DType::F32, &[2, 2])?;
//! let row = Layout::contiguous(DType::F32, &[1, 2])?;
//!
//! let weight = device.allocate(matrix.dense_bytes())?;
//! device.stream()?.upload(weight.operand(matrix), &[1f32, 2.0, 3.0, 4.0])?;
//! weight.settle()?; // complete and immutable from here on
//!
//! std::thread::scope(|scope| {
//!     for thread in 0..8 {
//!         let weight = &weight;
//!         scope.spawn(move || -> millstream::Result<()> {
//!             let stream = device.stream()?;
//!             let x = stream.allocate(row.dense_bytes())?;
//!             let y = stream.allocate(row.dense_bytes())?;
//!             stream.upload(x.operand(row), &[thread as f32, 1.0])?;
//!             stream.record(Command::matmul(
//!                 y.operand(row),
//!                 x.operand(row),
//!                 weight.operand(matrix),
//!                 None,
//!                 None,
//!                 1.0,
//!                 Activation::Relu,
//!             )?)?;
//!             let result = stream.download(y.operand(row))?.read::<f32>()?;
//!             assert_eq!(result, [thread as f32 + 3.0, thread as f32 * 2.0 + 4.0]);
//!             Ok(())
//!         });
//!     }
//! });
//! # Ok(())
//! # }
//! ```
//!
//! Networks are written with tensors and layers, which make the Commands themselves:
//!
//! ```
//! use millstream::nn::{Linear, Module, ReLU, Sequential, Weights};
//! use millstream::{DType, Device, Tensor};
//!
//! # fn main() -> millstream::nn::Result<()> {
//! let device = Device::cpu()?;
//! let weights = Weights::random(1, DType::F32, &device); // or Weights::open("model.safetensors", &device)?
//! let model = weights.load(|weights| {
//!     Ok(Sequential::new()
//!         .push(Linear::new(8, 16, true, &weights.child("0"))?)
//!         .push(ReLU)
//!         .push(Linear::new(16, 2, true, &weights.child("2"))?))
//! })?;
//! std::thread::scope(|scope| {
//!     for seed in 0..8 {
//!         let model = &model;
//!         scope.spawn(move || -> millstream::nn::Result<()> {
//!             let output = model.forward(&Tensor::randn(&[1, 8], seed, DType::F32, &device)?)?;
//!             println!("{output}");
//!             Ok(())
//!         });
//!     }
//! });
//! # Ok(())
//! # }
//! ```
//!
//! # Finding your way
//!
//! - [`Tensor`] and [`nn`] are networks as one writes them in PyTorch; what follows is what they stand on.
//! - [`nn::models`] has whole models, as Transformers saves them.
//! - [`Device`] opens devices; [`Config`] lists every setting and its environment variable.
//! - [`Stream`] is an in-order timeline; [`Event`] and [`Timepoint`] are points on it.
//! - [`Device::ready`], [`Tensor::to_vec_async`] and `.await` on a [`Download`] or a [`Timepoint`] are for async code;
//!   nothing of it holds a thread.
//! - [`Command`] is what a device can compute; its constructors check everything.
//! - [`Plan`] is a list of Commands that is checked once and then only run; [`nn::Plan`] makes one of tensor code.
//! - [`Buffer`] is device memory; [`Buffer::settle`] is for weights.
//! - [`fake`] is a device that runs nothing and checks the protocol, for tests without hardware.

pub use millstream_core::*;

/// The embedded CPU device, which [`Device::cpu`] opens.
pub use millstream_cpu as cpu;

// Linked so that `Device::open("cuda")` finds it; everything else is in the common interface.
#[cfg(feature = "cuda")]
use millstream_cuda as _;

/// Tensors, layers, weights and models.
pub use millstream_nn as nn;
pub use millstream_nn::Tensor;

/// The README's code is compiled and run with the other examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

/// The same for the page on async code.
#[cfg(doctest)]
#[doc = include_str!("../docs/async.md")]
pub struct Async;
