//! A provider and getters in virtual time, over a seeded network: no socket, no thread, no clock.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sealane_lane::Lane;
use sealane_net::Arrival;
use sealane_net::sim::{Datagram, Network, Profile};
use sealane_transfer::getter::Getter;
use sealane_transfer::layout::{Piece, Root};
use sealane_transfer::node::Disk;
use sealane_transfer::offer::Offer;
use sealane_transfer::provider::Provider;
use sealane_transfer::ticket::Ticket;
use sealane_transfer::tree::ObjectId;
use sealane_transfer::{Ciphers, Content, Error, Identity, Machine};
use tempfile::TempDir;

/// No transfer of a test may take longer, in virtual time.
const TOO_LONG: Duration = Duration::from_secs(30 * 60);
/// Turns in which time may stand still: more of them in a row are a busy loop.
const SPINS: usize = 8;
/// Packets of a batch as a receive call brings it.
const BATCH: usize = 64;

pub(crate) const PROVIDER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 4000);

pub(crate) fn getter_address(number: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(198, 51, 100, 1), 5000 + number))
}

/// Files on disk and their offer.
pub(crate) struct Files {
    folder: TempDir,
    offer: Rc<Offer>,
}

impl Files {
    /// One file, or a folder of several.
    pub(crate) fn new(seed: u64, sizes: &[usize]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().join("top");
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut bytes = |size| {
            let mut bytes = vec![0; size];
            random.fill_bytes(&mut bytes);
            bytes
        };
        match sizes {
            [size] => fs::write(&top, bytes(*size)).unwrap(),
            _ => {
                for (n, size) in sizes.iter().enumerate() {
                    let path = top.join(format!("{}/{n}", n % 5));
                    fs::create_dir_all(path.parent().unwrap()).unwrap();
                    fs::write(path, bytes(*size)).unwrap();
                }
            }
        }
        let offer = Rc::new(Offer::from_paths(&[top], &mut |_| {}).unwrap());
        Self { folder, offer }
    }

    /// Whether `into` holds these files and nothing else.
    pub(crate) fn are_in(&self, into: &Path) -> bool {
        same(self.folder.path(), into)
    }
}

fn same(a: &Path, b: &Path) -> bool {
    let names = |dir: &Path| {
        let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    match (a.is_dir(), b.is_dir()) {
        (true, true) => names(a) == names(b) && names(a).iter().all(|name| same(&a.join(name), &b.join(name))),
        (false, false) => fs::read(a).unwrap() == fs::read(b).unwrap(),
        _ => false,
    }
}

/// An offer with a fault.
pub(crate) struct Served {
    offer: Rc<Offer>,
    fault: Fault,
}

/// What is wrong with what a provider reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// The bytes of this piece are others.
    Wrong(Piece),
    /// This piece cannot be read.
    Unreadable(Piece),
}

impl Content for Served {
    fn id(&self) -> ObjectId {
        self.offer.id()
    }

    fn root(&self) -> &Root {
        self.offer.root()
    }

    fn piece_len(&self, piece: Piece) -> Option<usize> {
        self.offer.piece_len(piece)
    }

    fn read(&self, piece: Piece, offset: usize, buf: &mut [u8]) -> Result<(), Error> {
        if self.fault == Fault::Unreadable(piece) {
            return Err(Error::NoSuchPiece(piece));
        }
        self.offer.read(piece, offset, buf)?;
        if self.fault == Fault::Wrong(piece) {
            buf[0] ^= 1;
        }
        Ok(())
    }
}

/// A getter, its disk and how it ended.
pub(crate) struct Fetch {
    pub(crate) getter: Getter,
    pub(crate) folder: TempDir,
    pub(crate) outcome: Option<Result<Vec<PathBuf>, Error>>,
    /// When it ended, and when the first byte of a piece came.
    pub(crate) ended: Option<Duration>,
    pub(crate) first_byte: Option<Duration>,
    address: SocketAddr,
    disk: Disk<'static>,
    inbox: Vec<Datagram>,
}

/// Something that happens to a world.
pub(crate) enum Event {
    /// The address of the endpoint at the first address becomes the second.
    Rebind(SocketAddr, SocketAddr),
    /// The provider is started anew, with these files.
    Restart(Rc<Offer>),
    /// Longer datagrams are lost from now on.
    Shrink(usize),
}

/// All that exists.
pub(crate) struct World {
    pub(crate) provider: Provider<Served>,
    pub(crate) fetches: Vec<Fetch>,
    pub(crate) network: Network,
    pub(crate) now: Instant,
    pub(crate) start: Instant,
    /// Datagrams sent so far, when they are to be kept.
    pub(crate) tape: Option<Vec<Datagram>>,
    offer: Rc<Offer>,
    inbox: Vec<Datagram>,
    events: Vec<(Duration, Event)>,
    carries: usize,
    random: ChaCha8Rng,
    lane: Lane,
}

impl World {
    pub(crate) fn new(seed: u64, profile: Profile, files: &Files, fault: Fault) -> Self {
        let start = Instant::now();
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let provider = provider(start, files.offer.clone(), fault, &mut random);
        Self {
            provider,
            fetches: Vec::new(),
            network: Network::new(seed, start, profile),
            now: start,
            start,
            tape: None,
            offer: files.offer.clone(),
            inbox: Vec::new(),
            events: Vec::new(),
            carries: usize::MAX,
            random,
            lane: Lane::new(1 << 20, 512),
        }
    }

    /// Adds a getter that begins now.
    pub(crate) fn fetch(&mut self, patience: Duration) -> usize {
        let number = self.fetches.len();
        let folder = tempfile::tempdir().unwrap();
        let path: &'static Path = Box::leak(folder.path().to_path_buf().into_boxed_path());
        let key = owner().public().0;
        let ticket = Ticket {
            id: self.offer.id(),
            set: matches!(self.offer.root(), Root::Set { .. }),
            key,
            addrs: vec![PROVIDER],
        };
        let identity = Identity::from_secret([number as u8 + 1; 32]);
        let seed = self.random.random();
        self.fetches.push(Fetch {
            getter: Getter::new(self.now, identity, Ciphers::of_this_machine(), ticket, patience, seed),
            folder,
            outcome: None,
            ended: None,
            first_byte: None,
            address: getter_address(number as u16),
            disk: Disk::new(path, self.offer.id()),
            inbox: Vec::new(),
        });
        number
    }

    pub(crate) fn at(&mut self, when: Duration, event: Event) {
        self.events.push((when, event));
        self.events.sort_by_key(|(when, _)| *when);
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.now - self.start
    }

    /// Runs until every getter has ended.
    pub(crate) fn run(&mut self) {
        while self.fetches.iter().any(|fetch| fetch.ended.is_none()) {
            assert!(self.elapsed() < TOO_LONG, "not over after {TOO_LONG:?}");
            self.step(None);
        }
    }

    /// Runs for `time`.
    pub(crate) fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.step(Some(until));
        }
    }

    /// Does all that is to be done now, then lets time pass, at most until `limit`.
    pub(crate) fn step(&mut self, limit: Option<Instant>) {
        let mut spins = 0;
        let next = loop {
            self.happen();
            self.receive();
            self.send();
            let timeouts = self.fetches.iter().filter(|fetch| fetch.ended.is_none());
            let timeouts = timeouts.filter_map(|fetch| fetch.getter.timeout(self.now));
            let timeouts = timeouts.chain(self.provider.timeout(self.now)).chain(self.network.next_arrival());
            let event = self.events.first().map(|(when, _)| self.start + *when);
            match timeouts.chain(event).chain(limit).min() {
                Some(next) if next <= self.now => {}
                next => break next.unwrap_or(self.now),
            }
            spins += 1;
            assert!(spins < SPINS, "a busy loop at {:?}", self.elapsed());
        };
        self.now = next;
    }

    fn happen(&mut self) {
        while self.events.first().is_some_and(|(when, _)| *when <= self.now - self.start) {
            match self.events.remove(0).1 {
                Event::Rebind(old, new) => self.network.rebind(old, new),
                Event::Restart(offer) => self.provider = provider(self.now, offer, Fault::None, &mut self.random),
                Event::Shrink(carries) => self.carries = carries,
            }
        }
    }

    fn receive(&mut self) {
        while let Some(datagram) = self.network.receive(self.now) {
            if datagram.to == PROVIDER {
                self.inbox.push(datagram);
            } else if let Some(fetch) = self.fetches.iter_mut().find(|fetch| fetch.address == datagram.to) {
                fetch.inbox.push(datagram);
            }
        }
        deliver(&mut self.provider, self.now, &mut self.lane, &mut self.inbox);
        for fetch in &mut self.fetches {
            deliver(&mut fetch.getter, self.now, &mut self.lane, &mut fetch.inbox);
            if fetch.getter.progress().received > 0 {
                fetch.first_byte.get_or_insert(self.now - self.start);
            }
        }
    }

    fn send(&mut self) {
        let mut sent = Vec::new();
        drive(&mut self.provider, PROVIDER, self.now, &mut self.lane, &mut sent);
        while self.provider.poll_visit().is_some() {}
        for fetch in self.fetches.iter_mut().filter(|fetch| fetch.ended.is_none()) {
            loop {
                drive(&mut fetch.getter, fetch.address, self.now, &mut self.lane, &mut sent);
                let Some(action) = fetch.getter.poll_action() else { break };
                fetch.getter.handle_reply(self.now, fetch.disk.execute(action));
            }
            while fetch.getter.poll_news().is_some() {}
            fetch.outcome = fetch.getter.poll_outcome(self.now);
            fetch.ended = fetch.outcome.is_some().then(|| self.now - self.start);
        }
        for datagram in sent.into_iter().filter(|datagram| datagram.payload.len() <= self.carries) {
            self.network.send(self.now, datagram.from, datagram.to, datagram.ecn, &datagram.payload);
            if let Some(tape) = &mut self.tape {
                tape.push(datagram);
            }
        }
    }
}

/// The owner of the provider's key.
pub(crate) fn owner() -> Identity {
    Identity::from_secret([99; 32])
}

fn provider(now: Instant, offer: Rc<Offer>, fault: Fault, random: &mut ChaCha8Rng) -> Provider<Served> {
    Provider::new(now, owner(), Ciphers::of_this_machine(), Served { offer, fault }, random.random())
}

impl Files {
    pub(crate) fn offer(&self) -> Rc<Offer> {
        self.offer.clone()
    }
}

fn deliver(machine: &mut impl Machine, now: Instant, lane: &mut Lane, inbox: &mut Vec<Datagram>) {
    for batch in inbox.chunks(BATCH) {
        lane.clear();
        let arrivals: Vec<Arrival> = batch
            .iter()
            .enumerate()
            .map(|(slot, datagram)| {
                lane.push(datagram.payload.len()).unwrap().copy_from_slice(&datagram.payload);
                Arrival { from: datagram.from, ecn: datagram.ecn, packets: slot..slot + 1 }
            })
            .collect();
        machine.handle_datagrams(now, lane, &arrivals);
    }
    inbox.clear();
}

fn drive(machine: &mut impl Machine, from: SocketAddr, now: Instant, lane: &mut Lane, sent: &mut Vec<Datagram>) {
    if machine.timeout(now).is_some_and(|at| at <= now) {
        machine.handle_timeout(now);
    }
    while let Some((to, payload)) = machine.poll_datagram(now) {
        sent.push(Datagram { from, to, ecn: None, payload });
    }
    for _ in 0..10_000 {
        lane.clear();
        let Some(transmit) = machine.poll_transmit(now, lane) else { return };
        assert!(!lane.is_empty(), "nothing to transmit, said to be something");
        let packets = (0..lane.len()).map(|slot| lane.packet(slot).to_vec());
        sent.extend(packets.map(|payload| Datagram { from, to: transmit.to, ecn: transmit.ecn, payload }));
    }
    panic!("it sends without end");
}
