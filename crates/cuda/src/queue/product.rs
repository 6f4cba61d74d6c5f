//! Matrix products: who computes which.

use millstream_core::{BoundCommand, DType, Error, Layout, Operand, RawBuffer, Result};
use millstream_kernels::{lower, lower_epilogue, lower_gemv, lower_split_k};

use super::prepare::Preparer;
use crate::blas::{self, Blas, Parts};
use crate::settings;

/// Memory for sums of 32 bits, at most: more is computed piece by piece. Small enough to stay in the cache
/// of large GPUs until the epilogue reads it.
const SUMS: usize = 16 << 20;

/// Multiplications from which on tensor cores and a kernel that follows them pay.
const LARGE: usize = 1 << 22;

impl Preparer {
    /// A matrix product: of few rows or a small one by a kernel for that, else by the library where it can,
    /// else by a kernel of the common source. Types of 16 bits have tensor cores in the library.
    pub(super) fn product(&mut self, command: &BoundCommand, index: usize) -> Result<()> {
        let early = self.steps.is_early(command.inputs()[1].buffer);
        let limits = &self.gpu.limits;
        let dtype = command.outputs()[0].layout.dtype();
        let own = lower_gemv(command, early, limits).or_else(|| match dtype {
            DType::F32 => lower_split_k(command, early, limits),
            _ => None,
        });
        if let Some(lowered) = own {
            return self.kernels(&lowered);
        }
        if let Some(parts) = Parts::of(command) {
            if self.library(&parts)? {
                return Ok(());
            }
            if matches!(dtype, DType::F16 | DType::BF16) && multiplications(&parts) >= LARGE {
                return self.wide_product(&parts, index);
            }
        }
        self.kernels(&lower(command, index as u32, &self.gpu.limits)?)
    }

    /// By the library, and what it leaves by a kernel in place; `false` if it cannot.
    fn library(&mut self, parts: &Parts) -> Result<bool> {
        let Some(product) = blas::map(parts) else { return Ok(false) };
        if !self.search(&product)? {
            return Ok(false);
        }
        let rest = &product.rest;
        let bias = parts.bias.filter(|_| rest.bias);
        let residual = parts.residual.filter(|_| rest.residual);
        let (dst, limits) = (&parts.dst, &self.gpu.limits);
        let lowered = lower_epilogue(rest, dst, dst, bias.as_ref(), residual.as_ref(), limits);
        self.kernels(&lowered)?;
        Ok(true)
    }

    /// A product of 16-bit numbers with more to be done than the library does in one rounding: it computes
    /// sums of 32 bits beside the result, and a kernel makes the result of them.
    fn wide_product(&mut self, parts: &Parts, index: usize) -> Result<()> {
        let most = SUMS.min(self.gpu.properties.memory / 1024) / DType::F32.size();
        for piece in parts.cut(most)? {
            if !self.wide_piece(&piece)? {
                self.kernels(&lower(&piece.command()?, index as u32, &self.gpu.limits)?)?;
            }
        }
        Ok(())
    }

    fn wide_piece(&mut self, parts: &Parts) -> Result<bool> {
        let layout = Layout::contiguous(DType::F32, parts.dst.layout.shape())?;
        let bytes = layout.dense_bytes();
        let address = match self.scratch(bytes) {
            Ok(address) => address,
            // The kernel of ours needs none.
            Err(Error::OutOfMemory { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        let sums = Operand::new(RawBuffer { address, bytes }, layout);
        let Some(product) = blas::map(&parts.bare(sums)) else { return Ok(false) };
        if !self.search(&product)? {
            return Ok(false);
        }
        let Parts { dst, bias, residual, epilogue, .. } = parts;
        let limits = &self.gpu.limits;
        let lowered =
            lower_epilogue(epilogue, dst, &sums, bias.as_ref(), residual.as_ref(), limits);
        self.kernels(&lowered)?;
        Ok(true)
    }

    /// Adds a step of the library; `false` if it has no algorithm.
    fn search(&mut self, product: &blas::Product) -> Result<bool> {
        if self.blas.is_none() {
            let blas = Blas::new(self.gpu, self.settings.tf32);
            self.blas = Some(blas.map_err(|failure| self.refusal(&failure, 0))?);
        }
        let Some(blas) = &mut self.blas else { return Ok(false) };
        let ready = blas.prepare(product).map_err(|failure| self.gpu.note(&failure))?;
        if ready.is_none() {
            settings::log(|| format!("no algorithm for {:?}", product.problem));
        }
        Ok(ready.map(|ready| self.steps.product(ready)).is_some())
    }
}

fn multiplications(parts: &Parts) -> usize {
    let depth = parts.a.layout.shape().last().copied().unwrap_or(0);
    parts.dst.layout.elements().saturating_mul(depth)
}
