//! `millstream bench kernels`: one table of all Commands.
//!
//! The peaks are measured again before each row, and the best of the run counts: a figure is never
//! compared with one of another day.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use millstream::{Device, Result, Stream};
use serde_json::json;

use super::subjects::{self, Amount, Subject};
use crate::{progress, table};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Threads of the device; by default all cores.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Only rows whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// Milliseconds per row.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    milliseconds: u64,
    /// Print JSON on standard output, and nothing else there.
    #[arg(long)]
    json: bool,
}

struct Row {
    name: String,
    size: String,
    seconds: f64,
    amount: Amount,
}

/// What the machine can do at most.
struct Peaks {
    flops: f64,
    bandwidth: f64,
}

impl Peaks {
    /// Looks again; what other programs take away at one moment does not count.
    fn measure(&mut self, threads: usize, memory: bool) {
        self.flops = self.flops.max(millstream::cpu::peak::flops(threads));
        if memory {
            self.bandwidth = self.bandwidth.max(millstream::cpu::peak::bandwidth(threads));
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut builder = Device::builder("cpu");
    if let Some(threads) = arguments.threads {
        builder = builder.threads(threads as usize);
    }
    let device = builder.open()?;
    let threads = device.info().parallelism;
    let stream = Stream::new(&device)?;
    let subjects: Vec<Subject> = subjects::all()
        .into_iter()
        .filter(|subject| arguments.only.as_ref().is_none_or(|part| subject.name.contains(part)))
        .collect();

    let bar = progress::bar(subjects.len());
    let mut peaks = Peaks { flops: 0.0, bandwidth: 0.0 };
    let mut rows = Vec::new();
    for (index, subject) in subjects.into_iter().enumerate() {
        bar.set_message(subject.name);
        peaks.measure(threads, index % 4 == 0);
        let budget = Duration::from_millis(arguments.milliseconds);
        let seconds = measure(&device, &stream, &subject, budget)?;
        rows.push(Row {
            name: subject.name.into(),
            size: subject.size,
            seconds,
            amount: subject.amount,
        });
        device.empty_cache()?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    if arguments.json {
        print_json(device, threads, &peaks, &rows);
    } else {
        print_table(threads, &peaks, &rows);
    }
    Ok(ExitCode::SUCCESS)
}

/// The best time of one Command.
fn measure(device: &Device, stream: &Stream, subject: &Subject, budget: Duration) -> Result<f64> {
    let mut once = (subject.prepare)(device, stream)?;
    stream.synchronize()?;
    let started = Instant::now();
    let mut best = f64::INFINITY;
    loop {
        let start = Instant::now();
        once(stream)?;
        stream.synchronize()?;
        best = best.min(start.elapsed().as_secs_f64());
        if started.elapsed() >= budget {
            return Ok(best);
        }
    }
}

impl Row {
    /// Billions of operations or bytes per second, and the fraction of the peak.
    fn rate(&self, peaks: &Peaks) -> (f64, &'static str, f64) {
        let (per_second, unit, peak) = match self.amount {
            Amount::Flops(count) => (count / self.seconds, "GFLOP/s", peaks.flops),
            Amount::Bytes(count) => (count / self.seconds, "GB/s", peaks.bandwidth),
        };
        (per_second / 1e9, unit, per_second / peak)
    }
}

fn print_json(device: Device, threads: usize, peaks: &Peaks, rows: &[Row]) {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let (rate, unit, fraction) = row.rate(peaks);
            json!({
                "command": row.name,
                "size": row.size,
                "seconds": row.seconds,
                "rate": rate,
                "unit": unit,
                "of_peak": fraction,
            })
        })
        .collect();
    let all = json!({
        "device": device.name(),
        "threads": threads,
        "peak_gflops": peaks.flops / 1e9,
        "peak_gb_per_s": peaks.bandwidth / 1e9,
        "rows": rows,
    });
    println!("{all}");
}

fn print_table(threads: usize, peaks: &Peaks, rows: &[Row]) {
    let cells: Vec<_> = rows
        .iter()
        .map(|row| {
            let (rate, unit, fraction) = row.rate(peaks);
            vec![
                row.name.clone(),
                row.size.clone(),
                format!("{:.1}", row.seconds * 1e6),
                format!("{rate:.1}"),
                unit.to_owned(),
                format!("{fraction:.2}"),
            ]
        })
        .collect();
    table::print(&["command", "size", "µs", "rate", "unit", "of peak"], &cells);
    println!(
        "\n{threads} threads; peak measured in this run: {:.0} GFLOP/s, {:.1} GB/s. Rates above 1 of \
         the memory's are those of caches.",
        peaks.flops / 1e9,
        peaks.bandwidth / 1e9
    );
}
