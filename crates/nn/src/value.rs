//! Rust types of tensor elements.

use std::borrow::Cow;

use half::{bf16, f16};
use millstream_core::{DType, Download, Element, as_bytes};

use crate::{Result, bytes};

/// A Rust type that a tensor can be made from and read as.
///
/// It is every [`Element`] and `bool`, and nothing else.
pub trait Value: Copy + Send + Sync + sealed::Sealed + 'static {
    /// The element type it is stored as.
    const DTYPE: DType;

    #[doc(hidden)]
    fn bytes_of(values: &[Self]) -> Cow<'_, [u8]>;

    #[doc(hidden)]
    fn read(download: Download) -> Result<Vec<Self>>;

    #[doc(hidden)]
    fn read_into(download: Download, target: &mut [Self]) -> Result<()>;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! value {
    ($($rust:ty),*) => {
        $(
            impl sealed::Sealed for $rust {}

            impl Value for $rust {
                const DTYPE: DType = <$rust as Element>::DTYPE;

                fn bytes_of(values: &[Self]) -> Cow<'_, [u8]> {
                    as_bytes(values).into()
                }

                fn read(download: Download) -> Result<Vec<Self>> {
                    download.read()
                }

                fn read_into(download: Download, target: &mut [Self]) -> Result<()> {
                    download.read_into(target)
                }
            }
        )*
    };
}

value!(f32, f16, bf16, f64, i8, i16, i32, i64, u8, u16, u32, u64);

impl sealed::Sealed for bool {}

impl Value for bool {
    const DTYPE: DType = DType::Bool;

    fn bytes_of(values: &[Self]) -> Cow<'_, [u8]> {
        bytemuck::cast_slice::<bool, u8>(values).into()
    }

    fn read(download: Download) -> Result<Vec<Self>> {
        let values = download.view::<u8>()?;
        bytes::collected(values.len(), values.iter().map(|&byte| byte != 0))
    }

    fn read_into(download: Download, target: &mut [Self]) -> Result<()> {
        let bytes = download.view::<u8>()?;
        target.iter_mut().zip(bytes).for_each(|(value, &byte)| *value = byte != 0);
        Ok(())
    }
}
