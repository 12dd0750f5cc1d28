//! .
mod cookie;
pub mod error;
pub mod layout;
pub mod manifest;
mod message;
pub mod name;
pub mod offer;
mod recovery;
pub mod store;
pub mod ticket;
pub mod tree;
mod wire;
