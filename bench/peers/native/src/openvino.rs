//! OpenVINO through its C interface, declared here as far as it is used.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{null, null_mut};

use libloading::Library;

use crate::inputs::{Element, Input};
use crate::{Caller, Model, Result};

/// Objects of OpenVINO, seen through pointers only.
enum Object {}
type Handle = *mut Object;
type Status = c_int;

#[repr(C)]
#[derive(Clone, Copy)]
struct Dimension {
    least: i64,
    most: i64,
}

#[repr(C)]
struct PartialShape {
    rank: Dimension,
    dimensions: *mut Dimension,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Shape {
    rank: i64,
    dimensions: *const i64,
}

macro_rules! interface {
    ($($name:ident: $symbol:literal, fn($($argument:ty),* $(; $more:tt)?);)*) => {
        struct Interface {
            error: unsafe extern "C" fn() -> *const c_char,
            request_free: unsafe extern "C" fn(Handle),
            tensor_free: unsafe extern "C" fn(Handle),
            $($name: unsafe extern "C" fn($($argument),* $(, $more)?) -> Status,)*
        }

        impl Interface {
            /// # Safety
            ///
            /// The library is OpenVINO's C interface.
            unsafe fn load(library: &'static Library) -> Result<Self> {
                // SAFETY: passed on; the functions have these types.
                unsafe {
                    Ok(Interface {
                        error: *library.get(b"ov_get_last_err_msg\0")?,
                        request_free: *library.get(b"ov_infer_request_free\0")?,
                        tensor_free: *library.get(b"ov_tensor_free\0")?,
                        $($name: *library.get($symbol)?,)*
                    })
                }
            }
        }
    };
}

interface! {
    core_create: b"ov_core_create\0", fn(*mut Handle);
    read_model: b"ov_core_read_model\0", fn(Handle, *const c_char, *const c_char, *mut Handle);
    reshape: b"ov_model_reshape\0", fn(Handle, *const *const c_char, *const PartialShape, usize);
    compile: b"ov_core_compile_model\0", fn(Handle, Handle, *const c_char, usize, *mut Handle; ...);
    output_count: b"ov_compiled_model_outputs_size\0", fn(Handle, *mut usize);
    request: b"ov_compiled_model_create_infer_request\0", fn(Handle, *mut Handle);
    tensor: b"ov_tensor_create_from_host_ptr\0", fn(c_int, Shape, *mut c_void, *mut Handle);
    set_tensor: b"ov_infer_request_set_tensor\0", fn(Handle, *const c_char, Handle);
    output: b"ov_infer_request_get_output_tensor_by_index\0", fn(Handle, usize, *mut Handle);
    infer: b"ov_infer_request_infer\0", fn(Handle);
    data: b"ov_tensor_data\0", fn(Handle, *mut *mut c_void);
    bytes: b"ov_tensor_get_byte_size\0", fn(Handle, *mut usize);
}

impl Interface {
    fn check(&self, status: Status) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the message ends with a zero.
        let message = unsafe { CStr::from_ptr((self.error)()) }.to_string_lossy().into_owned();
        Err(format!("OpenVINO, status {status}: {message}").into())
    }
}

/// A compiled model. Never freed: the process measures it and ends.
pub struct Compiled {
    interface: Interface,
    model: Handle,
    outputs: usize,
}

// SAFETY: OpenVINO says that requests may be made by several threads at once; the rest is never written again.
unsafe impl Sync for Compiled {}

impl Compiled {
    pub fn open(library: &Path, model: &Path, hint: &str, inputs: &[Input]) -> Result<Self> {
        let (path, hint) = (CString::new(model.as_os_str().as_bytes())?, CString::new(hint)?);
        // A shape without axes is taken for an unknown one; it stays as the model has it.
        let inputs: Vec<&Input> = inputs.iter().filter(|input| !input.shape.is_empty()).collect();
        let mut dimensions: Vec<Vec<Dimension>> = inputs
            .iter()
            .map(|input| {
                input.shape.iter().map(|&size| Dimension { least: size, most: size }).collect()
            })
            .collect();
        let shapes: Vec<PartialShape> = dimensions
            .iter_mut()
            .map(|sizes| PartialShape {
                rank: Dimension { least: sizes.len() as i64, most: sizes.len() as i64 },
                dimensions: sizes.as_mut_ptr(),
            })
            .collect();
        let names: Vec<*const c_char> = inputs.iter().map(|input| input.name.as_ptr()).collect();
        // SAFETY: the library is OpenVINO's, and stays loaded; the functions get pointers that live through the call, and
        // lists of the lengths that are given.
        unsafe {
            let library: &'static Library = Box::leak(Box::new(Library::new(library)?));
            let interface = Interface::load(library)?;
            let check = |status| interface.check(status);
            let (mut core, mut read, mut compiled, mut outputs) =
                (null_mut(), null_mut(), null_mut(), 0);
            check((interface.core_create)(&mut core))?;
            check((interface.read_model)(core, path.as_ptr(), null(), &mut read))?;
            check((interface.reshape)(read, names.as_ptr(), shapes.as_ptr(), names.len()))?;
            // Its own choice would be bf16 where the CPU has it; everybody else computes in f32.
            let (precision, f32) = (c"INFERENCE_PRECISION_HINT".as_ptr(), c"f32".as_ptr());
            let performance = c"PERFORMANCE_HINT".as_ptr();
            let device = c"CPU".as_ptr();
            check((interface.compile)(
                core,
                read,
                device,
                4,
                &mut compiled,
                precision,
                f32,
                performance,
                hint.as_ptr(),
            ))?;
            check((interface.output_count)(compiled, &mut outputs))?;
            Ok(Compiled { interface, model: compiled, outputs })
        }
    }
}

impl Model for Compiled {
    fn caller<'a>(&'a self, inputs: &'a mut [Input]) -> Result<Box<dyn Caller + 'a>> {
        let interface = &self.interface;
        let mut call = Request { model: self, request: null_mut(), tensors: Vec::new() };
        // SAFETY: the model is compiled; inputs outlive the request, and have the type and shape that is said.
        unsafe {
            interface.check((interface.request)(self.model, &mut call.request))?;
            for input in inputs {
                let element = match input.element {
                    Element::F32 => 4,
                    Element::I32 => 9,
                    Element::I64 => 10,
                };
                let shape =
                    Shape { rank: input.shape.len() as i64, dimensions: input.shape.as_ptr() };
                let (mut tensor, mut bytes) = (null_mut(), 0);
                interface.check((interface.tensor)(element, shape, input.data(), &mut tensor))?;
                call.tensors.push(tensor);
                interface.check((interface.bytes)(tensor, &mut bytes))?;
                if bytes != input.bytes {
                    return Err("OpenVINO numbers element types differently".into());
                }
                interface.check((interface.set_tensor)(
                    call.request,
                    input.name.as_ptr(),
                    tensor,
                ))?;
            }
        }
        Ok(Box::new(call))
    }
}

struct Request<'a> {
    model: &'a Compiled,
    request: Handle,
    tensors: Vec<Handle>,
}

impl Caller for Request<'_> {
    fn call(&mut self) -> Result<()> {
        let interface = &self.model.interface;
        // SAFETY: the request is this thread's.
        interface.check(unsafe { (interface.infer)(self.request) })
    }

    fn outputs(&self) -> Result<Vec<&[u8]>> {
        let interface = &self.model.interface;
        let one = |index| {
            let (mut tensor, mut data, mut bytes) = (null_mut(), null_mut(), 0);
            // SAFETY: the tensor is the request's, which keeps its memory until the next call.
            unsafe {
                interface.check((interface.output)(self.request, index, &mut tensor))?;
                interface.check((interface.data)(tensor, &mut data))?;
                interface.check((interface.bytes)(tensor, &mut bytes))?;
                (interface.tensor_free)(tensor);
                Ok(std::slice::from_raw_parts(data.cast_const().cast(), bytes))
            }
        };
        (0..self.model.outputs).map(one).collect()
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        let interface = &self.model.interface;
        // SAFETY: these are the request's, and not used again.
        unsafe {
            (interface.request_free)(self.request);
            for &tensor in &self.tensors {
                (interface.tensor_free)(tensor);
            }
        }
    }
}
