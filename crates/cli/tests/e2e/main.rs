//! The built program, end to end over loopback. `sandbox.rs` starts it; the other files are what people do with it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod files;
mod link;
mod refusals;
mod resume;
mod sandbox;
mod usage;
