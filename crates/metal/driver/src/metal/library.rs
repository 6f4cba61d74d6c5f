//! Libraries and functions: compiled texts.

use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};

use crate::control::{self, Refusal};
use crate::foundation::{Array, Error, Text, alloc_default, text, write_error};
use crate::gpu::{Program, compile};
use crate::objc::{Block, BlockRef, Raw, Sel, This, autoreleased, class, method, new};

/// `MTLLibrary`.
pub struct Library {
    program: Arc<Program>,
}

/// `MTLFunction`.
pub struct Function {
    pub program: Arc<Program>,
    /// Its place among the program's kernels.
    pub kernel: usize,
}

impl Function {
    pub fn uses_matrices(&self) -> bool {
        self.program.kernels[self.kernel].matrices
    }
}

/// `MTLCompileOptions`. Kernels are compiled as safe math asks for, whatever it says.
#[derive(Default)]
pub struct CompileOptions {
    math_mode: AtomicIsize,
    functions: AtomicIsize,
    version: AtomicUsize,
}

class!(
    /// The class of libraries.
    LIBRARY, "MillstreamLibrary", Library,
    [
        method!(c"newFunctionWithName:", c"@@:@", function, fn(This<Library>, Sel, Option<This<Text>>) -> Raw),
        method!(c"functionNames", c"@@:", names, fn(This<Library>, Sel) -> Raw),
    ]
);

class!(
    /// The class of functions.
    FUNCTION, "MillstreamFunction", Function,
    [method!(c"name", c"@@:", name, fn(This<Function>, Sel) -> Raw)]
);

class!(
    /// MTLCompileOptions.
    COMPILE_OPTIONS, "MTLCompileOptions", CompileOptions,
    [
        method!(c"setMathMode:", c"v@:q", set_math_mode, fn(This<CompileOptions>, Sel, isize)),
        method!(c"mathMode", c"q@:", math_mode, fn(This<CompileOptions>, Sel) -> isize),
        method!(c"setMathFloatingPointFunctions:", c"v@:q", set_functions, fn(This<CompileOptions>, Sel, isize)),
        method!(c"mathFloatingPointFunctions", c"q@:", functions, fn(This<CompileOptions>, Sel) -> isize),
        method!(c"setFastMathEnabled:", c"v@:C", set_fast_math, fn(This<CompileOptions>, Sel, bool)),
        method!(c"setLanguageVersion:", c"v@:Q", set_version, fn(This<CompileOptions>, Sel, usize)),
        method!(c"languageVersion", c"Q@:", version, fn(This<CompileOptions>, Sel) -> usize),
    ],
    alloc: alloc_default::<CompileOptions>
);

const DOMAIN: &str = "MTLLibraryErrorDomain";
/// `MTLLibraryErrorCompileFailure`.
const COMPILE_FAILURE: isize = 3;

/// A compiled text, or the compiler's words; those that a test asked for among them.
fn compiled(mut source: String) -> Result<Program, String> {
    if control::refused(Refusal::Library) {
        return Err("the compiler service was interrupted".to_owned());
    }
    if control::refused(Refusal::Text) {
        source += "\nthis_is_no_type mistake;\n";
    }
    compile(&source, control::language_version())
}

/// What `newLibraryWithSource` does.
///
/// # Safety
///
/// `error` is null or can be written.
pub unsafe fn make(source: Option<This<Text>>, error: *mut Raw) -> Raw {
    match compiled(text(source)) {
        Ok(program) => new(Library { program: Arc::new(program) }).into_raw(),
        Err(message) => {
            // SAFETY: as the caller says.
            unsafe { write_error(error, Error::make(DOMAIN, COMPILE_FAILURE, message, None)) };
            std::ptr::null_mut()
        }
    }
}

/// What `newLibraryWithSource` with a handler does: several are compiled at once.
pub fn begin(source: Option<This<Text>>, handler: BlockRef) {
    let source = text(source);
    std::thread::spawn(move || {
        type Handler = unsafe extern "C" fn(*mut Block, Raw, Raw);
        let made = compiled(source);
        crate::objc::with_pool(|| {
            // SAFETY: a block of this signature, as `newLibraryWithSource` takes it.
            let call = unsafe { std::mem::transmute::<*const (), Handler>(handler.invoke()) };
            let (library, error) = match made {
                Ok(program) => {
                    let library = new(Library { program: Arc::new(program) });
                    (autoreleased(Some(library)), std::ptr::null_mut())
                }
                Err(message) => {
                    let error = Error::make(DOMAIN, COMPILE_FAILURE, message, None);
                    (std::ptr::null_mut(), autoreleased(Some(error)))
                }
            };
            // SAFETY: as above; both are objects of this pool, or null.
            unsafe { call(handler.as_ptr(), library, error) };
        });
    });
}

unsafe extern "C" fn function(this: This<Library>, _: Sel, name: Option<This<Text>>) -> Raw {
    let name = text(name);
    let found = this.program.kernels.iter().position(|kernel| kernel.name == name);
    found.map_or(std::ptr::null_mut(), |kernel| {
        new(Function { program: Arc::clone(&this.program), kernel }).into_raw()
    })
}

unsafe extern "C" fn names(this: This<Library>, _: Sel) -> Raw {
    let names = this.program.kernels.iter().map(|kernel| Text::make(&kernel.name).into()).collect();
    autoreleased(Some(Array::make(names)))
}

unsafe extern "C" fn name(this: This<Function>, _: Sel) -> Raw {
    autoreleased(Some(Text::make(&this.program.kernels[this.kernel].name)))
}

unsafe extern "C" fn set_math_mode(this: This<CompileOptions>, _: Sel, mode: isize) {
    this.math_mode.store(mode, Ordering::Relaxed);
}

unsafe extern "C" fn math_mode(this: This<CompileOptions>, _: Sel) -> isize {
    this.math_mode.load(Ordering::Relaxed)
}

unsafe extern "C" fn set_functions(this: This<CompileOptions>, _: Sel, functions: isize) {
    this.functions.store(functions, Ordering::Relaxed);
}

unsafe extern "C" fn functions(this: This<CompileOptions>, _: Sel) -> isize {
    this.functions.load(Ordering::Relaxed)
}

unsafe extern "C" fn set_fast_math(_: This<CompileOptions>, _: Sel, _: bool) {}

unsafe extern "C" fn set_version(this: This<CompileOptions>, _: Sel, version: usize) {
    this.version.store(version, Ordering::Relaxed);
}

unsafe extern "C" fn version(this: This<CompileOptions>, _: Sel) -> usize {
    this.version.load(Ordering::Relaxed)
}
