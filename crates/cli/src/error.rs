//! The one place where an error becomes a message, a hint and an exit code.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use sealane_transfer::Error as Transfer;

use crate::events::{Event, emit};
use crate::progress::tell;

/// Why a verb failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    // The peer misbehaved, or the network or the disk failed us: see there.
    #[error(transparent)]
    Transfer(#[from] Transfer),
    #[error(transparent)]
    Bench(#[from] sealane_bench::Error),

    // Wrong usage or configuration.
    #[error("{path:?} is not a key file: it does not hold 64 hexadecimal digits")]
    NotAKeyFile { path: PathBuf },
    #[error("others may read the key file {path:?} (mode {mode:03o})")]
    KeyExposed { path: PathBuf, mode: u32 },
    #[error("there is no home directory to keep a key in")]
    NoDataDir,

    // A resource failed.
    #[error("{path:?} exists already, and a key is never overwritten")]
    KeyExists { path: PathBuf },
    #[error("cannot {doing} {path:?}: {source}")]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot write to the standard output: {0}")]
    Output(io::Error),
    #[error("cannot list the network interfaces: {0}")]
    Interfaces(io::Error),
    #[error("no network interface has an address that others could use")]
    NoAddress,
    #[error("cannot catch Ctrl-C: {0}")]
    Signal(#[from] ctrlc::Error),
    #[error("the system has no random bytes")]
    NoRandomness,
}

impl Error {
    /// For `map_err`: names the deed and the path that an [`io::Error`] lacks.
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source }
    }

    /// Tells people, and a program if it listens, and gives the exit code.
    pub(crate) fn report(&self, json: bool) -> ExitCode {
        let (message, hint, code) = (self.to_string(), self.hint(), self.code());
        tell!("error: {message}");
        if let Some(hint) = &hint {
            tell!("hint: {hint}");
        }
        if json {
            emit(&Event::Error { message, hint, code });
        }
        ExitCode::from(code)
    }

    fn code(&self) -> u8 {
        match self {
            Self::NotAKeyFile { .. } | Self::KeyExposed { .. } | Self::NoDataDir => 2,
            Self::Transfer(error) => match error {
                Transfer::Ticket(_)
                | Transfer::NothingOffered
                | Transfer::SameName { .. }
                | Transfer::NotAFile { .. } => 2,
                Transfer::Interrupted => 130,
                _ => 1,
            },
            Self::Bench(sealane_bench::Error::UnknownSuite) => 2,
            _ => 1,
        }
    }

    /// What to do next.
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Transfer(error) => return transfer_hint(error),
            Self::NotAKeyFile { .. } => "make one with `sealane keygen FILE`, or give another to --key",
            Self::KeyExposed { path, .. } => return Some(format!("chmod 600 {path:?}, or make a new key")),
            Self::NoDataDir => "name a key file with --key FILE, or set HOME",
            Self::KeyExists { .. } => "name another file, or move this one away first",
            Self::NoAddress | Self::Interfaces(_) => "say where this machine is reached: --address ADDR:PORT",
            Self::Bench(_) | Self::Io { .. } | Self::Output(_) | Self::Signal(_) | Self::NoRandomness => return None,
        };
        Some(hint.to_owned())
    }
}

fn transfer_hint(error: &Transfer) -> Option<String> {
    let hint = match error {
        Transfer::Ticket(_) => "copy the whole ticket again, as `sealane send` printed it",
        Transfer::Unreachable { .. } => {
            "is `sealane send` still running there, and does a firewall let UDP through to that port? \
             The same command goes on from here"
        }
        Transfer::Stalled | Transfer::Refused => "try the same command again; it goes on from here",
        Transfer::WrongPeer => "the sender has a new key, or another machine has its address: ask for a new ticket",
        Transfer::NotOffered => "ask for a new ticket: the sender now offers something else",
        Transfer::SourceFailed => "the sender must start `sealane send` anew; its ticket will be another",
        Transfer::NoCommonCipher => "leave out --cipher, here or there",
        Transfer::Mismatch { .. } | Transfer::TreeMismatch { .. } | Transfer::ManifestMismatch => {
            "what was verified before is kept; do not trust this sender"
        }
        Transfer::Root | Transfer::Manifest(_) | Transfer::Misbehaved => {
            "is the other side the same version of sealane?"
        }
        Transfer::Name { .. } => "such a name is not safe on every machine: rename it and send anew",
        Transfer::SameName { .. } => "rename one of them, or send the folder that they are in",
        Transfer::NotAFile { .. } => "only regular files and folders can be sent",
        Transfer::Exists { .. } => "move it away, or fetch into another folder with -o DIR",
        Transfer::OutOfSpace { .. } => "make room, or fetch into another folder with -o DIR",
        Transfer::Busy { .. } => "wait for it to end, or fetch into another folder with -o DIR",
        Transfer::ForeignStaging { .. } => "remove or rename it, or fetch into another folder with -o DIR",
        Transfer::FileChanged { .. } => "send it again when nothing writes to it",
        Transfer::Socket { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
            "another program has this port: choose another with --port, or leave --port out"
        }
        Transfer::Io { source, .. } => match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                "choose a place where you have the right, or change its permissions"
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "make room; the same command then goes on from here"
            }
            _ => return None,
        },
        _ => return None,
    };
    Some(hint.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_tell_usage_failure_and_interruption_apart() {
        let failed = Transfer::Unreachable { addresses: vec![] };
        let usage = "nonsense".parse::<sealane_transfer::ticket::Ticket>().unwrap_err();
        let codes = [Transfer::Interrupted, usage, failed].map(|error| Error::from(error).code());
        assert_eq!(codes, [130, 2, 1]);
    }

    #[test]
    fn a_taken_port_has_a_hint_and_another_socket_error_has_none() {
        let address = "[::]:7447".parse().unwrap();
        let hints = [io::ErrorKind::AddrInUse, io::ErrorKind::Other]
            .map(|kind| Error::from(Transfer::Socket { address, source: kind.into() }).hint());
        assert!(hints[0].as_ref().is_some_and(|hint| hint.contains("--port")) && hints[1].is_none(), "{hints:?}");
    }
}
