//! .
mod recovery;
