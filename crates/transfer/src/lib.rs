//! Secure peer-to-peer file transfer over UDP; the protocol is `spec/transfer.md`.
//!
//! A provider makes an [`offer::Offer`] of files and gives its [`ticket::Ticket`] away; a getter turns the ticket into
//! verified files in a [`store::Store`]. Everything between is a state machine without I/O: [`provider::Provider`] and
//! [`getter::Getter`] take datagrams and time, and give datagrams. [`node`] runs them on a socket and a disk.
//!
//! Read next: `node.rs` (the loop), `getter.rs` (what is asked for), `connection/mod.rs` (one session),
//! `connection/send.rs` (the hot loop).

mod connection;
mod cookie;
mod endpoint;
pub mod error;
#[doc(hidden)]
pub mod fuzzing;
pub mod getter;
mod handshake;
mod keys;
pub mod layout;
mod machine;
pub mod manifest;
mod message;
pub mod name;
pub mod node;
pub mod offer;
pub mod provider;
mod ranges;
mod recovery;
pub mod store;
pub mod ticket;
pub mod tree;
mod wire;

pub use connection::{Closed, Transmit};
pub use error::Error;
pub use handshake::{Ciphers, Identity, NotAKey, PeerKey};
pub use machine::Machine;

use layout::Piece;

/// What a provider serves; an offer on disk, or bytes in memory.
pub trait Content {
    /// The id that getters ask for.
    fn id(&self) -> tree::ObjectId;

    /// What the id stands for.
    fn root(&self) -> &layout::Root;

    /// Bytes of `piece`; `None` past the end.
    fn piece_len(&self, piece: Piece) -> Option<usize>;

    /// Fills `buf` with the bytes of `piece` from `offset` on.
    ///
    /// # Errors
    /// When they cannot be read, or are not what was offered.
    fn read(&self, piece: Piece, offset: usize, buf: &mut [u8]) -> Result<(), Error>;
}
