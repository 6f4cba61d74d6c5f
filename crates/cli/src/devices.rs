//! `millstream devices`.

use std::process::ExitCode;

use millstream::{Device, Result};
use serde_json::json;

use crate::table;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let backends = Device::list();
    if arguments.json {
        let mut devices = Vec::new();
        for (backend, list) in &backends {
            match list {
                Ok(list) => devices.extend(list.iter().map(|info| {
                    json!({
                        "name": info.name,
                        "backend": backend,
                        "available": true,
                        "description": info.description,
                        "memory_bytes": info.memory_bytes,
                        "parallelism": info.parallelism,
                    })
                })),
                Err(error) => devices.push(json!({
                    "name": backend,
                    "backend": backend,
                    "available": false,
                    "reason": error.to_string(),
                })),
            }
        }
        println!("{}", json!({ "devices": devices }));
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = Vec::new();
    for (backend, list) in backends {
        match list {
            Ok(list) => rows.extend(list.into_iter().map(|info| {
                let memory = format!("{:.1} GiB", info.memory_bytes as f64 / f64::from(1 << 30));
                vec![info.name, memory, info.description]
            })),
            Err(error) => rows.push(vec![backend.to_owned(), "-".to_owned(), error.to_string()]),
        }
    }
    table::print(&["device", "memory", "description"], &rows);
    Ok(ExitCode::SUCCESS)
}
