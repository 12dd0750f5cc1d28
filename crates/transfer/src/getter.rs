//! The side that wants the files: dials, asks for pieces, puts them together (spec 6). Sans-IO.
//!
//! What must happen on disk comes out as [`Action`]s, in order, and comes back as [`Reply`]s; `node.rs` has a thread for
//! them. Order of calls: those of [`Machine`], [`Getter::poll_action`] until there is none, [`Getter::handle_reply`],
//! and [`Getter::poll_outcome`].

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use sealane_aead::Cipher;
use sealane_lane::Lane;
use sealane_net::Arrival;

use crate::connection::Renewal;
use crate::endpoint::{Endpoint, Event};
use crate::error::Error;
use crate::handshake::{Ciphers, HandshakeError, Identity, PeerKey};
use crate::layout::{Layout, Piece, Root};
use crate::machine::Machine;
use crate::message::{Message, Reason};
use crate::ranges::RangeSet;
use crate::ticket::Ticket;
use crate::tree::CHUNK;
use crate::wire::{Malformed, SessionId};
use crate::{Closed, Content, Transmit};

/// Bytes of pieces that were asked for and are not on disk. Bounds the memory for them.
const WINDOW: usize = 24 << 20;
/// Pieces of them; small files need no more.
const MAX_PIECES: usize = 4096;
/// Holes in a piece. A provider that makes more of them sends crumbs to fill our memory.
const MAX_HOLES: usize = 1024;
/// Buffers kept for the next pieces.
const MAX_SPARE: usize = 4;
/// How long the last words may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// How long the provider may be awaited where others answer: another machine may have one of the ticket's addresses.
const STRANGERS: Duration = Duration::from_secs(10);

/// What is to be done on disk.
#[derive(Debug)]
pub enum Action {
    /// Open the store for what is offered. Answer: [`Reply::Ready`].
    Open(Root),
    /// Take the manifest. Answer: [`Reply::Ready`].
    Manifest(Vec<u8>),
    /// Take the trees. Answer: [`Reply::Ready`].
    Trees(Vec<u8>),
    /// Verify and write a chunk. Answer: [`Reply::Written`].
    Write(Piece, Vec<u8>),
    /// Everything is there. Answer: [`Reply::Finished`].
    Finish,
}

/// What the disk says to an [`Action`].
#[derive(Debug)]
pub enum Reply {
    /// The store waits for more.
    Ready(Plan),
    /// A chunk is on disk; its buffer comes back.
    Written(Vec<u8>),
    /// All files have their final names; these are the top-level ones.
    Finished(Vec<PathBuf>),
    /// It cannot be done: the transfer ends.
    Failed(Error),
}

/// What a store has and lacks.
#[derive(Debug)]
pub struct Plan {
    /// The pieces, as far as they are known.
    pub layout: Layout,
    /// What comes next.
    pub need: Need,
    /// How much there is.
    pub progress: Progress,
}

/// What a store lacks.
#[derive(Debug)]
pub enum Need {
    /// The manifest.
    Manifest,
    /// The hash trees.
    Trees,
    /// These chunks of files.
    Files(Vec<std::ops::Range<u64>>),
}

/// How far a transfer is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes verified and on disk.
    pub done: u64,
    /// Bytes of all files; 0 until it is known.
    pub total: u64,
    /// Number of files.
    pub files: usize,
    /// Bytes of pieces that came over the network in this run, repetitions included.
    pub received: u64,
}

/// What a getter may tell a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// A provider answered.
    Connected {
        /// Where it is.
        address: SocketAddr,
        /// What seals the session.
        cipher: Cipher,
    },
    /// What will be fetched is known, or how much of it is here already.
    Offered(Progress),
    /// The session was lost; the provider is dialled again.
    Lost(Closed),
    /// Someone else answers where the provider should be.
    WrongPeer,
}

enum Phase {
    /// OFFER, or what the disk says to the last action, is awaited.
    Waiting,
    /// Manifest or trees arrive.
    Metadata { trees: bool, arrived: BTreeMap<u64, Vec<u8>>, pieces: u64 },
    /// Chunks arrive.
    Files,
    /// It is over, and the peer is told until then.
    Over { outcome: Result<Vec<PathBuf>, Error>, until: Instant },
    /// [`Getter::poll_outcome`] gave it away.
    Told,
}

/// Fetches what one ticket names.
pub struct Getter {
    endpoint: Endpoint,
    ticket: Ticket,
    /// How long it goes on without hearing anything new.
    patience: Duration,
    last_new: Instant,
    refused: Option<HandshakeError>,
    session: SessionId,
    connected: bool,
    /// Where the provider was last; it may have moved since the ticket was made.
    last_address: Option<SocketAddr>,
    /// Whether this session brought its OFFER.
    offered: bool,
    root: Option<Root>,
    phase: Phase,
    pieces: Pieces,
    actions: VecDeque<Action>,
    /// Actions without a reply.
    at_disk: usize,
    progress: Progress,
    news: VecDeque<News>,
}

/// The pieces that are wanted, asked for, and coming.
#[derive(Default)]
struct Pieces {
    layout: Option<Layout>,
    wanted: RangeSet,
    coming: BTreeMap<u64, Coming>,
    /// Bytes asked for and not on disk.
    outstanding: usize,
    complete: VecDeque<(u64, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    received: u64,
    /// Bytes came that were not there before.
    grew: bool,
}

/// A piece that was asked for.
struct Coming {
    len: usize,
    /// Empty until the first byte comes.
    buf: Vec<u8>,
    have: RangeSet,
}

impl Getter {
    /// Dials the provider that `ticket` names. Gives up after `patience` without anything new. `seed`: random.
    pub fn new(
        now: Instant,
        identity: Identity,
        ciphers: Ciphers,
        ticket: Ticket,
        patience: Duration,
        seed: [u8; 32],
    ) -> Self {
        let mut endpoint = Endpoint::new(now, identity, ciphers, Renewal::default(), seed);
        let session = endpoint.dial(now, PeerKey(ticket.key), &ticket.addrs);
        Self {
            endpoint,
            ticket,
            patience,
            last_new: now,
            refused: None,
            session,
            connected: false,
            last_address: None,
            offered: false,
            root: None,
            phase: Phase::Waiting,
            pieces: Pieces::default(),
            actions: VecDeque::new(),
            at_disk: 0,
            progress: Progress::default(),
            news: VecDeque::new(),
        }
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        Progress { received: self.pieces.received, ..self.progress }
    }

    /// Round-trip time, datagram size in bytes and packets lost of the session, when there is one.
    pub fn path(&self) -> Option<(Duration, usize, u64)> {
        let session = self.endpoint.session(self.session)?;
        Some((session.round_trip(), session.mtu(), session.lost_packets()))
    }

    /// The next thing to be done on disk; in order.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// What may interest a person.
    pub fn poll_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    /// Renews keys after so many packets of one direction, from the next session on. For simulations.
    #[doc(hidden)]
    pub fn renew_after(&mut self, packets: u64) {
        self.endpoint.renew_after(packets);
    }

    /// The end: the paths that are there now, or why not. Once.
    pub fn poll_outcome(&mut self, now: Instant) -> Option<Result<Vec<PathBuf>, Error>> {
        let Phase::Over { until, .. } = &self.phase else { return None };
        if self.connected && now < *until {
            return None;
        }
        match std::mem::replace(&mut self.phase, Phase::Told) {
            Phase::Over { outcome, .. } => Some(outcome),
            _ => None,
        }
    }

    /// Takes what the disk said to an action.
    pub fn handle_reply(&mut self, now: Instant, reply: Reply) {
        self.at_disk -= 1;
        if matches!(self.phase, Phase::Over { .. } | Phase::Told) {
            return;
        }
        self.last_new = now;
        match reply {
            Reply::Ready(plan) => self.handle_plan(plan),
            Reply::Written(buf) => {
                self.progress.done += buf.len() as u64;
                self.pieces.put_back(buf);
                self.finish_if_complete();
            }
            Reply::Finished(paths) => self.over(now, Ok(paths)),
            Reply::Failed(error) => self.over(now, Err(error)),
        }
        self.request();
    }

    /// Ends the transfer; what is on disk stays to be taken up again.
    pub fn stop(&mut self, now: Instant, why: Error) {
        self.over(now, Err(why));
    }

    fn over(&mut self, now: Instant, outcome: Result<Vec<PathBuf>, Error>) {
        if matches!(self.phase, Phase::Over { .. } | Phase::Told) {
            return;
        }
        if let Some(session) = self.endpoint.session_mut(self.session) {
            match &outcome {
                Ok(_) => session.send(&Message::Done),
                Err(error) => session.close(error.farewell()),
            }
        }
        self.phase = Phase::Over { outcome, until: now + FAREWELL };
    }

    fn act(&mut self, action: Action) {
        self.at_disk += 1;
        self.actions.push_back(action);
    }

    fn handle_plan(&mut self, plan: Plan) {
        self.progress = plan.progress;
        let layout = plan.layout;
        let metadata = |trees, pieces: std::ops::Range<u64>| {
            (Phase::Metadata { trees, arrived: BTreeMap::new(), pieces: pieces.end - pieces.start }, vec![pieces])
        };
        let (phase, wanted) = match plan.need {
            Need::Manifest => metadata(false, layout.manifest_pieces()),
            Need::Trees => metadata(true, layout.tree_pieces()),
            Need::Files(missing) => {
                self.news.push_back(News::Offered(self.progress));
                (Phase::Files, missing)
            }
        };
        self.phase = phase;
        self.pieces.layout = Some(layout);
        self.pieces.wanted = wanted.into_iter().collect();
        self.finish_if_complete();
    }

    fn finish_if_complete(&mut self) {
        if matches!(self.phase, Phase::Files) && self.pieces.is_idle() && self.at_disk == 0 {
            self.phase = Phase::Waiting;
            self.act(Action::Finish);
        }
    }

    fn handle_events(&mut self, now: Instant) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Established(id) if id == self.session => {
                    self.connected = true;
                    self.refused = None;
                    let Some(session) = self.endpoint.session_mut(id) else { continue };
                    session.send(&Message::Want(self.ticket.id.0));
                    self.news.push_back(News::Connected { address: session.address(), cipher: session.cipher() });
                }
                Event::Message(id, message) if id == self.session => self.handle_message(now, message),
                Event::Closed(id, why) if id == self.session => self.handle_closed(now, why),
                Event::Refused(error) => {
                    if error == HandshakeError::WrongPeer && self.refused != Some(error) {
                        self.news.push_back(News::WrongPeer);
                    }
                    self.refused = Some(error);
                }
                _ => {}
            }
        }
        if std::mem::take(&mut self.pieces.grew) {
            self.last_new = now;
        }
        if let Some(session) = self.endpoint.session(self.session) {
            self.last_address = Some(session.address());
        }
        while let Some((piece, buf)) = self.pieces.complete.pop_front() {
            self.handle_piece(piece, buf);
        }
        if matches!(self.phase, Phase::Over { .. })
            && let Some(session) = self.endpoint.session_mut(self.session)
            && session.is_flushed()
        {
            session.close(Closed::Done);
        }
        self.request();
    }

    fn handle_message(&mut self, now: Instant, message: Message) {
        match message {
            Message::Offer(root) => match Root::decode(&root) {
                Ok(root) if matches!(root, Root::Set { .. }) != self.ticket.set => self.over(now, Err(Error::Root)),
                Ok(root) if self.root.is_none() => {
                    self.last_new = now;
                    self.offered = true;
                    self.root = Some(root.clone());
                    self.act(Action::Open(root));
                }
                Ok(root) if self.root.as_ref() == Some(&root) => self.offered = true,
                Ok(_) => self.over(now, Err(Error::Root)),
                Err(error) => self.over(now, Err(error)),
            },
            Message::Failed(Reason::NoSuchObject) => self.over(now, Err(Error::NotOffered)),
            Message::Failed(Reason::Unreadable) => self.over(now, Err(Error::SourceFailed)),
            _ => self.over(now, Err(Error::Misbehaved)),
        }
    }

    fn handle_closed(&mut self, now: Instant, why: Closed) {
        (self.connected, self.offered) = (false, false);
        if matches!(self.phase, Phase::Over { .. } | Phase::Told) {
            return;
        }
        match why {
            Closed::Misbehaved => self.over(now, Err(Error::Misbehaved)),
            Closed::Refused => self.over(now, Err(Error::Refused)),
            _ => {
                self.news.push_back(News::Lost(why));
                self.pieces.want_again();
                let mut addresses = self.ticket.addrs.clone();
                addresses.extend(self.last_address.filter(|address| !self.ticket.addrs.contains(address)));
                self.session = self.endpoint.dial(now, PeerKey(self.ticket.key), &addresses);
            }
        }
    }

    fn handle_piece(&mut self, piece: u64, buf: Vec<u8>) {
        match &mut self.phase {
            Phase::Metadata { trees, arrived, pieces } => {
                self.pieces.outstanding -= buf.len();
                arrived.insert(piece, buf);
                if arrived.len() as u64 == *pieces {
                    let bytes = std::mem::take(arrived).into_values().collect::<Vec<_>>().concat();
                    let action = if *trees { Action::Trees(bytes) } else { Action::Manifest(bytes) };
                    self.phase = Phase::Waiting;
                    self.act(action);
                }
            }
            Phase::Files => self.act(Action::Write(Piece(piece), buf)),
            _ => {}
        }
    }

    /// Asks for more pieces when there is room for a fair number of them.
    fn request(&mut self) {
        if !self.offered || !matches!(self.phase, Phase::Metadata { .. } | Phase::Files) {
            return;
        }
        let pieces = self.pieces.ask();
        if !pieces.is_empty()
            && let Some(session) = self.endpoint.session_mut(self.session)
        {
            session.send(&Message::Request(pieces));
        }
    }

    /// When to give up; never while the disk is at work.
    fn deadline(&self) -> Option<Instant> {
        let over = matches!(self.phase, Phase::Told);
        match &self.phase {
            Phase::Over { until, .. } => Some(*until),
            _ => {
                let strangers = self.root.is_none() && self.refused.is_some();
                let patience = if strangers { self.patience.min(STRANGERS) } else { self.patience };
                (self.at_disk == 0 && !over).then(|| self.last_new + patience)
            }
        }
    }
}

impl Pieces {
    fn is_idle(&self) -> bool {
        self.wanted.is_empty() && self.coming.is_empty()
    }

    /// Moves pieces from wanted to coming, as many as the window takes.
    fn ask(&mut self) -> Vec<std::ops::Range<u64>> {
        let mut asked = RangeSet::default();
        let Some(layout) = &self.layout else { return Vec::new() };
        let room = |outstanding: usize, coming: usize| outstanding + CHUNK <= WINDOW && coming < MAX_PIECES;
        // Not for every piece that was written: a message for each would be many messages.
        if !self.coming.is_empty() && !room(self.outstanding + WINDOW / 8, self.coming.len() + MAX_PIECES / 8) {
            return Vec::new();
        }
        while room(self.outstanding, self.coming.len()) {
            let Some(piece) = self.wanted.pop(1).map(|range| range.start) else { break };
            let Some(len) = layout.piece_len(Piece(piece)) else { continue };
            asked.insert(piece..piece + 1);
            self.outstanding += len;
            self.coming.insert(piece, Coming { len, buf: Vec::new(), have: RangeSet::default() });
        }
        asked.as_slice().to_vec()
    }

    fn on_data(&mut self, piece: u64, offset: u32, bytes: &[u8]) -> Result<(), Malformed> {
        self.received += bytes.len() as u64;
        let Some(coming) = self.coming.get_mut(&piece) else { return Ok(()) };
        let start = offset as usize;
        let end = start + bytes.len();
        if end > coming.len {
            return Err(Malformed);
        }
        if coming.buf.is_empty() {
            coming.buf = self.spare.pop_if(|_| coming.len == CHUNK).unwrap_or_default();
            coming.buf.resize(coming.len, 0);
        }
        coming.buf[start..end].copy_from_slice(bytes);
        self.grew |= coming.have.insert(start as u64..end as u64) > 0;
        match coming.have.as_slice() {
            [all] if all.start == 0 && all.end == coming.len as u64 => {
                if let Some(coming) = self.coming.remove(&piece) {
                    self.complete.push_back((piece, coming.buf));
                }
            }
            holes if holes.len() > MAX_HOLES => return Err(Malformed),
            _ => {}
        }
        Ok(())
    }

    /// A written piece's buffer.
    fn put_back(&mut self, buf: Vec<u8>) {
        self.outstanding -= buf.len();
        if buf.len() == CHUNK && self.spare.len() < MAX_SPARE {
            self.spare.push(buf);
        }
    }

    /// The session is gone: what was coming must be asked for again.
    fn want_again(&mut self) {
        for (piece, coming) in std::mem::take(&mut self.coming) {
            self.outstanding -= coming.len;
            self.wanted.insert(piece..piece + 1);
        }
    }
}

impl Machine for Getter {
    fn handle_datagrams(&mut self, now: Instant, lane: &mut Lane, arrivals: &[Arrival]) {
        let (pieces, of) = (&mut self.pieces, self.session);
        self.endpoint.handle_datagrams(now, lane, arrivals, &mut |session, piece, offset, bytes| {
            if session == of { pieces.on_data(piece, offset, bytes) } else { Ok(()) }
        });
        self.handle_events(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.endpoint.handle_timeout(now);
        self.handle_events(now);
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            let why = match (self.connected, self.refused) {
                (true, _) => Error::Stalled,
                (_, Some(HandshakeError::WrongPeer)) => Error::WrongPeer,
                (_, Some(HandshakeError::NoCommonCipher)) => Error::NoCommonCipher,
                _ => Error::Unreachable { addresses: self.ticket.addrs.clone() },
            };
            self.over(now, Err(why));
        }
    }

    fn timeout(&self, now: Instant) -> Option<Instant> {
        self.endpoint.timeout(now).into_iter().chain(self.deadline()).min()
    }

    fn poll_datagram(&mut self, now: Instant) -> Option<(SocketAddr, Vec<u8>)> {
        self.endpoint.poll_datagram(now)
    }

    fn poll_transmit(&mut self, now: Instant, lane: &mut Lane) -> Option<Transmit> {
        let transmit = self.endpoint.poll_transmit(now, lane, &Nothing);
        self.handle_events(now);
        transmit
    }
}

/// A getter serves nothing.
struct Nothing;

impl Content for Nothing {
    fn id(&self) -> crate::tree::ObjectId {
        crate::tree::ObjectId([0; 32])
    }

    fn root(&self) -> &Root {
        &Root::Set { manifest_len: 0 }
    }

    fn piece_len(&self, _: Piece) -> Option<usize> {
        None
    }

    fn read(&self, piece: Piece, _: usize, _: &mut [u8]) -> Result<(), Error> {
        Err(Error::NoSuchPiece(piece))
    }
}
