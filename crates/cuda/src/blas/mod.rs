//! cuBLASLt: matrix products, with one handle and workspace per queue.

mod problem;

use std::collections::HashMap;
use std::ffi::{CStr, c_void};

use cudarc::cublaslt::sys::{self, cublasStatus_t};
use millstream_core::DType;
use millstream_gpu::{Failure, Memory};

pub(crate) use problem::{Matrix, Problem, Product, map};

use crate::driver::{DeviceMemory, Stream};
use crate::gpu::Gpu;

/// Products that a queue remembers the algorithm of; beyond that it starts anew.
const REMEMBERED: usize = 512;

/// The only way in which parts of a sum are added up: with all bits, and in an order of their own.
const COMPUTE_TYPE_REDUCTION: u32 =
    sys::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE as u32;

/// What a queue needs for products.
pub(crate) struct Blas {
    handle: sys::cublasLtHandle_t,
    workspace: Option<DeviceMemory>,
    tf32: bool,
    known: HashMap<Problem, Option<usize>>,
    prepared: Vec<Prepared>,
}

// SAFETY: handle and descriptors are used by one thread at a time, which the queue's lock sees to.
unsafe impl Send for Blas {}

/// A product's descriptors and algorithm. Only addresses are missing.
struct Prepared {
    operation: Descriptor,
    first: MatrixLayout,
    second: MatrixLayout,
    added: MatrixLayout,
    result: MatrixLayout,
    algorithm: sys::cublasLtMatmulAlgo_t,
    workspace: usize,
    wide: bool,
}

struct Descriptor(sys::cublasLtMatmulDesc_t);
struct MatrixLayout(sys::cublasLtMatrixLayout_t);
struct Preference(sys::cublasLtMatmulPreference_t);

/// A product that can be run as soon as its stream is there.
#[derive(Clone, Copy)]
pub(crate) struct PreparedProduct {
    index: usize,
    first: usize,
    second: usize,
    added: usize,
    result: usize,
    /// 0 where there is none.
    bias: usize,
    scale: f32,
    /// What `added` is multiplied with.
    share: f32,
}

fn check(call: &'static str, status: cublasStatus_t) -> Result<(), Failure> {
    if status == cublasStatus_t::CUBLAS_STATUS_SUCCESS {
        return Ok(());
    }
    // SAFETY: gives a constant text for any status.
    let text = unsafe { CStr::from_ptr(sys::cublasLtGetStatusString(status)) };
    Err(Failure::new(call, format!("{status:?}"), text.to_string_lossy()))
}

impl Descriptor {
    fn new(dtype: DType, tf32: bool) -> Result<Self, Failure> {
        use sys::cublasComputeType_t::*;
        use sys::cudaDataType_t::*;
        let (compute, scale) = match dtype {
            DType::F64 => (CUBLAS_COMPUTE_64F, CUDA_R_64F),
            DType::F32 if tf32 => (CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F),
            _ => (CUBLAS_COMPUTE_32F, CUDA_R_32F),
        };
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is a place for the result.
        check("cublasLtMatmulDescCreate", unsafe {
            sys::cublasLtMatmulDescCreate(&mut raw, compute, scale)
        })?;
        Ok(Self(raw))
    }

    fn set<T>(&self, which: sys::cublasLtMatmulDescAttributes_t, value: T) -> Result<(), Failure> {
        // SAFETY: the descriptor lives as long as its owner, and the value is of the attribute's type, as
        // every caller sees to.
        check("cublasLtMatmulDescSetAttribute", unsafe {
            let value = (&raw const value).cast();
            sys::cublasLtMatmulDescSetAttribute(self.0, which, value, size_of::<T>())
        })
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: created above and destroyed only here.
        unsafe { sys::cublasLtMatmulDescDestroy(self.0) };
    }
}

impl MatrixLayout {
    fn new(matrix: &Matrix, dtype: DType, batch: i32) -> Result<Self, Failure> {
        use sys::cublasLtMatrixLayoutAttribute_t::*;
        let mut raw = std::ptr::null_mut();
        let kind = data_type(dtype);
        // SAFETY: `raw` is a place for the result.
        check("cublasLtMatrixLayoutCreate", unsafe {
            let (rows, columns) = (matrix.rows, matrix.columns);
            sys::cublasLtMatrixLayoutCreate(&mut raw, kind, rows, columns, matrix.leading)
        })?;
        let layout = Self(raw);
        if batch > 1 {
            layout.set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batch)?;
            layout.set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, matrix.batch_stride)?;
        }
        Ok(layout)
    }

    fn set<T>(&self, which: sys::cublasLtMatrixLayoutAttribute_t, value: T) -> Result<(), Failure> {
        // SAFETY: as for descriptors.
        check("cublasLtMatrixLayoutSetAttribute", unsafe {
            let value = (&raw const value).cast();
            sys::cublasLtMatrixLayoutSetAttribute(self.0, which, value, size_of::<T>())
        })
    }
}

impl Drop for MatrixLayout {
    fn drop(&mut self) {
        // SAFETY: created above and destroyed only here.
        unsafe { sys::cublasLtMatrixLayoutDestroy(self.0) };
    }
}

impl Preference {
    fn new(problem: &Problem, workspace: usize) -> Result<Self, Failure> {
        use sys::cublasLtMatmulPreferenceAttributes_t::*;
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is a place for the result.
        check("cublasLtMatmulPreferenceCreate", unsafe {
            sys::cublasLtMatmulPreferenceCreate(&mut raw)
        })?;
        let preference = Self(raw);
        preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace as u64)?;
        // Partial sums meet in the type that is computed in, never in that of the result.
        preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, COMPUTE_TYPE_REDUCTION)?;
        for (which, matrix) in [
            (CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &problem.first),
            (CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &problem.second),
            (CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &problem.added),
            (CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &problem.result),
        ] {
            preference.set(which, matrix.alignment)?;
        }
        Ok(preference)
    }

    fn set<T>(
        &self,
        which: sys::cublasLtMatmulPreferenceAttributes_t,
        value: T,
    ) -> Result<(), Failure> {
        // SAFETY: as for descriptors.
        check("cublasLtMatmulPreferenceSetAttribute", unsafe {
            let value = (&raw const value).cast();
            sys::cublasLtMatmulPreferenceSetAttribute(self.0, which, value, size_of::<T>())
        })
    }
}

impl Drop for Preference {
    fn drop(&mut self) {
        // SAFETY: created above and destroyed only here.
        unsafe { sys::cublasLtMatmulPreferenceDestroy(self.0) };
    }
}

fn data_type(dtype: DType) -> sys::cudaDataType_t {
    use sys::cudaDataType_t::*;
    match dtype {
        DType::F64 => CUDA_R_64F,
        DType::F16 => CUDA_R_16F,
        DType::BF16 => CUDA_R_16BF,
        _ => CUDA_R_32F,
    }
}

impl Blas {
    /// A handle with a workspace, whose size depends on the GPU alone: so every queue finds the same
    /// algorithms, and its results have the same bits. Without memory for it there is none.
    ///
    /// # Errors
    ///
    /// What the library said.
    pub fn new(gpu: &Gpu, tf32: bool) -> Result<Self, Failure> {
        gpu.context.make_current()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the context is current, and `handle` is a place for the result.
        check("cublasLtCreate", unsafe { sys::cublasLtCreate(&mut handle) })?;
        // What NVIDIA recommends for each generation, but a small part of the memory for all queues.
        let recommended = if gpu.properties.capability.0 >= 9 { 32 << 20 } else { 4 << 20 };
        let bytes = recommended.min(gpu.properties.memory / 1024);
        let workspace = DeviceMemory::new(&gpu.context, bytes).ok();
        let (known, prepared) = (HashMap::new(), Vec::new());
        Ok(Self { handle, workspace, tf32, known, prepared })
    }

    /// Makes room for new products, if need be. What was [`prepare`](Self::prepare)d before is not valid
    /// afterwards.
    pub fn tidy(&mut self) {
        if self.known.len() >= REMEMBERED {
            self.known.clear();
            self.prepared.clear();
        }
    }

    /// Finds an algorithm, or remembers it. `None` where the library has none.
    ///
    /// # Errors
    ///
    /// What the library said.
    pub fn prepare(&mut self, product: &Product) -> Result<Option<PreparedProduct>, Failure> {
        let index = match self.known.get(&product.problem) {
            Some(index) => *index,
            None => {
                let prepared = self.find(product)?;
                let index = prepared.map(|prepared| {
                    self.prepared.push(prepared);
                    self.prepared.len() - 1
                });
                self.known.insert(product.problem, index);
                index
            }
        };
        let &Product { problem, first, second, added, result, bias, scale, .. } = product;
        let share = if problem.adds { 1.0 } else { 0.0 };
        Ok(index.map(|index| PreparedProduct {
            index,
            first,
            second,
            added,
            result,
            bias,
            scale,
            share,
        }))
    }

    fn find(&self, product: &Product) -> Result<Option<Prepared>, Failure> {
        use sys::cublasLtEpilogue_t::*;
        use sys::cublasLtMatmulDescAttributes_t::*;
        let problem = &product.problem;
        let operation = Descriptor::new(problem.dtype, self.tf32)?;
        operation.set(CUBLASLT_MATMUL_DESC_TRANSA, i32::from(problem.first.transposed))?;
        operation.set(CUBLASLT_MATMUL_DESC_TRANSB, i32::from(problem.second.transposed))?;
        let epilogue = match (problem.bias, problem.relu) {
            (false, false) => CUBLASLT_EPILOGUE_DEFAULT,
            (true, false) => CUBLASLT_EPILOGUE_BIAS,
            (false, true) => CUBLASLT_EPILOGUE_RELU,
            (true, true) => CUBLASLT_EPILOGUE_RELU_BIAS,
        };
        operation.set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue as u32)?;
        if problem.bias {
            // The search wants to see one; `run` sets that of each product.
            operation.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias as u64)?;
        }
        let layout = |matrix, dtype| MatrixLayout::new(matrix, dtype, problem.batch);
        let operand = |matrix| layout(matrix, problem.dtype);
        let result = |matrix| layout(matrix, problem.result_dtype);
        let (first, second) = (operand(&problem.first)?, operand(&problem.second)?);
        let (added, result) = (result(&problem.added)?, result(&problem.result)?);
        let space = self.workspace.as_ref().map_or(0, DeviceMemory::bytes);
        let preference = Preference::new(problem, space)?;
        let mut found = std::mem::MaybeUninit::<sys::cublasLtMatmulHeuristicResult_t>::zeroed();
        let mut count = 0;
        // SAFETY: all descriptors live until the end of this function, and there is room for the one
        // answer that is asked for.
        let status = unsafe {
            sys::cublasLtMatmulAlgoGetHeuristic(
                self.handle,
                operation.0,
                first.0,
                second.0,
                added.0,
                result.0,
                preference.0,
                1,
                found.as_mut_ptr(),
                &mut count,
            )
        };
        if status == cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED
            || (count == 0 && status == cublasStatus_t::CUBLAS_STATUS_SUCCESS)
        {
            return Ok(None);
        }
        check("cublasLtMatmulAlgoGetHeuristic", status)?;
        // SAFETY: the library said that it has written one answer.
        let found = unsafe { found.assume_init() };
        if found.state != cublasStatus_t::CUBLAS_STATUS_SUCCESS || found.workspaceSize > space {
            return Ok(None);
        }
        let (algorithm, workspace) = (found.algo, found.workspaceSize);
        let wide = problem.dtype == DType::F64;
        Ok(Some(Prepared { operation, first, second, added, result, algorithm, workspace, wide }))
    }

    /// Runs a product on a stream.
    ///
    /// # Safety
    ///
    /// The addresses are valid for the product's layouts until it has run.
    ///
    /// # Errors
    ///
    /// What the library said.
    pub unsafe fn run(
        &mut self,
        product: &PreparedProduct,
        stream: &Stream,
    ) -> Result<(), Failure> {
        use sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_BIAS_POINTER;
        let Some(prepared) = self.prepared.get(product.index) else {
            let text = "the product was forgotten";
            return Err(Failure::new("cublasLtMatmul", "not prepared", text));
        };
        if product.bias != 0 {
            prepared.operation.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias as u64)?;
        }
        let single = [product.scale, product.share];
        let double = single.map(f64::from);
        let number = |place: usize| -> *const c_void {
            if prepared.wide {
                (&raw const double[place]).cast()
            } else {
                (&raw const single[place]).cast()
            }
        };
        let workspace = self.workspace.as_ref().map_or(0, DeviceMemory::address);
        // SAFETY: descriptors live as long as `self`; numbers live through the call; the workspace is used
        // by this queue alone, in order; addresses are the caller's promise.
        check("cublasLtMatmul", unsafe {
            sys::cublasLtMatmul(
                self.handle,
                prepared.operation.0,
                number(0),
                product.first as *const c_void,
                prepared.first.0,
                product.second as *const c_void,
                prepared.second.0,
                number(1),
                product.added as *const c_void,
                prepared.added.0,
                product.result as *mut c_void,
                prepared.result.0,
                &prepared.algorithm,
                workspace as *mut c_void,
                prepared.workspace,
                stream.raw().cast(),
            )
        })
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        self.prepared.clear();
        // SAFETY: created above and destroyed only here.
        unsafe { sys::cublasLtDestroy(self.handle) };
    }
}
