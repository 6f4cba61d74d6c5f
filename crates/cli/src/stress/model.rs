//! The model of a file from many threads, with inputs of several shapes at once.

use std::path::Path;

use indicatif::ProgressBar;
use millstream::Result;
use millstream::graph::{Batching, Session};

use super::harness::{Context, Outcome};
use crate::model_answer::ModelAnswer;
use crate::model_inputs::{self, Fill, Missing, ModelInputs};

/// Different calls of a thread, at least: enough to tell answers apart.
const VARIANTS: usize = 3;

/// Calls the model from all threads, and compares every answer with that of the same call made before, alone.
///
/// # Errors
///
/// A model that cannot be opened, or inputs that are missing or do not fit.
pub(super) fn run(
    path: &Path,
    arguments: &model_inputs::Arguments,
    context: &Context,
    bar: &ProgressBar,
) -> Result<Outcome> {
    // On a GPU an answer of a batch has other last bits, and bits are compared here.
    let exact = context.device.info().name == "cpu";
    let batching = if exact { Batching::new() } else { Batching::off() };
    let session = Session::builder(&context.device).batching(batching).open(path)?;
    let filled = (Missing::Filled, Fill::Random);
    let inputs = ModelInputs::new(session.inputs(), &[], arguments, filled)?;
    bar.suspend(|| inputs.notes().iter().for_each(|note| eprintln!("{note}")));
    let sets = inputs.sets();
    let variants = VARIANTS.max(sets).min(context.iterations);
    let call = |thread: usize, variant: usize| {
        // Threads begin with different shapes, so that all of them are in flight at once.
        let (set, seed) = ((thread + variant) % sets, thread * variants + variant);
        let outputs = session.run(inputs.make(&context.device, set, seed)?)?;
        ModelAnswer::of(outputs)?.bytes()
    };
    let outcome = context.compare_variants(variants, &call, |_| {});
    bar.suspend(|| eprintln!("{}", session.stats()));
    Ok(outcome)
}
