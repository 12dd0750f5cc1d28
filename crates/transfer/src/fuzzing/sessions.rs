//! A peer that shook hands and then sends what it likes, against a whole provider and a whole getter.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use sealane_aead::{Cipher, Engine, Sealer, TAG};
use sealane_lane::Lane;
use sealane_net::Arrival;

use crate::getter::{Action, Getter, Need, Plan, Progress, Reply};
use crate::handshake::{Ciphers, Established, Identity, Initiator, Responder};
use crate::layout::{Layout, Piece, Root};
use crate::machine::Machine;
use crate::manifest::{Manifest, Mode};
use crate::name::Name;
use crate::provider::Provider;
use crate::ticket::Ticket;
use crate::tree::ObjectId;
use crate::wire::{DATA_HEADER, Datagram, SessionId, write_data_header};
use crate::{Content, Error};

const HOSTILE: SessionId = SessionId([1; 8]);
const HOSTILE_SECRET: [u8; 32] = [2; 32];
const OWN_SECRET: [u8; 32] = [3; 32];
const SEED: [u8; 32] = [4; 32];
/// Where the peer is, and where it says it moves.
const ADDRESSES: [SocketAddr; 2] = [
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7),
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8),
];

/// A getter sends the packets of `bytes` to a provider of three pieces and a byte.
pub fn provider(bytes: &[u8]) {
    let now = Instant::now();
    let (mut provider, established) = met_provider(now);
    misbehave(&mut provider, now, &established, bytes, |_, _| {});
}

fn met_provider(now: Instant) -> (Provider<Zeros>, Established) {
    let own = Identity::from_secret(OWN_SECRET);
    let (key, ciphers) = (own.public(), Ciphers::only(Cipher::ChaCha20Poly1305));
    let mut provider = Provider::new(now, own, ciphers, Zeros::new(), SEED);
    let (mut initiator, noise) = Initiator::start(&Identity::from_secret(HOSTILE_SECRET), key, HOSTILE, SEED);

    let init = |cookie: &[u8; 20]| Datagram::Init { id: HOSTILE, cookie, noise: &noise }.encode();
    let retry = answer(&mut provider, now, &init(&[0; 20]));
    let Some(Datagram::Retry { cookie, .. }) = Datagram::parse(&retry) else { panic!("no Retry") };
    let response = answer(&mut provider, now, &init(cookie));
    let Some(Datagram::Response { noise, .. }) = Datagram::parse(&response) else { panic!("no Response") };
    let (established, noise) = initiator.finish(noise, ciphers).expect("the provider's message");
    deliver(&mut provider, now, ADDRESSES[0], &Datagram::Finish { id: established.peer_id, noise: &noise }.encode());
    assert_eq!(provider.sessions(), 1);
    (provider, established)
}

/// A provider sends the packets of `bytes` to a getter whose disk believes everything.
pub fn getter(bytes: &[u8]) {
    let now = Instant::now();
    let (mut getter, established) = met_getter(now, false);
    let mut layout = None;
    misbehave(&mut getter, now, &established, bytes, |getter, now| {
        work_disk(getter, now, &mut layout);
        _ = getter.poll_outcome(now);
    });
}

fn work_disk(getter: &mut Getter, now: Instant, layout: &mut Option<Layout>) {
    while let Some(action) = getter.poll_action() {
        let reply = believe(action, layout);
        getter.handle_reply(now, reply);
    }
}

fn met_getter(now: Instant, set: bool) -> (Getter, Established) {
    let hostile = Identity::from_secret(HOSTILE_SECRET);
    let ticket = Ticket { id: ObjectId([0; 32]), set, key: hostile.public().0, addrs: vec![ADDRESSES[0]] };
    let (ciphers, patience) = (Ciphers::only(Cipher::ChaCha20Poly1305), Duration::from_secs(30));
    let mut getter = Getter::new(now, Identity::from_secret(OWN_SECRET), ciphers, ticket, patience, SEED);

    let (_, init) = getter.poll_datagram(now).expect("an Init");
    let Some(Datagram::Init { id, noise, .. }) = Datagram::parse(&init) else { panic!("no Init") };
    let (mut responder, noise) =
        Responder::respond(&hostile, id, HOSTILE, ciphers, SEED, noise).expect("the getter's message");
    let finish = answer(&mut getter, now, &Datagram::Response { id, noise: &noise }.encode());
    let Some(Datagram::Finish { noise, .. }) = Datagram::parse(&finish) else { panic!("no Finish") };
    (getter, responder.finish(noise).expect("the getter's message"))
}

/// Each packet of `bytes` is its length, then time that passes and whether the peer moves, then its frames.
fn misbehave<M: Machine>(
    machine: &mut M,
    mut now: Instant,
    established: &Established,
    mut bytes: &[u8],
    mut each: impl FnMut(&mut M, Instant),
) {
    let (sealer, engine) = (established.keys.sealer(0), Engine::portable());
    let mut lane = Lane::new(1 << 16, 64);
    while let Some(([len, pause], rest)) = bytes.split_first_chunk() {
        let (payload, rest) = rest.split_at(rest.len().min((*len).into()));
        bytes = rest;
        now += Duration::from_micros(1 << (pause % 24));
        let packet = seal(&sealer, &engine, established.peer_id, payload);
        deliver(machine, now, ADDRESSES[usize::from(pause >> 7)], &packet);
        each(machine, now);
        if machine.timeout(now).is_some_and(|at| at <= now) {
            machine.handle_timeout(now);
        }
        while machine.poll_datagram(now).is_some() {}
        for _ in 0..8 {
            lane.clear();
            let Some(transmit) = machine.poll_transmit(now, &mut lane) else { break };
            assert!(ADDRESSES.contains(&transmit.to) && !lane.is_empty());
        }
    }
}

fn seal(sealer: &Sealer, engine: &Engine, to: SessionId, payload: &[u8]) -> Vec<u8> {
    let number = sealer.mint().expect("few packets");
    let mut packet = [&[0; DATA_HEADER], payload, &[0; TAG]].concat();
    write_data_header(&mut packet, 0, to, number.get());
    let (header, body) = packet.split_at_mut(DATA_HEADER);
    engine.seal(&mut [sealer.job(number, header, body).expect("room for the tag")]);
    packet
}

fn deliver(machine: &mut impl Machine, now: Instant, from: SocketAddr, datagram: &[u8]) {
    let mut lane = Lane::new(datagram.len(), 1);
    lane.push(datagram.len()).expect("a lane of its size").copy_from_slice(datagram);
    machine.handle_datagrams(now, &mut lane, &[Arrival { from, ecn: None, packets: 0..1 }]);
}

fn answer(machine: &mut impl Machine, now: Instant, datagram: &[u8]) -> Vec<u8> {
    deliver(machine, now, ADDRESSES[0], datagram);
    machine.poll_datagram(now).expect("an answer").1
}

/// What a disk says that verifies nothing: every way into the getter stays open to the peer.
fn believe(action: Action, known: &mut Option<Layout>) -> Reply {
    let layout = || known.clone().expect("an offer came first");
    let (next, need) = match action {
        Action::Open(root @ Root::Set { .. }) => (Layout::new(&root), Need::Manifest),
        Action::Open(root) => files_or_trees(Layout::new(&root)),
        Action::Manifest(bytes) => match Manifest::decode(&bytes) {
            Ok(manifest) => files_or_trees(layout().with_manifest(&manifest)),
            Err(error) => return Reply::Failed(error),
        },
        Action::Trees(bytes) => {
            assert_eq!(bytes.len() as u64, layout().trees_len());
            (layout(), Need::Files(vec![layout().file_pieces()]))
        }
        Action::Write(piece, bytes) => {
            assert_eq!(layout().piece_len(piece), Some(bytes.len()));
            return Reply::Written(bytes);
        }
        Action::Finish => return Reply::Finished(Vec::new()),
    };
    *known = Some(next.clone());
    Reply::Ready(Plan { layout: next, need, progress: Progress::default() })
}

fn files_or_trees(layout: Layout) -> (Layout, Need) {
    let files = layout.file_pieces();
    let need = if layout.trees_len() > 0 { Need::Trees } else { Need::Files(vec![files]) };
    (layout, need)
}

/// A file of zeros.
struct Zeros {
    root: Root,
    layout: Layout,
}

impl Zeros {
    fn new() -> Self {
        let name = Name::new("zeros").expect("a safe name");
        let root = Root::File { name, size: (3 << 20) + 1, mode: Mode::of(0o644) };
        Self { layout: Layout::new(&root), root }
    }
}

impl Content for Zeros {
    fn id(&self) -> ObjectId {
        ObjectId([0; 32])
    }

    fn root(&self) -> &Root {
        &self.root
    }

    fn piece_len(&self, piece: Piece) -> Option<usize> {
        self.layout.piece_len(piece)
    }

    fn read(&self, piece: Piece, offset: usize, buf: &mut [u8]) -> Result<(), Error> {
        assert!(self.piece_len(piece).is_some_and(|len| offset + buf.len() <= len), "only what there is is read");
        buf.fill(0);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
