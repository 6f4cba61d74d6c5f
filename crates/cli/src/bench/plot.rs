//! Throughput and p99 against threads, as SVG. Both axes are logarithmic: models differ by decades.

use std::fmt::Write;

use super::report::{Report, Row};

const COLORS: [&str; 6] = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf"];
/// The size of a panel's area for lines, and of its margins for labels.
const AREA: (f64, f64) = (360.0, 260.0);
const MARGIN: (f64, f64) = (70.0, 50.0);

/// The picture.
pub(crate) fn svg(report: &Report<'_>) -> String {
    let mut lines: Vec<(String, Vec<&Row>)> = Vec::new();
    for row in &report.rows {
        let name = format!("{} {}", row.workload.name, row.mode.name());
        match lines.iter_mut().find(|(known, _)| *known == name) {
            Some((_, rows)) => rows.push(row),
            None => lines.push((name, vec![row])),
        }
    }
    let panel = AREA.0 + MARGIN.0;
    let (width, height) = (2.0 * panel + 170.0, AREA.1 + 2.0 * MARGIN.1);
    // Writing to a String cannot fail.
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\"><rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    draw(&mut text, 0.0, "calls per second", &lines, |row| row.sample.calls_per_second);
    draw(&mut text, panel, "p99 in milliseconds", &lines, |row| row.p99() / 1e3);
    for (index, (name, _)) in lines.iter().enumerate() {
        let (x, y, color) = (2.0 * panel + 15.0, MARGIN.1 + 16.0 * index as f64, color(index));
        let _ = writeln!(
            text,
            "<path d=\"M{x} {y}h18\" stroke=\"{color}\" stroke-width=\"2\"/>\
             <text x=\"{}\" y=\"{}\">{name}</text>",
            x + 24.0,
            y + 4.0
        );
    }
    text.push_str("</svg>\n");
    text
}

fn color(index: usize) -> &'static str {
    COLORS[index % COLORS.len()]
}

/// From values to pixels.
struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    fn new(values: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Self {
        let low = values.clone().filter(|&value| value > 0.0).fold(f64::INFINITY, f64::min);
        let high = values.fold(0.0, f64::max);
        let (low, high) = if low <= high { (low, high) } else { (1.0, 1.0) };
        // A margin, and something to divide by where all values are one.
        Self { low: low / 1.3, high: high * 1.3, from, to }
    }

    fn place(&self, value: f64) -> f64 {
        let part = (value.max(self.low) / self.low).ln() / (self.high / self.low).ln();
        self.from + part * (self.to - self.from)
    }

    /// 1, 2 and 5 of every decade within the scale; of many decades only the 1.
    fn marks(&self) -> Vec<f64> {
        let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let steps: &[f64] = if self.high / self.low > 1e3 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let all =
            decades.flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
        all.filter(|mark| (self.low..=self.high).contains(mark)).collect()
    }
}

fn draw(
    text: &mut String,
    offset: f64,
    title: &str,
    lines: &[(String, Vec<&Row>)],
    value: fn(&Row) -> f64,
) {
    let (left, top) = (offset + MARGIN.0, MARGIN.1);
    let (right, bottom) = (left + AREA.0, top + AREA.1);
    let rows = lines.iter().flat_map(|(_, rows)| rows.iter().copied());
    let across = Scale::new(rows.clone().map(|row| row.threads as f64), left, right);
    let up = Scale::new(rows.clone().map(value), bottom, top);
    let center = left + AREA.0 / 2.0;
    let _ = writeln!(
        text,
        "<text x=\"{center}\" y=\"{}\" text-anchor=\"middle\" font-size=\"14\">{title}</text>\
         <text x=\"{center}\" y=\"{}\" text-anchor=\"middle\">threads</text>\
         <path d=\"M{left} {top}V{bottom}H{right}\" fill=\"none\" stroke=\"black\"/>",
        top - 18.0,
        bottom + 34.0
    );
    for mark in up.marks() {
        let y = up.place(mark);
        let _ = writeln!(
            text,
            "<path d=\"M{left} {y:.1}H{right}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{mark}</text>",
            left - 6.0,
            y + 4.0
        );
    }
    let mut threads: Vec<usize> = rows.map(|row| row.threads).collect();
    threads.sort_unstable();
    threads.dedup();
    for count in threads {
        let x = across.place(count as f64);
        let y = bottom + 16.0;
        let _ =
            writeln!(text, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{count}</text>");
    }
    for (index, (_, rows)) in lines.iter().enumerate() {
        let places =
            rows.iter().map(|row| (across.place(row.threads as f64), up.place(value(row))));
        let points: Vec<String> = places.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            text,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>",
            points.join(" "),
            color(index)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_go_from_edge_to_edge_and_have_round_marks() {
        let scale = Scale::new([10.0, 1000.0].into_iter(), 0.0, 100.0);
        assert!(scale.place(10.0) > 0.0 && scale.place(1000.0) < 100.0);
        assert!((scale.place(100.0) - 50.0).abs() < 1e-9);
        assert_eq!(scale.marks(), [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]);
    }

    #[test]
    fn a_scale_of_nothing_or_of_one_value_is_finite() {
        for values in [&[][..], &[0.0], &[7.0]] {
            let scale = Scale::new(values.iter().copied(), 0.0, 1.0);
            assert!([0.0, 7.0].into_iter().all(|value| scale.place(value).is_finite()));
        }
    }
}
