//! The host dialect as a device of the conformance suite.

use millstream_conformance::{Case, Outcome, Target};
use millstream_core::{Op, OpKind, RawBuffer};
use millstream_kernels::{
    FAULT_HEADER_WORDS, Limits, Lowered, Slot, fault_message, fault_record_bytes,
};

use crate::keys::{can_run, is_wide, keys, lower_any, mark};
use crate::library::Library;
use crate::memory::Bytes;
use crate::toolchain::Sanitizer;

/// Commands that a fault record has room for.
const BATCH: usize = 8;

/// The last of the orders in which the runtime lets threads run.
const ADVERSARIAL: i32 = 3;

/// The Commands that a record has notes of, and their codes.
fn noted(record: &Bytes) -> Vec<(usize, u32)> {
    let bytes = record.to_vec(fault_record_bytes(BATCH));
    let words = bytes.as_chunks::<4>().0.iter().map(|word| u32::from_ne_bytes(*word));
    let words: Vec<u32> = words.collect();
    let codes = words[FAULT_HEADER_WORDS..].iter().copied().enumerate();
    let noted: Vec<_> = codes.filter(|(_, code)| *code != 0).collect();
    assert_eq!(words[0], u32::from(!noted.is_empty()), "the flag of {words:?}");
    noted
}

pub struct Host {
    pub library: Library,
    pub limits: Limits,
    kinds: Vec<OpKind>,
}

impl Host {
    pub fn new(library: Library, kinds: Vec<OpKind>) -> Self {
        // ThreadSanitizer follows at most 255 fibers.
        let small = library.toolchain().sanitizer == Sanitizer::Thread;
        let limits = Limits {
            max_threads: if small { 64 } else { 256 },
            shared_bytes: 32 << 10,
            simd_width: 32,
            f64: true,
            matrices: false,
            tensor_cores: true,
            parallel_groups: 4,
        };
        Self { library, limits, kinds }
    }

    /// Compiles the kernels of all fixed cases.
    pub fn prepare(&self) -> Result<usize, String> {
        let (keys, _) = keys(&self.kinds, &self.limits)?;
        self.library.prepare(&keys)?;
        Ok(keys.len())
    }

    /// Runs launches in order.
    ///
    /// # Safety
    ///
    /// The addresses in them are those of buffers that were lowered for.
    pub unsafe fn launch(&self, lowered: &Lowered, order: i32, wide: bool) -> Result<(), String> {
        // Scratch memory starts as garbage.
        let workspace = Bytes::of(&vec![0xcd; lowered.workspace]);
        let faults = Bytes::of(&[0; fault_record_bytes(BATCH)]);
        for launch in &lowered.launches {
            let addresses: Vec<u64> = launch
                .slots
                .iter()
                .map(|slot| match slot {
                    Slot::Address(address) => *address as u64,
                    Slot::Workspace(offset) => (workspace.address() + offset) as u64,
                    Slot::Faults => faults.address() as u64,
                })
                .collect();
            let key = if wide { launch.key.with("WIDE", 1) } else { launch.key };
            let (groups, threads) = (launch.groups, launch.threads);
            // SAFETY: the caller vouches for the addresses; the rest lives until the end of this function.
            unsafe {
                let params = launch.params.as_bytes();
                self.library.run(&key, groups, threads, &addresses, params, order)?;
            }
        }
        match noted(&faults)[..] {
            [] => Ok(()),
            [(index, code)] => Err(format!("{} (command {index})", fault_message(code))),
            ref many => Err(format!("one Command left the notes of many: {many:?}")),
        }
    }

    fn execute(
        &self,
        case: &Case,
        limits: &Limits,
        order: i32,
        wide: bool,
    ) -> Result<Outcome, String> {
        let buffers: Vec<Bytes> = case.buffers.iter().map(|bytes| Bytes::of(bytes)).collect();
        let name = |buffer: usize| RawBuffer {
            address: buffers[buffer].address(),
            bytes: case.buffers[buffer].len(),
        };
        let command = case.command(name).map_err(|error| error.to_string())?;
        let host_bytes = match &case.op {
            Op::Download { target } => vec![0; target.len()],
            _ => case.host.clone(),
        };
        let staging = Bytes::of(&host_bytes);
        let lowered = lower_any(&command, staging.address(), limits)?;
        // SAFETY: the buffers live until the end of this function, and the launches were made for them.
        unsafe { self.launch(&lowered, order, wide)? };
        let buffers = buffers.iter().zip(&case.buffers).map(|(own, first)| own.to_vec(first.len()));
        let host = matches!(case.op, Op::Download { .. }).then(|| staging.to_vec(host_bytes.len()));
        Ok(Outcome { buffers: buffers.collect(), host })
    }
}

impl Host {
    /// Runs twice, with threads in orders as different as they get: every kernel promises the same
    /// bits each time. Some cases count in 64 bits the second time.
    fn run_twice(&self, case: &Case, limits: &Limits) -> Result<Outcome, String> {
        let outcome = self.execute(case, limits, ADVERSARIAL, false)?;
        let (other, wide) = (mark(case) % ADVERSARIAL, is_wide(case));
        if self.execute(case, limits, other, wide)? != outcome {
            return Err(format!(
                "order {other} (wide: {wide}) gives other bits than the first run"
            ));
        }
        Ok(outcome)
    }
}

impl Target for Host {
    fn name(&self) -> &str {
        "host dialect"
    }

    fn supports(&self, kind: OpKind) -> bool {
        self.kinds.contains(&kind) && can_run(kind)
    }

    fn run(&self, case: &Case) -> Result<Outcome, String> {
        self.run_twice(case, &self.limits)
    }
}

/// The same machine with limits of its own, as if it had more processors: kernels are chosen and cut
/// otherwise then.
pub struct Wider<'a> {
    pub host: &'a Host,
    pub limits: Limits,
}

impl Target for Wider<'_> {
    fn name(&self) -> &str {
        "host dialect of a wider device"
    }

    fn supports(&self, kind: OpKind) -> bool {
        self.host.supports(kind)
    }

    fn run(&self, case: &Case) -> Result<Outcome, String> {
        self.host.run_twice(case, &self.limits)
    }
}
