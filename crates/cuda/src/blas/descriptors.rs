//! cuBLASLt's descriptors: each has one owner.

use cudarc::cublaslt::sys;
use millstream_core::DType;
use millstream_gpu::Failure;

use super::{COMPUTE_TYPE_REDUCTION, Matrix, Problem, check};

/// What is computed.
pub(super) struct Descriptor(pub sys::cublasLtMatmulDesc_t);

/// How a matrix lies in memory.
pub(super) struct MatrixLayout(pub sys::cublasLtMatrixLayout_t);

/// What an algorithm may need.
pub(super) struct Preference(pub sys::cublasLtMatmulPreference_t);

impl Descriptor {
    pub fn new(dtype: DType, tf32: bool) -> Result<Self, Failure> {
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

    pub fn set<T>(
        &self,
        which: sys::cublasLtMatmulDescAttributes_t,
        value: T,
    ) -> Result<(), Failure> {
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
    pub fn new(matrix: &Matrix, dtype: DType, batch: i32) -> Result<Self, Failure> {
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

    pub fn set<T>(
        &self,
        which: sys::cublasLtMatrixLayoutAttribute_t,
        value: T,
    ) -> Result<(), Failure> {
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
    pub fn new(problem: &Problem, workspace: usize) -> Result<Self, Failure> {
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

    pub fn set<T>(
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
