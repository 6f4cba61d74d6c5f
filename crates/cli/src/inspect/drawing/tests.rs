use std::collections::HashSet;

use millstream::DType;
use millstream::graph::{Dim, ModelInfo, NodeInfo, PortInfo, ValueType};

use super::layers::{Placed, place};
use super::{Drawing, dot, escaped, svg};

fn node(name: &str, operator: &str, inputs: &[&str], outputs: &[&str]) -> NodeInfo {
    let mut node = NodeInfo::new(name, operator);
    node.inputs = inputs.iter().map(ToString::to_string).collect();
    node.outputs = outputs.iter().map(ToString::to_string).collect();
    node
}

/// x → Relu → a; Foo(a, weights) → y; a node of a branch.
fn model() -> ModelInfo {
    let declared = ValueType::Tensor(DType::F32, Some(vec![Dim::Named("n".into())]));
    let mut info = ModelInfo::new("ONNX");
    info.inputs = vec![PortInfo::new("x", declared.clone(), false)];
    info.outputs = vec![PortInfo::new("y", declared, false)];
    info.nodes = vec![
        node("first", "Relu", &["x"], &["a"]),
        node("a \"quoted\" <name>", "Foo", &["a", "weights", ""], &["y"]),
        node("inner", "Neg", &["a"], &["b"]),
    ];
    info.nodes[1].is_supported = false;
    info.nodes[2].place = "if/then_branch".into();
    info
}

#[test]
fn inputs_nodes_and_outputs_are_boxes_and_values_between_them_lines() {
    let drawing = Drawing::new(&model());
    let titles: Vec<&str> = drawing.boxes.iter().map(|one| one.title.as_str()).collect();
    assert_eq!(titles, ["x", "Relu", "Foo", "y"]);
    let lines: Vec<_> =
        drawing.lines.iter().map(|(from, to, name)| (*from, *to, &name[..])).collect();
    assert_eq!(lines, [(0, 1, "x"), (1, 2, "a"), (2, 3, "y")]);
}

#[test]
fn names_are_quoted_for_each_language() {
    let dot = dot(&model());
    assert!(dot.contains(r#"label="Foo\na \"quoted\" <name>""#), "{dot}");
    assert_eq!(dot.matches(" -> ").count(), 3);
    let svg = svg(&model());
    assert!(svg.contains("a &quot;quoted&quot; &lt;name&gt;"), "{svg}");
    assert_eq!((svg.matches("<rect").count(), svg.matches("<path").count()), (4, 3));
    assert_eq!(escaped("abcdef", 4), "…def");
    assert_eq!(escaped("abcd", 4), "abcd");
}

#[test]
fn every_box_is_below_what_it_reads_and_no_two_have_one_place() {
    let lines = [(0, 1), (0, 2), (1, 3), (2, 3), (0, 3), (4, 3), (3, 5)];
    let placed = place(6, &lines);
    assert!(lines.iter().all(|&(from, to)| placed[from].layer < placed[to].layer), "{placed:?}");
    let places: HashSet<(usize, usize)> =
        placed.iter().map(|Placed { layer, column }| (*layer, *column)).collect();
    assert_eq!(places.len(), 6, "{placed:?}");
}

#[test]
fn a_cycle_is_drawn_too() {
    let placed = place(3, &[(0, 1), (1, 0), (2, 1)]);
    assert_eq!(placed.len(), 3);
    assert_eq!(place(0, &[]), []);
}
