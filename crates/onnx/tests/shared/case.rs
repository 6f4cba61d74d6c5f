//! One case: a model, inputs, and the outputs that it must give.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use millstream_core::{DType, Device, Error};
use millstream_graph::{Array, ModelValue, Passes, Port, Session, ValueType};
use millstream_onnx::read_value;

use crate::compare::{Tolerance, compare};

/// A case.
#[derive(Debug)]
pub struct Case {
    /// Where it is, from the folder of all cases on.
    pub name: String,
    /// The operator that it is about.
    #[allow(dead_code)]
    pub operator: String,
    folder: PathBuf,
}

/// Nothing, or why the case failed.
pub type Outcome = Result<(), String>;

/// Inputs, and the outputs that are expected.
pub type DataSet = (Vec<ModelValue>, Vec<ModelValue>);

/// The cases of a folder whose name has a text in it, in the order of their names.
pub fn find(folder: &Path, only: Option<&str>) -> Vec<Case> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        if path.join("model.onnx").exists() {
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            if only.is_none_or(|only| name.contains(only)) {
                let operator = std::fs::read_to_string(path.join("operator")).unwrap_or_default();
                found.push(Case { name, operator, folder: path });
            }
            continue;
        }
        let entries = std::fs::read_dir(&path).unwrap();
        open.extend(entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()));
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

impl Case {
    /// Runs the case. A panic is a failure.
    pub fn run(&self, device: &Device, passes: &Passes, tolerance: Tolerance) -> Outcome {
        let run = catch_unwind(AssertUnwindSafe(|| self.try_run(device, passes, tolerance)));
        run.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(format!("panicked: {}", text.unwrap_or_default()))
        })
    }

    fn try_run(&self, device: &Device, passes: &Passes, tolerance: Tolerance) -> Outcome {
        let session = self.open(device, passes)?;
        for (given, wanted) in self.data(&session, device)? {
            let found = session.run(given).map_err(in_words)?;
            if found.len() != wanted.len() {
                return Err(format!("{} outputs, expected {}", found.len(), wanted.len()));
            }
            for (index, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
                let same = compare(found, wanted, tolerance);
                same.map_err(|reason| format!("output {index}: {reason}"))?;
            }
        }
        Ok(())
    }

    /// The model.
    pub fn open(&self, device: &Device, passes: &Passes) -> Result<Session, String> {
        let body = millstream_onnx::open(self.folder.join("model.onnx")).map_err(in_words)?;
        Session::builder(device).passes(passes.clone()).build(body).map_err(in_words)
    }

    /// The inputs of every data set, and the outputs that are expected.
    pub fn data(&self, session: &Session, device: &Device) -> Result<Vec<DataSet>, String> {
        let inputs = self.sets("input", session.body().inputs(), device)?;
        let outputs = self.sets("output", session.body().outputs(), device)?;
        Ok(inputs.into_iter().zip(outputs).collect())
    }

    /// The inputs or outputs of every data set.
    fn sets(
        &self,
        side: &str,
        ports: &[Port],
        device: &Device,
    ) -> Result<Vec<Vec<ModelValue>>, String> {
        let mut sets = Vec::new();
        loop {
            let data = self.folder.join(format!("test_data_set_{}", sets.len()));
            if !data.is_dir() {
                break;
            }
            let mut values = Vec::new();
            for (index, port) in ports.iter().enumerate() {
                let Ok(bytes) = std::fs::read(data.join(format!("{side}_{index}.pb"))) else {
                    break;
                };
                let value = read_value(&bytes, &port.declared, device);
                let value = value.and_then(|value| of_bits(value, &port.declared, device));
                values.push(value.map_err(in_words)?);
            }
            sets.push(values);
        }
        if sets.is_empty() { Err("there is no data set".into()) } else { Ok(sets) }
    }
}

/// Before there were files of `bf16`, tests stored its bits.
fn of_bits(
    value: ModelValue,
    declared: &ValueType,
    device: &Device,
) -> millstream_core::Result<ModelValue> {
    match (&value, declared) {
        (ModelValue::Tensor(tensor), ValueType::Tensor(DType::BF16, _))
            if tensor.dtype() == DType::U16 =>
        {
            let bits = Array::of_tensor(tensor)?;
            let array = Array::new(DType::BF16, bits.shape(), bits.bytes().clone())?;
            Ok(array.to_tensor(device)?.into())
        }
        _ => Ok(value),
    }
}

fn in_words(error: Error) -> String {
    error.to_string()
}
