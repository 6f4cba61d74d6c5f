//! Apple's compiler: from texts to libraries, and from these to pipelines.
//!
//! Calls that create libraries and pipelines go one at a time, since drivers have had races there. They return before the
//! compiler is through, which works on several of them at once; what takes long is waited for with no lock held.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use block2::RcBlock;
use objc2::rc::Retained;
use objc2::runtime::NSObjectProtocol;
use objc2::sel;
use objc2_foundation::{NSError, NSString};
use objc2_metal::{
    MTLCompileOptions, MTLComputePipelineDescriptor, MTLComputePipelineReflection,
    MTLComputePipelineState, MTLDevice, MTLLanguageVersion, MTLLibrary,
    MTLMathFloatingPointFunctions, MTLMathMode, MTLPipelineOption,
};

use crate::archive::{Archive, Archives};
use crate::objects::{Obj, Ref, pooled};
use crate::system::{Features, Version};

/// A compiler that has not answered for so long never will.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Threads of a SIMD group, which kernels are written for.
const SIMD_WIDTH: usize = 32;

/// The compiler of a device.
pub(crate) struct Compiler {
    device: Obj<dyn MTLDevice>,
    features: Features,
    archives: Archives,
    /// Pipelines may be used by indirect commands.
    indirect: bool,
    creating: Mutex<()>,
    /// Held while something is added to an archive, which is compiled for it there and then. Only who asks for archives has some.
    adding: Mutex<()>,
}

/// A library that is being compiled.
pub(crate) struct Pending<'a> {
    answer: Arc<Answer<dyn MTLLibrary>>,
    archive: Archive<'a>,
}

/// A compiled text.
pub(crate) struct Library<'a> {
    library: Obj<dyn MTLLibrary>,
    archive: Archive<'a>,
}

impl Library<'_> {
    /// All pipelines that are wanted of it were made: they are kept for the next process.
    pub fn keep(self) {
        self.archive.keep();
    }
}

/// What the compiler will say, in a handler.
struct Answer<T: ?Sized> {
    result: Mutex<Option<Result<Obj<T>, String>>>,
    given: Condvar,
}

impl<T: ?Sized> Default for Answer<T> {
    fn default() -> Self {
        Self { result: Mutex::default(), given: Condvar::new() }
    }
}

impl Compiler {
    /// The compiler of a device, with binary archives and pipelines for indirect commands if they are wanted.
    pub fn new(
        device: &Obj<dyn MTLDevice>,
        features: Features,
        archives: bool,
        indirect: bool,
    ) -> Self {
        // It came with macOS 13.3, and a message that nobody knows ends the process.
        if device.respondsToSelector(sel!(setShouldMaximizeConcurrentCompilation:)) {
            device.setShouldMaximizeConcurrentCompilation(true);
        }
        let archives = match archives {
            true => Archives::new(device, &features),
            false => Archives::default(),
        };
        let (creating, adding) = Default::default();
        Self { device: device.clone(), features, archives, indirect, creating, adding }
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.creating.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No fast math, and functions as precise as they come: fast ones are the default even of safe math.
    fn options(&self) -> Retained<MTLCompileOptions> {
        let options = MTLCompileOptions::new();
        let Version { major, .. } = self.features.version;
        if major >= 15 {
            options.setMathMode(MTLMathMode::Safe);
            options.setMathFloatingPointFunctions(MTLMathFloatingPointFunctions::Precise);
        } else {
            #[expect(deprecated, reason = "there is nothing else before macOS 15")]
            options.setFastMathEnabled(false);
        }
        options.setLanguageVersion(match major {
            ..=13 => MTLLanguageVersion::Version3_0,
            14 => MTLLanguageVersion::Version3_1,
            _ => MTLLanguageVersion::Version3_2,
        });
        options
    }

    /// Begins to compile a text.
    pub fn begin(&self, text: &str) -> Pending<'_> {
        let archive = self.archives.of(&self.device, text);
        let answer = Arc::<Answer<dyn MTLLibrary>>::default();
        let own = Arc::clone(&answer);
        let handler =
            RcBlock::new(move |library: *mut Ref<dyn MTLLibrary>, error: *mut NSError| {
                // SAFETY: Metal passes a library or null, and an error or null. There may be warnings beside a library.
                unsafe { own.give(library, error) };
            });
        pooled(|| {
            let (text, options) = (NSString::from_str(text), self.options());
            let _turn = self.turn();
            // SAFETY: Metal copies the block, and what it holds may go to any thread.
            unsafe {
                self.device.newLibraryWithSource_options_completionHandler(
                    &text,
                    Some(&options),
                    RcBlock::as_ptr(&handler),
                );
            }
        });
        Pending { answer, archive }
    }

    /// The pipeline of a kernel that is launched with groups of so many threads.
    ///
    /// # Errors
    ///
    /// What Metal said, or what does not fit.
    pub fn pipeline(
        &self,
        Library { library, archive }: &Library<'_>,
        name: &str,
        threads: u32,
    ) -> Result<Obj<dyn MTLComputePipelineState>, String> {
        pooled(|| {
            let found = library.newFunctionWithName(&NSString::from_str(name));
            let function = found.ok_or_else(|| format!("the library has no kernel {name}"))?;
            let descriptor = MTLComputePipelineDescriptor::new();
            descriptor.setComputeFunction(Some(&function));
            // SAFETY: every launch has groups of whole SIMD groups.
            unsafe { descriptor.setThreadGroupSizeIsMultipleOfThreadExecutionWidth(true) };
            if self.indirect {
                descriptor.setSupportIndirectCommandBuffers(true);
            }
            archive.offer(&descriptor);
            let answer = Arc::<Answer<dyn MTLComputePipelineState>>::default();
            let own = Arc::clone(&answer);
            let handler = RcBlock::new(
                move |pipeline: *mut Ref<dyn MTLComputePipelineState>,
                      _: *mut MTLComputePipelineReflection,
                      error: *mut NSError| {
                    // SAFETY: Metal passes a pipeline or null, and an error or null.
                    unsafe { own.give(pipeline, error) };
                },
            );
            let turn = self.turn();
            // SAFETY: Metal copies the block, and what it holds may go to any thread.
            unsafe {
                self.device.newComputePipelineStateWithDescriptor_options_completionHandler(
                    &descriptor,
                    MTLPipelineOption::empty(),
                    RcBlock::as_ptr(&handler),
                );
            }
            drop(turn);
            let pipeline = answer.wait()?;
            let width = pipeline.threadExecutionWidth();
            if width != SIMD_WIDTH {
                return Err(format!("SIMD groups have {width} threads here, not {SIMD_WIDTH}"));
            }
            let most = pipeline.maxTotalThreadsPerThreadgroup();
            if most < threads as usize {
                return Err(format!("its groups have at most {most} threads, not {threads}"));
            }
            let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
            archive.add(&descriptor);
            Ok(pipeline)
        })
    }
}

impl<T: ?Sized> Answer<T> {
    /// Called by a handler.
    ///
    /// # Safety
    ///
    /// Both are objects, or null.
    unsafe fn give(&self, made: *mut Ref<T>, error: *mut NSError) {
        pooled(|| {
            // SAFETY: as the caller says.
            let (made, error) = unsafe { (Retained::retain(made), error.as_ref()) };
            let words = || match error {
                Some(error) => error.localizedDescription().to_string(),
                None => "the compiler gave no reason".into(),
            };
            let result = made.ok_or_else(words);
            *self.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            self.given.notify_all();
        });
    }
}

impl<'a> Pending<'a> {
    /// The library.
    ///
    /// # Errors
    ///
    /// What the compiler said.
    pub fn wait(self) -> Result<Library<'a>, String> {
        let Self { answer, archive } = self;
        answer.wait().map(|library| Library { library, archive })
    }
}

impl<T: ?Sized> Answer<T> {
    fn wait(&self) -> Result<Obj<T>, String> {
        let until = Instant::now() + TIMEOUT;
        let mut result = self.result.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(result) = result.take() {
                return result;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!("the compiler has not answered for {TIMEOUT:?}"));
            }
            result =
                self.given.wait_timeout(result, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
