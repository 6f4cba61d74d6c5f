//! The constant argument of a kernel, declared once for Rust and for the program text.

use smallvec::SmallVec;

/// Words that are stored without an allocation.
const INLINE_WORDS: usize = 48;

/// The bytes of a kernel's last argument, laid out as C lays out its `struct Params`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params {
    words: SmallVec<[u64; INLINE_WORDS]>,
    bytes: usize,
}

impl Params {
    /// The most bytes that a kernel takes. Every platform allows far more.
    pub const MAX_BYTES: usize = 1024;

    /// The bytes, aligned to 8. Their number is a multiple of 8.
    pub fn as_bytes(&self) -> &[u8] {
        millstream_core::as_bytes(&self.words)
    }

    /// Appends a field at its natural alignment.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let at = self.bytes.next_multiple_of(bytes.len());
        self.bytes = at + bytes.len();
        assert!(self.bytes <= Self::MAX_BYTES, "params of {} bytes", self.bytes);
        self.words.resize(self.bytes.div_ceil(8), 0);
        let mut word = [0; 8];
        word[at % 8..][..bytes.len()].copy_from_slice(bytes);
        self.words[at / 8] |= u64::from_ne_bytes(word);
    }
}

/// A type that can be a field of `struct Params`.
pub(crate) trait Field {
    /// The declaration of a field of this name in the program text, up to the semicolon.
    fn declare(name: &str) -> String;
    /// Appends the value.
    fn write(&self, params: &mut Params);
}

macro_rules! scalar_field {
    ($($type:ident),*) => {$(
        impl Field for $type {
            fn declare(name: &str) -> String {
                format!("{} {name}", stringify!($type))
            }
            fn write(&self, params: &mut Params) {
                params.push(&self.to_ne_bytes());
            }
        }
    )*};
}

// There is no f64, because Metal has none. Pass its bits in a u64.
scalar_field!(u32, i32, f32, u64, i64);

impl<T: Field, const N: usize> Field for [T; N] {
    fn declare(name: &str) -> String {
        T::declare(&format!("{name}[{N}]"))
    }
    fn write(&self, params: &mut Params) {
        self.iter().for_each(|element| element.write(params));
    }
}

/// Declares a struct once: in Rust, and as `struct Params` of a program text.
///
/// Fields are `u32`, `i32`, `f32`, `u64`, `i64`, arrays of these, or [`Walk`](crate::walk::Walk). Put
/// 8-byte fields first.
macro_rules! params {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name { $($(#[$field_doc])* pub $field: $type),* }

        impl $name {
            /// The declaration of the struct in the program text.
            pub fn declaration() -> String {
                let mut text = String::from("struct Params {\n");
                $(
                    text.push_str("    ");
                    text.push_str(&<$type as $crate::params::Field>::declare(stringify!($field)));
                    text.push_str(";\n");
                )*
                text.push_str("};\n");
                text
            }

            /// The bytes.
            pub fn pack(&self) -> $crate::Params {
                let mut params = $crate::Params::default();
                $($crate::params::Field::write(&self.$field, &mut params);)*
                params
            }
        }
    };
}
pub(crate) use params;

#[cfg(test)]
mod tests;
