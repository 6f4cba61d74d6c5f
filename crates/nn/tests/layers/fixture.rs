//! Inputs, parameters and expected outputs.

use std::path::Path;

use millstream_core::{DType, Device};
use millstream_nn::{Init, Module, Result, Tensor, Weights};

/// One case in one element type.
pub struct Fixture {
    name: &'static str,
    dtype: DType,
    file: Weights,
}

/// Runs a test for a case in every element type.
pub fn each(name: &'static str, test: impl Fn(&Fixture) -> Result<()>) {
    let device = Device::cpu().unwrap();
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"));
        let path = path.join("fixtures").join(format!("{dtype}.safetensors"));
        let file = Weights::open(path, &device).unwrap().child(name);
        test(&Fixture { name, dtype, file }).unwrap();
    }
}

/// Runs a test for a case that is a module of one input.
pub fn module<M: Module>(name: &'static str, build: impl Fn(&Weights) -> Result<M>) {
    each(name, |fixture| {
        let module = fixture.load(&build)?;
        fixture.expect("output", &module.forward(&fixture.input(0))?)
    });
}

impl Fixture {
    /// The layer with its parameters, all of which it must know.
    pub fn load<M>(&self, build: impl Fn(&Weights) -> Result<M>) -> Result<M> {
        self.file.child("parameters").load(|weights| build(weights))
    }

    fn tensor(&self, name: &str) -> Tensor {
        let full = format!("{}.{name}", self.name);
        let shape = self.file.shape_of(name).unwrap_or_else(|| panic!("no {full}"));
        self.file.get(name, &shape, Init::Zeros).unwrap()
    }

    pub fn input(&self, index: usize) -> Tensor {
        self.tensor(&format!("input.{index}"))
    }

    pub fn expect(&self, output: &str, found: &Tensor) -> Result<()> {
        let expected = self.tensor(output);
        let case = format!("{} {} {output}", self.name, self.dtype);
        assert_eq!(found.shape(), expected.shape(), "{case}");
        assert_eq!(found.dtype(), self.dtype, "{case}");
        let found = found.to_dtype(DType::F32)?.to_vec::<f32>()?;
        let expected = expected.to_vec::<f32>()?;
        let largest = expected.iter().fold(0f32, |most, value| most.max(value.abs()));
        let tolerance = match self.dtype {
            DType::F32 => 1e-5,
            DType::F16 => 2f32.powi(-9),
            _ => 2f32.powi(-6),
        };
        for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let difference = (found - expected).abs();
            assert!(
                difference <= tolerance * largest,
                "{case}: element {index} is {found}, expected {expected}, largest {largest}"
            );
        }
        Ok(())
    }
}
