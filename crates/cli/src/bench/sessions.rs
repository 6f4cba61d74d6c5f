//! Measuring model files.

use std::path::Path;

use millstream::graph::{Batching, Session};
use millstream::{Error, Result};

use super::callees::SessionCallee;
use super::measure::{Arrivals, Subject, answers};
use super::models::{Mode, Run};
use super::report::Row;
use crate::model_inputs::{Fill, Missing, ModelInputs};

/// Measures the model of a file at each number of threads. Every caller has inputs of its own.
///
/// # Errors
///
/// A model that cannot be opened or called, or inputs that are missing or do not fit.
pub(super) fn measure(path: &Path, run: &Run<'_>) -> Result<Vec<Row>> {
    let arguments = run.arguments;
    let batching = |mode: Mode| match mode {
        Mode::Direct => Ok(Batching::off()),
        Mode::Coalesced => Ok(arguments.batching()),
        Mode::Plan => {
            let reason =
                "a model file is always run by plans: --mode is direct or coalesced".into();
            Err(Error::Invalid { op: "bench", reason })
        }
    };
    run.bar.set_message("opening the model");
    let alone = Session::builder(&run.one_core).batching(Batching::off()).open(path)?;
    let filled = (Missing::Filled, Fill::Random);
    let inputs = &ModelInputs::new(alone.inputs(), &[], &arguments.inputs, filled)?;
    let origin = arguments.input;
    let alone = SessionCallee { session: &alone, inputs, origin, exact: true };
    let answers = &answers(&alone, run.max_threads())?[..];
    let arrivals = Arrivals::Closed;
    let alone = Subject { callee: &alone, device: run.one_core, answers, arrivals };
    let mut single_core = 0f64;
    let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let about = format!("{}, {}", path.display(), inputs.notes().join(", "));
    // Kept for the life of the program, as the names of the built-in models are.
    let named = (&*name.leak(), &*about.leak());
    let mut rows = Vec::new();
    for &mode in &arguments.mode {
        let session = Session::builder(&run.device).batching(batching(mode)?).open(path)?;
        if mode == Mode::Coalesced {
            run.bar.set_message("compiling plans for batches");
            session.warm_up_with(inputs.on_host(0, 0)?.given(&run.device)?)?;
        }
        let exact = mode.is_exact(&run.device);
        let callee = SessionCallee { session: &session, inputs, origin, exact };
        let arrivals = arguments.arrivals;
        let subject = Subject { callee: &callee, device: run.device, answers, arrivals };
        rows.extend(run.rows(named, mode.name(), &subject, &alone, &mut single_core)?);
        let (stats, joined) = (session.stats(), session.batching_stats());
        run.bar.suspend(|| eprintln!("{}: {stats}; {joined}", mode.name()));
    }
    let cores = run.device.info().parallelism;
    Ok(rows.into_iter().map(|row: Row| row.beside(single_core, cores)).collect())
}
