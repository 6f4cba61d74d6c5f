//! Spoils one thing at a time.

use std::collections::BTreeSet;

use millstream_conformance::Generator;
use millstream_core::{Command, DType, Error, Layout, Op, OpKind, Operand, RawBuffer};

/// An operand of a good Command, and what is said when it is spoiled.
pub struct Part {
    pub name: &'static str,
    pub layout: Layout,
    /// In which ways it can be wrong by itself: some of `type`, `rank` and `size`.
    pub refused: &'static str,
    /// What else may be named when it is changed: the others that do not fit it any more.
    pub blamed: &'static [&'static str],
}

/// A Command that is right, with ways to make it wrong.
pub struct Good {
    pub op: Op,
    pub inputs: Vec<Part>,
    pub outputs: Vec<Part>,
    /// The same operation with a parameter that is not right, and the name of that.
    pub parameters: Vec<(&'static str, Op)>,
}

/// The ways to spoil a layout.
fn spoiled(layout: &Layout) -> Vec<(&'static str, Layout)> {
    let (dtype, shape) = (layout.dtype(), layout.shape());
    let others = DType::COMPUTED.into_iter().filter(|&other| other != dtype);
    let mut all: Vec<_> = others.map(|other| ("type", layout.with_dtype(other))).collect();
    let mut add = |way, shape: &[usize]| {
        all.push((way, Layout::contiguous(dtype, shape).expect("a small shape")));
    };
    if let Some((_, front)) = shape.split_last() {
        add("rank", front);
        add("rank", &[]);
    }
    add("rank", &[&[2], shape].concat());
    add("rank", &[&vec![2; 8 - shape.len()], shape].concat());
    for axis in 0..shape.len() {
        for size in [shape[axis] + 1, 0] {
            let mut shape = shape.to_vec();
            shape[axis] = size;
            add("size", &shape);
        }
    }
    all
}

/// The operand or parameter that an error names.
fn named(error: Error, op: &Op, what: &str) -> &'static str {
    match error {
        Error::Mismatch { op: name, operand, expected, found } => {
            assert_eq!(name, op.name(), "{what}");
            assert!(!expected.is_empty() && !found.is_empty(), "{what}");
            operand
        }
        error => panic!("{what}: {error:?}"),
    }
}

fn infer(op: &Op, inputs: &[Layout], what: &str) -> Result<(), &'static str> {
    let inputs: Vec<&Layout> = inputs.iter().collect();
    op.infer(&inputs).map(drop).map_err(|error| named(error, op, what))
}

fn command(op: &Op, outputs: &[Layout], inputs: &[Layout], what: &str) -> Result<(), &'static str> {
    let bind = |(place, layout): (usize, &Layout)| {
        Operand::new(RawBuffer { address: (place + 1) << 32, bytes: 1 << 30 }, *layout)
    };
    let operands: Vec<_> = outputs.iter().chain(inputs).enumerate().map(bind).collect();
    let (outputs, inputs) = operands.split_at(outputs.len());
    let made = Command::new(op.clone(), outputs.iter().copied(), inputs.iter().copied());
    made.map(drop).map_err(|error| named(error, op, what))
}

/// What was said of one operand.
#[derive(Default)]
struct Said {
    refused: BTreeSet<&'static str>,
    blamed: BTreeSet<&'static str>,
}

impl Said {
    fn note(&mut self, part: &Part, way: &'static str, name: &'static str) {
        match name == part.name {
            true => self.refused.insert(way),
            false => self.blamed.insert(name),
        };
    }

    /// Whether it is just what the table has.
    fn compare(&self, part: &Part, what: &str) {
        let refused: BTreeSet<_> = part.refused.split_whitespace().collect();
        let blamed: BTreeSet<_> = part.blamed.iter().copied().collect();
        assert_eq!((&self.refused, &self.blamed), (&refused, &blamed), "{what}");
    }
}

pub fn check(kind: OpKind, good: &Good) {
    let Good { op, inputs: input_parts, outputs: output_parts, parameters } = good;
    assert_eq!(op.kind(), kind);
    let names = |parts: &[Part]| parts.iter().map(|part| part.name).collect::<Vec<_>>();
    assert_eq!(op.input_names().to_vec(), names(input_parts), "{kind:?}");
    assert_eq!(op.output_names().to_vec(), names(output_parts), "{kind:?}");
    let layouts = |parts: &[Part]| parts.iter().map(|part| part.layout).collect::<Vec<_>>();
    let (inputs, outputs) = (layouts(input_parts), layouts(output_parts));
    let what = format!("{kind:?} as it should be");
    assert_eq!(infer(op, &inputs, &what), Ok(()), "{what}");
    assert_eq!(command(op, &outputs, &inputs, &what), Ok(()), "{what}");

    for (place, part) in input_parts.iter().enumerate() {
        let mut said = Said::default();
        for (way, layout) in spoiled(&part.layout) {
            let what = format!("{kind:?} with {} as {layout:?}", part.name);
            let mut inputs = inputs.clone();
            inputs[place] = layout;
            let inferred = infer(op, &inputs, &what);
            let built = command(op, &outputs, &inputs, &what);
            match inferred {
                Ok(()) => {
                    // Then it is another good input, with the same outputs or with others.
                    let name = built.err();
                    let output = |name| output_parts.iter().any(|part| part.name == name);
                    assert!(
                        name.is_none_or(|name| name == part.name || output(name)),
                        "{what}: {name:?}"
                    );
                }
                Err(name) => {
                    assert!(built.is_err(), "{what}");
                    said.note(part, way, name);
                }
            }
        }
        said.compare(part, &format!("{kind:?}: {} spoiled", part.name));
    }

    for (place, part) in output_parts.iter().enumerate() {
        let mut said = Said::default();
        for (way, layout) in spoiled(&part.layout) {
            let what = format!("{kind:?} with {} as {layout:?}", part.name);
            let mut outputs = outputs.clone();
            outputs[place] = layout;
            if let Err(name) = command(op, &outputs, &inputs, &what) {
                said.note(part, way, name);
            }
        }
        said.compare(part, &format!("{kind:?}: {} spoiled", part.name));
    }

    counts(kind, op, &outputs, &inputs);
    for (name, op) in parameters {
        let what = format!("{op:?}, which has a wrong {name}");
        assert_eq!(infer(op, &inputs, &what), Err(*name), "{what}");
        // Another kind of cell has fewer.
        let outputs = &outputs[..op.output_names().len()];
        assert_eq!(command(op, outputs, &inputs, &what), Err(*name), "{what}");
    }
}

/// One operand is missing, or there is one too many.
fn counts(kind: OpKind, op: &Op, outputs: &[Layout], inputs: &[Layout]) {
    let what = format!("{kind:?} with other numbers of operands");
    let extra = Layout::contiguous(DType::F32, &[2]).expect("a small shape");
    let more = |layouts: &[Layout]| [layouts, &[extra]].concat();
    assert_eq!(infer(op, &more(inputs), &what), Err("inputs"), "{what}");
    assert_eq!(command(op, outputs, &more(inputs), &what), Err("inputs"), "{what}");
    assert_eq!(command(op, &more(outputs), inputs, &what), Err("outputs"), "{what}");
    if let Some((_, fewer)) = inputs.split_last() {
        assert_eq!(infer(op, fewer, &what), Err("inputs"), "{what}");
        assert_eq!(command(op, outputs, fewer, &what), Err("inputs"), "{what}");
    }
    if let Some((_, fewer)) = outputs.split_last() {
        assert_eq!(command(op, fewer, inputs, &what), Err("outputs"), "{what}");
    }
}

/// Inputs that are almost good: of some, one axis has another size, so large at times that only repeated elements
/// can be.
pub fn any_sizes(op: &Op, good: &[Part]) {
    const SIZES: [usize; 9] = [0, 1, 2, 3, 7, 1 << 31, 1 << 40, 1 << 62, usize::MAX];
    let mut generator = Generator::new(7);
    let mut large = 0;
    for _ in 0..2000 {
        let mut layout = |part: &Part| {
            let mut shape = part.layout.shape().to_vec();
            if !shape.is_empty() && generator.below(2) == 0 {
                let axis = generator.below(shape.len());
                shape[axis] = SIZES[generator.below(SIZES.len())];
            }
            Layout::strided(part.layout.dtype(), &shape, &vec![0; shape.len()], 0)
        };
        let inputs: Result<Vec<Layout>, _> = good.iter().map(&mut layout).collect();
        let Ok(inputs) = inputs else { continue };
        large += usize::from(inputs.iter().any(|input| input.shape().contains(&(1 << 40))));
        let what = format!("{op:?} of {inputs:?}");
        // It may be refused or not: an error is one that names something.
        if let Err(name) = infer(op, &inputs, &what) {
            assert!(!name.is_empty(), "{what}");
        }
    }
    assert!(large > 0 || good.iter().all(|part| part.layout.rank() == 0), "{op:?}");
}
