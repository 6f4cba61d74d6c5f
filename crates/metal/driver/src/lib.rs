//! A Metal that runs on Linux, without anything of Apple's.
//!
//! Rust code that is written against `objc2-metal` runs on it unchanged. Messages go through a small Objective-C
//! runtime ([`objc`]) to a Metal whose queues are threads and whose kernels are the real Metal texts, compiled by
//! clang. It checks the rules of Metal ([`rules`]), loses time at random, and fails on demand ([`control`]).
//!
//! What it does not show: that Apple's driver behaves the same, that Apple's compiler takes the texts, or any speed.

pub mod control;
pub mod deviations;
mod foundation;
mod gpu;
mod metal;
mod objc;
mod own_time;
mod registry;
pub mod rules;
