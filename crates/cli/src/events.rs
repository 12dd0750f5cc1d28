//! What goes to stdout: lines of data, or with `--json` one event a line.

use std::fmt::Display;
use std::io::{self, Write};
use std::net::SocketAddr;

use serde::Serialize;

use crate::error::Error;

/// Something that happened; bytes and seconds are the units.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event<'a> {
    /// send: ready.
    Ticket { ticket: &'a str, id: String, bytes: u64, files: usize },
    /// send: a getter shook hands.
    Came { peer: String, address: SocketAddr, cipher: &'static str },
    /// send: it has everything.
    Done { peer: String },
    /// send: its session is over.
    Left { peer: String, why: &'static str },
    /// get: the sender answered.
    Connected { address: SocketAddr, cipher: &'static str },
    /// get: what there is, and what of it is here already.
    Offered { done: u64, total: u64, files: usize },
    /// get: about five times a second. `received` counts what came over the network in this run.
    Progress { done: u64, total: u64, received: u64 },
    /// get: the session was lost; the sender is dialled again.
    Lost { why: &'static str },
    /// get: someone else answers at an address of the ticket.
    WrongPeer,
    /// get: everything is there.
    Finished { paths: Vec<String>, bytes: u64, received: u64, seconds: f64 },
    /// The last one, if it failed.
    Error { message: String, hint: Option<String>, code: u8 },
}

/// Prints an event. Whoever no longer listens misses nothing: the exit code tells how it ended.
pub(crate) fn emit(event: &Event<'_>) {
    let line = serde_json::to_string(event).expect("events are text and numbers");
    let _ = print(line);
}

/// Prints a line. A reader that has gone away is no error.
pub(crate) fn print(line: impl Display) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Error::Output(error)),
        _ => Ok(()),
    }
}
