//! The ways to work a job off.

pub(crate) mod portable;
