//! The side that has the files: answers WANT and REQUEST of any number of getters (spec 6). Sans-IO.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Instant;

use sealane_aead::Cipher;
use sealane_lane::Lane;
use sealane_net::Arrival;

use crate::connection::Renewal;
use crate::endpoint::{Endpoint, Event};
use crate::handshake::{Ciphers, Identity, PeerKey};
use crate::layout::Piece;
use crate::machine::Machine;
use crate::message::{Message, Reason};
use crate::wire::SessionId;
use crate::{Closed, Content, Transmit};

/// What a getter did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Visit {
    /// It shook hands.
    Came {
        /// Who it is.
        peer: PeerKey,
        /// Where it is.
        address: SocketAddr,
        /// What seals the session.
        cipher: Cipher,
    },
    /// It has everything.
    Done {
        /// Who it is.
        peer: PeerKey,
    },
    /// Its session is over.
    Left {
        /// Who it is.
        peer: PeerKey,
        /// Why.
        why: Closed,
    },
}

/// Serves one content on one socket.
pub struct Provider<C> {
    endpoint: Endpoint,
    content: C,
    /// Getters that asked.
    told: BTreeMap<SessionId, Told>,
    peers: BTreeMap<SessionId, PeerKey>,
    visits: VecDeque<Visit>,
}

/// What a getter that asked was told, or said at its end.
#[derive(PartialEq)]
enum Told {
    Offer,
    Failed,
    Done,
}

impl<C: Content> Provider<C> {
    /// `seed`: random.
    pub fn new(now: Instant, identity: Identity, ciphers: Ciphers, content: C, seed: [u8; 32]) -> Self {
        let endpoint = Endpoint::new(now, identity, ciphers, Renewal::default(), seed);
        Self { endpoint, content, told: BTreeMap::new(), peers: BTreeMap::new(), visits: VecDeque::new() }
    }

    /// What is served.
    pub fn content(&self) -> &C {
        &self.content
    }

    /// Open sessions.
    pub fn sessions(&self) -> usize {
        self.peers.len()
    }

    /// Says goodbye to everybody; the next [`Machine::poll_transmit`] calls send it.
    pub fn shut_down(&mut self) {
        for id in self.peers.keys() {
            if let Some(session) = self.endpoint.session_mut(*id) {
                session.close(Closed::ShuttingDown);
            }
        }
    }

    /// What getters did.
    pub fn poll_visit(&mut self) -> Option<Visit> {
        self.visits.pop_front()
    }

    fn handle_events(&mut self) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Established(id) => {
                    let Some(session) = self.endpoint.session(id) else { continue };
                    let peer = session.peer();
                    self.peers.insert(id, peer);
                    self.visits.push_back(Visit::Came { peer, address: session.address(), cipher: session.cipher() });
                }
                Event::Message(id, message) => self.handle_message(id, message),
                Event::Closed(id, why) => {
                    self.told.remove(&id);
                    if let Some(peer) = self.peers.remove(&id) {
                        self.visits.push_back(Visit::Left { peer, why });
                    }
                }
                Event::Refused(_) => {}
            }
        }
    }

    fn handle_message(&mut self, id: SessionId, message: Message) {
        let Some(session) = self.endpoint.session_mut(id) else { return };
        match message {
            Message::Want(wanted) if !self.told.contains_key(&id) => {
                let (told, message) = if wanted == self.content.id().0 {
                    (Told::Offer, Message::Offer(self.content.root().encode()))
                } else {
                    (Told::Failed, Message::Failed(Reason::NoSuchObject))
                };
                self.told.insert(id, told);
                session.send(&message);
            }
            Message::Request(ranges) if self.told.get(&id) == Some(&Told::Offer) => {
                for pieces in ranges {
                    if self.content.piece_len(Piece(pieces.end - 1)).is_none() {
                        return session.close(Closed::Misbehaved);
                    }
                    session.serve(pieces);
                }
            }
            Message::Done if self.told.get(&id) == Some(&Told::Offer) => {
                self.told.insert(id, Told::Done);
                self.visits.push_back(Visit::Done { peer: session.peer() });
            }
            _ => session.close(Closed::Misbehaved),
        }
    }
}

impl<C: Content> Machine for Provider<C> {
    fn handle_datagrams(&mut self, now: Instant, lane: &mut Lane, arrivals: &[Arrival]) {
        self.endpoint.handle_datagrams(now, lane, arrivals, &mut |_, _, _, _| Ok(()));
        self.handle_events();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.endpoint.handle_timeout(now);
        self.handle_events();
    }

    fn timeout(&self, now: Instant) -> Option<Instant> {
        self.endpoint.timeout(now)
    }

    fn poll_datagram(&mut self, now: Instant) -> Option<(SocketAddr, Vec<u8>)> {
        self.endpoint.poll_datagram(now)
    }

    fn poll_transmit(&mut self, now: Instant, lane: &mut Lane) -> Option<Transmit> {
        let transmit = self.endpoint.poll_transmit(now, lane, &self.content);
        self.handle_events();
        transmit
    }
}
