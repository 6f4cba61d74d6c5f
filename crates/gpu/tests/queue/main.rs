//! What queues promise, on the fake platform: no driver, every queue a thread, time lost by seeds.

mod close;
mod failures;
mod faults;
mod flight;
mod in_place;
mod kit;
mod order;
mod replay;
mod seeds;
mod tasks;
mod transfers;
