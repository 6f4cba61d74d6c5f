//! The rules of Metal that this driver checks.
//!
//! A call that breaks a rule does nothing, is counted, and is reported on standard error. With
//! `METAL_DRIVER_ABORT=1` the process ends there, with a core for a debugger.

use std::fmt;
use std::sync::Mutex;

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A rule.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Rule { $($(#[$doc])* $name,)* }

        impl Rule {
            /// All of them. A test provokes each.
            pub const ALL: &[Rule] = &[$(Rule::$name,)*];
        }
    };
}

rules! {
    /// A message goes to an object that exists, and that knows it.
    UnknownMessage,
    /// No message goes to a deallocated object.
    DeallocatedReceiver,
    /// No object is released more often than it was retained.
    OverRelease,
    /// An object is autoreleased only where a pool is in place.
    AutoreleaseWithoutPool,
    /// A pool is popped by the thread that pushed it.
    ForeignPool,
    /// Objects are gone when the device goes.
    ObjectsLeft,
    /// A command buffer has one open encoder at a time.
    SecondEncoder,
    /// A command buffer is used by one thread at a time.
    CommandBufferShared,
    /// Nothing is encoded, added or committed after the commit.
    AfterCommit,
    /// A command buffer is committed with no open encoder.
    CommitWithEncoder,
    /// An encoder is ended before it is deallocated.
    EncoderNotEnded,
    /// Nothing is encoded after `endEncoding`.
    AfterEndEncoding,
    /// Events are encoded between encoders, not inside.
    EventInsideEncoder,
    /// Every buffer index that a kernel reads is bound.
    NothingBound,
    /// An offset lies inside its buffer.
    OffsetOutside,
    /// A buffer offset is a multiple of 4.
    OffsetAlignment,
    /// A buffer index is below 31.
    BufferIndex,
    /// `setBytes` takes 1 to 4096 bytes.
    BytesLength,
    /// A dispatch needs a pipeline.
    NoPipeline,
    /// A group has at most as many threads as its pipeline allows.
    TooManyThreads,
    /// A group is a multiple of the SIMD width.
    GroupNotMultiple,
    /// A dispatch has at least one group and one thread.
    EmptyDispatch,
    /// A pipeline has at most 32 KB of group memory.
    GroupMemory,
    /// A buffer lives until the command buffers that use it are through.
    BufferReleasedInFlight,
    /// A pipeline lives until the command buffers that use it are through.
    PipelineReleasedInFlight,
    /// Memory that is private to the GPU is not read or written by the CPU.
    PrivateContents,
    /// A buffer is at most `maxBufferLength` long, and not empty.
    BufferLength,
    /// Memory that is wrapped without a copy is aligned to pages.
    NoCopyAlignment,
    /// The pages that a buffer wraps are there as long as the buffer.
    NoCopyPagesGone,
    /// What a command buffer uses is resident, where its queue has residency sets.
    NotResident,
    /// A queue has at most 32 residency sets.
    TooManyResidencySets,
    /// What is added to a residency set counts after `commit`.
    ResidencyNotCommitted,
    /// A residency set is used by one thread at a time.
    ResidencySetShared,
    /// A command buffer beyond the queue's cap waits for another to complete. Nobody may wait for itself.
    QueueFull,
    /// `waitUntilCompleted` comes after `commit`.
    WaitBeforeCommit,
    /// A shared event only rises.
    EventGoesBack,
    /// All threads of a group reach a barrier, and all lanes a SIMD operation.
    DivergentBarrier,
    /// A copy or fill lies inside its buffers and is aligned to 4 bytes.
    CopyOutside,
    /// A fence is waited for before it is updated in one encoder.
    FenceOrder,
    /// A heap's buffers lie inside it, at offsets that are aligned.
    HeapPlacement,
    /// A counter index lies inside its sample buffer.
    SampleIndex,
    /// A command, a range of commands and a buffer index lie inside of what an indirect command buffer was made for.
    IndirectIndex,
    /// An indirect command is of a kind that its buffer was made for, and sets what it does not inherit.
    IndirectKind,
    /// A pipeline of an indirect command was made for such commands.
    IndirectPipeline,
    /// What an indirect command names is declared to the encoder that runs it, or resident.
    IndirectNotDeclared,
    /// An indirect command buffer is neither changed nor released before the command buffers that use it are through.
    IndirectInFlight,
    /// A feature is used only on devices that have it.
    NoSuchFeature,
    /// Strings are UTF-8.
    StringEncoding,
}

/// A rule that was broken.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// What was done.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.text)
    }
}

static VIOLATIONS: Mutex<Vec<Violation>> = Mutex::new(Vec::new());

pub(crate) fn violation(rule: Rule, text: impl fmt::Display) {
    let violation = Violation { rule, text: text.to_string() };
    eprintln!("metal driver: {violation}");
    VIOLATIONS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(violation);
    if std::env::var_os("METAL_DRIVER_ABORT").is_some() {
        std::process::abort();
    }
}

/// The violations since the last call.
pub fn take() -> Vec<Violation> {
    std::mem::take(&mut *VIOLATIONS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

/// How many there are that nobody has taken.
pub fn count() -> usize {
    VIOLATIONS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).len()
}
