//! Graphs of models as pictures: for Graphviz, or as SVG.

mod layers;

use std::collections::HashMap;
use std::fmt::Write;

use layers::{Placed, place};
use millstream::graph::ModelInfo;

/// A graph to draw: boxes, and lines from one to another. Nodes of branches, loops and functions are not drawn; the node
/// that they belong to is.
struct Drawing {
    boxes: Vec<DrawnBox>,
    /// From, to, and the name of the value.
    lines: Vec<(usize, usize, String)>,
}

struct DrawnBox {
    title: String,
    detail: String,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Input,
    Node,
    Unsupported,
    Output,
}

impl Kind {
    fn color(self) -> &'static str {
        match self {
            Kind::Input => "#d6e8d4",
            Kind::Node => "#ffffff",
            Kind::Unsupported => "#f4c7c3",
            Kind::Output => "#d0dff2",
        }
    }
}

impl Drawing {
    fn new(info: &ModelInfo) -> Self {
        let mut drawing = Self { boxes: Vec::new(), lines: Vec::new() };
        let mut makers: HashMap<&str, usize> = HashMap::new();
        for input in &info.inputs {
            makers.insert(&input.name, drawing.boxes.len());
            drawing.add(&input.name, input.declared.to_string(), Kind::Input);
        }
        let nodes: Vec<_> = info.nodes.iter().filter(|node| node.place.is_empty()).collect();
        let first = drawing.boxes.len();
        for (at, node) in nodes.iter().enumerate() {
            let kind = if node.is_supported { Kind::Node } else { Kind::Unsupported };
            drawing.add(&node.operator, node.name.clone(), kind);
            let outputs = node.outputs.iter().filter(|name| !name.is_empty());
            makers.extend(outputs.map(|name| (name.as_str(), first + at)));
        }
        // Values that no box makes are weights, which are not drawn.
        for (at, node) in nodes.iter().enumerate() {
            let read = node.inputs.iter().filter_map(|name| Some((*makers.get(&name[..])?, name)));
            let lines = read.map(|(from, name)| (from, first + at, name.clone()));
            drawing.lines.extend(lines);
        }
        for output in &info.outputs {
            let to = drawing.boxes.len();
            drawing.add(&output.name, output.declared.to_string(), Kind::Output);
            if let Some(&from) = makers.get(&output.name[..]) {
                drawing.lines.push((from, to, output.name.clone()));
            }
        }
        drawing
    }

    fn add(&mut self, title: &str, detail: String, kind: Kind) {
        self.boxes.push(DrawnBox { title: title.to_owned(), detail, kind });
    }
}

/// The graph in Graphviz's language.
pub(super) fn dot(info: &ModelInfo) -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " ");
    let drawing = Drawing::new(info);
    let mut text = "digraph model {\n  node [shape=box, style=filled, fontname=sans];\n".to_owned();
    for (at, DrawnBox { title, detail, kind }) in drawing.boxes.iter().enumerate() {
        let (title, detail, color) = (quoted(title), quoted(detail), kind.color());
        // Writing to a String does not fail.
        let _ = writeln!(text, "  n{at} [label=\"{title}\\n{detail}\", fillcolor=\"{color}\"];");
    }
    for (from, to, name) in &drawing.lines {
        let _ = writeln!(text, "  n{from} -> n{to} [tooltip=\"{}\"];", quoted(name));
    }
    text + "}\n"
}

/// Width and height of a box in pixels.
const WIDTH: usize = 150;
const HEIGHT: usize = 36;
/// Between boxes of a layer.
const GAP: usize = 14;
/// From one layer to the next.
const STEP: usize = 64;

/// The graph as an SVG picture: each box below all that it reads.
pub(super) fn svg(info: &ModelInfo) -> String {
    let drawing = Drawing::new(info);
    let lines: Vec<(usize, usize)> =
        drawing.lines.iter().map(|(from, to, _)| (*from, *to)).collect();
    let placed = place(drawing.boxes.len(), &lines);
    let at = |place: &Placed| (GAP + place.column * (WIDTH + GAP), GAP + place.layer * STEP);
    let columns = placed.iter().map(|place| place.column + 1).max().unwrap_or(0);
    let layers = placed.iter().map(|place| place.layer + 1).max().unwrap_or(0);
    let (width, height) = (GAP + columns * (WIDTH + GAP), GAP + layers * STEP);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\" text-anchor=\"middle\">\n"
    );
    for (from, to) in &lines {
        let ((x1, y1), (x2, y2)) = (at(&placed[*from]), at(&placed[*to]));
        let (x1, x2, y1) = (x1 + WIDTH / 2, x2 + WIDTH / 2, y1 + HEIGHT);
        let middle = usize::midpoint(y1, y2);
        let _ = writeln!(
            text,
            "<path d=\"M{x1} {y1} C{x1} {middle} {x2} {middle} {x2} {y2}\" fill=\"none\" stroke=\"#999\"/>"
        );
    }
    for (one, place) in drawing.boxes.iter().zip(&placed) {
        let (x, y) = at(place);
        let (center, color) = (x + WIDTH / 2, one.kind.color());
        let (title, detail) = (escaped(&one.title, 22), escaped(&one.detail, 26));
        let whole = escaped(&format!("{} {}", one.title, one.detail), usize::MAX);
        let _ = writeln!(
            text,
            "<g><title>{whole}</title><rect x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"4\" \
             fill=\"{color}\" stroke=\"#555\"/><text x=\"{center}\" y=\"{}\" font-weight=\"bold\">{title}</text>\
             <text x=\"{center}\" y=\"{}\" font-size=\"9\" fill=\"#555\">{detail}</text></g>",
            y + 15,
            y + 29
        );
    }
    text + "</svg>\n"
}

/// A text for SVG, the end of it where it is longer than so many characters.
fn escaped(text: &str, longest: usize) -> String {
    let count = text.chars().count();
    let cut = if count > longest { count - longest + 1 } else { 0 };
    let start = if cut > 0 { "…" } else { "" };
    let shown = text.chars().skip(cut).filter(|c| !c.is_control());
    shown.fold(start.to_owned(), |mut text, c| {
        match c {
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '&' => text.push_str("&amp;"),
            '"' => text.push_str("&quot;"),
            other => text.push(other),
        }
        text
    })
}

#[cfg(test)]
mod tests;
