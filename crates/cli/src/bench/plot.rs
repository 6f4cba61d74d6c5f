//! Throughput, times one core, and p99 against threads, as SVG. Both axes are logarithmic: models differ by decades.

use std::fmt::Write;

use super::report::{Report, Row};

const COLORS: [&str; 6] = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf"];
/// The size of a panel's area for lines, and of its margins for labels.
const AREA: (f64, f64) = (320.0, 260.0);
const MARGIN: (f64, f64) = (70.0, 50.0);
/// Room above the panels for the title.
const TITLE: f64 = 40.0;

/// A model called in one way, with its rows.
type Line<'a> = (String, Vec<&'a Row>);

/// The picture: rate, rate over that of one core, and p99, each against threads.
pub(crate) fn svg(report: &Report<'_>) -> String {
    let mut lines: Vec<Line<'_>> = Vec::new();
    for row in &report.rows {
        let name = format!("{} {}", row.name, row.mode);
        match lines.iter_mut().find(|(known, _)| *known == name) {
            Some((_, rows)) => rows.push(row),
            None => lines.push((name, vec![row])),
        }
    }
    let panel = AREA.0 + MARGIN.0;
    let (width, height) = (3.0 * panel + 190.0, TITLE + AREA.1 + 2.0 * MARGIN.1);
    // Writing to a String cannot fail.
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\"><rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{}\" y=\"26\" text-anchor=\"middle\" font-size=\"16\">{}</text>\n",
        width / 2.0,
        escaped(&format!("Models from many threads on {}", report.described))
    );
    let is_cpu = report.device.starts_with("cpu");
    let single = if is_cpu { "times one core" } else { "times one caller" };
    draw(&mut text, 0.0, "calls per second", &lines, None, |row| row.sample.calls_per_second);
    draw(&mut text, panel, single, &lines, Some(report.cores), Row::speedup);
    draw(&mut text, 2.0 * panel, "p99 in milliseconds", &lines, None, |row| row.p99() / 1e3);
    let x = 3.0 * panel + 15.0;
    for (index, (name, _)) in lines.iter().enumerate() {
        let (y, color) = (TITLE + MARGIN.1 + 16.0 * index as f64, color(index));
        let _ = writeln!(
            text,
            "<path d=\"M{x} {y}h18\" stroke=\"{color}\" stroke-width=\"2\"/>\
             <text x=\"{}\" y=\"{}\">{}</text>",
            x + 24.0,
            y + 4.0,
            escaped(name)
        );
    }
    let y = TITLE + MARGIN.1 + 16.0 * lines.len() as f64;
    let _ = writeln!(
        text,
        "<path d=\"M{x} {y}h18\" stroke=\"#888\" stroke-dasharray=\"4 3\"/>\
         <text x=\"{}\" y=\"{}\">ideal</text>",
        x + 24.0,
        y + 4.0
    );
    text.push_str("</svg>\n");
    text
}

/// Text that stands for itself in XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
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

/// One panel. Where there are so many cores, a broken line shows as many times the rate as threads can be busy.
fn draw(
    text: &mut String,
    offset: f64,
    title: &str,
    lines: &[Line<'_>],
    cores: Option<usize>,
    value: fn(&Row) -> f64,
) {
    let (left, top) = (offset + MARGIN.0, TITLE + MARGIN.1);
    let (right, bottom) = (left + AREA.0, top + AREA.1);
    let rows = lines.iter().flat_map(|(_, rows)| rows.iter().copied());
    let across = Scale::new(rows.clone().map(|row| row.threads as f64), left, right);
    let ideal = |row: &Row| cores.map(|cores| row.threads.min(cores) as f64);
    let heights = rows.clone().flat_map(|row| [Some(value(row)), ideal(row)]).flatten();
    let up = Scale::new(heights, bottom, top);
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
    if let Some(cores) = cores {
        // The bend is a point of its own: no row need have as many threads as there are cores.
        let within = threads.iter().any(|&count| count < cores) && threads.last() > Some(&cores);
        let mut counts = threads.clone();
        counts.extend(within.then_some(cores));
        counts.sort_unstable();
        let place = |&count: &usize| {
            let (x, y) = (across.place(count as f64), up.place(count.min(cores) as f64));
            format!("{x:.1} {y:.1}")
        };
        let places: Vec<String> = counts.iter().map(place).collect();
        let _ = writeln!(
            text,
            "<path class=\"ideal\" d=\"M{}\" fill=\"none\" stroke=\"#888\" stroke-dasharray=\"4 3\"/>",
            places.join("L")
        );
    }
    for count in threads {
        let x = across.place(count as f64);
        let y = bottom + 16.0;
        let _ =
            writeln!(text, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{count}</text>");
    }
    for (index, (_, rows)) in lines.iter().enumerate() {
        let place = |row: &&Row| (across.place(row.threads as f64), up.place(value(row)));
        let places: Vec<(f64, f64)> = rows.iter().map(place).collect();
        let points: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let color = color(index);
        let _ = writeln!(
            text,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>",
            points.join(" "),
        );
        for (x, y) in places {
            let _ =
                writeln!(text, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{color}\"/>");
        }
    }
}

#[cfg(test)]
mod tests;
