//! `sealane send`: hashes, prints a ticket, serves.

use std::io::{self, IsTerminal};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;

use qrcode::render::unicode::Dense1x2;
use qrcode::{EcLevel, QrCode};
use sealane_transfer::layout::Root;
use sealane_transfer::node::Server;
use sealane_transfer::offer::Offer;
use sealane_transfer::provider::Visit;
use sealane_transfer::ticket::{MAX_ADDRS, Ticket};
use sealane_transfer::tree::ObjectId;
use sealane_transfer::{Ciphers, Closed};

use crate::args::SendArgs;
use crate::error::Error;
use crate::events::{Event, emit, print};
use crate::keygen;
use crate::progress::{Bar, bytes, tell};

/// Not assigned to anything else; a fixed one keeps tickets valid when a sender is started again.
const PORT: u16 = 7447;
/// Skipped paths that are named; the rest is counted.
const NAMED: usize = 10;
/// Columns that every terminal has.
const TERMINAL: usize = 80;

pub(crate) fn send(args: SendArgs) -> Result<(), Error> {
    // Whatever can be wrong shows before the hashing, which may take minutes.
    let port = free_port(args.port)?;
    let identity = match &args.key {
        Some(file) => keygen::load_or_make(file)?,
        None => keygen::load_or_make(&keygen::default_file()?)?,
    };
    let key = identity.public().0;
    let mut ticket = Ticket { id: ObjectId([0; 32]), set: false, key, addrs: args.address };
    if !ticket.addrs.is_empty() {
        ticket.to_string().parse::<Ticket>()?;
    }

    let offer = hash(&args.paths)?;
    let ciphers = args.cipher.map_or_else(Ciphers::of_this_machine, Ciphers::only);
    let mut server = Server::bind(port, identity, ciphers, offer)?;
    if ticket.addrs.is_empty() {
        ticket.addrs = own_addresses(server.port()?)?;
    }
    let offer = server.offer();
    (ticket.id, ticket.set) = (offer.id(), matches!(offer.root(), Root::Set { .. }));
    let (text, files) = (ticket.to_string(), offer.files());
    let stop = crate::interrupt()?;
    if args.json {
        emit(&Event::Ticket { ticket: &text, id: ticket.id.to_string(), bytes: offer.total_bytes(), files });
    } else {
        print(&text)?;
        show_qr(&text);
        tell!("offering {files} file(s), {}; on the other machine: sealane get TICKET", bytes(offer.total_bytes()));
        tell!("serving until Ctrl-C at {}", list(&ticket.addrs));
    }
    server.run(&stop, &mut |visit| report(&visit, args.json))?;
    Ok(())
}

/// The port to bind: what was asked for, or the usual one, or 0 if that is taken.
fn free_port(asked: Option<u16>) -> Result<u16, Error> {
    let port = asked.unwrap_or(PORT);
    let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    match UdpSocket::bind(&[address, (Ipv4Addr::UNSPECIFIED, port).into()][..]) {
        Ok(_) => Ok(port),
        Err(error) if asked.is_none() && error.kind() == io::ErrorKind::AddrInUse => {
            tell!("note: port {PORT} is taken; serving at another, so the ticket will not outlive this run");
            Ok(0)
        }
        Err(source) => Err(sealane_transfer::Error::Socket { address, source }.into()),
    }
}

fn hash(paths: &[PathBuf]) -> Result<Offer, Error> {
    let bar = Bar::new("hashing");
    let offer = Offer::from_paths(paths, &mut |at| bar.set(at.bytes, at.bytes_total));
    bar.clear();
    let offer = offer?;
    let skipped = offer.skipped();
    for path in skipped.iter().take(NAMED) {
        tell!("warning: skipped {path:?}: a link, a special file, or an unfinished transfer");
    }
    if skipped.len() > NAMED {
        tell!("warning: skipped {} more", skipped.len() - NAMED);
    }
    Ok(offer)
}

/// Those of the interfaces, loopback last: it serves tests, and getters on this machine.
fn own_addresses(port: u16) -> Result<Vec<SocketAddr>, Error> {
    let interfaces = if_addrs::get_if_addrs().map_err(Error::Interfaces)?;
    let mut ips: Vec<IpAddr> = interfaces.iter().map(if_addrs::Interface::ip).collect();
    // The scope of a link-local address means nothing on another machine.
    ips.retain(|ip| !matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local()));
    ips.sort_by_key(|ip| (ip.is_loopback(), ip.is_ipv6()));
    ips.dedup();
    ips.truncate(MAX_ADDRS);
    if ips.is_empty() {
        return Err(Error::NoAddress);
    }
    Ok(ips.into_iter().map(|ip| SocketAddr::new(ip, port)).collect())
}

/// On a terminal, if it fits.
fn show_qr(ticket: &str) {
    if !io::stderr().is_terminal() {
        return;
    }
    // Upper case makes a smaller code.
    let Ok(code) = QrCode::with_error_correction_level(ticket.to_uppercase(), EcLevel::L) else { return };
    // Most terminals are dark: what is light in the code is printed.
    let blocks = code.render().dark_color(Dense1x2::Light).light_color(Dense1x2::Dark).build();
    if blocks.lines().all(|line| line.chars().count() <= TERMINAL) {
        tell!("{blocks}");
    }
}

fn report(visit: &Visit, json: bool) {
    match visit {
        Visit::Came { peer, address, cipher } => {
            let (address, cipher) = (*address, cipher.name());
            if json {
                emit(&Event::Came { peer: peer.to_string(), address, cipher });
            } else {
                tell!("{} came from {address}, {cipher}", short(peer));
            }
        }
        Visit::Done { peer } if json => emit(&Event::Done { peer: peer.to_string() }),
        Visit::Done { peer } => tell!("{} has everything", short(peer)),
        Visit::Left { peer, why } if json => emit(&Event::Left { peer: peer.to_string(), why: reason(*why) }),
        Visit::Left { peer, why } => tell!("{} left: {}", short(peer), reason(*why)),
    }
}

fn short(peer: &sealane_transfer::PeerKey) -> String {
    peer.to_string()[..8].to_owned()
}

fn list(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Why a session ended, for people and programs.
pub(crate) fn reason(why: Closed) -> &'static str {
    match why {
        Closed::Done => "done",
        Closed::Misbehaved => "protocol broken",
        Closed::KeysSpent => "keys spent",
        Closed::ShuttingDown => "shutting down",
        Closed::Refused => "refused",
        Closed::TimedOut => "timed out",
    }
}
