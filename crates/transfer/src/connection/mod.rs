//! One session after its handshake: packets in, packets out, and what they said (spec 4 to 6).
//!
//! Sans-IO. Order of calls: `handle_*` with what happened, then [`Connection::fill`] until it leaves the lane empty, then
//! wait until [`Connection::timeout`]. Time and randomness are arguments. Read next: `send.rs`.

mod epochs;
mod path;
mod received;
mod send;
mod stream;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use sealane_aead::{Cipher, Job};

use self::epochs::Epochs;
pub(crate) use self::epochs::Renewal;
use self::path::{Fresh, Path};
use self::received::Received;
use self::send::Outbox;
pub use self::send::Transmit;
use self::stream::{ReceiveHalf, SendHalf};
use crate::handshake::{Established, PeerKey};
use crate::keys::Role;
use crate::message::{Message, MessageReader};
use crate::recovery::{Recovery, Timeout};
use crate::wire::{DATA_HEADER, Frame, Malformed, SessionId, frames};

/// Silence that ends a session (spec 5.8).
pub(crate) const IDLE: Duration = Duration::from_secs(10);
/// Silence after which the getter asks for a sign of life (spec 5.8).
const KEEP_ALIVE: Duration = Duration::from_millis(2500);
/// Requested ranges that may wait (spec 6.2).
const MAX_REQUESTS: usize = 8192;

/// Why a session ended (spec 5.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// The peer has what it came for.
    Done,
    /// The peer broke the protocol.
    Misbehaved,
    /// Too many packets under one key.
    KeysSpent,
    /// The peer is shutting down.
    ShuttingDown,
    /// The peer wants nothing of us.
    Refused,
    /// Nothing came for ten seconds.
    TimedOut,
}

impl Closed {
    fn from_code(code: u64) -> Self {
        match code {
            0 => Self::Done,
            2 => Self::KeysSpent,
            3 => Self::ShuttingDown,
            4 => Self::Refused,
            _ => Self::Misbehaved,
        }
    }

    fn code(self) -> u64 {
        match self {
            Self::Done => 0,
            Self::Misbehaved | Self::TimedOut => 1,
            Self::KeysSpent => 2,
            Self::ShuttingDown => 3,
            Self::Refused => 4,
        }
    }
}

/// A packet that an engine opened.
pub(crate) struct Packet<'a> {
    pub(crate) from: SocketAddr,
    pub(crate) marked: bool,
    pub(crate) epoch: u8,
    pub(crate) number: u64,
    /// Bytes of the whole datagram.
    pub(crate) size: usize,
    /// Its frames.
    pub(crate) payload: &'a [u8],
}

/// A session.
pub(crate) struct Connection {
    peer: PeerKey,
    peer_id: SessionId,
    role: Role,
    cipher: Cipher,
    epochs: Epochs,
    path: Path,
    recovery: Recovery<send::Contents>,
    received: Received,
    control_out: SendHalf,
    control_in: ReceiveHalf,
    reader: MessageReader,
    messages: VecDeque<Message>,
    outbox: Outbox,
    last_heard: Instant,
    last_sent: Instant,
    /// An initiator's Finish, until the responder shows that it came.
    finish: Option<Repeat>,
    /// Why it ends, and whether the peer was told.
    closing: Option<(Closed, bool)>,
    /// What an acknowledgement says was acked and lost; kept to keep its memory.
    fates: (Vec<send::Contents>, Vec<send::Contents>),
}

/// A datagram that is sent again until something answers it (spec 3.5).
pub(crate) struct Repeat {
    pub(crate) datagram: Vec<u8>,
    since: Instant,
    next: Instant,
    interval: Duration,
}

impl Repeat {
    /// To be sent now.
    pub(crate) fn new(now: Instant, datagram: Vec<u8>) -> Self {
        Self { datagram, since: now, next: now, interval: Duration::from_millis(250) }
    }

    /// To be sent now, whatever the interval says.
    pub(crate) fn hurry(&mut self, now: Instant, datagram: Vec<u8>) {
        self.datagram = datagram;
        (self.since, self.next) = (now, now);
    }

    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// When this datagram was sent first.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// The datagram, when it is its time.
    pub(crate) fn take(&mut self, now: Instant) -> Option<&[u8]> {
        if now < self.next {
            return None;
        }
        self.next = now + self.interval;
        self.interval = (self.interval * 3 / 2).min(Duration::from_secs(2));
        Some(&self.datagram)
    }
}

// Getters.
impl Connection {
    pub(crate) fn peer(&self) -> PeerKey {
        self.peer
    }

    pub(crate) fn cipher(&self) -> Cipher {
        self.cipher
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.path.address()
    }

    /// UDP payload bytes of a datagram on this path.
    pub(crate) fn mtu(&self) -> usize {
        self.recovery.mtu()
    }

    pub(crate) fn round_trip(&self) -> Duration {
        self.recovery.smoothed_rtt()
    }

    pub(crate) fn lost_packets(&self) -> u64 {
        self.recovery.lost_packets()
    }

    /// Whether the peer has every message.
    pub(crate) fn is_flushed(&self) -> bool {
        self.control_out.is_flushed()
    }

    /// Why the session is over; nothing more comes or leaves.
    pub(crate) fn ended(&self) -> Option<Closed> {
        self.closing.and_then(|(why, told)| told.then_some(why))
    }

    /// When to call [`Connection::handle_timeout`] and [`Connection::fill`].
    pub(crate) fn timeout(&self, now: Instant) -> Instant {
        let idle = self.last_heard + IDLE;
        let always = [self.path.timeout(), self.epochs.timeout()];
        // Nothing of the rest can leave while the path is not known to be the peer's and has had its share.
        let speaking = self.may_speak().then(|| {
            let keep_alive = (self.role == Role::Initiator && !self.outbox.wants_ping())
                .then(|| self.last_heard.max(self.last_sent) + KEEP_ALIVE);
            let paced = self.has_news().then(|| self.recovery.next_send(now)).flatten();
            let finish = self.finish.as_ref().map(Repeat::next);
            [keep_alive, paced, self.recovery.timeout(), self.received.due(), finish]
        });
        always.into_iter().chain(speaking.into_iter().flatten()).flatten().fold(idle, Instant::min)
    }
}

// What happened.
impl Connection {
    /// After a handshake, of which the last round trip took so long; `finish` is an initiator's Finish.
    pub(crate) fn new(
        now: Instant,
        established: Established,
        address: SocketAddr,
        round_trip: Duration,
        finish: Option<Vec<u8>>,
        renewal: Renewal,
    ) -> Self {
        let role = established.keys.role();
        let mut outbox = Outbox::default();
        outbox.ping(role == Role::Responder);
        let mut recovery = Recovery::new(now);
        recovery.on_round_trip(now, round_trip);
        Self {
            peer: established.peer,
            peer_id: established.peer_id,
            role,
            cipher: established.cipher,
            epochs: Epochs::new(now, established.keys, renewal),
            path: Path::new(address),
            recovery,
            received: Received::default(),
            control_out: SendHalf::default(),
            control_in: ReceiveHalf::default(),
            reader: MessageReader::default(),
            messages: VecDeque::new(),
            outbox,
            last_heard: now,
            last_sent: now,
            finish: finish.map(|datagram| Repeat::new(now, datagram)),
            closing: None,
            fates: Default::default(),
        }
    }

    /// The job that opens a datagram; `None` when it is to be dropped.
    pub(crate) fn open_job<'a>(&'a self, epoch: u8, number: u64, datagram: &'a mut [u8]) -> Option<Job<'a>> {
        let (header, sealed) = datagram.split_at_mut_checked(DATA_HEADER)?;
        self.epochs.open_job(epoch, number, header, sealed)
    }

    /// Takes an authentic packet. Bytes of pieces go to `data` as (piece, offset, bytes). `random` is called for fresh
    /// randomness.
    pub(crate) fn handle_packet(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        random: &mut impl FnMut() -> [u8; 32],
        data: &mut impl FnMut(u64, u32, &[u8]) -> Result<(), Malformed>,
    ) {
        if self.ended().is_some() || !self.epochs.accept(now, packet.epoch, packet.number) {
            return;
        }
        self.last_heard = now;
        self.finish = None;
        self.epochs.on_time(now, &mut *random);
        let newest = self.received.highest().is_none_or(|highest| packet.number > highest);
        if packet.from != self.path.address() || self.path.timeout().is_some() {
            let fresh = Fresh { challenge: first_8(random()), pto: self.recovery.pto() };
            if self.path.on_packet(now, packet.from, packet.size, newest, fresh) {
                tracing::debug!(peer = %self.peer, address = %packet.from, "the peer's address changed");
                self.recovery.on_path_change(now);
            }
        }
        match self.handle_frames(now, packet.payload, random, data) {
            Ok(wants_ack) => self.received.on_packet(now, packet.number, wants_ack, packet.marked),
            Err(Malformed) => self.close(Closed::Misbehaved),
        }
    }

    /// Returns whether the packet wants an acknowledgement.
    fn handle_frames(
        &mut self,
        now: Instant,
        payload: &[u8],
        random: &mut impl FnMut() -> [u8; 32],
        data: &mut impl FnMut(u64, u32, &[u8]) -> Result<(), Malformed>,
    ) -> Result<bool, Malformed> {
        let mut wants_ack = false;
        for frame in frames(payload) {
            let frame = frame?;
            wants_ack |= !matches!(frame, Frame::Padding | Frame::Ack(_) | Frame::Close(_));
            match frame {
                Frame::Padding | Frame::Ping => {}
                Frame::Ack(ack) => self.handle_ack(now, &ack)?,
                Frame::Control { offset, bytes } => {
                    let bytes = self.control_in.insert(offset, bytes)?;
                    self.reader.push(&bytes);
                    while let Some(message) = self.reader.next()? {
                        self.messages.push_back(message);
                    }
                }
                Frame::Data { piece, offset, bytes } => data(piece, offset, bytes)?,
                Frame::Challenge(challenge) => self.outbox.answer = Some(challenge),
                Frame::Answer(answer) => self.path.on_answer(answer),
                Frame::Key { epoch, public } => {
                    self.epochs.on_key(now, epoch, &public, random()).map_err(|_| Malformed)?;
                }
                Frame::Close(code) => self.closing = Some((Closed::from_code(code), true)),
            }
        }
        Ok(wants_ack)
    }

    fn handle_ack(&mut self, now: Instant, ack: &crate::wire::Ack) -> Result<(), Malformed> {
        let (mut acked, mut lost) = std::mem::take(&mut self.fates);
        self.recovery
            .on_ack(now, &ack.ranges, ack.delay, ack.ce, &mut |c| acked.push(c), &mut |c| lost.push(c))
            .map_err(|_| Malformed)?;
        acked.drain(..).for_each(|contents| self.on_acked(contents));
        lost.drain(..).for_each(|contents| self.on_lost(contents));
        self.fates = (acked, lost);
        Ok(())
    }

    /// To be called at [`Connection::timeout`].
    pub(crate) fn handle_timeout(&mut self, now: Instant, random: &mut impl FnMut() -> [u8; 32]) {
        if now >= self.last_heard + IDLE {
            self.closing = Some((Closed::TimedOut, true));
            return;
        }
        if self.path.on_timeout(now) {
            tracing::debug!(peer = %self.peer, "the new address did not answer");
            self.recovery.on_path_change(now);
        }
        self.epochs.on_time(now, random);
        if self.recovery.timeout().is_some_and(|at| at <= now) {
            let mut lost = Vec::new();
            if self.recovery.on_timeout(now, &mut |contents| lost.push(contents)) == Timeout::Probe {
                self.outbox.probes = 2;
                self.control_out.on_silence();
            }
            lost.into_iter().for_each(|contents| self.on_lost(contents));
        }
        if self.role == Role::Initiator && now >= self.last_heard.max(self.last_sent) + KEEP_ALIVE {
            self.outbox.ping(true);
        }
    }
}

// Commands.
impl Connection {
    pub(crate) fn send(&mut self, message: &Message) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        self.control_out.push(&bytes);
    }

    /// Queues pieces to be sent; the peer that asks for too much at once is closed.
    pub(crate) fn serve(&mut self, pieces: Range<u64>) {
        if self.outbox.requests.len() >= MAX_REQUESTS {
            self.close(Closed::Misbehaved);
            return;
        }
        self.outbox.requests.push_back(pieces);
    }

    /// Ends the session; the next packet tells the peer.
    pub(crate) fn close(&mut self, why: Closed) {
        self.closing.get_or_insert((why, false));
    }

    /// The next message of the peer.
    pub(crate) fn poll_message(&mut self) -> Option<Message> {
        self.messages.pop_front()
    }

    /// A datagram besides those of [`Connection::fill`].
    pub(crate) fn poll_finish(&mut self, now: Instant) -> Option<&[u8]> {
        self.finish.as_mut()?.take(now)
    }
}

fn first_8(bytes: [u8; 32]) -> [u8; 8] {
    let mut first = [0; 8];
    first.copy_from_slice(&bytes[..8]);
    first
}
