//! Rows of measurements as a table and as JSON.

use serde_json::{Value, json};

use super::measure::Sample;
use crate::table;

pub(crate) struct Report<'a> {
    pub device: &'a str,
    /// The device with what it is.
    pub described: String,
    pub cores: usize,
    pub input: &'static str,
    pub seconds: f64,
    /// What the device counted in the whole run.
    pub counters: String,
    /// The most memory that the device had in the whole run, with the scratch memory of kernels.
    pub peak_bytes: usize,
    pub rows: Vec<Row>,
}

pub(crate) struct Row {
    /// The model.
    pub name: &'static str,
    /// What it is, in words.
    pub about: &'static str,
    /// How it was called.
    pub mode: &'static str,
    pub threads: usize,
    pub sample: Sample,
    /// Calls per second of one caller on one core, in the same run.
    pub single_core: f64,
    /// The rate over what as many cores as can be busy would give.
    pub efficiency: f64,
}

impl Row {
    /// A row of a model. The efficiency follows from the best rate of one caller on one core, and the cores.
    pub fn new(
        (name, about): (&'static str, &'static str),
        mode: &'static str,
        (threads, sample): (usize, Sample),
        single_core: f64,
        cores: usize,
    ) -> Self {
        let ceiling = single_core * threads.min(cores) as f64;
        let efficiency = if ceiling > 0.0 { sample.calls_per_second / ceiling } else { 0.0 };
        Self { name, about, mode, threads, sample, single_core, efficiency }
    }

    /// The same row beside another rate of one caller on one core.
    pub fn beside(self, single_core: f64, cores: usize) -> Self {
        let Self { name, about, mode, threads, sample, .. } = self;
        Self::new((name, about), mode, (threads, sample), single_core, cores)
    }

    /// The rate over that of one caller on one core.
    pub fn speedup(&self) -> f64 {
        if self.single_core > 0.0 { self.sample.calls_per_second / self.single_core } else { 0.0 }
    }

    pub fn p99(&self) -> f64 {
        self.sample.percentile(0.99)
    }

    fn json(&self) -> Value {
        json!({
            "workload": self.name,
            "mode": self.mode,
            "threads": self.threads,
            "calls_per_s": self.sample.calls_per_second,
            "p50_us": self.sample.percentile(0.5),
            "p99_us": self.p99(),
            "p999_us": self.sample.percentile(0.999),
            "sent_late_p99_us": self.sample.late(0.99),
            "errors": self.sample.errors,
            "mismatches": self.sample.mismatches,
            "efficiency": self.efficiency,
            "single_core_calls_per_s": self.single_core,
            "host_us": self.sample.host,
        })
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.name.to_owned(),
            self.mode.to_owned(),
            self.threads.to_string(),
            format!("{:.0}", self.sample.calls_per_second),
            format!("{:.0}", self.sample.percentile(0.5)),
            format!("{:.0}", self.p99()),
            format!("{:.0}", self.sample.percentile(0.999)),
            self.sample.host.map_or_else(String::new, |host| format!("{host:.1}")),
            format!("{:.2}", self.efficiency),
            format!("{:.0}", self.single_core),
            self.sample.errors.to_string(),
            self.sample.mismatches.to_string(),
        ]
    }
}

impl Report<'_> {
    pub fn is_clean(&self) -> bool {
        self.rows.iter().all(|row| row.sample.errors == 0 && row.sample.mismatches == 0)
    }

    pub fn json(&self) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(Row::json).collect();
        json!({
            "device": self.device,
            "cores": self.cores,
            "input": self.input,
            "seconds": self.seconds,
            "counters": self.counters,
            "device_peak_bytes": self.peak_bytes,
            "rows": rows,
        })
    }

    pub fn print(&self) {
        let header = [
            "workload",
            "mode",
            "threads",
            "calls/s",
            "p50 µs",
            "p99 µs",
            "p99.9 µs",
            "host µs",
            "efficiency",
            if self.device.starts_with("cpu") { "one core" } else { "one caller" },
            "errors",
            "mismatches",
        ];
        let cells: Vec<_> = self.rows.iter().map(Row::cells).collect();
        table::print(&header, &cells);
        println!();
        let mut last = "";
        for row in self.rows.iter().filter(|row| row.name != std::mem::replace(&mut last, row.name))
        {
            println!("{}: {}", row.name, row.about);
        }
        if self.device.starts_with("cpu") {
            println!(
                "\n{} with {} cores; every answer compared bit for bit with the sequential one. \"one core\" \
                 is the best\nrate of one caller on one core in this run; efficiency is calls/s over that \
                 times the threads or cores,\nwhichever is less. A lone caller may use all cores, so its \
                 efficiency can be above 1.",
                self.device, self.cores
            );
        } else {
            println!(
                "\n{} with {} multiprocessors; every answer compared bit for bit with the sequential one. \
                 \"one caller\" is the\nbest rate of one caller in this run, who may use the whole device; \
                 efficiency is calls/s over that times\nthe threads or multiprocessors, whichever is less.",
                self.device, self.cores
            );
        }
        for row in &self.rows {
            if let Some(problem) = &row.sample.problem {
                eprintln!("{}, {} threads: {problem}", row.name, row.threads);
            }
        }
    }
}
