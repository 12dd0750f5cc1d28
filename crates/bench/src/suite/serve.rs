//! A `sealane send` of another process.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Stdio;

use sealane_aead::Cipher;
use sealane_transfer::ticket::Ticket;

use crate::Error;
use crate::process::{Process, command};

/// Why there are no figures of Sealane itself.
pub(super) const NO_PROGRAM: &str = "the program `sealane` is not there";

/// Starts `program` on `file` and waits for its ticket, which names the loopback address alone.
pub(super) fn serve(
    program: &Path,
    home: &Path,
    cipher: Option<Cipher>,
    file: &Path,
) -> Result<(Process, Ticket), Error> {
    const NO_TICKET: Error = Error::Rejected { subject: "sealane", step: "print a ticket" };
    let mut command = command(program, home);
    // Without --json it says no more than the ticket, so that nobody needs to read on.
    command.args(["send", "--port", "0"]).arg(file).stdout(Stdio::piped());
    if let Some(cipher) = cipher {
        command.args(["--cipher", cipher.name()]);
    }
    let mut process = Process::spawn(&mut command)?;
    let mut line = String::new();
    BufReader::new(process.stdout().ok_or(NO_TICKET)?).read_line(&mut line)?;
    let mut ticket: Ticket = line.parse().map_err(|_| NO_TICKET)?;
    let port = ticket.addrs[0].port();
    ticket.addrs = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port))];
    Ok((process, ticket))
}
