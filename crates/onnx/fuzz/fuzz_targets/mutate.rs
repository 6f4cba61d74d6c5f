//! Changes of models that keep them models.

use crate::generated::{
    AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto,
    tensor_shape_proto::{Dimension, dimension},
    type_proto,
};

/// Numbers that are most often wrong.
const NUMBERS: [i64; 20] = [
    0,
    1,
    -1,
    2,
    -2,
    3,
    4,
    7,
    8,
    16,
    255,
    1000,
    1 << 20,
    1 << 31,
    (1 << 31) - 1,
    1 << 40,
    i64::MAX,
    i64::MIN,
    i64::MAX / 2,
    -(1 << 31),
];

/// Types of ONNX are numbers up to this.
const TYPES: u32 = 29;

/// Numbers that follow from a seed.
struct Choices(u64);

impl Choices {
    fn next(&mut self) -> u32 {
        // Knuth's numbers for a linear congruential generator.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }

    fn below(&mut self, count: usize) -> usize {
        self.next() as usize % count.max(1)
    }

    fn number(&mut self) -> i64 {
        NUMBERS[self.below(NUMBERS.len())]
    }

    fn of<'a, T>(&mut self, list: &'a mut [T]) -> Option<&'a mut T> {
        let at = self.below(list.len());
        list.get_mut(at)
    }
}

pub fn model(model: &mut ModelProto, seed: u32) {
    let mut choices = Choices(u64::from(seed));
    for _ in 0..=choices.below(3) {
        match choices.below(16) {
            0 => {
                if let Some(set) = choices.of(&mut model.opset_import) {
                    set.version = Some(choices.below(30) as i64);
                }
            }
            1 => {
                if let Some(function) = choices.of(&mut model.functions)
                    && let Some(node) = choices.of(&mut function.node)
                {
                    mutate_node(node, &mut choices);
                }
            }
            _ => {
                if let Some(graph) = &mut model.graph {
                    mutate_graph(graph, &mut choices);
                }
            }
        }
    }
}

fn names(graph: &GraphProto) -> Vec<String> {
    let made = graph.node.iter().flat_map(|node| node.input.iter().chain(&node.output)).cloned();
    made.chain(graph.input.iter().filter_map(|input| input.name.clone()))
        .chain(graph.initializer.iter().filter_map(|tensor| tensor.name.clone()))
        .collect()
}

fn mutate_graph(graph: &mut GraphProto, choices: &mut Choices) {
    let names = names(graph);
    let count = graph.node.len();
    match choices.below(14) {
        // A node reads or makes something else.
        0 | 1 => {
            if let Some(node) = choices.of(&mut graph.node)
                && let Some(name) = names.get(choices.below(names.len()))
                && let Some(input) = choices.of(&mut node.input)
            {
                input.clone_from(name);
            }
        }
        2 => {
            let another = graph.node.get(choices.below(count)).map(|node| node.op_type.clone());
            if let (Some(kind), Some(node)) = (another, choices.of(&mut graph.node)) {
                node.op_type = kind;
            }
        }
        3 => {
            if let Some(mut node) = graph.node.get(choices.below(count)).cloned() {
                node.output.iter_mut().for_each(|output| output.push('_'));
                graph.node.push(node);
            }
        }
        4 if count > 1 => drop(graph.node.remove(choices.below(count))),
        5 => {
            if let Some(tensor) = choices.of(&mut graph.initializer) {
                mutate_tensor(tensor, choices);
            }
        }
        6 | 7 => {
            if let Some(info) = choices.of(&mut graph.input) {
                mutate_type(info, choices);
            }
        }
        8 => {
            if let Some(name) = names.get(choices.below(names.len())) {
                graph.output.push(ValueInfoProto { name: Some(name.clone()), ..Default::default() });
            }
        }
        // An input becomes a constant, which operators may need as such.
        9 => {
            if let Some(input) = graph.input.get(choices.below(graph.input.len())) {
                let dims = [choices.below(4) as i64];
                let numbers = (0..dims[0]).map(|_| choices.number()).collect();
                graph.initializer.push(TensorProto {
                    name: input.name.clone(),
                    dims: dims.to_vec(),
                    data_type: Some(7),
                    int64_data: numbers,
                    ..Default::default()
                });
            }
        }
        _ => {
            if let Some(node) = choices.of(&mut graph.node) {
                mutate_node(node, choices);
            }
        }
    }
}

fn mutate_node(node: &mut NodeProto, choices: &mut Choices) {
    match choices.below(10) {
        0 => {
            if let Some(input) = choices.of(&mut node.input) {
                input.clear();
            }
        }
        1 => drop(node.input.pop()),
        2 => {
            let more = format!("more{}", node.output.len());
            node.output.push(more);
        }
        3 if !node.attribute.is_empty() => {
            drop(node.attribute.remove(choices.below(node.attribute.len())));
        }
        _ => {
            if let Some(attribute) = choices.of(&mut node.attribute) {
                mutate_attribute(attribute, choices);
            }
        }
    }
}

fn mutate_attribute(attribute: &mut AttributeProto, choices: &mut Choices) {
    if let Some(graph) = &mut attribute.g {
        return mutate_graph(graph, choices);
    }
    if let Some(tensor) = &mut attribute.t {
        return mutate_tensor(tensor, choices);
    }
    if attribute.i.is_some() {
        attribute.i = Some(choices.number());
    } else if attribute.f.is_some() {
        let numbers = [0.0, -1.0, 1e-30, 1e30, f32::INFINITY, f32::NAN, 0.5];
        attribute.f = Some(numbers[choices.below(numbers.len())]);
    } else if let Some(text) = &attribute.s {
        let cut = text.slice(..choices.below(text.len()));
        attribute.s = Some(cut);
    } else {
        match choices.below(4) {
            0 => drop(attribute.ints.pop()),
            1 => attribute.ints.push(choices.number()),
            2 => {
                if let Some(number) = choices.of(&mut attribute.ints) {
                    *number = choices.number();
                }
            }
            _ => drop(attribute.floats.pop()),
        }
    }
}

fn mutate_tensor(tensor: &mut TensorProto, choices: &mut Choices) {
    match choices.below(6) {
        0 => tensor.data_type = Some(choices.below(TYPES as usize) as i32),
        1 => tensor.dims.push(choices.below(3) as i64),
        2 => drop(tensor.dims.pop()),
        3 => {
            if let Some(size) = choices.of(&mut tensor.dims) {
                *size = choices.number();
            }
        }
        // The contents stay as many: other numbers in the same shape.
        4 => {
            if let Some(raw) = &tensor.raw_data {
                let mut raw = raw.to_vec();
                let number = choices.number().to_le_bytes();
                let at = choices.below(raw.len());
                raw[at..].iter_mut().zip(number).for_each(|(byte, new)| *byte = new);
                tensor.raw_data = Some(raw.into());
            }
        }
        _ => {
            if let Some(number) = choices.of(&mut tensor.int64_data) {
                *number = choices.number();
            }
        }
    }
}

fn mutate_type(info: &mut ValueInfoProto, choices: &mut Choices) {
    let Some(TypeProto { value: Some(type_proto::Value::TensorType(tensor)), .. }) =
        &mut info.r#type
    else {
        return;
    };
    let shape = tensor.shape.get_or_insert_default();
    let size = [0, 1, 2, 3, 5, 8, 17][choices.below(7)];
    let dim = Dimension { value: Some(dimension::Value::DimValue(size)), ..Default::default() };
    match choices.below(5) {
        0 => tensor.elem_type = Some(choices.below(TYPES as usize) as i32),
        1 => shape.dim.push(dim),
        2 => drop(shape.dim.pop()),
        _ => {
            if let Some(old) = choices.of(&mut shape.dim) {
                *old = dim;
            }
        }
    }
}
