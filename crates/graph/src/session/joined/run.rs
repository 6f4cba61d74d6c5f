//! A batch on its way through the device.

use std::any::Any;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use millstream_core::{Buffer, BufferLike, Command, Download, Layout, Plan, Stream};
use millstream_nn::Tensor;
use smallvec::SmallVec;

use super::axes::{Out, Proof};
use super::check::{self, Checked};
use super::group::{Group, Request};
use super::{Answer, Context, Given, HostPart, Lane};
use crate::coalesce;
use crate::model_value::ModelValue;
use crate::program::{HostValue, Run, Stage, Step};
use crate::separate::Share;
use crate::session::outputs;
use crate::{Error, Result};

/// Pauses of a leader between two looks at the device.
const SPINS: usize = 16;

/// What became of work that may have panicked.
pub(super) fn flatten<T>(result: std::result::Result<Result<T>, Box<dyn Any + Send>>) -> Result<T> {
    result.unwrap_or_else(|panic| {
        let message = millstream_core::panic_message(&*panic);
        let reason = format!("the batch panicked: {message}");
        Err(Error::Invalid { op: "run", reason })
    })
}

fn invalid<T>(reason: &str) -> Result<T> {
    Err(Error::Invalid { op: "run", reason: reason.into() })
}

/// A batch that was recorded.
pub(super) struct Running {
    /// The answers that are there, by the numbers of the jobs.
    answers: Vec<Option<Result<Given>>>,
    pieces: Vec<Piece>,
    /// Given back when the batch has ended.
    lane: Option<Lane>,
    /// Whether its calls are run by themselves too, and compared.
    checked: bool,
    /// The device did not answer in time. Nothing is waited for any more.
    hung: OnceLock<Error>,
}

/// What becomes of a batch.
pub(super) enum Finished {
    Answers(Vec<Result<Given>>),
    /// It goes on with these.
    Again(Running),
}

/// Some calls of a batch that are run at once.
enum Piece {
    Together(Together),
    Alone(Alone),
    Checked(Checked),
}

/// Calls in one run of a plan.
pub(in crate::session) struct Together {
    /// The jobs, by their numbers in the batch.
    jobs: Vec<usize>,
    /// The rows of each of them.
    rows: Vec<Range<usize>>,
    /// How many rows the plan is for.
    size: usize,
    stage: Arc<Stage>,
    outputs: Vec<Buffer>,
    /// The outputs on their way to the host, or one element of each.
    downloads: Vec<Arc<Download>>,
    /// Whether they are whole.
    whole: bool,
}

/// A call by itself.
pub(super) struct Alone {
    pub job: usize,
    values: Vec<ModelValue>,
    pub downloads: Vec<Option<Arc<Download>>>,
    whole: bool,
}

impl Running {
    /// Records a batch.
    pub fn begin(group: &Arc<Group>, jobs: &[Request]) -> Result<Self> {
        let context = &group.context;
        let answers = jobs.iter().map(|_| None).collect();
        let (pieces, hung) = (Vec::new(), OnceLock::new());
        let mut running = Self { answers, pieces, lane: None, checked: false, hung };
        if let [job] = jobs {
            // Where the caller computes anyway, so that its next call finds its memory again.
            let record = |stream: &Stream| running.alone(context, stream, 0, job);
            super::on_stream_of_thread(&context.device, record)?;
            return Ok(running);
        }
        let Some(proof) = group.proof() else { return invalid("calls cannot be joined") };
        let joins = context.refuted.get().is_none();
        running.checked = joins && check::is_due(context);
        let lane = context.lane()?;
        let stream = &lane.stream;
        let record = || {
            for alike in alike(proof, jobs) {
                running.record(group, proof, stream, jobs, (&alike, joins));
            }
        };
        // Current, since a thread without a stream might wait for the one that it has here.
        stream.scope(|| stream.as_one_user(record));
        running.lane = Some(lane);
        Ok(running)
    }

    /// Records calls that have the same where all calls of a batch must have the same.
    fn record(
        &mut self,
        group: &Arc<Group>,
        proof: &Proof,
        stream: &Stream,
        jobs: &[Request],
        (alike, joins): (&[usize], bool),
    ) {
        let context = &group.context;
        let mut rest = alike;
        while let Some(&first) = rest.first() {
            let rows = rest.iter().map(|&number| jobs[number].rows).sum();
            let plan = if rest.len() > 1 && joins { group.plan_for(rows) } else { None };
            let several = plan.and_then(|(size, stage)| {
                let calls = fitting(jobs, rest, size);
                (calls > 1).then_some((calls, size, stage))
            });
            let Some((calls, size, stage)) = several else {
                self.alone(context, stream, first, &jobs[first]);
                rest = &rest[1..];
                continue;
            };
            let (now, later) = rest.split_at(calls);
            rest = later;
            match together(context, proof, stream, jobs, now, (size, stage)) {
                Ok(together) => self.pieces.push(Piece::Together(together)),
                // There is no memory for all of them at once, perhaps.
                Err(_) => self.one_by_one(context, stream, jobs, now),
            }
        }
    }

    /// Records a call by itself.
    fn alone(&mut self, context: &Context, stream: &Stream, number: usize, job: &Request) {
        match alone(context, stream, number, job, false) {
            Ok(alone) => self.pieces.push(Piece::Alone(alone)),
            Err(error) => self.answers[number] = Some(Err(error)),
        }
    }

    fn one_by_one(
        &mut self,
        context: &Context,
        stream: &Stream,
        jobs: &[Request],
        numbers: &[usize],
    ) {
        context.counters.repeated();
        numbers.iter().for_each(|&number| self.alone(context, stream, number, &jobs[number]));
    }

    /// Records calls once more, each by itself, on the calling thread's stream.
    fn repeat(&mut self, context: &Context, jobs: &[Request], numbers: &[usize]) -> Result<()> {
        let record = |stream: &Stream| self.one_by_one(context, stream, jobs, numbers);
        super::on_stream_of_thread(&context.device, record)
    }

    fn downloads(&self) -> impl Iterator<Item = &Arc<Download>> {
        self.pieces.iter().flat_map(|piece| {
            let (all, some, further) = match piece {
                Piece::Together(together) => (&together.downloads[..], &[][..], &[][..]),
                Piece::Alone(alone) => (&[][..], &alone.downloads[..], &[][..]),
                Piece::Checked(checked) => {
                    (&[][..], &checked.alone.downloads[..], &checked.joined[..])
                }
            };
            all.iter().chain(some.iter().chain(further).flatten())
        })
    }

    /// Looks again and again whether all is computed, for so long, and says whether it is. Lets other threads run meanwhile, but when it
    /// is about to end, by what batches usually take: then another thread might have the core for longer than that.
    pub fn poll(&self, timeout: Duration, usual: Duration) -> bool {
        let begun = Instant::now();
        let soon = usual * 5 / 8..usual * 3 / 2;
        // A fault is an end too.
        let ended = |download: &Arc<Download>| !matches!(download.timepoint().query(), Ok(false));
        while !timeout.is_zero() {
            if self.downloads().all(ended) {
                return true;
            }
            let elapsed = begun.elapsed();
            if elapsed > timeout {
                return false;
            }
            if soon.contains(&elapsed) && coalesce::keeps_a_core() {
                (0..SPINS).for_each(|_| std::hint::spin_loop());
            } else {
                std::thread::yield_now();
            }
        }
        false
    }

    /// Waits until all is computed. What went wrong is found when it is read, but for a device that does not answer: each
    /// further wait would take as long.
    pub fn wait(&self) {
        for download in self.downloads() {
            if let Err(error @ Error::Timeout { .. }) = download.view_bytes() {
                let _ = self.hung.set(error);
                return;
            }
        }
    }

    /// As [`wait`](Self::wait), without holding a thread.
    pub async fn ready(&self) {
        for download in self.downloads() {
            drop(download.timepoint().await);
        }
    }

    /// The answers of all calls. Calls that failed together are run again one by one: whose data is right gets its answer.
    pub fn finish(self, group: &Arc<Group>, jobs: &[Request]) -> Result<Finished> {
        let Some(proof) = group.proof() else { return invalid("calls cannot be joined") };
        let context = &group.context;
        let Running { answers, pieces, lane, checked, hung } = self;
        // All is computed. What follows is done on the stream of the thread, which may have to be the same one.
        drop(lane);
        if let Some(error) = hung.into_inner() {
            let or_error = |answer: Option<_>| answer.unwrap_or_else(|| Err(error.clone()));
            return Ok(Finished::Answers(answers.into_iter().map(or_error).collect()));
        }
        let mut next =
            Self { answers, pieces: Vec::new(), lane: None, checked, hung: OnceLock::new() };
        for piece in pieces {
            match piece {
                Piece::Alone(alone) => {
                    let job = alone.job;
                    next.answers[job] = Some(alone.answer().map(Given::Answer));
                }
                Piece::Checked(checked) => {
                    let job = checked.alone.job;
                    next.answers[job] =
                        Some(checked.answer(context, jobs.len()).map(Given::Answer));
                }
                // Another batch has shown meanwhile that these answers are not to be trusted.
                Piece::Together(together) if context.refuted.get().is_some() => {
                    next.repeat(context, jobs, &together.jobs)?;
                }
                Piece::Together(together) if together.failed() => {
                    next.repeat(context, jobs, &together.jobs)?;
                }
                Piece::Together(together) if checked => {
                    for (call, &job) in together.jobs.iter().enumerate() {
                        let answer = together.answer(context, proof, &jobs[job].values, call);
                        let begun = answer.and_then(|answer| {
                            let begin = |stream: &Stream| {
                                Checked::begin(context, stream, (job, &jobs[job]), answer)
                            };
                            super::on_stream_of_thread(&context.device, begin)?
                        });
                        match begun {
                            Ok(checked) => next.pieces.push(Piece::Checked(checked)),
                            Err(error) => next.answers[job] = Some(Err(error)),
                        }
                    }
                }
                Piece::Together(together) if proof.gives_inputs() => {
                    for (call, &job) in together.jobs.iter().enumerate() {
                        let answer = together.answer(context, proof, &jobs[job].values, call);
                        next.answers[job] = Some(answer.map(Given::Answer));
                    }
                }
                // Each call makes its own answer, on its own thread.
                Piece::Together(together) => {
                    let together = Arc::new(together);
                    for (call, &job) in together.jobs.iter().enumerate() {
                        next.answers[job] = Some(Ok(Given::Part(Arc::clone(&together), call)));
                    }
                }
            }
        }
        if !next.pieces.is_empty() {
            return Ok(Finished::Again(next));
        }
        let none = || invalid("a call of the batch was forgotten");
        let answers = next.answers.into_iter().map(|answer| answer.unwrap_or_else(none));
        Ok(Finished::Answers(answers.collect()))
    }
}

/// Brings outputs to the host if they are small, else one element of each: it is there when the output is.
fn fetch<'a>(
    stream: &Stream,
    outputs: impl Iterator<Item = (&'a Buffer, &'a Layout)>,
    whole: bool,
) -> Result<Vec<Arc<Download>>> {
    let fetched = outputs.map(|(buffer, layout)| {
        let layout =
            if whole { *layout } else { outputs::first_element(layout).unwrap_or(*layout) };
        stream.download(buffer.operand(layout)).map(Arc::new)
    });
    fetched.collect()
}

/// Records a call by itself. With `whole`, its outputs are brought to the host however large they are.
pub(super) fn alone(
    context: &Context,
    stream: &Stream,
    number: usize,
    job: &Request,
    whole: bool,
) -> Result<Alone> {
    let mut run = Run::new(&context.program, job.values.clone());
    let values = loop {
        match run.go_on(&context.settings, stream)? {
            Step::Wait(downloads) => {
                downloads.iter().try_for_each(|download| download.timepoint().wait())?;
            }
            Step::Done(values) => break values,
        }
    };
    let tensors = || values.iter().filter_map(tensor);
    let bytes: usize = tensors().map(|tensor| tensor.layout().dense_bytes()).sum();
    let whole = whole || bytes <= context.host_bytes();
    let downloads = fetch_values(stream, &values, whole)?;
    Ok(Alone { job: number, values, downloads, whole })
}

/// As [`fetch`], for values: those that are tensors with elements are brought over.
pub(super) fn fetch_values(
    stream: &Stream,
    values: &[ModelValue],
    whole: bool,
) -> Result<Vec<Option<Arc<Download>>>> {
    let filled = |value| tensor(value).filter(|tensor| tensor.elements() > 0);
    let ends = values.iter().filter_map(filled);
    let mut fetched =
        fetch(stream, ends.map(|tensor| (tensor.buffer(), tensor.layout())), whole)?.into_iter();
    let downloads = values.iter().map(|value| filled(value).and_then(|_| fetched.next()));
    Ok(downloads.collect())
}

fn tensor(value: &ModelValue) -> Option<&Tensor> {
    match value {
        ModelValue::Tensor(tensor) => Some(tensor),
        _ => None,
    }
}

impl Alone {
    pub fn answer(self) -> Result<Answer> {
        let Self { values, downloads, whole, .. } = self;
        for download in downloads.iter().flatten() {
            download.view_bytes()?;
        }
        let part = |download: Option<Arc<Download>>| {
            let download = download.filter(|_| whole)?;
            let bytes = download.view_bytes().ok()?.len();
            Some(HostPart { download, start: 0, bytes })
        };
        Ok(Answer { values, host: downloads.into_iter().map(part).collect() })
    }
}

/// The jobs by their numbers, those together that have the same tensors where all calls of a batch must have the same.
fn alike(proof: &Proof, jobs: &[Request]) -> Vec<Vec<usize>> {
    let shared: SmallVec<[usize; 4]> =
        (0..proof.inputs.len()).filter(|&at| proof.inputs[at] == Share::Whole).collect();
    if shared.is_empty() {
        return vec![(0..jobs.len()).collect()];
    }
    let same = |a: &HostValue, b: &HostValue| match (a, b) {
        (HostValue::Value(ModelValue::Tensor(a)), HostValue::Value(ModelValue::Tensor(b))) => {
            a.buffer().identity() == b.buffer().identity() && a.layout() == b.layout()
        }
        (HostValue::Array(a), HostValue::Array(b)) => a.array() == b.array(),
        // Constants are of the model, and the same for the whole group.
        (HostValue::Constant(_), HostValue::Constant(_)) => true,
        _ => false,
    };
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (number, job) in jobs.iter().enumerate() {
        let alike = |group: &&mut Vec<usize>| {
            shared.iter().all(|&at| same(&job.values[at], &jobs[group[0]].values[at]))
        };
        match groups.iter_mut().find(alike) {
            Some(group) => group.push(number),
            None => groups.push(vec![number]),
        }
    }
    groups
}

/// How many calls have no more rows than so many.
fn fitting(jobs: &[Request], numbers: &[usize], size: usize) -> usize {
    let mut room = size;
    let fits = |&&number: &&usize| match room.checked_sub(jobs[number].rows) {
        Some(left) => {
            room = left;
            true
        }
        None => false,
    };
    numbers.iter().take_while(fits).count()
}

/// Records calls in one run of a plan for as many rows or more. Those that it lacks are copies of the last.
fn together(
    context: &Context,
    proof: &Proof,
    stream: &Stream,
    jobs: &[Request],
    numbers: &[usize],
    (size, stage): (usize, Arc<Stage>),
) -> Result<Together> {
    let Some(plan) = &stage.plan else { return invalid("there is nothing to compute") };
    let mut filled = 0;
    let rows = numbers.iter().map(|&number| {
        filled += jobs[number].rows;
        filled - jobs[number].rows..filled
    });
    let rows: Vec<Range<usize>> = rows.collect();
    let (first, last) = (&jobs[numbers[0]], &jobs[numbers[numbers.len() - 1]]);
    // The inputs of the model that are in registers, which those with a constant are not.
    let in_registers: SmallVec<[usize; 8]> = (0..first.values.len())
        .filter(|&at| !matches!(first.values[at], HostValue::Constant(_)))
        .collect();
    let mut inputs: SmallVec<[Buffer; 8]> = SmallVec::new();
    for (&register, layout) in stage.inputs.iter().zip(plan.inputs()) {
        let Some(&at) = in_registers.get(register) else { return invalid("a register is empty") };
        let Share::Parts(axis) = proof.inputs[at] else {
            let given = first.values[at].tensor_at(&context.settings)?;
            let given = if given.layout() == layout { given } else { given.copy()? };
            inputs.push(given.buffer().clone());
            continue;
        };
        let arrays = numbers.iter().map(|&number| match &jobs[number].values[at] {
            HostValue::Array(array) => Some(&array.array().bytes()[..]),
            _ => None,
        });
        let arrays: Option<SmallVec<[&[u8]; 64]>> = arrays.collect();
        // Numbers on the host that follow each other in the batch too go there at once.
        let follow = layout.is_contiguous() && layout.shape()[..axis].iter().all(|&size| size == 1);
        if let Some(mut parts) = arrays.filter(|_| follow) {
            let bytes = parts.last().copied().unwrap_or_default();
            let row = &bytes[bytes.len() - bytes.len() / last.rows..];
            parts.extend(std::iter::repeat_n(row, size - filled));
            inputs.push(stream.allocate_with_parts(layout, &parts)?);
            continue;
        }
        let joined = stream.allocate(layout.dense_bytes())?;
        let each = layout.shape()[axis] / size;
        let copy = |rows: Range<usize>, from: &Tensor, layout_of: Layout| {
            let to = layout.slice(axis, rows.start * each, rows.len() * each, 1)?;
            let (to, from) = (joined.operand(to), from.buffer().operand(layout_of));
            stream.record(Command::copy(to, from)?)
        };
        for (&number, rows) in numbers.iter().zip(&rows) {
            let from = jobs[number].values[at].tensor_at(&context.settings)?;
            copy(rows.clone(), &from, *from.layout())?;
        }
        if filled < size {
            let from = last.values[at].tensor_at(&context.settings)?;
            let row = from.layout().slice(axis, (last.rows - 1) * each, each, 1)?;
            (filled..size).try_for_each(|at| copy(at..at + 1, &from, row).map(drop))?;
        }
        inputs.push(joined);
    }
    let outputs: Vec<Buffer> = stage
        .outputs
        .iter()
        .map(|layout| stream.allocate(layout.dense_bytes()))
        .collect::<Result<_>>()?;
    let read: SmallVec<[&Buffer; 8]> = inputs.iter().collect();
    let written: SmallVec<[&Buffer; 8]> = outputs.iter().collect();
    stream.run(plan, &read, &written)?;
    drop(written);
    let bytes: usize = stage.outputs.iter().map(Layout::dense_bytes).sum();
    // Those of the call with the most rows.
    let most = rows.iter().map(Range::len).max().unwrap_or(1);
    let whole = bytes / size * most <= context.host_bytes();
    let ends = outputs.iter().zip(&stage.outputs).filter(|(_, layout)| layout.elements() > 0);
    let downloads = fetch(stream, ends, whole)?;
    Ok(Together { jobs: numbers.to_vec(), rows, size, stage, outputs, downloads, whole })
}

/// Runs a plan once on zeros, and waits, where the device compiles kernels when they are first used: so that no call waits for that.
pub(super) fn rehearse(context: &Arc<Context>, stage: &Stage) -> Result<()> {
    let Some(plan) = stage.plan.as_ref().filter(|_| !context.computes_on_host) else {
        return Ok(());
    };
    let lane = context.lane()?;
    lane.stream.as_one_user(|| rehearse_on(&lane.stream, plan, stage))
}

fn rehearse_on(stream: &Stream, plan: &Plan, stage: &Stage) -> Result<()> {
    let zeros = |layout: &Layout| stream.allocate_with(layout, &vec![0; layout.dense_bytes()]);
    let inputs: Vec<Buffer> = plan.inputs().iter().map(zeros).collect::<Result<_>>()?;
    let outputs = stage.outputs.iter().map(|layout| stream.allocate(layout.dense_bytes()));
    let outputs: Vec<Buffer> = outputs.collect::<Result<_>>()?;
    stream.run(plan, &inputs.iter().collect::<Vec<_>>(), &outputs.iter().collect::<Vec<_>>())?;
    let ends = outputs.iter().zip(&stage.outputs).filter(|(_, layout)| layout.elements() > 0);
    for download in fetch(stream, ends, false)? {
        // What goes wrong with zeros may go right with what callers give.
        drop(download.view_bytes());
    }
    Ok(())
}

impl Together {
    /// Whether something went wrong. Waits until that is known.
    fn failed(&self) -> bool {
        self.downloads.iter().any(|download| download.view_bytes().is_err())
    }

    /// The answer of a call, with its parts of the outputs. Its inputs are needed where the model [gives
    /// them](Proof::gives_inputs) as outputs.
    pub fn answer(
        &self,
        context: &Context,
        proof: &Proof,
        inputs: &[HostValue],
        call: usize,
    ) -> Result<Answer> {
        // Where each output of the plan is on the host; those without elements are nowhere.
        let mut fetched = self.downloads.iter();
        let host: SmallVec<[Option<&Arc<Download>>; 4]> = self
            .stage
            .outputs
            .iter()
            .map(|layout| if layout.elements() > 0 { fetched.next() } else { None })
            .map(|download| download.filter(|_| self.whole))
            .collect();
        let outputs = proof.outputs.len();
        let mut answer =
            Answer { values: Vec::with_capacity(outputs), host: Vec::with_capacity(outputs) };
        for out in &proof.outputs {
            let (value, part) = match out {
                Out::Plan(output, share) => self.part(call, *output, *share, host[*output])?,
                Out::Input(input) => match inputs.get(*input) {
                    Some(HostValue::Value(value)) => (value.clone(), None),
                    Some(other) => (other.clone().into_value_at(&context.settings)?, None),
                    None => return invalid("an output that is an input was forgotten"),
                },
                Out::Constant(constant) => (constant.load(&context.settings.folder)?.into(), None),
            };
            answer.values.push(value);
            answer.host.push(part);
        }
        Ok(answer)
    }

    /// The part of an output that belongs to a call.
    fn part(
        &self,
        call: usize,
        output: usize,
        share: Share,
        host: Option<&Arc<Download>>,
    ) -> Result<(ModelValue, Option<HostPart>)> {
        let layout = &self.stage.outputs[output];
        let (own, outer, before) = match share {
            Share::Whole => (*layout, 1, 0),
            Share::Parts(axis) => {
                let each = layout.shape()[axis] / self.size;
                let rows = &self.rows[call];
                let own = layout.slice(axis, rows.start * each, rows.len() * each, 1)?;
                (own, layout.shape()[..axis].iter().product(), rows.start)
            }
        };
        // Parts of an inner axis do not lie in one piece.
        let bytes = own.dense_bytes();
        let start = before * (layout.dense_bytes() / self.size);
        let part = host.filter(|_| outer == 1).map(|download| HostPart {
            download: Arc::clone(download),
            start,
            bytes,
        });
        let tensor = Tensor::from_buffer(self.outputs[output].clone(), own)?;
        Ok((tensor.into(), part))
    }
}
