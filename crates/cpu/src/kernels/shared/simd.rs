//! Compiles loops for the vector instructions of the CPU.

use std::sync::OnceLock;

/// The variable that keeps loops from better instructions than it names.
const SETTING: &str = "MILLSTREAM_ISA";

/// The instructions that a loop may be compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isa {
    /// What every CPU of the architecture has.
    Portable,
    /// 256-bit vectors, fused multiplication and addition, and conversions of `f16`.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 512-bit vectors too, of all common element types.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// All that there are, the best last.
    const ALL: &[Isa] = &[
        Isa::Portable,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512,
    ];

    /// All that the CPU can run, the best last.
    #[cfg(test)]
    pub fn available() -> Vec<Self> {
        let best = Self::detect();
        let count = Self::ALL.iter().position(|&isa| isa == best).unwrap() + 1;
        Self::ALL[..count].to_vec()
    }

    /// The name that settings have for it.
    fn name(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => "avx512",
        }
    }

    /// The one with a name, or what to say of a name that none has.
    fn named(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|isa| isa.name() == name);
        found.copied().ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|isa| isa.name()).collect();
            format!("{SETTING} is `{name}`, which is none of {}", known.join(", "))
        })
    }

    /// The best that may be used, whatever the CPU has.
    ///
    /// # Errors
    ///
    /// A setting that is none.
    pub fn limit() -> Result<Option<Self>, String> {
        match std::env::var(SETTING) {
            Ok(name) => Self::named(&name).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// This one, or the limit if that has less.
    fn limited_to(self, limit: Option<Self>) -> Self {
        let place = |isa: Isa| Self::ALL.iter().position(|&other| other == isa);
        match limit {
            Some(limit) if place(limit) < place(self) => limit,
            _ => self,
        }
    }

    /// The best that this CPU has and the settings allow.
    pub fn detect() -> Self {
        #[cfg(test)]
        if let Some(isa) = FORCED.get() {
            return isa;
        }
        static ISA: OnceLock<Isa> = OnceLock::new();
        // A setting that is none is refused when the device is opened.
        *ISA.get_or_init(|| Self::of_this_cpu().limited_to(Self::limit().unwrap_or_default()))
    }

    fn of_this_cpu() -> Self {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
        {
            let wide = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            return if wide { Isa::Avx512 } else { Isa::Avx2 };
        }
        Isa::Portable
    }
}

#[cfg(test)]
thread_local! {
    static FORCED: std::cell::Cell<Option<Isa>> = const { std::cell::Cell::new(None) };
}

/// Runs a test once on every available ISA, as far as this thread goes.
#[cfg(test)]
pub(crate) fn on_every_isa<R>(mut test: impl FnMut() -> R) -> Vec<R> {
    let one = |isa| {
        FORCED.set(Some(isa));
        let result = test();
        FORCED.set(None);
        result
    };
    Isa::available().into_iter().map(one).collect()
}

/// A SIMD function: a loop that is compiled for several instruction sets. `run` and all it calls in the loop must be
/// `#[inline(always)]`, or the loop is compiled for the instructions that every CPU has.
pub(crate) trait SimdFn {
    fn run(self);
}

/// Runs a function compiled for the ISA of this CPU. The bits of a result are the same on each, since Rust never
/// fuses operations by itself.
#[inline(always)]
pub(crate) fn vectorized(function: impl SimdFn) {
    // SAFETY: the ISA was detected.
    unsafe { vectorized_for(Isa::detect(), function) }
}

/// Runs a function compiled for an ISA.
///
/// # Safety
///
/// The CPU has this ISA.
#[inline(always)]
pub(crate) unsafe fn vectorized_for(isa: Isa, function: impl SimdFn) {
    match isa {
        Isa::Portable => function.run(),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: passed on.
        Isa::Avx2 => unsafe { with_avx2(function) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: passed on.
        Isa::Avx512 => unsafe { with_avx512(function) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn with_avx2(function: impl SimdFn) {
    function.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
fn with_avx512(function: impl SimdFn) {
    function.run();
}

#[cfg(test)]
mod tests;
