//! `millstream probe`: what a device's backend assumes about its platform, measured on this machine.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use millstream::backend::{ProbeEntry, ProbeOptions, ProbeOutcome, ProbeRow};
use millstream::{Error, Result};
use serde_json::{Value, json};

use crate::table;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The backend whose assumptions are measured.
    #[arg(long, value_name = "NAME", default_value = "metal")]
    device: String,
    /// Only this row; may be given several times.
    #[arg(long, value_name = "NAME")]
    row: Vec<String>,
    /// Also what makes the device fail on purpose. Other programs that use it may notice.
    #[arg(long)]
    faults: bool,
    /// Seconds for which the device is left alone before the first call after an idle time is measured.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = seconds)]
    idle: f64,
    /// Seconds after which a row is given up.
    #[arg(long, value_name = "SECONDS", default_value_t = 120.0, value_parser = seconds)]
    deadline: f64,
    /// Names the rows and what they assume, and measures nothing.
    #[arg(long)]
    list: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Seconds that a duration can hold.
fn seconds(text: &str) -> std::result::Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "a number of seconds is expected".to_owned())?;
    match (0.0..=86_400.0).contains(&number) {
        true => Ok(number),
        false => Err("0 to 86400 seconds".into()),
    }
}

/// The probe of a backend, or which there are.
fn find(name: &str) -> Result<&'static ProbeEntry> {
    if let Some(entry) = ProbeEntry::all().find(|entry| entry.backend == name) {
        return Ok(entry);
    }
    let known: Vec<_> = ProbeEntry::all().map(|entry| entry.backend).collect();
    let reason = match known.is_empty() {
        true => {
            "no backend of this program has a probe: that of metal is there on a Mac".to_owned()
        }
        false => format!("there is none for {name}, only for {}", known.join(", ")),
    };
    Err(Error::Invalid { op: "probe", reason })
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let entry = find(&arguments.device)?;
    if arguments.list {
        list(entry, arguments.json);
        return Ok(ExitCode::SUCCESS);
    }
    let options = ProbeOptions {
        rows: arguments.row.clone(),
        faults: arguments.faults,
        idle: Duration::from_secs_f64(arguments.idle),
        deadline: Duration::from_secs_f64(arguments.deadline),
    };
    let mut rows = Vec::new();
    (entry.run)(&options, &mut |row| {
        // At once: if the next row takes the machine down, this one is known.
        if !arguments.json {
            let ProbeRow { name, assumed, found, outcome, .. } = &row;
            println!("{name}: {}", outcome.name());
            if !assumed.is_empty() {
                println!("    assumed: {assumed}");
            }
            println!("    found: {found}");
            let _ = std::io::stdout().flush();
        }
        rows.push(row);
    })?;
    let count = |outcome: ProbeOutcome| rows.iter().filter(|row| row.outcome == outcome).count();
    let outcomes =
        [ProbeOutcome::AsAssumed, ProbeOutcome::Not, ProbeOutcome::Measured, ProbeOutcome::NotRun];
    if arguments.json {
        println!(
            "{}",
            json!({ "backend": entry.backend, "rows": rows.iter().map(as_json).collect::<Vec<_>>() })
        );
    } else {
        let counts = outcomes.map(|outcome| format!("{} {}", count(outcome), outcome.name()));
        println!("\n{} rows: {}", rows.len(), counts.join(", "));
    }
    Ok(if count(ProbeOutcome::Not) == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn list(entry: &ProbeEntry, as_json: bool) {
    let rows = (entry.rows)();
    if as_json {
        let rows: Vec<Value> = rows
            .iter()
            .map(|(name, assumed)| json!({ "name": name, "assumed": assumed }))
            .collect();
        println!("{}", json!({ "backend": entry.backend, "rows": rows }));
        return;
    }
    let rows: Vec<_> =
        rows.iter().map(|(name, assumed)| vec![(*name).into(), (*assumed).into()]).collect();
    table::print(&["row", "assumed"], &rows);
}

fn as_json(row: &ProbeRow) -> Value {
    json!({
        "name": row.name,
        "assumed": row.assumed,
        "found": row.found,
        "outcome": row.outcome.name(),
        "seconds": row.time.as_secs_f64(),
    })
}
