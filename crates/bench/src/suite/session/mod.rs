//! Sessions: how fast hands are shaken, and what an open session costs a provider in memory.
//!
//! A handshake is whole when both sides know it: Init, Retry with the cookie, Init again, Response, Finish. Both sides are in
//! one thread, so no figure includes the waking of another.

mod memory;
#[cfg(feature = "peers")]
mod snow;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use sealane_lane::Lane;
use sealane_net::{Arrival, RECEIVE_BUFFER, Udp};
use sealane_transfer::getter::{Getter, News};
use sealane_transfer::layout::{Piece, Root};
use sealane_transfer::provider::{Provider, Visit};
use sealane_transfer::ticket::Ticket;
use sealane_transfer::tree::ObjectId;
use sealane_transfer::{Ciphers, Content, Identity, Machine};

use super::Cases;
use crate::record::Published;
use crate::runner::{Better, Case, Measure, Sample, Subject};
use crate::{Depth, Error, Plan};

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// A datagram that takes longer is lost.
const LOST: Duration = Duration::from_secs(5);
/// Secrets of the getter and of the provider.
const SECRETS: [[u8; 32]; 2] = [[7; 32], [9; 32]];

pub(super) fn cases(plan: &Plan) -> Cases {
    let (depth, program) = (plan.depth, plan.program.clone());
    let case = move |number| match number {
        0 => handshake(false, depth),
        1 => handshake(true, depth),
        _ => Ok(memory::case(depth, program.clone())),
    };
    Box::new((0..3).map(case))
}

fn handshake(loopback: bool, depth: Depth) -> Result<Case, Error> {
    let (sample, runs) = match depth {
        Depth::Smoke => (Duration::ZERO, 1),
        Depth::Quick => (Duration::from_millis(100), 11),
        Depth::Full => (Duration::from_millis(500), 21),
    };
    // What was published is the whole over loopback, and the share of it that is cryptography.
    let published = Published::one(if loopback { 1.42e-3 } else { 250e-6 });
    let rate =
        Measure { metric: "handshakes", unit: "1/s", param: None, better: Better::More, answers: &[], published: None };
    let latency = Measure {
        metric: "latency",
        unit: "s",
        param: Some(("quantile", "p50")),
        better: Better::Less,
        answers: &["C5"],
        published,
    };
    let wire = || Wire::new(loopback);
    #[cfg(feature = "peers")]
    let peer = subject(snow::NAME, wire()?, snow::shake);
    #[cfg(not(feature = "peers"))]
    let peer = super::left_out("snow/XX");
    Ok(Case {
        case: "handshake",
        params: BTreeMap::from([("over", if loopback { "loopback" } else { "memory" }.into())]),
        measures: vec![rate, latency],
        subjects: vec![subject(NAME, wire()?, shake), peer],
        sample,
        runs,
    })
}

/// Shakes hands again and again: `shake` tells how long it took and who the responder says the initiator is.
fn subject(
    name: &'static str,
    mut wire: Wire,
    shake: impl Fn(&mut Wire) -> Result<(Duration, [u8; 32]), Error> + 'static,
) -> Subject {
    let work = move |time| {
        let (start, mut times) = (Instant::now(), Vec::new());
        loop {
            let (took, initiator) = shake(&mut wire)?;
            times.push(took);
            if start.elapsed() < time {
                continue;
            }
            let rate = times.len() as f64 / times.iter().sum::<Duration>().as_secs_f64();
            times.sort_unstable();
            let median = times[times.len() / 2].as_secs_f64();
            return Ok(Sample { values: vec![rate, median], answer: blake3::hash(&initiator) });
        }
    };
    Subject::new(name, work)
}

const NAME: &str = "sealane/udp";
const REJECTED: Error = Error::Rejected { subject: NAME, step: "shake hands" };

fn shake(wire: &mut Wire) -> Result<(Duration, [u8; 32]), Error> {
    let [ours, theirs] = SECRETS.map(Identity::from_secret);
    let (content, ciphers) = (Nothing::new(), Ciphers::of_this_machine());
    let ticket = Ticket { id: content.id, set: true, key: theirs.public().0, addrs: vec![wire.addresses[1]] };
    let mut provider = Provider::new(Instant::now(), theirs, ciphers, content, [1; 32]);

    let start = Instant::now();
    let mut getter = Getter::new(start, ours, ciphers, ticket, LOST, [2; 32]);
    let peer = loop {
        let now = Instant::now();
        if let Some((_, datagram)) = getter.poll_datagram(now) {
            let (lane, arrivals) = wire.carry(0, &datagram)?;
            provider.handle_datagrams(now, lane, arrivals);
        }
        if let Some(Visit::Came { peer, .. }) = provider.poll_visit() {
            break peer;
        }
        let (_, datagram) = provider.poll_datagram(now).ok_or(REJECTED)?;
        let (lane, arrivals) = wire.carry(1, &datagram)?;
        getter.handle_datagrams(now, lane, arrivals);
    };
    let took = start.elapsed();
    if !matches!(getter.poll_news(), Some(News::Connected { .. })) {
        return Err(REJECTED);
    }
    Ok((took, peer.0))
}

/// Two ends, and one datagram at a time between them: over sockets on loopback, or copied.
struct Wire {
    sockets: Option<[Udp; 2]>,
    addresses: [SocketAddr; 2],
    outgoing: Lane,
    incoming: Lane,
    arrivals: Vec<Arrival>,
}

impl Wire {
    fn new(loopback: bool) -> Result<Self, Error> {
        let sockets = if loopback { Some([Udp::bind(LOOPBACK)?, Udp::bind(LOOPBACK)?]) } else { None };
        let addresses = match &sockets {
            Some([one, other]) => [one.local_addr()?, other.local_addr()?],
            None => [1, 2].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        };
        let [outgoing, incoming] = [1, 64].map(|slots| Lane::new(RECEIVE_BUFFER, slots));
        Ok(Self { sockets, addresses, outgoing, incoming, arrivals: Vec::new() })
    }

    /// From the end `from` to the other; the packet is the only one in the lane returned.
    fn carry(&mut self, from: usize, datagram: &[u8]) -> Result<(&mut Lane, &[Arrival]), Error> {
        const LATE: Error = Error::Rejected { subject: "loopback", step: "carry a datagram" };
        self.incoming.clear();
        self.arrivals.clear();
        let lane = if self.sockets.is_some() { &mut self.outgoing } else { &mut self.incoming };
        lane.clear();
        lane.push(datagram.len()).ok_or(REJECTED)?.copy_from_slice(datagram);
        match &mut self.sockets {
            None => self.arrivals.push(Arrival { from: self.addresses[from], ecn: None, packets: 0..1 }),
            Some(sockets) => {
                sockets[from].send(&self.outgoing, self.addresses[1 - from], None)?;
                let (to, start) = (&mut sockets[1 - from], Instant::now());
                while to.recv(&mut self.incoming, &mut self.arrivals)? == 0 {
                    to.wait(Some(LOST), false)?;
                    if start.elapsed() >= LOST {
                        return Err(LATE);
                    }
                }
            }
        }
        Ok((&mut self.incoming, &self.arrivals))
    }
}

/// What the provider of a handshake has to offer.
struct Nothing {
    id: ObjectId,
    root: Root,
}

impl Nothing {
    fn new() -> Self {
        Self { id: ObjectId::of(&[]), root: Root::Set { manifest_len: 1 } }
    }
}

impl Content for Nothing {
    fn id(&self) -> ObjectId {
        self.id
    }

    fn root(&self) -> &Root {
        &self.root
    }

    fn piece_len(&self, _: Piece) -> Option<usize> {
        None
    }

    fn read(&self, piece: Piece, _: usize, _: &mut [u8]) -> Result<(), sealane_transfer::Error> {
        Err(sealane_transfer::Error::NoSuchPiece(piece))
    }
}
