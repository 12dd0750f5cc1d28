//! .
mod cookie;
pub mod error;
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod keys;
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

pub use handshake::{Ciphers, Identity, NotAKey, PeerKey};
