//! Compiles loops for the vector instructions of the machine at hand.

use std::sync::OnceLock;

/// The instructions that a loop may be compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Machine {
    /// What every machine of the architecture has.
    Portable,
    /// 256-bit vectors, fused multiplication and addition, and conversions of `f16`.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 512-bit vectors too.
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
        static MACHINE: OnceLock<Machine> = OnceLock::new();
        *MACHINE.get_or_init(|| {
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c")
            {
                return if is_x86_feature_detected!("avx512f") {
                    Machine::Avx512
                } else {
                    Machine::Avx2
                };
            }
            Machine::Portable
        })
    }
}

/// A loop worth compiling for several machines. `run` and all it calls in the loop must be
/// `#[inline(always)]`, or the loop stays with the instructions of every machine.
pub(super) trait Job {
    fn run(self);
}

/// Runs a job compiled for the machine. Rust never fuses operations by itself, so the bits of a
/// result are the same on each.
#[inline(always)]
pub(super) fn vectorised(job: impl Job) {
    match Machine::detect() {
        Machine::Portable => job.run(),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the features were detected. Wider vectors than these gain little outside of matrix
        // products and lower the clock of some machines.
        Machine::Avx2 | Machine::Avx512 => unsafe { with_avx2(job) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn with_avx2(job: impl Job) {
    job.run();
}
