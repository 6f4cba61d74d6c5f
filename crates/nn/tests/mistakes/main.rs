//! Mistakes that people make, and the whole text that each gets: which layer, which side is wrong, what to do.

mod devices;
mod files;
mod layers;
mod tensors;
mod weights;

use millstream_core::{DType, Device};
use millstream_cpu as _;
use millstream_nn::{Result, Tensor, Weights};

fn device() -> Device {
    Device::cpu().unwrap()
}

fn zeros(shape: &[usize]) -> Tensor {
    Tensor::zeros(shape, DType::F32, &device()).unwrap()
}

fn zeros_of(dtype: DType, shape: &[usize]) -> Tensor {
    Tensor::zeros(shape, dtype, &device()).unwrap()
}

fn random() -> Weights {
    Weights::random(1, DType::F32, &device())
}

/// Checks the texts of all rows, and names those that differ.
#[track_caller]
fn check<T>(rows: impl IntoIterator<Item = (Result<T>, &'static str)>) {
    let mut wrong = Vec::new();
    for (result, expected) in rows {
        let found = match result {
            Ok(_) => "no error".to_owned(),
            Err(error) => error.to_string(),
        };
        if found != expected {
            wrong.push(format!("found    {found}\nexpected {expected}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n\n"));
}
