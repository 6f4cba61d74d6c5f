//! Calls of one form.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use millstream_core::Plan;

use super::axes::{self, Joinable, Proof};
use super::gather;
use super::leaders;
use super::policy::{Mode, Policy};
use super::run::{self, Running};
use super::{Answer, Context, Given};
use crate::coalesce::{self, Batch, Coalescer, Entered, Lost, Next, Place, Terms, Ticket, Turn};
use crate::program::{Form, HostValue, Stage};
use crate::separate::Obstacle;
use crate::{Error, Result};

/// A call that is to be joined.
pub(in crate::session) struct Request {
    pub(super) values: Vec<HostValue>,
    /// How many calls of the group it is.
    pub(super) rows: usize,
    pub(super) entered: Instant,
    pub(super) deadline: Option<Instant>,
}

/// A place in flight for the next batch of calls.
pub(super) type CallPlace = Place<Request, Result<Given>>;

/// The sizes of batches that plans are compiled for, in rows. A batch takes the next larger one, and the rows that it lacks are copies.
pub(super) const SIZES: [usize; 28] = [
    1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160,
    192, 224, 256,
];

/// Calls with inputs of the same types and shapes. To it a call is one row, whatever its shapes are; calls that are
/// [several such calls](super::rows) enter too.
///
/// # Thread safety
///
/// Any number of threads may enter at once. The proof and each plan are made once, by a thread behind the calls; what is there is
/// read without a lock.
pub(in crate::session) struct Group {
    pub(super) context: Arc<Context>,
    pub(super) forms: Vec<Form>,
    coalescer: Coalescer<Request, Result<Given>>,
    policy: Policy,
    /// Calls that run by themselves: until their outputs are dropped. Those have a share in it.
    active: Arc<AtomicUsize>,
    proof: OnceLock<std::result::Result<Proof, Obstacle>>,
    /// Nothing where the proof does not hold. Those that could not be made are made later.
    plans: [OnceLock<Option<Arc<Stage>>>; SIZES.len()],
    /// Held while a plan is made, so that each is made once.
    making: Mutex<()>,
    /// For each plan how often it was tried, and when it was for the last time.
    tries: Mutex<[Option<(u32, Instant)>; SIZES.len()]>,
    /// Sizes that are to be compiled, by bits.
    wanted: AtomicU64,
    /// Whether a thread proves or compiles.
    preparing: AtomicBool,
    /// Whether it was begun to find out what calls are made of.
    pub(super) sought_unit: AtomicBool,
    /// The most rows of a batch: two, until it is known what memory those take.
    most: AtomicUsize,
    /// Nanoseconds that the last batch took. A guess of the next.
    lately: AtomicU64,
    /// Nanoseconds that leaders waited lately for the device, on average.
    computing: AtomicU64,
}

/// So many times a plan is tried that cannot be made, because there is no memory for it perhaps: again after this time, and then after twice
/// as long every time.
const TRIES: u32 = 6;
const TRY_PAUSE: Duration = Duration::from_secs(1);

/// A batch may have so many rows in any case, and the place of their plan.
const LEAST: usize = 2;
const TWO: usize = 1;

/// With more callers than so many for every two cores, leaders do not keep one while they wait for the device.
const CALLERS_PER_TWO_CORES: usize = 5;

/// Callers whose batches take no longer than this spin for their turn instead of sleeping.
const SHORT_BATCH: Duration = Duration::from_micros(300);

/// Where the host computes, the temporary values of a batch have no more bytes than this: beyond, they do not stay in its caches,
/// and a batch takes longer than its calls.
const HOST_ARENA: usize = 8 << 20;

/// The same on a device with memory of its own, of which every batch in flight takes so much.
const DEVICE_ARENA: usize = 256 << 20;

/// How a call goes on.
pub(in crate::session) enum Begun {
    /// By itself.
    Alone(Vec<HostValue>, Active),
    /// It leads a batch.
    Lead(Batch<Request, Result<Given>>),
    /// It waits for its turn.
    Wait(Ticket<Request, Result<Given>>),
}

/// A call that runs by itself. Outputs that are kept do not keep the group, which has the model.
pub(in crate::session) struct Active(Arc<AtomicUsize>);

impl std::fmt::Debug for Active {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Active")
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Group {
    pub fn new(context: &Arc<Context>, forms: &[Form]) -> Self {
        let batching = &context.batching;
        let cores = context.computes_on_host.then(|| context.device.info().parallelism);
        let policy = Policy::new(batching.always, batching.in_flight, cores);
        let in_flight = match policy.mode() {
            Mode::Alone => 1,
            Mode::Joined(in_flight) => in_flight,
        };
        Self {
            context: Arc::clone(context),
            forms: forms.to_vec(),
            coalescer: match batching.max_delay.is_zero() {
                true => Coalescer::new(in_flight, LEAST, batching.queue),
                false => Coalescer::gathering(in_flight, LEAST, batching.queue),
            },
            policy,
            active: Arc::new(AtomicUsize::new(0)),
            proof: OnceLock::new(),
            plans: [const { OnceLock::new() }; SIZES.len()],
            making: Mutex::new(()),
            tries: Mutex::new([None; SIZES.len()]),
            wanted: AtomicU64::new(0),
            preparing: AtomicBool::new(false),
            sought_unit: AtomicBool::new(false),
            most: AtomicUsize::new(LEAST),
            lately: AtomicU64::new(u64::MAX),
            computing: AtomicU64::new(0),
        }
    }

    /// For how long a caller spins for its turn before it sleeps. Not where callers need the processor that computes.
    pub fn spin_timeout(&self) -> Duration {
        let lately = Duration::from_nanos(self.lately.load(Ordering::Relaxed));
        match self.context.computes_on_host || lately > SHORT_BATCH {
            true => Duration::ZERO,
            // The one that runs, its own, and as much again for those that take longer: to wake a caller costs its leader more.
            false => 6 * lately,
        }
    }

    /// Whether no thread of the session leads or waits for calls.
    #[cfg(test)]
    pub fn is_at_rest(&self) -> bool {
        !self.context.computes_on_host || self.coalescer.running() == 0
    }

    /// About how many calls queue.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.coalescer.waiting()
    }

    /// Whether calls are there.
    pub(super) fn is_busy(&self) -> bool {
        self.active.load(Ordering::Relaxed) > 0 || !self.coalescer.is_idle()
    }

    /// The most rows of a batch.
    pub(super) fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    /// Sets the most rows of a batch by what this plan for two takes.
    fn limit(&self, stage: &Stage) {
        let bytes = stage.plan.as_ref().map_or(0, Plan::arena_bytes);
        let each = bytes.div_ceil(LEAST).max(1);
        let room = if self.context.computes_on_host { HOST_ARENA } else { DEVICE_ARENA };
        let most = (room / each).clamp(LEAST, self.context.batching.most);
        self.most.store(most, Ordering::Relaxed);
        self.coalescer.set_most(most);
    }

    /// A call comes in.
    pub fn enter(
        self: &Arc<Self>,
        values: Vec<HostValue>,
        terms: Terms,
        entered: Instant,
    ) -> Result<Begun> {
        let mode = if self.joins() { self.policy.mode() } else { Mode::Alone };
        if mode == Mode::Alone || self.is_lone() {
            let others = self.active.fetch_add(1, Ordering::Relaxed);
            let active = Active(Arc::clone(&self.active));
            match self.proof.get() {
                None if others > 0 => self.prepare_behind(),
                None => self.find_unit_behind(),
                Some(Ok(_)) => {
                    let owner = Arc::as_ptr(self).addr();
                    if let Some(rows) = gather::calls(owner, terms.rows, entered) {
                        self.count(rows, others + 1, entered);
                    }
                }
                Some(Err(_)) => {}
            }
            return Ok(Begun::Alone(values, active));
        }
        let terms = Terms { wait_when_full: self.context.batching.wait_when_full, ..terms };
        let (rows, deadline) = (terms.rows, terms.deadline);
        match self.coalescer.enter(Request { values, rows, entered, deadline }, terms) {
            Entered::Lead(batch) => Ok(Begun::Lead(batch)),
            Entered::Wait(ticket) => {
                if ticket.found_full() {
                    self.context.counters.waited_for_room();
                }
                Ok(Begun::Wait(ticket))
            }
            Entered::Full => {
                self.context.counters.rejected();
                Err(Error::Busy { waiting: self.context.batching.queue })
            }
        }
    }

    /// Whether nobody else calls, on a device that computes by itself. Such a call is recorded and not waited for, as if no calls were
    /// joined: whoever reads its outputs then waits once for both.
    fn is_lone(&self) -> bool {
        !self.context.computes_on_host
            && self.active.load(Ordering::Relaxed) == 0
            && self.coalescer.is_idle()
    }

    /// Until when a call without a deadline waits for its turn: as long as for a device, and for a delay. Those before it may be led by a
    /// future that nobody polls.
    pub fn latest_turn(&self, entered: Instant) -> Option<Instant> {
        entered
            .checked_add(self.context.device.wait_timeout())?
            .checked_add(self.context.batching.max_delay)
    }

    /// A call has waited until then.
    pub fn no_turn(&self, entered: Instant) -> Error {
        self.context.counters.canceled();
        Error::NoTurn { waited: entered.elapsed() }
    }

    /// The answer of a call that has waited for its turn.
    pub fn lost(&self, lost: Lost) -> Error {
        match lost {
            Lost::Late => {
                self.context.counters.late();
                Error::Late
            }
            Lost::Leader => {
                let reason = "the call that led the batch of this one panicked".into();
                Error::Invalid { op: "run", reason }
            }
        }
    }

    /// Leads a batch to its end, on the calling thread. Gives the leader's own answer.
    pub fn lead(self: &Arc<Self>, mut batch: Batch<Request, Result<Given>>) -> Result<Answer> {
        if self.context.computes_on_host && self.context.batching.max_delay.is_zero() {
            batch.let_others_come();
        }
        let (begun, result) = self.compute(&mut batch);
        self.answer(batch, begun, result)
    }

    /// Takes in the calls that queue, and those that come within the delay that was set, and computes their answers. Says when that
    /// began.
    pub(super) fn compute(
        self: &Arc<Self>,
        batch: &mut Batch<Request, Result<Given>>,
    ) -> (Instant, Result<Vec<Result<Given>>>) {
        let delay = self.context.batching.max_delay;
        if let Some(job) = batch.jobs().first()
            && !delay.is_zero()
        {
            let until = job.entered + delay;
            let until = self.latest_begin(job).map_or(until, |latest| latest.min(until));
            batch.wait_for_others(until, Duration::from_nanos(self.lately.load(Ordering::Relaxed)));
        }
        batch.fill();
        let begun = Instant::now();
        let work = || -> Result<Vec<Result<Given>>> {
            let mut running = Running::begin(self, batch.jobs())?;
            loop {
                self.wait_for(&running);
                match running.finish(self, batch.jobs())? {
                    run::Finished::Answers(answers) => return Ok(answers),
                    run::Finished::Again(again) => running = again,
                }
            }
        };
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        (begun, run::flatten(result))
    }

    /// When a batch has to begin at the latest so that a call is answered in time, if it takes as long as the last one. Nothing
    /// without a deadline.
    fn latest_begin(&self, job: &Request) -> Option<Instant> {
        let lately = Duration::from_nanos(self.lately.load(Ordering::Relaxed));
        job.deadline.map(|deadline| deadline.checked_sub(lately).unwrap_or(job.entered))
    }

    /// Waits until a batch is computed. A leader of short batches does not sleep, and lets other threads run: those that were answered,
    /// and leaders whose batches have ended, may be waiting for this core.
    fn wait_for(&self, running: &Running) {
        let begun = Instant::now();
        let usual = self.computing.load(Ordering::Relaxed);
        // With many callers per core somebody else needs it.
        let crowded = 2 * self.coalescer.at_hand() > CALLERS_PER_TWO_CORES * coalesce::cores();
        let soon = Duration::from_nanos(if crowded { 0 } else { usual });
        if running.poll(self.spin_timeout(), soon) {
            let took = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            // Two that end at once may count as one.
            self.computing.store(usual - usual / 8 + took / 8, Ordering::Relaxed);
        } else {
            running.wait();
        }
    }

    /// As [`lead`](Self::lead), without holding a thread while the device computes. It takes in those that queue, and waits for no further
    /// ones: a future has no clock.
    pub async fn lead_async(
        self: &Arc<Self>,
        mut batch: Batch<Request, Result<Given>>,
    ) -> Result<Answer> {
        batch.fill();
        let begun = Instant::now();
        let guarded = |work: &mut dyn FnMut() -> Result<run::Finished>| {
            run::flatten(std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)))
        };
        let mut next =
            guarded(&mut || Running::begin(self, batch.jobs()).map(run::Finished::Again));
        let result = loop {
            match next {
                Ok(run::Finished::Answers(answers)) => break Ok(answers),
                Ok(run::Finished::Again(running)) => {
                    batch.set_suspended(true);
                    running.ready().await;
                    batch.set_suspended(false);
                    let mut running = Some(running);
                    next = guarded(&mut || match running.take() {
                        Some(running) => running.finish(self, batch.jobs()),
                        None => Ok(run::Finished::Answers(Vec::new())),
                    });
                }
                Err(error) => break Err(error),
            }
        };
        self.answer(batch, begun, result)
    }

    /// Counts rows of calls that have come to their end while so many calls were there, and tries another way to run them when it is time.
    fn count(&self, rows: usize, at_hand: usize, now: Instant) {
        if self.policy.count(rows, at_hand, now)
            && let Mode::Joined(in_flight) = self.policy.mode()
        {
            self.coalescer.set_in_flight(in_flight);
        }
    }

    /// Gives every call of a batch its answer, or all of them the error. Gives the leader's own.
    fn answer(
        self: &Arc<Self>,
        batch: Batch<Request, Result<Given>>,
        begun: Instant,
        result: Result<Vec<Result<Given>>>,
    ) -> Result<Answer> {
        let calls = batch.jobs().len();
        let own = if !self.context.computes_on_host {
            self.count_batch(&batch, begun);
            batch.answer(answers(calls, result), Next::First)
        } else if calls < leaders::MANY {
            self.count_batch(&batch, begun);
            batch.answer(answers(calls, result), Next::Last)
        } else {
            let (own, place) = self.answer_and_keep(batch, begun, result);
            if let Some(place) = place {
                leaders::have_led(self, place);
            }
            own
        };
        self.open(own.unwrap_or_else(|| Err(self.lost(Lost::Leader)))?)
    }

    /// As [`answer`](Self::answer), and gives the place in flight too.
    pub(super) fn answer_and_keep(
        &self,
        batch: Batch<Request, Result<Given>>,
        begun: Instant,
        result: Result<Vec<Result<Given>>>,
    ) -> (Option<Result<Given>>, Option<CallPlace>) {
        self.count_batch(&batch, begun);
        let calls = batch.jobs().len();
        match batch.answer_and_keep(answers(calls, result)) {
            Some((own, place)) => (own, Some(place)),
            None => (None, None),
        }
    }

    /// Counts a batch that has ended.
    fn count_batch(&self, batch: &Batch<Request, Result<Given>>, begun: Instant) {
        let (calls, rows) = (batch.jobs().len(), batch.rows());
        let (at_hand, ended) = (self.coalescer.at_hand(), Instant::now());
        let took = ended.saturating_duration_since(begun);
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.lately.store(nanoseconds, Ordering::Relaxed);
        if self.context.computes_on_host {
            self.policy.note_batch(calls, rows, at_hand, took);
        }
        let entered = || batch.jobs().iter().map(|job| job.entered);
        self.context.counters.batch(entered(), rows, begun, ended);
        self.context.device.profiler().add_joined(entered(), begun, ended);
        self.count(rows, at_hand, ended);
    }

    /// The answer of a call, from what it got of its batch.
    fn open(&self, given: Given) -> Result<Answer> {
        match given {
            Given::Answer(answer) => Ok(answer),
            Given::Part(together, call) => {
                let Some(proof) = self.proof() else { return Err(self.lost(Lost::Leader)) };
                together.answer(&self.context, proof, &[], call)
            }
        }
    }

    /// The plan for a batch of so many rows, if it is ready; else it is asked for. With its size.
    pub(super) fn plan_for(self: &Arc<Self>, rows: usize) -> Option<(usize, Arc<Stage>)> {
        let most = self.most();
        let ready = |at: usize| {
            self.plans[at].get().and_then(Option::as_ref).map(|plan| (SIZES[at], Arc::clone(plan)))
        };
        // Where the host computes, rows for nobody cost as much as others. A GPU has room for them, and each size costs kernels.
        let fits =
            |size: usize| size >= rows && (self.context.computes_on_host || size.is_power_of_two());
        let wanted = SIZES.iter().position(|&size| fits(size))?;
        if let Some(found) = ready(wanted) {
            return Some(found);
        }
        if SIZES[wanted] <= most && self.plans[wanted].get().is_none() && self.may_try(wanted) {
            self.want(1 << wanted);
        }
        // The next larger one, if little of it is for nobody.
        let larger =
            (wanted + 1..SIZES.len()).find(|&at| SIZES[at] <= rows + rows / 3).and_then(ready);
        larger.or_else(|| (1..wanted).rev().find_map(ready))
    }

    fn want(self: &Arc<Self>, sizes: u64) {
        self.wanted.fetch_or(sizes, Ordering::AcqRel);
        self.prepare_behind();
    }

    /// Proves and compiles behind the calls, if nobody does yet. Without a thread for it, calls go on by themselves.
    pub(super) fn prepare_behind(self: &Arc<Self>) {
        if self.preparing.swap(true, Ordering::AcqRel) {
            return;
        }
        // Calls of many shapes would have as many threads. Who finds too many asks again when calls meet the next time.
        let Some(place) = PreparePlace::take(&self.context) else {
            self.preparing.store(false, Ordering::Release);
            return;
        };
        let group = Arc::clone(self);
        let work = move || {
            let _place = place;
            // A panic of an operator must not end the process; the group then stays as it is.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| group.prepare()));
        };
        let spawned = std::thread::Builder::new().name("millstream-batching".into()).spawn(work);
        if spawned.is_err() {
            self.preparing.store(false, Ordering::Release);
        }
    }

    /// Proves, and compiles what is asked for.
    fn prepare(&self) {
        if self.prove().is_ok() {
            loop {
                let wanted = self.wanted.swap(0, Ordering::AcqRel);
                (0..SIZES.len())
                    .filter(|at| wanted & (1 << at) != 0)
                    .for_each(|at| self.compile(at));
                if wanted != 0 {
                    continue;
                }
                self.preparing.store(false, Ordering::Release);
                // Somebody may have asked between the two, and found that this thread still prepares.
                let again = self.wanted.load(Ordering::Acquire) != 0;
                if !again || self.preparing.swap(true, Ordering::AcqRel) {
                    return;
                }
            }
        }
        self.preparing.store(false, Ordering::Release);
    }

    /// The proof, and with it the first plans: so that the first batch finds one.
    pub(super) fn prove(&self) -> &std::result::Result<Proof, Obstacle> {
        if self.proof.get().is_none() {
            let proof = axes::first_proof(&self.context, &self.forms);
            if let Ok(proof) = &proof
                && self.unit().is_none()
            {
                self.context.reserve_lanes();
                self.compile_with(TWO, proof);
                self.first_sizes().for_each(|at| self.compile_with(at, proof));
            }
            let _ = self.proof.set(proof);
        }
        self.proof.get_or_init(|| Err(Obstacle::of("it was not tried")))
    }

    fn compile(&self, at: usize) {
        if let Some(Ok(proof)) = self.proof.get() {
            self.compile_with(at, proof);
        }
    }

    /// Compiles the plan of a size, if the proof holds for it.
    fn compile_with(&self, at: usize, proof: &Proof) {
        let calls = SIZES[at];
        let make = || -> Result<Option<Arc<Stage>>> {
            if !axes::holds(&self.context, &self.forms, proof, calls)? {
                return Ok(None);
            }
            let Some(forms) = axes::forms_of(&self.forms, &proof.inputs, calls) else {
                return Ok(None);
            };
            let joining = axes::joining(&self.forms, &proof.inputs, calls, proof.grows);
            let stage = self.context.program.compile(&self.context.settings, &forms, &joining)?;
            run::rehearse(&self.context, &stage)?;
            Ok(Some(Arc::new(stage)))
        };
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if self.plans[at].get().is_some() {
            return;
        }
        // Before it is made, since that may panic.
        {
            let mut tries = self.tries.lock().unwrap_or_else(PoisonError::into_inner);
            let before = tries[at].map_or(0, |(count, _)| count);
            tries[at] = Some((before.saturating_add(1), Instant::now()));
        }
        let Ok(plan) = make() else { return };
        if let Some(stage) = plan.as_ref().filter(|_| at == TWO) {
            self.limit(stage);
        }
        // Only set here, with the lock held, after it was found empty.
        let _ = self.plans[at].set(plan);
    }

    /// Whether it is time to make a plan that is missing.
    fn may_try(&self, at: usize) -> bool {
        let tried = self.tries.lock().unwrap_or_else(PoisonError::into_inner)[at];
        tried.is_none_or(|(count, last)| {
            count < TRIES && last.elapsed() >= TRY_PAUSE * (1 << (count - 1))
        })
    }

    /// Proves and compiles on the calling thread, as far as nobody has.
    pub fn warm_up(&self) {
        if self.prove().is_err() {
            return;
        }
        if let Some((unit, _)) = self.unit() {
            unit.warm_up();
        } else {
            // A thread that prepares behind the calls may be at it; each plan is made once.
            self.first_sizes().for_each(|at| self.compile(at));
        }
    }

    /// The sizes that are compiled at once: powers of two. Others are when a batch has them.
    fn first_sizes(&self) -> impl Iterator<Item = usize> {
        let most = self.most();
        (1..SIZES.len()).filter(move |&at| SIZES[at] <= most && SIZES[at].is_power_of_two())
    }

    /// Whether calls can be joined.
    pub fn joinable(&self) -> Joinable {
        match self.context.refuted.get() {
            Some(obstacle) => Joinable::of(&self.context, Err(obstacle)),
            None => Joinable::of(&self.context, self.prove().as_ref()),
        }
    }

    /// Whether it is known that calls can be joined.
    fn joins(&self) -> bool {
        matches!(self.proof.get(), Some(Ok(_))) && self.context.refuted.get().is_none()
    }

    /// Whether calls can be joined and how, if that is known.
    pub(super) fn known_proof(&self) -> Option<&std::result::Result<Proof, Obstacle>> {
        self.proof.get()
    }

    /// How calls are joined.
    pub(super) fn proof(&self) -> Option<&Proof> {
        self.proof.get().and_then(|proof| proof.as_ref().ok())
    }

    /// Why calls are not joined, if that is known.
    pub(super) fn obstacle(&self) -> Option<&Obstacle> {
        let refuted = self.context.refuted.get();
        refuted.or_else(|| self.proof.get().and_then(|proof| proof.as_ref().err()))
    }

    /// How many batches may be in flight, if calls are joined now.
    pub(super) fn in_flight(&self) -> Option<usize> {
        match self.policy.mode() {
            Mode::Joined(in_flight) if self.joins() => Some(in_flight),
            Mode::Joined(_) | Mode::Alone => None,
        }
    }
}

/// How many threads of a session prove and compile at a time.
const PREPARING: usize = 2;

/// The right of a thread to prove and compile behind the calls.
pub(super) struct PreparePlace(Arc<Context>);

impl PreparePlace {
    pub(super) fn take(context: &Arc<Context>) -> Option<Self> {
        let more = |count: usize| (count < PREPARING).then_some(count + 1);
        let taken = context.preparing.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then(|| Self(Arc::clone(context)))
    }
}

impl Drop for PreparePlace {
    fn drop(&mut self) {
        self.0.preparing.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The answers of so many calls, or the error for each.
fn answers(
    calls: usize,
    result: Result<Vec<Result<Given>>>,
) -> impl IntoIterator<Item = Result<Given>> {
    result.unwrap_or_else(|error| (0..calls).map(|_| Err(error.clone())).collect())
}

/// What a call that waits for its turn has come to.
pub(in crate::session) fn turn(
    group: &Arc<Group>,
    turn: Turn<Request, Result<Given>>,
) -> Result<std::result::Result<Answer, Batch<Request, Result<Given>>>> {
    match turn {
        Turn::Lead(batch) => Ok(Err(batch)),
        Turn::Answer(Ok(given)) => group.open(given?).map(Ok),
        Turn::Answer(Err(lost)) => Err(group.lost(lost)),
    }
}
