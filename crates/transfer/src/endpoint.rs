//! All sessions of one socket: whose datagram is this, who is a stranger, who is dialled (spec 1 to 3).
//!
//! Sans-IO. Order of calls, in a loop: [`Endpoint::handle_datagrams`] with each lane received, [`Endpoint::poll_event`]
//! until there is none, [`Endpoint::poll_datagram`] and [`Endpoint::poll_transmit`] until there is nothing to send, then
//! sleep until [`Endpoint::timeout`] and call [`Endpoint::handle_timeout`].

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::ops::Bound;
use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use sealane_aead::{Engine, Job, Verdict};
use sealane_lane::Lane;
use sealane_net::{Arrival, Ecn};

use crate::Content;
use crate::connection::{Closed, Connection, Packet, Renewal, Repeat, Transmit};
use crate::cookie::CookieJar;
use crate::handshake::{Ciphers, HandshakeError, Identity, Initiator, PeerKey, Responder};
use crate::message::Message;
use crate::wire::{COOKIE, DATA_HEADER, Datagram, Malformed, SessionId};

/// Handshakes that wait for their Finish (spec 2.3), and for how long.
const MAX_WAITING: usize = 1024;
const WAITING: Duration = Duration::from_secs(10);
/// Sessions at once; a stranger beyond that is dropped.
const MAX_SESSIONS: usize = 2048;
/// Answers to strangers that wait to be sent.
const MAX_ANSWERS: usize = 1024;
/// Packets opened as one batch.
const MAX_BATCH: usize = 64;

/// What happened to a session.
#[derive(Debug)]
pub(crate) enum Event {
    /// Its handshake is done.
    Established(SessionId),
    /// The peer said something.
    Message(SessionId, Message),
    /// It is over.
    Closed(SessionId, Closed),
    /// Someone answered a dialled session, but not as it must be; the dialling goes on.
    Refused(HandshakeError),
}

/// The sessions of one socket.
pub(crate) struct Endpoint {
    identity: Identity,
    ciphers: Ciphers,
    renewal: Renewal,
    engine: Engine,
    jar: CookieJar,
    random: ChaCha20Rng,
    start: Instant,
    sessions: BTreeMap<SessionId, Connection>,
    dialled: BTreeMap<SessionId, Dial>,
    waiting: BTreeMap<SessionId, Waiting>,
    /// The waiting handshakes by where their Init came from and what it called the session.
    inits: BTreeMap<(SocketAddr, [u8; 8]), SessionId>,
    answers: VecDeque<(SocketAddr, Vec<u8>)>,
    events: VecDeque<Event>,
    /// Whose turn it is to send, so that no session starves another.
    turn: Option<SessionId>,
    opened: Vec<Opened>,
}

/// A session that nobody has answered yet.
struct Dial {
    initiator: Initiator,
    noise: [u8; 32],
    /// Where the peer may be, each with the cookie it gave.
    tries: Vec<(SocketAddr, [u8; COOKIE], Repeat)>,
}

/// A session whose Finish has not come.
struct Waiting {
    responder: Responder,
    response: Vec<u8>,
    from: (SocketAddr, [u8; 8]),
    until: Instant,
}

/// A packet of a lane on which an engine has worked.
struct Opened {
    slot: usize,
    arrival: usize,
    session: SessionId,
    epoch: u8,
    number: u64,
    authentic: bool,
}

impl Endpoint {
    /// `seed`: random; everything that this endpoint draws comes from it.
    pub(crate) fn new(now: Instant, identity: Identity, ciphers: Ciphers, renewal: Renewal, seed: [u8; 32]) -> Self {
        let mut random = ChaCha20Rng::from_seed(seed);
        Self {
            identity,
            ciphers,
            renewal,
            engine: Engine::new(),
            jar: CookieJar::new(draw(&mut random)),
            random,
            start: now,
            sessions: BTreeMap::new(),
            dialled: BTreeMap::new(),
            waiting: BTreeMap::new(),
            inits: BTreeMap::new(),
            answers: VecDeque::new(),
            events: VecDeque::new(),
            turn: None,
            opened: Vec::new(),
        }
    }

    pub(crate) fn renew_after(&mut self, packets: u64) {
        self.renewal.packets = packets;
    }

    pub(crate) fn session(&self, session: SessionId) -> Option<&Connection> {
        self.sessions.get(&session)
    }

    pub(crate) fn session_mut(&mut self, session: SessionId) -> Option<&mut Connection> {
        self.sessions.get_mut(&session)
    }

    /// Begins a session with the owner of `peer`, who is at one of `addresses`. It is tried for ever.
    pub(crate) fn dial(&mut self, now: Instant, peer: PeerKey, addresses: &[SocketAddr]) -> SessionId {
        let id = new_id(&mut self.random);
        let (initiator, noise) = Initiator::start(&self.identity, peer, id, draw(&mut self.random));
        let init = Datagram::Init { id, cookie: &[0; COOKIE], noise: &noise }.encode();
        let tries = addresses.iter().map(|address| (*address, [0; COOKIE], Repeat::new(now, init.clone()))).collect();
        self.dialled.insert(id, Dial { initiator, noise, tries });
        id
    }

    /// Takes what a receive call brought: `arrivals` tell whose each packet of `lane` is. Bytes of pieces go to `data` as
    /// (session, piece, offset, bytes). Packets of `lane` are opened in their place.
    pub(crate) fn handle_datagrams(
        &mut self,
        now: Instant,
        lane: &mut Lane,
        arrivals: &[Arrival],
        data: &mut impl FnMut(SessionId, u64, u32, &[u8]) -> Result<(), Malformed>,
    ) {
        // First the handshakes: the Finish that a packet needs may have come together with it.
        for arrival in arrivals {
            for slot in arrival.packets.clone() {
                self.handle_handshake(now, arrival.from, lane.packet(slot));
            }
        }
        let mut opened = std::mem::take(&mut self.opened);
        self.open(lane, arrivals, &mut opened);
        for opened in opened.drain(..).filter(|opened| opened.authentic) {
            self.handle_opened(now, &opened, &arrivals[opened.arrival], lane.packet(opened.slot), data);
        }
        self.opened = opened;
        self.collect();
    }

    /// Opens every packet of a known session, in batches.
    fn open(&self, lane: &mut Lane, arrivals: &[Arrival], opened: &mut Vec<Opened>) {
        let mut jobs = ArrayVec::<Job<'_>, MAX_BATCH>::new();
        let mut done = 0;
        let mut run = |jobs: &mut ArrayVec<Job<'_>, MAX_BATCH>, opened: &mut Vec<Opened>| {
            self.engine.open(jobs);
            for (job, opened) in jobs.iter().zip(&mut opened[done..]) {
                opened.authentic = job.verdict() == Verdict::Authentic;
            }
            done = opened.len();
            jobs.clear();
        };
        let mut slots = arrivals.iter().enumerate().flat_map(|(n, a)| a.packets.clone().map(move |slot| (n, slot)));
        let mut next = slots.next();
        for (index, bytes) in lane.packets_mut().enumerate() {
            let Some((arrival, slot)) = next.filter(|(_, slot)| *slot == index) else { continue };
            next = slots.next();
            let Some(Datagram::Data { epoch, id, number }) = Datagram::parse(bytes) else { continue };
            let Some(job) = self.sessions.get(&id).and_then(|session| session.open_job(epoch, number, bytes)) else {
                continue;
            };
            opened.push(Opened { slot, arrival, session: id, epoch, number, authentic: false });
            jobs.push(job);
            if jobs.is_full() {
                run(&mut jobs, opened);
            }
        }
        run(&mut jobs, opened);
    }

    fn handle_opened(
        &mut self,
        now: Instant,
        opened: &Opened,
        arrival: &Arrival,
        bytes: &[u8],
        data: &mut impl FnMut(SessionId, u64, u32, &[u8]) -> Result<(), Malformed>,
    ) {
        let Some(connection) = self.sessions.get_mut(&opened.session) else { return };
        let packet = Packet {
            from: arrival.from,
            marked: arrival.ecn == Some(Ecn::Ce),
            epoch: opened.epoch,
            number: opened.number,
            size: bytes.len(),
            payload: &bytes[DATA_HEADER..bytes.len() - sealane_aead::TAG],
        };
        let random = &mut self.random;
        connection.handle_packet(now, &packet, &mut || draw(random), &mut |piece, offset, bytes| {
            data(opened.session, piece, offset, bytes)
        });
        while let Some(message) = connection.poll_message() {
            self.events.push_back(Event::Message(opened.session, message));
        }
    }

    fn handle_handshake(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) {
        match Datagram::parse(bytes) {
            Some(Datagram::Init { id, cookie, noise }) => self.handle_init(now, from, id, cookie, noise),
            Some(Datagram::Retry { id, cookie }) => self.handle_retry(now, from, id, cookie),
            Some(Datagram::Response { id, noise }) => {
                let Some(dial) = self.dialled.get_mut(&id) else { return };
                let Some((_, _, init)) = dial.tries.iter().find(|(address, ..)| *address == from) else { return };
                let round_trip = now.saturating_duration_since(init.since());
                match dial.initiator.finish(noise, self.ciphers) {
                    Ok((established, noise)) => {
                        let finish = Datagram::Finish { id: established.peer_id, noise: &noise }.encode();
                        self.dialled.remove(&id);
                        self.establish(
                            id,
                            Connection::new(now, established, from, round_trip, Some(finish), self.renewal),
                        );
                    }
                    Err(HandshakeError::Forged) => {}
                    Err(error) => self.events.push_back(Event::Refused(error)),
                }
            }
            Some(Datagram::Finish { id, noise }) => {
                // Only the address of the cookie is known not to be forged.
                let Some(waiting) = self.waiting.get_mut(&id).filter(|waiting| waiting.from.0 == from) else { return };
                let round_trip = (now + WAITING).saturating_duration_since(waiting.until);
                match waiting.responder.finish(noise) {
                    Ok(established) => {
                        self.forget_waiting(id);
                        self.establish(id, Connection::new(now, established, from, round_trip, None, self.renewal));
                    }
                    Err(error) => tracing::debug!(%from, %error, "a handshake failed"),
                }
            }
            Some(Datagram::Data { .. }) | None => {}
        }
    }

    fn handle_init(&mut self, now: Instant, from: SocketAddr, id: SessionId, cookie: &[u8; COOKIE], noise: &[u8; 32]) {
        if self.answers.len() >= MAX_ANSWERS {
            return;
        }
        let clock = now.saturating_duration_since(self.start).as_secs() as u32;
        if !self.jar.verify(clock, from, id, cookie) {
            let cookie = self.jar.bake(clock, from, id);
            self.answers.push_back((from, Datagram::Retry { id, cookie: &cookie }.encode()));
            return;
        }
        if let Some(waiting) = self.inits.get(&(from, id.0)).and_then(|id| self.waiting.get(id)) {
            self.answers.push_back((from, waiting.response.clone()));
            return;
        }
        if self.waiting.len() >= MAX_WAITING || self.sessions.len() >= MAX_SESSIONS {
            return;
        }
        let own = new_id(&mut self.random);
        let seed = draw(&mut self.random);
        let Ok((responder, noise)) = Responder::respond(&self.identity, id, own, self.ciphers, seed, noise) else {
            return;
        };
        let response = Datagram::Response { id, noise: &noise }.encode();
        self.answers.push_back((from, response.clone()));
        self.inits.insert((from, id.0), own);
        self.waiting.insert(own, Waiting { responder, response, from: (from, id.0), until: now + WAITING });
    }

    fn handle_retry(&mut self, now: Instant, from: SocketAddr, id: SessionId, cookie: &[u8; COOKIE]) {
        let Some(dial) = self.dialled.get_mut(&id) else { return };
        let Some((_, known, repeat)) = dial.tries.iter_mut().find(|(address, ..)| *address == from) else { return };
        if known != cookie {
            *known = *cookie;
            repeat.hurry(now, Datagram::Init { id, cookie, noise: &dial.noise }.encode());
        }
    }

    fn establish(&mut self, id: SessionId, connection: Connection) {
        self.sessions.insert(id, connection);
        self.events.push_back(Event::Established(id));
    }

    fn forget_waiting(&mut self, id: SessionId) {
        if let Some(waiting) = self.waiting.remove(&id) {
            self.inits.remove(&waiting.from);
        }
    }

    /// Sessions that are over become events.
    fn collect(&mut self) {
        let events = &mut self.events;
        self.sessions.retain(|id, connection| match connection.ended() {
            Some(why) => {
                events.push_back(Event::Closed(*id, why));
                false
            }
            None => true,
        });
    }

    /// What happened.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The next datagram of a handshake to be sent.
    pub(crate) fn poll_datagram(&mut self, now: Instant) -> Option<(SocketAddr, Vec<u8>)> {
        if let Some(answer) = self.answers.pop_front() {
            return Some(answer);
        }
        for (address, _, repeat) in self.dialled.values_mut().flat_map(|dial| &mut dial.tries) {
            if let Some(init) = repeat.take(now) {
                return Some((*address, init.to_vec()));
            }
        }
        self.sessions.values_mut().find_map(|connection| {
            let address = connection.address();
            connection.poll_finish(now).map(|finish| (address, finish.to_vec()))
        })
    }

    /// Fills the empty `lane` with packets of one session; `None` when there is nothing to send now.
    pub(crate) fn poll_transmit(&mut self, now: Instant, lane: &mut Lane, content: &dyn Content) -> Option<Transmit> {
        let turn = self.turn.map_or(Bound::Unbounded, Bound::Excluded);
        let later = self.sessions.range_mut((turn, Bound::Unbounded));
        let mut filled = fill_first(now, lane, &self.engine, content, later);
        if filled.is_none() && self.turn.is_some() {
            filled = fill_first(now, lane, &self.engine, content, self.sessions.iter_mut());
        }
        self.turn = filled.map(|(id, _)| id);
        self.collect();
        filled.map(|(_, transmit)| transmit)
    }

    /// When [`Endpoint::handle_timeout`] has something to do; `None`: never.
    pub(crate) fn timeout(&self, now: Instant) -> Option<Instant> {
        let sessions = self.sessions.values().map(|connection| connection.timeout(now));
        let dialled = self.dialled.values().flat_map(|dial| dial.tries.iter().map(|(_, _, repeat)| repeat.next()));
        let waiting = self.waiting.values().map(|waiting| waiting.until);
        sessions.chain(dialled).chain(waiting).min()
    }

    /// To be called at [`Endpoint::timeout`], and harmless before.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        let random = &mut self.random;
        for connection in self.sessions.values_mut().filter(|connection| connection.timeout(now) <= now) {
            connection.handle_timeout(now, &mut || draw(random));
        }
        let late: Vec<SessionId> =
            self.waiting.iter().filter(|(_, waiting)| waiting.until <= now).map(|(id, _)| *id).collect();
        late.into_iter().for_each(|id| self.forget_waiting(id));
        self.collect();
    }
}

fn fill_first<'a>(
    now: Instant,
    lane: &mut Lane,
    engine: &Engine,
    content: &dyn Content,
    sessions: impl Iterator<Item = (&'a SessionId, &'a mut Connection)>,
) -> Option<(SessionId, Transmit)> {
    for (id, connection) in sessions {
        let transmit = connection.fill(now, lane, engine, content);
        if !lane.is_empty() {
            return Some((*id, transmit));
        }
    }
    None
}

fn draw(random: &mut ChaCha20Rng) -> [u8; 32] {
    let mut bytes = [0; 32];
    random.fill_bytes(&mut bytes);
    bytes
}

fn new_id(random: &mut ChaCha20Rng) -> SessionId {
    let mut id = [0; 8];
    random.fill_bytes(&mut id);
    SessionId(id)
}
