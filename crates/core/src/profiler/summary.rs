//! Total times by operation, layer and span.

use std::collections::HashMap;
use std::fmt;

use super::{JoinedSpan, Trace};

/// Total times of Commands and spans, the longest first; see [`Trace::summary`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Per operation.
    pub operations: Vec<SummaryRow>,
    /// Per layer. Commands that no layer recorded share one row.
    pub layers: Vec<SummaryRow>,
    /// Per name of users' spans. Spans may overlap, so they have no share.
    pub spans: Vec<SummaryRow>,
    /// Per number of calls that were run as one. Batches may overlap, so they have no share.
    pub joined: Vec<SummaryRow>,
    /// How many older Commands were dropped.
    pub dropped: u64,
}

/// One row of a [`Summary`].
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryRow {
    /// The operation, layer or span.
    pub name: String,
    /// How often it ran.
    pub count: u64,
    /// Its total time.
    pub total_ns: u64,
    /// Its share of the time of all Commands, from 0 to 1.
    pub share: Option<f64>,
}

impl SummaryRow {
    /// Its mean time.
    pub fn mean_ns(&self) -> f64 {
        self.total_ns as f64 / self.count.max(1) as f64
    }
}

/// The row of Commands without a layer.
const NO_LAYER: &str = "(no layer)";

#[derive(Default)]
struct Totals<'a>(HashMap<&'a str, (u64, u64)>);

impl<'a> Totals<'a> {
    fn add(&mut self, name: &'a str, start_ns: u64, end_ns: u64) {
        let (count, total) = self.0.entry(name).or_default();
        *count += 1;
        *total += end_ns.saturating_sub(start_ns);
    }

    fn rows(self, shares: bool) -> Vec<SummaryRow> {
        let all = self.0.values().map(|(_, total)| total).sum::<u64>().max(1) as f64;
        let row = |(name, (count, total_ns)): (&str, (u64, u64))| SummaryRow {
            name: name.to_owned(),
            count,
            total_ns,
            share: shares.then_some(total_ns as f64 / all),
        };
        let mut rows: Vec<_> = self.0.into_iter().map(row).collect();
        rows.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.name.cmp(&b.name)));
        rows
    }
}

impl Summary {
    pub(super) fn of(trace: &Trace) -> Self {
        let [mut operations, mut layers, mut spans, mut joined] = [0; 4].map(|_| Totals::default());
        let names: Vec<String> = trace.joined.iter().map(JoinedSpan::name).collect();
        for (span, name) in trace.joined.iter().zip(&names) {
            joined.add(name, span.start_ns, span.end_ns);
        }
        for stream in &trace.streams {
            for span in &stream.spans {
                let layer = span.layer.map_or(NO_LAYER, |layer| layer.as_str());
                operations.add(span.kind.name(), span.start_ns, span.end_ns);
                layers.add(layer, span.start_ns, span.end_ns);
            }
        }
        for annotation in &trace.annotations {
            if let Some(end_ns) = annotation.end_ns {
                spans.add(&annotation.name, annotation.start_ns, end_ns);
            }
        }
        Self {
            operations: operations.rows(true),
            layers: layers.rows(true),
            spans: spans.rows(false),
            joined: joined.rows(false),
            dropped: trace.streams.iter().map(|stream| stream.dropped).sum(),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        table(f, "operation", &self.operations)?;
        // Without layers, the second table would say nothing new.
        if self.layers.iter().any(|row| row.name != NO_LAYER) {
            writeln!(f)?;
            table(f, "layer", &self.layers)?;
        }
        if !self.spans.is_empty() {
            writeln!(f)?;
            table(f, "span", &self.spans)?;
        }
        if !self.joined.is_empty() {
            writeln!(f)?;
            table(f, "joined calls", &self.joined)?;
        }
        match self.dropped {
            0 => Ok(()),
            dropped => writeln!(f, "\n{dropped} older commands are no longer known"),
        }
    }
}

fn table(f: &mut fmt::Formatter<'_>, title: &str, rows: &[SummaryRow]) -> fmt::Result {
    let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let width = width.max(title.len());
    writeln!(
        f,
        "{title:<width$}  {:>9}  {:>10}  {:>10}  {:>6}",
        "count", "total ms", "mean µs", "share"
    )?;
    for row in rows {
        let (total, mean) = (row.total_ns as f64 / 1e6, row.mean_ns() / 1e3);
        let share = row.share.map_or_else(String::new, |share| format!("{:.1}%", 100.0 * share));
        let line = format!(
            "{:<width$}  {:>9}  {total:>10.1}  {mean:>10.1}  {share:>6}",
            row.name, row.count
        );
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}
