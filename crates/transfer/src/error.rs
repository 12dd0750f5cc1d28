//! The one error type of the crate. Every variant says what happened to which thing.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::Closed;
use crate::layout::Piece;
use crate::manifest::ManifestFault;
use crate::name::NameFault;
use crate::ticket::TicketFault;

/// Why a transfer, or a part of it, failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    // The peer misbehaved.
    /// A name that is not safe to create; from a peer, or of a file that was to be offered.
    #[error("the name {name:?} cannot be transferred: {fault}")]
    Name {
        /// The name, as far as it is text.
        name: PathBuf,
        /// What is wrong with it.
        fault: NameFault,
    },
    /// The description of what is offered is malformed or beyond the limits.
    #[error("the provider describes its offer in a way that makes no sense")]
    Root,
    /// Bytes that are no manifest.
    #[error("the manifest is not valid: {0}")]
    Manifest(#[from] ManifestFault),
    /// A manifest with another hash than the ticket says.
    #[error("the provider sent another manifest than the ticket names")]
    ManifestMismatch,
    /// A hash tree that does not lead to the file's id.
    #[error("the provider sent a wrong hash tree for {path:?}")]
    TreeMismatch {
        /// The file, relative to the folder it belongs in.
        path: PathBuf,
    },
    /// Bytes with another hash than they must have.
    #[error("the provider sent wrong bytes for {path:?}")]
    Mismatch {
        /// Which piece.
        piece: Piece,
        /// The file, relative to the folder it belongs in.
        path: PathBuf,
    },

    /// The ticket's key belongs to someone else.
    #[error("whoever answers at the ticket's address does not have the ticket's key")]
    WrongPeer,
    /// Each side insists on a cipher that the other does not offer.
    #[error("the provider offers no cipher that is allowed here")]
    NoCommonCipher,
    /// The provider serves something else.
    #[error("the provider does not offer this any more")]
    NotOffered,
    /// The provider's disk failed, or its file changed.
    #[error("the provider can no longer read what it offered, or it has changed")]
    SourceFailed,
    /// The peer broke the protocol, or says that we did.
    #[error("the provider broke the protocol")]
    Misbehaved,
    /// The provider wants nothing of us.
    #[error("the provider refused")]
    Refused,
    /// The session lives, but nothing comes.
    #[error("the provider is there but sends nothing")]
    Stalled,

    // The caller misused us.
    /// A text that is no ticket.
    #[error("this is not a valid ticket: {0}")]
    Ticket(#[from] TicketFault),
    /// A piece that does not exist, or bytes beyond its end, or of the wrong length.
    #[error("there is no such piece: {}", .0.0)]
    NoSuchPiece(Piece),
    /// A piece before the manifest and trees that verify it, or an unfinished store to finish.
    #[error("called too early: something that this needs has not arrived")]
    TooEarly,
    /// No path to offer.
    #[error("nothing to offer")]
    NothingOffered,
    /// Two paths to offer end in the same name.
    #[error("two of the paths end in the same name: {path:?}")]
    SameName {
        /// The second of them.
        path: PathBuf,
    },
    /// Something to offer that is neither a file nor a folder.
    #[error("{path:?} is neither a file nor a folder")]
    NotAFile {
        /// The path.
        path: PathBuf,
    },

    /// The caller wanted it to stop.
    #[error("interrupted; the same command goes on from here")]
    Interrupted,

    // A resource failed.
    /// Nobody answers.
    #[error("no answer from {}", addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Unreachable {
        /// Where the provider should be.
        addresses: Vec<SocketAddr>,
    },
    /// The socket cannot be made, or broke.
    #[error("cannot use UDP at {address}: {source}")]
    Socket {
        /// Its own address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The system gives no random bytes.
    #[error("the system has no random bytes")]
    NoRandomness,
    /// The operating system refused.
    #[error("cannot {doing} {path:?}: {source}")]
    Io {
        /// What was tried, a verb.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file system is too full.
    #[error("not enough space in {path:?}: {needed} bytes are needed, {available} are free")]
    OutOfSpace {
        /// The folder to write to.
        path: PathBuf,
        /// Bytes still to be written.
        needed: u64,
        /// Bytes free.
        available: u64,
    },
    /// A final name is taken; nothing is ever overwritten.
    #[error("{path:?} exists already")]
    Exists {
        /// The taken path.
        path: PathBuf,
    },
    /// Another process is at work on the same transfer.
    #[error("another process is receiving this into {path:?}")]
    Busy {
        /// The staging folder.
        path: PathBuf,
    },
    /// The staging folder's name is taken by something that is not ours.
    #[error("{path:?} is not a folder that only we can write to")]
    ForeignStaging {
        /// The staging folder.
        path: PathBuf,
    },
    /// An offered file is not what it was when it was hashed.
    #[error("{path:?} changed while it was offered")]
    FileChanged {
        /// The file.
        path: PathBuf,
    },
}

impl Error {
    /// What a getter that gives up for this reason tells the provider.
    pub(crate) fn farewell(&self) -> Closed {
        match self {
            Self::Name { .. } | Self::Root | Self::Manifest(_) | Self::ManifestMismatch => Closed::Misbehaved,
            Self::TreeMismatch { .. } | Self::Mismatch { .. } | Self::Misbehaved => Closed::Misbehaved,
            _ => Closed::ShuttingDown,
        }
    }

    /// For `map_err`: names the deed and the path that an [`io::Error`] lacks.
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source }
    }
}
