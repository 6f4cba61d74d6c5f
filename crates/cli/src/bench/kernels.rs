//! `millstream bench kernels`: one table of all Commands.
//!
//! On the CPU device the peaks are measured again before each row, and the best of the run counts: a figure is
//! never compared with one of another day. On others a row is the time that a Command adds to a batch, which is
//! what it costs within a model; a call of its own costs more.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use millstream::cpu::peak::{self, Memory, Traffic};
use millstream::{Device, Error, Result, Stream};
use serde_json::json;

use super::chain::{self, Ratio};
use super::subjects::{self, Amount, Once, Subject};
use crate::choice::DeviceChoice;
use crate::{progress, table};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    device: DeviceChoice,
    /// Threads of the CPU device; by default all cores.
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
    let named = |name: &str| arguments.only.as_ref().is_none_or(|part| name.contains(part));
    let with_chain = named("chain");
    if let Some(part) = &arguments.only
        && !with_chain
        && !subjects::all().iter().any(|subject| named(subject.name))
    {
        return Err(Error::InvalidConfig {
            key: "--only".into(),
            value: part.clone(),
            expected: "a part of the name of a Command, such as softmax",
        });
    }
    let mut device = arguments.device.open()?;
    if let Some(threads) = arguments.threads {
        device = Device::builder(device.name()).threads(threads as usize).open()?;
    }
    let is_cpu = device.name() == "cpu";
    let threads = device.info().parallelism;
    let stream = Stream::new(&device)?;
    let subjects: Vec<Subject> = subjects::all()
        .into_iter()
        .filter(|subject| named(subject.name))
        .filter(|subject| is_cpu || subject.name != "matmul_packed")
        .collect();

    let bar = progress::bar(subjects.len());
    let mut peaks = is_cpu.then(|| Peaks::new(threads));
    let mut rows = Vec::new();
    for subject in subjects {
        bar.set_message(subject.name);
        let budget = Duration::from_millis(arguments.milliseconds);
        let seconds = match &mut peaks {
            Some(peaks) => {
                peaks.measure(&subject.amount);
                alone(&device, &stream, &subject, budget)?
            }
            None => within_a_batch(&device, &stream, &subject, budget)?,
        };
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
    let budget = Duration::from_millis(5 * arguments.milliseconds);
    let ratio = with_chain.then(|| chain::measure(&device, &stream, budget)).transpose()?;
    if arguments.json {
        print_json(&device, peaks.as_ref(), &rows, ratio.as_ref());
    } else {
        print_table(&device, peaks.as_ref(), &rows);
        if let Some(ratio) = ratio {
            ratio.print();
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The best time of one Command.
fn alone(device: &Device, stream: &Stream, subject: &Subject, budget: Duration) -> Result<f64> {
    let mut once = (subject.prepare)(device, stream)?;
    stream.synchronize()?;
    best_of(budget, || batch(stream, &mut once, 1))
}

/// What a Command adds to the time of a batch: that of many less that of few, by how many there are more.
fn within_a_batch(
    device: &Device,
    stream: &Stream,
    subject: &Subject,
    budget: Duration,
) -> Result<f64> {
    const FEW: usize = 4;
    const MANY: usize = 36;
    let mut once = (subject.prepare)(device, stream)?;
    stream.synchronize()?;
    // The device may have to see a batch a few times before it is quick.
    for _ in 0..4 {
        batch(stream, &mut once, FEW)?;
        batch(stream, &mut once, MANY)?;
    }
    let few = best_of(budget / 4, || batch(stream, &mut once, FEW))?;
    let many = best_of(budget * 3 / 4, || batch(stream, &mut once, MANY))?;
    Ok((many - few).max(0.0) / (MANY - FEW) as f64)
}

/// Seconds of a batch of so many.
fn batch(stream: &Stream, once: &mut Once, count: usize) -> Result<f64> {
    let start = Instant::now();
    for _ in 0..count {
        once(stream)?;
    }
    stream.synchronize()?;
    Ok(start.elapsed().as_secs_f64())
}

fn best_of(budget: Duration, mut measured: impl FnMut() -> Result<f64>) -> Result<f64> {
    let started = Instant::now();
    let mut best = f64::INFINITY;
    loop {
        best = best.min(measured()?);
        if started.elapsed() >= budget {
            return Ok(best);
        }
    }
}

impl Row {
    /// Billions of operations or bytes per second, and the fraction of the peak where one was measured.
    fn rate(&self, peaks: Option<&Peaks>) -> (f64, &'static str, Option<f64>) {
        let (per_second, unit) = match self.amount {
            Amount::Flops(count) => (count / self.seconds, "GFLOP/s"),
            Amount::Bytes(count, _) => (count / self.seconds, "GB/s"),
        };
        (per_second / 1e9, unit, peaks.map(|peaks| per_second / peaks.of(&self.amount)))
    }
}

fn print_json(device: &Device, peaks: Option<&Peaks>, rows: &[Row], ratio: Option<&Ratio>) {
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
    let bandwidths = |peaks: &Peaks| -> serde_json::Map<_, _> {
        Traffic::ALL
            .into_iter()
            .zip(peaks.bandwidths)
            .map(|(traffic, bandwidth)| (name(traffic).to_owned(), json!(bandwidth / 1e9)))
            .collect()
    };
    let all = json!({
        "device": device.name(),
        "threads": peaks.map(|peaks| peaks.threads),
        "peak_gflops": peaks.map(|peaks| peaks.flops / 1e9),
        "peak_gb_per_s": peaks.map(bandwidths),
        "rows": rows,
        "chain": ratio.map(|ratio| json!({
            "one": ratio.one,
            "chain": ratio.chain,
            "apart": ratio.apart,
            "ratio": ratio.chain / ratio.one,
        })),
    });
    println!("{all}");
}

fn print_table(device: &Device, peaks: Option<&Peaks>, rows: &[Row]) {
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
                fraction.map_or("–".into(), |fraction| format!("{fraction:.2}")),
            ]
        })
        .collect();
    table::print(&["command", "size", "µs", "rate", "unit", "of peak"], &cells);
    let Some(peaks) = peaks else {
        println!(
            "\n{}: {}. What a Command adds to the time of a batch.",
            device.name(),
            device.info().description
        );
        return;
    };
    let bandwidths = Traffic::ALL
        .into_iter()
        .zip(peaks.bandwidths)
        .map(|(traffic, bandwidth)| format!("{} {:.1}", name(traffic), bandwidth / 1e9))
        .collect::<Vec<_>>()
        .join(", ");
    println!(
        "\n{} threads; peaks measured in this run: {:.0} GFLOP/s; GB/s beyond the caches: \
         {bandwidths}. A row is compared with the peak of its own traffic; rates above 1 are those \
         of caches.",
        peaks.threads,
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
