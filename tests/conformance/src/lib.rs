//! One suite of cases that every device of Millstream is run through.
//!
//! A [`Case`] is data: an operation, its operands, and the bytes of the buffers they lie in. A device
//! takes part by implementing [`Target`], which is to run one case and hand back the bytes. The suite
//! knows the answers from [`reference()`], plain `f64` and `i64` code that shares nothing with any
//! device, and how far from them a device may be from [`accuracy`].
//!
//! Three kinds of check come together in [`run_all`]: the fixed [`cases()`], [`properties()`] that
//! compare several runs with each other, and, on its own, [`proptest_target`] with cases that nobody
//! thought of.
//!
//! # Example
//!
//! ```
//! use millstream_conformance::{Case, Outcome, ReferenceTarget, Target, cases, check};
//! use millstream_core::{Op, OpKind};
//!
//! /// A target that forgets to do anything.
//! struct Idle;
//!
//! impl Target for Idle {
//!     fn name(&self) -> &str {
//!         "idle"
//!     }
//!     fn supports(&self, _: OpKind) -> bool {
//!         true
//!     }
//!     fn run(&self, case: &Case) -> Result<Outcome, String> {
//!         Ok(Outcome { buffers: case.buffers.clone(), host: None })
//!     }
//! }
//!
//! let case = &cases(OpKind::Fill)[0];
//! assert!(check(&ReferenceTarget, case).is_ok());
//! println!("{}", check(&Idle, case).unwrap_err());
//! ```

pub mod accuracy;
mod arbitrary;
mod case;
mod cases;
mod chains;
mod check;
mod dense;
mod expected;
mod flush;
mod generator;
pub mod ops;
mod properties;
mod reference;
mod reference_target;
mod report;
mod small;
mod target;
mod value;
mod view;

pub use arbitrary::{arbitrary_case, proptest_target};
pub use case::{Case, CaseBuilder, CaseOperand};
pub use cases::cases;
pub use check::{Failure, Fault, check};
pub use dense::Dense;
pub use expected::Expected;
pub use generator::Generator;
pub use properties::philox::philox_4x32_10;
pub use properties::{Property, properties};
pub use reference::special::erf;
pub use reference::{convert, reference};
pub use reference_target::ReferenceTarget;
pub use report::{Report, run_all, run_kinds};
pub use target::{Outcome, Target};
pub use value::{Value, decode, encode, limits, round_to};
pub use view::{View, layout};
