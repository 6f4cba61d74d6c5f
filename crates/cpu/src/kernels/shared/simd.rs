//! Compiles loops for the vector instructions of the machine at hand.

use std::sync::OnceLock;

/// The instructions that a loop may be compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Machine {
    /// What every machine of the architecture has.
    Portable,
    /// 256-bit vectors, fused multiplication and addition, and conversions of `f16`.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 512-bit vectors too, of all common element types.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Machine {
    /// All that the machine at hand can run, the best last.
    #[cfg(test)]
    pub fn available() -> Vec<Self> {
        let all = [
            Machine::Portable,
            #[cfg(target_arch = "x86_64")]
            Machine::Avx2,
            #[cfg(target_arch = "x86_64")]
            Machine::Avx512,
        ];
        let best = Self::detect();
        let count = all.iter().position(|&machine| machine == best).unwrap() + 1;
        all[..count].to_vec()
    }

    /// The best that this machine has.
    pub fn detect() -> Self {
        #[cfg(test)]
        if let Some(machine) = FORCED.get() {
            return machine;
        }
        static MACHINE: OnceLock<Machine> = OnceLock::new();
        *MACHINE.get_or_init(|| {
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c")
            {
                let wide = is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl");
                return if wide { Machine::Avx512 } else { Machine::Avx2 };
            }
            Machine::Portable
        })
    }
}

#[cfg(test)]
thread_local! {
    static FORCED: std::cell::Cell<Option<Machine>> = const { std::cell::Cell::new(None) };
}

/// Runs a test once on every available machine, as far as this thread goes.
#[cfg(test)]
pub(crate) fn on_every_machine<R>(mut test: impl FnMut() -> R) -> Vec<R> {
    let one = |machine| {
        FORCED.set(Some(machine));
        let result = test();
        FORCED.set(None);
        result
    };
    Machine::available().into_iter().map(one).collect()
}

/// A loop worth compiling for several machines. `run` and all it calls in the loop must be
/// `#[inline(always)]`, or the loop stays with the instructions of every machine.
pub(crate) trait Job {
    fn run(self);
}

/// Runs a job compiled for the machine. Rust never fuses operations by itself, so the bits of a
/// result are the same on each.
#[inline(always)]
pub(crate) fn vectorised(job: impl Job) {
    // SAFETY: the machine was detected.
    unsafe { vectorised_for(Machine::detect(), job) }
}

/// Runs a job compiled for a machine.
///
/// # Safety
///
/// The machine at hand is this one or a better one.
#[inline(always)]
pub(crate) unsafe fn vectorised_for(machine: Machine, job: impl Job) {
    match machine {
        Machine::Portable => job.run(),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: passed on.
        Machine::Avx2 => unsafe { with_avx2(job) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: passed on.
        Machine::Avx512 => unsafe { with_avx512(job) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn with_avx2(job: impl Job) {
    job.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
fn with_avx512(job: impl Job) {
    job.run();
}

#[cfg(test)]
mod tests;
