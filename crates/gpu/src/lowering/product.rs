//! Matrix products: which kernel or library computes them.

use millstream_core::{BoundCommand, DType, Epilogue, Error, Layout, Operand, RawBuffer, Result};
use millstream_kernels::{lower, lower_epilogue, lower_gemv, lower_split_k, lower_tensor_cores};

use super::{BatchLowering, ProductOperands};
use crate::platform::Platform;

/// The most memory for 32-bit sums; larger products are computed piece by piece. It is small enough to stay in the
/// cache of large GPUs until the epilogue reads it.
const SUMS: usize = 16 << 20;

/// From this many multiplications on, tensor cores and a separate epilogue are faster.
const LARGE: usize = 1 << 22;

impl<P: Platform> BatchLowering<P> {
    /// A matrix product. Products with few rows and small products have kernels of their own. Others use the library
    /// if it can do them, else a kernel of the common source. The library has tensor cores for 16-bit types.
    pub(super) fn product(&mut self, command: &BoundCommand, index: usize) -> Result<()> {
        let early = self.list.is_early(command.inputs()[1].buffer);
        let limits = &self.limits;
        let dtype = command.outputs()[0].layout.dtype();
        let own = lower_gemv(command, early, limits).or_else(|| match dtype {
            DType::F32 => lower_split_k(command, early, limits),
            _ => lower_tensor_cores(command, early, limits),
        });
        if let Some(lowered) = own {
            return self.kernels(&lowered);
        }
        if let Some(operands) = ProductOperands::of(command) {
            if let Some(left) = self.library_product(&operands)? {
                self.epilogue_in_place(&operands, &left)?;
                return Ok(());
            }
            if matches!(dtype, DType::F16 | DType::BF16) && operands.multiplications() >= LARGE {
                return self.wide_product(&operands, index);
            }
        }
        self.kernels(&lower(command, index as u32, &self.limits)?)
    }

    /// Adds a product of the library, and returns the epilogue that is left to be done. `None` if the library cannot
    /// do it.
    fn library_product(
        &mut self,
        operands: &ProductOperands<RawBuffer>,
    ) -> Result<Option<Epilogue>> {
        let bound = operands.try_map(|buffer| self.bind(buffer.address))?;
        let found = self.platform.product(&mut self.encoder, &bound);
        let found = found.map_err(|failure| self.refusal(&failure, 0))?;
        Ok(found.map(|(product, left)| {
            self.list.product(product);
            left
        }))
    }

    /// Adds the epilogue that the library left, in place.
    fn epilogue_in_place(
        &mut self,
        operands: &ProductOperands<RawBuffer>,
        left: &Epilogue,
    ) -> Result<()> {
        let bias = operands.bias.filter(|_| left.bias);
        let residual = operands.residual.filter(|_| left.residual);
        let (dst, limits) = (&operands.dst, &self.limits);
        let lowered = lower_epilogue(left, dst, dst, bias.as_ref(), residual.as_ref(), limits);
        self.kernels(&lowered)
    }

    /// A 16-bit product with an epilogue that the library cannot do in one rounding. The library computes 32-bit sums
    /// in other memory, and a kernel makes the result from them.
    fn wide_product(&mut self, operands: &ProductOperands<RawBuffer>, index: usize) -> Result<()> {
        let most = SUMS.min(self.platform.memory_bytes() / 1024) / DType::F32.size();
        for piece in operands.cut(most)? {
            if !self.wide_piece(&piece)? {
                self.kernels(&lower(&piece.command()?, index as u32, &self.limits)?)?;
            }
        }
        Ok(())
    }

    fn wide_piece(&mut self, operands: &ProductOperands<RawBuffer>) -> Result<bool> {
        let layout = Layout::contiguous(DType::F32, operands.dst.layout.shape())?;
        let sums = match self.scratch_buffer(layout.dense_bytes()) {
            Ok(buffer) => Operand::new(buffer, layout),
            // Our own kernel needs no such memory.
            Err(Error::OutOfMemory { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        if self.library_product(&operands.bare(sums))?.is_none() {
            return Ok(false);
        }
        let ProductOperands { dst, bias, residual, epilogue, .. } = operands;
        let limits = &self.limits;
        let lowered =
            lower_epilogue(epilogue, dst, &sums, bias.as_ref(), residual.as_ref(), limits);
        self.kernels(&lowered)?;
        Ok(true)
    }
}
