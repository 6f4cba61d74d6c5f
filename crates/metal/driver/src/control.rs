//! What tests tell the driver: seeds, faults, features.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

pub use crate::objc::living;
pub use crate::own_time::{own_time, start as start_own_time};
use crate::rules::{Rule, violation};

/// Breaks a rule if objects live: for the end of a program that has closed everything. Command buffers go when their
/// handlers have run, which may be a little later, so it waits that long.
pub fn expect_nothing_left(wait: Duration) {
    expect_left(&[], wait);
}

/// Breaks a rule unless what lives is what a program keeps: names of Metal's protocols, such as `MTLBuffer`, with their number.
/// Waits as long as it says for what is about to go.
pub fn expect_left(kept: &[(&str, usize)], wait: Duration) {
    let left = || -> Vec<String> {
        let mut classes: BTreeMap<String, i64> =
            living().into_iter().map(|(class, count)| (class.to_owned(), count)).collect();
        for (name, count) in kept {
            let class = name.replacen("MTL", "Millstream", 1);
            *classes.entry(class).or_default() -= i64::try_from(*count).unwrap_or(i64::MAX);
        }
        let wrong = classes.into_iter().filter(|(_, count)| *count != 0);
        wrong.map(|(class, count)| format!("{count} of {class}")).collect()
    };
    let until = std::time::Instant::now() + wait;
    while !left().is_empty() && std::time::Instant::now() < until {
        std::thread::yield_now();
    }
    let left = left();
    if !left.is_empty() {
        violation(Rule::ObjectsLeft, left.join(", "));
    }
}

/// An enum with a list of all that it can be, for tests that provoke each.
macro_rules! listed {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident $(= $code:literal)?,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(i64)]
        pub enum $name { $($(#[$doc])* $variant $(= $code)?,)* }

        impl $name {
            /// All of them.
            pub const ALL: &[$name] = &[$($name::$variant,)*];
        }
    };
}

listed! {
/// `MTLCommandBufferError`, as far as a queue can have one.
CommandBufferError {
    /// The GPU had an error of its own.
    Internal = 1,
    /// Execution took too long.
    Timeout = 2,
    /// Memory that is not there was used.
    PageFault = 3,
    /// Another process or a policy took the GPU away.
    AccessRevoked = 4,
    /// The process may not use the GPU.
    NotPermitted = 7,
    /// There is not enough memory to run it.
    OutOfMemory = 8,
    /// A resource is invalid.
    InvalidResource = 9,
    /// Memory of tiles is lacking, which only drawing needs.
    Memoryless = 10,
    /// The GPU was removed.
    DeviceRemoved = 11,
    /// A kernel's stack overflowed.
    StackOverflow = 12,
}
}

/// What happens to a command buffer that a queue takes up.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It fails before it runs. The second number is the code of the kernel driver, which comes as underlying error.
    Fail(CommandBufferError, Option<i64>),
    /// The same, with an underlying error of this domain.
    FailBelow(CommandBufferError, &'static str, i64),
    /// The same, with these words, in which the code of the kernel driver may be.
    FailSaying(CommandBufferError, &'static str),
    /// It fails when it has run half of its encoders.
    FailHalfway(CommandBufferError),
    /// It takes so much longer.
    Hang(Duration),
}

listed! {
/// What the device refuses next.
Refusal {
    /// A command queue.
    Queue,
    /// A buffer.
    Buffer,
    /// A shared event.
    Event,
    /// A pipeline.
    Pipeline,
    /// A library: the compiler fails with a text of its own.
    Library,
    /// A residency set.
    ResidencySet,
    /// A command buffer.
    CommandBuffer,
    /// An encoder.
    Encoder,
    /// A fence.
    Fence,
    /// A counter sample buffer.
    SampleBuffer,
    /// A binary archive, or what is to be added to one.
    Archive,
    /// An indirect command buffer.
    IndirectCommandBuffer,
    /// The file of a binary archive.
    ArchiveFile,
    /// A text: the compiler finds a mistake in its last line.
    Text,
}
}

static SEED: AtomicU64 = AtomicU64::new(0);
static FAULTS: Mutex<VecDeque<Fault>> = Mutex::new(VecDeque::new());
static REFUSALS: Mutex<Vec<(Refusal, usize)>> = Mutex::new(Vec::new());
static LOST: AtomicBool = AtomicBool::new(false);
static ABSENT: AtomicBool = AtomicBool::new(false);
static PARAVIRTUAL: AtomicBool = AtomicBool::new(false);
static AT_ONCE: AtomicBool = AtomicBool::new(false);
static QUEUE_MILLIS: AtomicU64 = AtomicU64::new(5000);
static COMPILER: Compiler =
    Compiler { held: Mutex::new(false), released: Condvar::new(), waiting: AtomicUsize::new(0) };
static SIMD_WIDTH: AtomicUsize = AtomicUsize::new(32);
static MAX_THREADS: AtomicUsize = AtomicUsize::new(1024);
static SYSTEM: Mutex<(isize, isize)> = Mutex::new((15, 0));
static WORKING_SET: AtomicUsize = AtomicUsize::new(4 << 30);
static CORES: AtomicU32 = AtomicU32::new(10);
static ARCHIVE_HITS: AtomicUsize = AtomicUsize::new(0);
static INTEL: AtomicBool = AtomicBool::new(false);

/// Queues, handlers and dispatches lose time at random from now on. 0 stops it. `METAL_DRIVER_SEED` says the same.
pub fn set_seed(seed: u64) {
    SEED.store(seed, Ordering::Relaxed);
}

pub(crate) fn seed() -> u64 {
    static FROM_ENVIRONMENT: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    let given = FROM_ENVIRONMENT.get_or_init(|| {
        std::env::var("METAL_DRIVER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0)
    });
    match SEED.load(Ordering::Relaxed) {
        0 => *given,
        seed => seed,
    }
}

/// The next command buffer that any queue takes up has this fault.
pub fn fault_next(fault: Fault) {
    lock(&FAULTS).push_back(fault);
}

pub(crate) fn take_fault() -> Option<Fault> {
    lock(&FAULTS).pop_front()
}

/// The device refuses the next such thing.
pub fn refuse_next(refusal: Refusal) {
    refuse_later(refusal, 0);
}

/// The device refuses such a thing once, after it has given so many.
pub fn refuse_later(refusal: Refusal, after: usize) {
    lock(&REFUSALS).push((refusal, after));
}

pub(crate) fn refused(refusal: Refusal) -> bool {
    let mut refusals = lock(&REFUSALS);
    let Some(found) = refusals.iter().position(|(other, _)| *other == refusal) else {
        return false;
    };
    let (_, after) = &mut refusals[found];
    if *after == 0 {
        refusals.remove(found);
        return true;
    }
    *after -= 1;
    false
}

/// The device goes: every command buffer fails as removed until it is there again.
pub fn set_lost(lost: bool) {
    LOST.store(lost, Ordering::Release);
}

pub(crate) fn lost() -> bool {
    LOST.load(Ordering::Acquire)
}

/// There is no device at all.
pub fn set_absent(absent: bool) {
    ABSENT.store(absent, Ordering::Release);
}

pub(crate) fn absent() -> bool {
    ABSENT.load(Ordering::Acquire)
}

/// The device is that of a hosted machine: no residency sets, counters, archives or newer GPU families.
pub fn set_paravirtual(paravirtual: bool) {
    PARAVIRTUAL.store(paravirtual, Ordering::Release);
}

pub(crate) fn paravirtual() -> bool {
    PARAVIRTUAL.load(Ordering::Acquire)
}

/// Command buffers complete before `commit` returns, on the calling thread, and kernels do not run: for measuring what the caller
/// itself costs. What waits for an event waits there.
pub fn set_at_once(at_once: bool) {
    AT_ONCE.store(at_once, Ordering::Release);
}

pub(crate) fn at_once() -> bool {
    AT_ONCE.load(Ordering::Acquire)
}

/// A second device with the features of now, and one reference. Programs get theirs from Metal; this is for tests that
/// need one while another lives.
pub fn another_device() -> *mut std::ffi::c_void {
    crate::metal::another_device().cast()
}

/// How long a call waits for a place in a full queue before that counts as a wait without end.
pub fn set_queue_timeout(timeout: Duration) {
    QUEUE_MILLIS.store(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

pub(crate) fn queue_timeout() -> Duration {
    Duration::from_millis(QUEUE_MILLIS.load(Ordering::Relaxed))
}

/// A compiler that can be held.
struct Compiler {
    held: Mutex<bool>,
    released: Condvar,
    waiting: AtomicUsize,
}

/// Whatever is compiled takes until the compiler is no longer held.
pub fn hold_compiler(held: bool) {
    *lock(&COMPILER.held) = held;
    COMPILER.released.notify_all();
}

/// How many texts wait for a compiler that is held.
pub fn waiting_texts() -> usize {
    COMPILER.waiting.load(Ordering::Acquire)
}

pub(crate) fn wait_for_compiler() {
    COMPILER.waiting.fetch_add(1, Ordering::AcqRel);
    let held = COMPILER.released.wait_while(lock(&COMPILER.held), |held| *held);
    drop(held.unwrap_or_else(|poisoned| poisoned.into_inner()));
    COMPILER.waiting.fetch_sub(1, Ordering::AcqRel);
}

/// Whether one pipeline is held.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    No,
    /// The next one will be.
    Next,
    Yes,
}

static PIPELINE: (Mutex<Held>, Condvar) = (Mutex::new(Held::No), Condvar::new());

/// The next pipeline takes until it is no longer held. Others do not wait.
pub fn hold_next_pipeline() {
    *lock(&PIPELINE.0) = Held::Next;
}

/// No pipeline is held any more.
pub fn release_pipeline() {
    *lock(&PIPELINE.0) = Held::No;
    PIPELINE.1.notify_all();
}

/// Whether a pipeline waits.
pub fn is_pipeline_held() -> bool {
    *lock(&PIPELINE.0) == Held::Yes
}

pub(crate) fn wait_for_pipeline() {
    let mut held = lock(&PIPELINE.0);
    if *held == Held::Next {
        *held = Held::Yes;
        drop(PIPELINE.1.wait_while(held, |held| *held == Held::Yes));
    }
}

/// Pipelines have SIMD groups of so many threads, and groups of so many at most, as they say.
pub fn set_pipeline_limits(simd_width: usize, max_threads: usize) {
    SIMD_WIDTH.store(simd_width, Ordering::Relaxed);
    MAX_THREADS.store(max_threads, Ordering::Relaxed);
}

pub(crate) fn simd_width() -> usize {
    SIMD_WIDTH.load(Ordering::Relaxed)
}

pub(crate) fn max_threads() -> usize {
    MAX_THREADS.load(Ordering::Relaxed)
}

/// The version of macOS that programs see; 15.0 unless set. The compiler knows the language of that version.
pub fn set_system_version(major: isize, minor: isize) {
    *lock(&SYSTEM) = (major, minor);
}

pub(crate) fn system_version() -> (isize, isize) {
    *lock(&SYSTEM)
}

/// As the system writes it, with its build.
pub(crate) fn system_text() -> String {
    let (major, minor) = system_version();
    format!("Version {major}.{minor} (Build {}A{minor})", major + 9)
}

/// Pipelines that were found in a binary archive since the process began.
pub fn archive_hits() -> usize {
    ARCHIVE_HITS.load(Ordering::Relaxed)
}

pub(crate) fn count_archive_hit() {
    ARCHIVE_HITS.fetch_add(1, Ordering::Relaxed);
}

/// As in `__METAL_VERSION__`.
pub(crate) fn language_version() -> u32 {
    match system_version().0 {
        ..=13 => 300,
        14 => 310,
        _ => 320,
    }
}

/// What all buffers together should stay below, as devices say; 4 GB unless set.
pub fn set_working_set(bytes: usize) {
    WORKING_SET.store(bytes, Ordering::Relaxed);
}

pub(crate) fn working_set() -> usize {
    WORKING_SET.load(Ordering::Relaxed)
}

/// GPU cores that the I/O registry says there are; 0: it has no GPU; `u32::MAX`: it has one and does not know.
pub fn set_registry_cores(cores: u32) {
    CORES.store(cores, Ordering::Relaxed);
}

pub(crate) fn registry_cores() -> u32 {
    CORES.load(Ordering::Relaxed)
}

/// The device is that of an Intel Mac: of none of Apple's families, with memory of its own.
pub fn set_intel(intel: bool) {
    INTEL.store(intel, Ordering::Release);
}

pub(crate) fn intel() -> bool {
    INTEL.load(Ordering::Acquire)
}

static RESIDENCY_REQUESTS: AtomicU64 = AtomicU64::new(0);

/// How often residency sets were asked to be resident.
pub fn residency_requests() -> u64 {
    RESIDENCY_REQUESTS.load(Ordering::Acquire)
}

pub(crate) fn count_residency_request() {
    RESIDENCY_REQUESTS.fetch_add(1, Ordering::Release);
}

/// Asking a residency set to be resident takes so long: a set is large, and the system may have to make room.
pub fn set_residency_time(time: Duration) {
    RESIDENCY_MILLIS.store(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

static RESIDENCY_MILLIS: AtomicU64 = AtomicU64::new(0);

pub(crate) fn residency_time() -> Duration {
    Duration::from_millis(RESIDENCY_MILLIS.load(Ordering::Relaxed))
}

/// Handlers get another object for their command buffer than the one that was committed, as layers for debugging and captures may
/// have it.
pub fn set_layered(layered: bool) {
    LAYERED.store(layered, Ordering::Release);
}

static LAYERED: AtomicBool = AtomicBool::new(false);

pub(crate) fn layered() -> bool {
    LAYERED.load(Ordering::Acquire)
}

/// Command buffers that were committed, in all.
pub fn commits() -> u64 {
    COMMITS.load(Ordering::Acquire)
}

static COMMITS: AtomicU64 = AtomicU64::new(0);

pub(crate) fn count_commit() {
    COMMITS.fetch_add(1, Ordering::Release);
}

/// Compiles a text without running it, as strictly as Metal would. Gives the group memory of each of its kernels.
///
/// # Errors
///
/// The compiler's words, or what Metal would not take.
pub fn check_text(source: &str) -> Result<Vec<(String, usize)>, String> {
    crate::gpu::check(source, language_version())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
