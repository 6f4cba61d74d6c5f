//! A model from anybody: imported, compiled and called with small limits. All of it gives answers or errors.

use std::sync::LazyLock;
use std::time::Duration;

use millstream_core::{DType, Device};
use millstream_cpu as _;
use millstream_graph::{Body, Dim, Limits, ModelValue, Port, Session, ValueType};
use millstream_nn::Tensor;

/// The size of an axis that a model leaves open.
const OPEN: usize = 2;

/// The most elements of an input.
const MAX_ELEMENTS: usize = 1 << 12;

static DEVICE: LazyLock<Device> = LazyLock::new(|| {
    let device = Device::builder("cpu").threads(1).memory_limit(256 << 20);
    device.wait_timeout(Duration::from_secs(8)).open().expect("a CPU device")
});

/// Imports, compiles and calls a model.
pub fn run(bytes: &[u8]) {
    let Ok(body) = millstream_onnx::from_bytes(bytes.to_vec()) else { return };
    let limits = Limits {
        operators: 1 << 10,
        stages: 64,
        tensor_bytes: 1 << 20,
        trips: 100,
        loop_time: Duration::from_secs(1),
    };
    let Some(inputs) = inputs(&body) else { return };
    let Ok(session) = Session::builder(&DEVICE).limits(limits).build(body) else { return };
    if let Ok(outputs) = session.run(inputs) {
        let _ = outputs.wait();
    }
}

fn inputs(body: &Body) -> Option<Vec<ModelValue>> {
    body.inputs().iter().map(|port: &Port| value(&port.declared)).collect()
}

fn value(declared: &ValueType) -> Option<ModelValue> {
    match declared {
        ValueType::Tensor(dtype, dims) => tensor(*dtype, dims.as_deref().unwrap_or(&[])),
        ValueType::Sequence(of) => {
            Some(ModelValue::Sequence(value(of).into_iter().cycle().take(OPEN).collect()))
        }
        ValueType::Optional(of) => Some(ModelValue::Optional(value(of).map(Box::new))),
        ValueType::Strings(_) | ValueType::Map(_) | ValueType::Unknown => None,
    }
}

/// Small numbers that differ, among them 0, 1 and negative ones.
fn tensor(dtype: DType, dims: &[Dim]) -> Option<ModelValue> {
    let shape: Vec<usize> = dims
        .iter()
        .map(|dim| match dim {
            Dim::Known(size) => *size,
            Dim::Named(_) | Dim::Unknown => OPEN,
        })
        .collect();
    let elements = shape.iter().try_fold(1usize, |count, &size| count.checked_mul(size))?;
    if elements > MAX_ELEMENTS || dtype.is_storage() {
        return None;
    }
    let numbers: Vec<f32> = (0..elements).map(|at| (at % 7) as f32 - 2.0).collect();
    let numbers = Tensor::from_slice(&numbers, &shape, &DEVICE).ok()?;
    Some(numbers.to_dtype(dtype).ok()?.into())
}
