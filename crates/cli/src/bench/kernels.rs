//! `millstream bench kernels`: one table of all Commands.
//!
//! The peaks are measured again before each row, and the best of the run counts: a figure is never
//! compared with one of another day.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use millstream::cpu::peak::{self, Memory, Traffic};
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
    threads: usize,
    memory: Memory,
    flops: f64,
    /// Bytes per second, for each of [`Traffic::ALL`].
    bandwidths: [f64; Traffic::ALL.len()],
}

impl Peaks {
    fn new(threads: usize) -> Self {
        let memory = Memory::new(threads);
        let mut peaks = Peaks { threads, memory, flops: 0.0, bandwidths: Default::default() };
        peaks.measure(&Amount::Flops(0.0));
        for traffic in Traffic::ALL {
            peaks.measure(&Amount::Bytes(0.0, traffic));
        }
        peaks
    }

    /// Looks again; what other programs take away at one moment does not count.
    fn measure(&mut self, amount: &Amount) {
        match *amount {
            Amount::Flops(_) => self.flops = self.flops.max(peak::flops(self.threads)),
            Amount::Bytes(_, traffic) => {
                let best = &mut self.bandwidths[traffic as usize];
                *best = best.max(self.memory.bandwidth(traffic));
            }
        }
    }

    fn of(&self, amount: &Amount) -> f64 {
        match *amount {
            Amount::Flops(_) => self.flops,
            Amount::Bytes(_, traffic) => self.bandwidths[traffic as usize],
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
    let mut peaks = Peaks::new(threads);
    let mut rows = Vec::new();
    for subject in subjects {
        bar.set_message(subject.name);
        peaks.measure(&subject.amount);
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
        let (per_second, unit) = match self.amount {
            Amount::Flops(count) => (count / self.seconds, "GFLOP/s"),
            Amount::Bytes(count, _) => (count / self.seconds, "GB/s"),
        };
        (per_second / 1e9, unit, per_second / peaks.of(&self.amount))
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
    let bandwidths: serde_json::Map<_, _> = Traffic::ALL
        .into_iter()
        .zip(peaks.bandwidths)
        .map(|(traffic, bandwidth)| (name(traffic).to_owned(), json!(bandwidth / 1e9)))
        .collect();
    let all = json!({
        "device": device.name(),
        "threads": threads,
        "peak_gflops": peaks.flops / 1e9,
        "peak_gb_per_s": bandwidths,
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
    let bandwidths = Traffic::ALL
        .into_iter()
        .zip(peaks.bandwidths)
        .map(|(traffic, bandwidth)| format!("{} {:.1}", name(traffic), bandwidth / 1e9))
        .collect::<Vec<_>>()
        .join(", ");
    println!(
        "\n{threads} threads; peaks measured in this run: {:.0} GFLOP/s; GB/s beyond the caches: \
         {bandwidths}. A row is compared with the peak of its own traffic; rates above 1 are those \
         of caches.",
        peaks.flops / 1e9,
    );
}

fn name(traffic: Traffic) -> &'static str {
    match traffic {
        Traffic::Read => "read",
        Traffic::Write => "write",
        Traffic::Copy => "copy",
        Traffic::Add => "add",
    }
}
