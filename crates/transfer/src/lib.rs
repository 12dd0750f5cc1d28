//! .
pub mod error;
pub mod layout;
pub mod manifest;
pub mod name;
pub mod offer;
mod recovery;
pub mod ticket;
pub mod tree;
