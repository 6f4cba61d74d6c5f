//! What a model is given: arrays of files, values of the command line, and filled shapes.

mod convert;
mod fill;
mod json;
mod names;
mod shapes;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use millstream::graph::{Array, HostValue, Inputs, ModelValue, Port, Strings, ValueType};
use millstream::{DType, Device, Error, Result};

use crate::{npy, npz};
pub(crate) use fill::Fill;
use fill::Range;
use names::split_name;
use shapes::{Dims, Shapes};

/// Inputs other than files.
#[derive(clap::Args, Default)]
// The arguments around it have a group of that name already.
#[group(skip)]
pub(crate) struct Arguments {
    /// The shape of an input that is filled with numbers, as in `ids=1x128`; a scalar is `x=scalar`. Further shapes,
    /// separated by commas or given again, are for further calls.
    #[arg(long, value_name = "NAME=1x128")]
    shape: Vec<String>,
    /// The same, filled with random numbers whatever `--fill` says.
    #[arg(long, value_name = "NAME=1x128")]
    random: Vec<String>,
    /// The size of a dimension that the model names, as in `batch=4`: inputs that are not given are filled, if all their
    /// sizes are known then.
    #[arg(long, value_name = "NAME=SIZE")]
    dim: Vec<String>,
    /// What inputs are filled with. Random floating-point numbers are in -1..1, integers 0 or 1. Inputs that are not given
    /// are filled too, if their shape is fixed.
    #[arg(long, value_enum)]
    fill: Option<Fill>,
    /// Random numbers of an input are in this range, as in `ids=0..30522`.
    #[arg(long, value_name = "NAME=LOW..HIGH")]
    range: Vec<String>,
    /// Another seed gives other random numbers.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// An input as JSON, as in `sr=16000` or `words=["a","b"]`.
    #[arg(long, value_name = "NAME=JSON")]
    value: Vec<String>,
    /// An archive of `numpy.savez` or `numpy.savez_compressed`, whose arrays have the names of inputs.
    #[arg(long, value_name = "FILE.npz")]
    inputs: Option<PathBuf>,
    /// Convert numbers to the element type that the model takes, where a file has another.
    #[arg(long)]
    cast: bool,
}

impl Arguments {
    /// Whether anything is said of inputs.
    pub fn is_given(&self) -> bool {
        let Self { shape, random, dim, fill, range, seed: _, value, inputs, cast: _ } = self;
        let lists = [shape, random, dim, range, value];
        fill.is_some() || inputs.is_some() || lists.iter().any(|list| !list.is_empty())
    }
}

/// What becomes of inputs that are not given.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// They are an error.
    Refused,
    /// Those whose shape is fixed are filled.
    Filled,
}

/// A value on the host.
#[derive(Clone, Debug)]
enum HostInput {
    Numbers(Array),
    Strings(Strings),
    Sequence(Vec<HostInput>),
    Optional(Option<Box<HostInput>>),
    Map(millstream::graph::Map),
}

impl HostInput {
    fn value(&self, device: &Device) -> Result<ModelValue> {
        Ok(match self {
            HostInput::Numbers(array) => array.to_tensor(device)?.into(),
            HostInput::Strings(strings) => strings.clone().into(),
            HostInput::Sequence(values) => {
                let values = values.iter().map(|value| value.value(device));
                ModelValue::Sequence(values.collect::<Result<_>>()?)
            }
            HostInput::Optional(value) => {
                let value = value.as_ref().map(|value| value.value(device)).transpose()?;
                ModelValue::Optional(value.map(Box::new))
            }
            HostInput::Map(map) => map.clone().into(),
        })
    }
}

/// The inputs of a call, on the host.
#[derive(Debug)]
pub(crate) struct HostInputs(Vec<(String, HostInput)>);

impl HostInputs {
    /// Puts them on a device.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn upload(&self, device: &Device) -> Result<Inputs> {
        let values = self.0.iter().map(|(name, value)| Ok((name.clone(), value.value(device)?)));
        values.collect::<Result<Vec<_>>>().map(Inputs::from)
    }

    /// The same, where a session brings numbers to its device itself.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn given(&self, device: &Device) -> Result<Inputs> {
        let values = self.0.iter().map(|(name, value)| {
            let value = match value {
                HostInput::Numbers(array) => HostValue::from(array.clone()),
                other => other.value(device)?.into(),
            };
            Ok((name.clone(), value))
        });
        values.collect::<Result<Vec<_>>>().map(Inputs::from)
    }
}

/// Where an input comes from.
#[derive(Debug)]
enum Origin {
    /// The command line, or a file.
    Given(HostInput),
    /// Filled, in as many shapes as there are calls.
    Filled(Filled),
    /// The model's own default.
    Default,
}

/// An input that is filled.
#[derive(Debug)]
struct Filled {
    shapes: Shapes,
    dtype: DType,
    fill: Fill,
    range: Range,
}

/// All inputs of a model.
#[derive(Debug)]
pub(crate) struct ModelInputs {
    inputs: Vec<(String, Origin)>,
    sets: usize,
    seed: u64,
}

fn invalid(reason: String) -> Error {
    Error::Invalid { op: "inputs", reason }
}

/// What a model takes, a line each.
pub(crate) fn listed(ports: &[Port]) -> String {
    let line = |port: &Port| {
        let default = if port.default.is_some() { ", may be left out" } else { "" };
        format!("\n  {}: {}{default}", port.name, port.declared)
    };
    ports.iter().map(line).collect()
}

impl ModelInputs {
    /// Reads files (`NAME=FILE`) and arguments, and checks that they are all that the model needs.
    ///
    /// # Errors
    ///
    /// Names that the model does not have, inputs that are missing, files that cannot be read or do not fit.
    pub fn new(
        ports: &[Port],
        files: &[String],
        arguments: &Arguments,
        (missing, fill): (Missing, Fill),
    ) -> Result<Self> {
        let mut given: Vec<Vec<HostInput>> = ports.iter().map(|_| Vec::new()).collect();
        for text in files {
            let (at, path) = split_name("--input", text, ports, true)?;
            let value = read_file(&ports[at], Path::new(path), arguments.cast)?;
            given[at].push(value);
        }
        if let Some(path) = &arguments.inputs {
            for (name, array) in npz::read_file(path)? {
                let at = names::find("--inputs", &name, ports)?;
                let value = convert::of_array(&ports[at], &array, arguments.cast);
                given[at].push(value.map_err(|error| named(path, &error))?);
            }
        }
        for text in &arguments.value {
            let (at, value) = split_name("--value", text, ports, false)?;
            given[at].push(json::of_text(&ports[at], value)?);
        }
        let default_fill = arguments.fill.unwrap_or(fill);
        let mut shapes: Vec<Option<(Shapes, Fill)>> = vec![None; ports.len()];
        let filled = arguments.shape.iter().map(|text| ("--shape", text, default_fill));
        let random = arguments.random.iter().map(|text| ("--random", text, Fill::Random));
        for (option, text, fill) in filled.chain(random) {
            let (at, sizes) = split_name(option, text, ports, true)?;
            let parsed = Shapes::parse(option, &ports[at].name, sizes)?;
            match &mut shapes[at] {
                Some((known, before)) if *before == fill => known.extend(parsed),
                Some(_) => {
                    let name = &ports[at].name;
                    return Err(invalid(format!("input {name:?} has --shape and --random")));
                }
                none => *none = Some((parsed, fill)),
            }
        }
        let mut ranges: Vec<Range> = vec![Range::default(); ports.len()];
        for text in &arguments.range {
            let (at, range) = split_name("--range", text, ports, true)?;
            ranges[at] = Range::parse(range)?;
        }
        let dims = Dims::parse(&arguments.dim, ports)?;
        let missing = match (arguments.fill, arguments.dim.is_empty()) {
            (None, true) => missing,
            (Some(_), _) | (None, false) => Missing::Filled,
        };
        let mut inputs = Vec::with_capacity(ports.len());
        let mut absent = Vec::new();
        for (port, ((given, shapes), range)) in
            ports.iter().zip(given.into_iter().zip(shapes).zip(ranges))
        {
            let origin = match (given.is_empty(), shapes) {
                (true, Some((shapes, fill))) => {
                    Origin::Filled(Filled { shapes, dtype: fill::dtype(port)?, fill, range })
                }
                (true, None) => match absent_input(port, missing, &dims) {
                    Some(Absent::Default) => Origin::Default,
                    Some(Absent::Nothing) => Origin::Given(HostInput::Optional(None)),
                    Some(Absent::Shape(shape)) => {
                        let (shapes, dtype) = (Shapes::one(shape), fill::dtype(port)?);
                        Origin::Filled(Filled { shapes, dtype, fill: default_fill, range })
                    }
                    None => {
                        absent.push(port);
                        continue;
                    }
                },
                (false, Some(_)) => {
                    let name = &port.name;
                    return Err(invalid(format!("input {name:?} has a shape and contents")));
                }
                (false, None) => Origin::Given(joined(port, given)?),
            };
            inputs.push((port.name.clone(), origin));
        }
        if !absent.is_empty() {
            return Err(absent_error(&absent, ports));
        }
        let sets = common_sets(&inputs)?;
        Ok(Self { inputs, sets, seed: arguments.seed })
    }

    /// How many sets of shapes there are: calls take them in turn.
    pub fn sets(&self) -> usize {
        self.sets
    }

    /// The inputs of a call, on a device. Numbers that are filled follow from the seed.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn make(&self, device: &Device, set: usize, seed: usize) -> Result<Inputs> {
        self.on_host(set, seed)?.upload(device)
    }

    /// The same, still on the host.
    ///
    /// # Errors
    ///
    /// Shapes that are too large.
    pub fn on_host(&self, set: usize, seed: usize) -> Result<HostInputs> {
        let mut made = Vec::with_capacity(self.inputs.len());
        for (at, (name, origin)) in self.inputs.iter().enumerate() {
            let value = match origin {
                Origin::Given(value) => value.clone(),
                Origin::Filled(Filled { shapes, dtype, fill, range }) => {
                    let number = (self.seed, seed, at);
                    HostInput::Numbers(fill.array(shapes.get(set), *dtype, *range, number)?)
                }
                Origin::Default => continue,
            };
            made.push((name.clone(), value));
        }
        Ok(HostInputs(made))
    }

    /// What is filled, with what, in words: nobody should take such answers for those of real inputs.
    pub fn notes(&self) -> Vec<String> {
        let note = |(name, origin): &(String, Origin)| match origin {
            Origin::Filled(Filled { shapes, dtype, fill, range }) => {
                let with = fill.words(*dtype, *range);
                Some(format!("input {name}: {dtype}{shapes} filled with {with}"))
            }
            Origin::Given(_) | Origin::Default => None,
        };
        self.inputs.iter().filter_map(note).collect()
    }
}

/// What stands for an input that is not given.
enum Absent {
    /// The model's own default.
    Default,
    /// An optional without a value.
    Nothing,
    /// Numbers of this shape.
    Shape(Vec<usize>),
}

fn absent_input(port: &Port, missing: Missing, dims: &Dims) -> Option<Absent> {
    if port.default.is_some() {
        return Some(Absent::Default);
    }
    if let ValueType::Optional(_) = port.declared {
        return Some(Absent::Nothing);
    }
    let shape = || dims.shape(&port.declared).map(Absent::Shape);
    if missing == Missing::Filled { shape() } else { None }
}

fn absent_error(absent: &[&Port], ports: &[Port]) -> Error {
    let names: Vec<String> = absent.iter().map(|port| format!("{:?}", port.name)).collect();
    let are = if names.len() == 1 { "is" } else { "are" };
    let name = &absent[0].name;
    invalid(format!(
        "{} {are} not given: --shape {name}=1x2 fills an input of this shape; --value, --inputs and, where there is one, --input \
         NAME=FILE.npy give contents. The model takes{}",
        names.join(", "),
        listed(ports)
    ))
}

/// The number of sets of shapes. An input with one shape has it in all of them.
fn common_sets(inputs: &[(String, Origin)]) -> Result<usize> {
    let mut most: Option<(&str, usize)> = None;
    for (name, origin) in inputs {
        let Origin::Filled(Filled { shapes, .. }) = origin else { continue };
        match (most, shapes.len()) {
            (_, 1) => {}
            (None, count) => most = Some((name, count)),
            (Some((_, known)), count) if known == count => {}
            (Some((first, known)), count) => {
                let reason = format!(
                    "input {first:?} has {known} shapes and input {name:?} has {count}: give one, or as many"
                );
                return Err(invalid(reason));
            }
        }
    }
    Ok(most.map_or(1, |(_, count)| count))
}

/// Several values of one input are a sequence, if it takes one.
fn joined(port: &Port, mut given: Vec<HostInput>) -> Result<HostInput> {
    let is_sequence = |value: &HostInput| matches!(value, HostInput::Sequence(_));
    match &port.declared {
        ValueType::Sequence(_) if !(given.len() == 1 && is_sequence(&given[0])) => {
            Ok(HostInput::Sequence(given))
        }
        ValueType::Tensor(..)
        | ValueType::Strings(_)
        | ValueType::Sequence(_)
        | ValueType::Optional(_)
        | ValueType::Map(_)
        | ValueType::Unknown => match (given.pop(), given.is_empty()) {
            (Some(value), true) => Ok(value),
            _ => Err(invalid(format!("input {:?} is given twice", port.name))),
        },
    }
}

/// Reads a file for an input: `.npy`, or `.json`.
fn read_file(port: &Port, path: &Path, cast: bool) -> Result<HostInput> {
    let is_json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    if is_json {
        let text = std::fs::read_to_string(path).map_err(|error| Error::read(path, error))?;
        return json::of_text(port, &text).map_err(|error| named(path, &error));
    }
    let array = npy::read_file(path)?;
    convert::of_array(port, &array, cast).map_err(|error| named(path, &error))
}

fn named(path: &Path, error: &Error) -> Error {
    let reason = match error {
        Error::Invalid { reason, .. } => reason.clone(),
        other => other.to_string(),
    };
    Error::Invalid { op: "inputs", reason: format!("{}: {reason}", path.display()) }
}
