//! How modules print: as PyTorch prints them.

use std::fmt::{self, Debug};

use super::Module;

/// How a module prints: its kind, its arguments, and its child modules, one per line.
///
/// # Example
///
/// ```
/// # millstream_nn::doctest!();
/// use std::fmt;
///
/// use millstream::nn::{Description, Linear, Module, Sequential, Weights};
/// use millstream::{DType, Device, Result, Tensor};
///
/// struct Gate {
///     value: Linear,
///     gate: Linear,
/// }
///
/// impl Module for Gate {
///     fn forward(&self, input: &Tensor) -> Result<Tensor> {
///         self.value.forward(input)? * self.gate.forward(input)?.sigmoid()?
///     }
///
///     fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
///         let description = Description::new("Gate");
///         description.child("value", &self.value).child("gate", &self.gate).write(f)
///     }
/// }
///
/// let weights = Weights::random(1, DType::F32, &Device::cpu()?);
/// let gate = Gate {
///     value: Linear::new(4, 2, true, &weights.child("value"))?,
///     gate: Linear::new(4, 2, false, &weights.child("gate"))?,
/// };
/// let model = Sequential::new().push(gate);
/// let text = "\
/// Sequential(
///   (0): Gate(
///     (value): Linear(in_features=4, out_features=2, bias=True)
///     (gate): Linear(in_features=4, out_features=2, bias=False)
///   )
/// )";
/// assert_eq!(format!("{model:?}"), text);
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone)]
pub struct Description {
    kind: &'static str,
    arguments: Vec<String>,
    children: Vec<String>,
}

impl Description {
    /// A module of some kind.
    pub fn new(kind: &'static str) -> Self {
        Self { kind, arguments: Vec::new(), children: Vec::new() }
    }

    /// Adds an argument that has no name.
    pub fn value(mut self, value: impl fmt::Display) -> Self {
        self.arguments.push(value.to_string());
        self
    }

    /// Adds an argument by its name.
    pub fn argument(self, name: &str, value: impl fmt::Display) -> Self {
        self.value(format_args!("{name}={value}"))
    }

    /// Adds an argument that PyTorch prints only if it is not the default.
    pub(super) fn argument_if(self, there: bool, name: &str, value: impl fmt::Display) -> Self {
        if there { self.argument(name, value) } else { self }
    }

    /// Adds a child module.
    pub fn child(mut self, name: &str, child: &dyn Debug) -> Self {
        self.children.push(format!("({name}): {child:?}"));
        self
    }

    /// Adds a list of modules. Neighbors that print the same are printed once, with their count.
    pub fn list<C: Debug>(self, name: &str, children: &[C]) -> Self {
        self.child(name, &List(children))
    }

    /// Writes it.
    ///
    /// # Errors
    ///
    /// Those of the formatter.
    pub fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arguments = self.arguments.join(", ");
        if self.children.is_empty() {
            return write!(f, "{}({arguments})", self.kind);
        }
        writeln!(f, "{}(", self.kind)?;
        if !arguments.is_empty() {
            writeln!(f, "  {arguments}")?;
        }
        for child in &self.children {
            writeln!(f, "  {}", child.replace('\n', "\n  "))?;
        }
        f.write_str(")")
    }
}

impl Debug for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f)
    }
}

/// A list of modules, which PyTorch calls `ModuleList`.
struct List<'a, C>(&'a [C]);

impl<C: Debug> Debug for List<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(|child| format!("{child:?}")).collect();
        let mut description = Description::new("ModuleList");
        let mut first = 0;
        for alike in texts.chunk_by(|one, other| one == other) {
            let (count, text) = (alike.len(), &alike[0]);
            let line = match count {
                1 => format!("({first}): {text}"),
                _ => format!("({first}-{}): {count} x {text}", first + count - 1),
            };
            description.children.push(line);
            first += count;
        }
        description.write(f)
    }
}

/// A module of any type, to be printed.
pub(super) struct Shown<'a>(pub &'a dyn Module);

impl Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.describe(f)
    }
}

/// The name of a type without its path and parameters.
pub(super) fn type_name<T: ?Sized>() -> &'static str {
    let name = std::any::type_name::<T>();
    let end = name.find('<').unwrap_or(name.len());
    name[..end].rsplit("::").next().unwrap_or(name)
}

/// A `bool` as Python prints it.
pub(super) fn python(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

/// Several numbers as Python prints them: `(3,)`, `(3, 3)`.
pub(super) fn tuple<T: fmt::Display>(numbers: &[T]) -> String {
    let all: Vec<String> = numbers.iter().map(T::to_string).collect();
    let comma = if all.len() == 1 { "," } else { "" };
    format!("({}{comma})", all.join(", "))
}

/// One number if all are equal, as callers write it in PyTorch.
pub(super) fn one_or_tuple<T: fmt::Display + PartialEq>(numbers: &[T]) -> String {
    match numbers {
        [first, rest @ ..] if rest.iter().all(|number| number == first) => first.to_string(),
        _ => tuple(numbers),
    }
}

/// A small number as Python prints it: `1e-05`, `0.001`.
pub(super) fn small<T: Copy + Debug + fmt::LowerExp + Into<f64>>(number: T) -> String {
    let size = number.into().abs();
    if size == 0.0 || size >= 1e-4 {
        return format!("{number:?}");
    }
    let text = format!("{number:e}");
    match text.split_once("e-") {
        Some((digits, exponent)) => format!("{digits}e-{exponent:0>2}"),
        None => text,
    }
}

/// Implements [`Module::describe`] by `Debug`.
macro_rules! described {
    () => {
        fn describe(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            std::fmt::Debug::fmt(self, f)
        }
    };
}

pub(super) use described;

#[cfg(test)]
mod tests;
