//! Runs the state machines on a socket and a disk: [`Server`] for a provider, [`get`] for a getter. Both block.
//!
//! The calling thread receives, opens, seals and sends; a getter's second thread verifies and writes.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use sealane_lane::Lane;
use sealane_net::{Arrival, RECEIVE_BUFFER, Udp};

use crate::error::Error;
use crate::getter::{Action, Getter, Need, News, Plan, Progress, Reply};
use crate::handshake::{Ciphers, Identity};
use crate::machine::Machine;
use crate::offer::Offer;
use crate::provider::{Provider, Visit};
use crate::store::Store;
use crate::ticket::Ticket;
use crate::tree::ObjectId;

/// Trains taken by one receive call.
const RECEIVE_TRAINS: usize = 8;
/// Packets in a received train.
const TRAIN: usize = 64;
/// Receive calls before it is time to send, and trains sent before it is time to receive.
const CALLS: usize = 8;
/// How long a flag that says stop may go unnoticed.
const NOTICE: Duration = Duration::from_millis(200);

/// A socket and the lanes that go through it.
struct Node {
    udp: Udp,
    incoming: Lane,
    outgoing: Lane,
    arrivals: Vec<Arrival>,
}

impl Node {
    /// At the wildcard address of IPv6 where the machine has it, which takes IPv4 too.
    fn bind(port: u16) -> Result<Self, Error> {
        let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
        match Udp::bind(any) {
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => Self::at((Ipv4Addr::UNSPECIFIED, port).into()),
            udp => udp.map(Self::with).map_err(|source| Error::Socket { address: any, source }),
        }
    }

    fn at(address: SocketAddr) -> Result<Self, Error> {
        Udp::bind(address).map(Self::with).map_err(|source| Error::Socket { address, source })
    }

    fn with(udp: Udp) -> Self {
        Self {
            udp,
            incoming: Lane::new(RECEIVE_TRAINS * RECEIVE_BUFFER, RECEIVE_TRAINS * TRAIN),
            outgoing: Lane::new(RECEIVE_BUFFER - 1, TRAIN),
            arrivals: Vec::new(),
        }
    }

    /// Receives what is there and sends what may leave. Returns what to wait for.
    fn work(&mut self, machine: &mut impl Machine) -> io::Result<Next> {
        let mut now = Instant::now();
        let mut next = Next::Datagrams;
        for _ in 0..CALLS {
            self.incoming.clear();
            self.arrivals.clear();
            if self.udp.recv(&mut self.incoming, &mut self.arrivals)? == 0 {
                next = Next::Datagrams;
                break;
            }
            next = Next::Nothing;
            now = Instant::now();
            machine.handle_datagrams(now, &mut self.incoming, &self.arrivals);
        }
        if machine.timeout(now).is_some_and(|at| at <= now) {
            machine.handle_timeout(now);
        }
        while let Some((to, datagram)) = machine.poll_datagram(now) {
            self.outgoing.clear();
            if let Some(slot) = self.outgoing.push(datagram.len()) {
                slot.copy_from_slice(&datagram);
                self.udp.send(&self.outgoing, to, None)?;
            }
        }
        for _ in 0..CALLS {
            self.outgoing.clear();
            let Some(transmit) = machine.poll_transmit(now, &mut self.outgoing) else { return Ok(next) };
            // What the socket has no room for is lost, and sent anew when the peer misses it.
            if self.udp.send(&self.outgoing, transmit.to, transmit.ecn)? < self.outgoing.len() {
                return Ok(Next::Room);
            }
        }
        Ok(Next::Nothing)
    }

    /// Waits for what [`Node::work`] returned, for the machine's time-out, for a waker, or for `at_most`.
    fn sleep(&mut self, machine: &impl Machine, next: Next, at_most: Duration) -> io::Result<()> {
        let now = Instant::now();
        let sleep = machine.timeout(now).map_or(at_most, |at| at.saturating_duration_since(now).min(at_most));
        match next {
            Next::Nothing => Ok(()),
            Next::Datagrams => self.udp.wait(Some(sleep), false),
            Next::Room => self.udp.wait(Some(sleep), true),
        }
    }
}

/// What to wait for.
#[derive(Clone, Copy)]
enum Next {
    /// There is more to do at once.
    Nothing,
    Datagrams,
    /// Datagrams, or room to send.
    Room,
}

/// A provider at work.
pub struct Server {
    node: Node,
    provider: Provider<Offer>,
}

impl Server {
    /// Binds `port`, 0 for any. Fails with [`Error::Socket`].
    pub fn bind(port: u16, identity: Identity, ciphers: Ciphers, offer: Offer) -> Result<Self, Error> {
        let provider = Provider::new(Instant::now(), identity, ciphers, offer, seed()?);
        Ok(Self { node: Node::bind(port)?, provider })
    }

    /// The port bound.
    pub fn port(&self) -> Result<u16, Error> {
        let unknown = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
        let address = self.node.udp.local_addr().map_err(|source| Error::Socket { address: unknown, source })?;
        Ok(address.port())
    }

    /// What is served.
    pub fn offer(&self) -> &Offer {
        self.provider.content()
    }

    /// Serves until `stop` is set, and tells what getters do.
    pub fn run(&mut self, stop: &AtomicBool, told: &mut dyn FnMut(Visit)) -> Result<(), Error> {
        let mut leaving = None;
        loop {
            let next = self.node.work(&mut self.provider).map_err(broken)?;
            while let Some(visit) = self.provider.poll_visit() {
                told(visit);
            }
            let now = Instant::now();
            if stop.load(Ordering::Relaxed) && leaving.is_none() {
                self.provider.shut_down();
                leaving = Some(now + NOTICE);
            }
            if leaving.is_some_and(|until| until <= now || self.provider.sessions() == 0) {
                return Ok(());
            }
            self.node.sleep(&self.provider, next, NOTICE).map_err(broken)?;
        }
    }
}

/// What to get, and how.
pub struct Order {
    /// What, and where it is.
    pub ticket: Ticket,
    /// The folder for it.
    pub dir: PathBuf,
    /// Who asks.
    pub identity: Identity,
    /// The ciphers that may seal it.
    pub ciphers: Ciphers,
    /// How long to go on without anything new.
    pub patience: Duration,
}

/// Fetches into a folder until it is done, fails, or `stop` is set ([`Error::Interrupted`]; a later call goes on from
/// there). Returns the top-level paths. `told` hears news as they come, and the progress about five times a second.
pub fn get(
    order: Order,
    stop: &AtomicBool,
    told: &mut dyn FnMut(Option<News>, Progress),
) -> Result<Vec<PathBuf>, Error> {
    let mut node = Node::bind(0)?;
    let now = Instant::now();
    let id = order.ticket.id;
    let mut getter = Getter::new(now, order.identity, order.ciphers, order.ticket, order.patience, seed()?);
    let (actions, to_do) = mpsc::channel();
    let (done, replies) = mpsc::channel();
    let waker = node.udp.waker();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut disk = Disk::new(&order.dir, id);
            for action in to_do {
                if done.send(disk.execute(action)).is_err() {
                    break;
                }
                waker.wake();
            }
        });
        let actions = actions; // dropped at the end, which ends the thread
        let mut next_report = now;
        loop {
            let now = Instant::now();
            while let Ok(reply) = replies.try_recv() {
                getter.handle_reply(now, reply);
            }
            let next = node.work(&mut getter).map_err(broken)?;
            let now = Instant::now();
            while let Some(action) = getter.poll_action() {
                actions.send(action).map_err(|_| Error::Interrupted)?;
            }
            while let Some(news) = getter.poll_news() {
                told(Some(news), getter.progress());
            }
            if now >= next_report {
                told(None, getter.progress());
                next_report = now + NOTICE;
            }
            if stop.load(Ordering::Relaxed) {
                getter.stop(now, Error::Interrupted);
            }
            if let Some(outcome) = getter.poll_outcome(now) {
                told(None, getter.progress());
                return outcome;
            }
            node.sleep(&getter, next, NOTICE).map_err(broken)?;
        }
    })
}

/// Does a getter's [`Action`]s on a [`Store`].
pub struct Disk<'a> {
    dir: &'a Path,
    id: ObjectId,
    store: Option<Store>,
}

impl<'a> Disk<'a> {
    /// For the object `id`, into the folder `dir`.
    pub fn new(dir: &'a Path, id: ObjectId) -> Self {
        Self { dir, id, store: None }
    }

    /// Does one.
    pub fn execute(&mut self, action: Action) -> Reply {
        self.try_execute(action).unwrap_or_else(Reply::Failed)
    }

    fn try_execute(&mut self, action: Action) -> Result<Reply, Error> {
        if let Action::Open(root) = &action {
            self.store = Some(Store::open(self.dir, self.id, root)?);
        }
        let store = self.store.as_mut().ok_or(Error::TooEarly)?;
        match action {
            Action::Open(_) => {}
            Action::Manifest(bytes) => store.set_manifest(&bytes)?,
            Action::Trees(bytes) => store.set_trees(&bytes)?,
            Action::Write(piece, bytes) => {
                store.write(piece, &bytes)?;
                return Ok(Reply::Written(bytes));
            }
            Action::Finish => {
                let store = self.store.take().ok_or(Error::TooEarly)?;
                return store.finish().map(Reply::Finished);
            }
        }
        let need = match (store.needs_manifest(), store.needs_trees()) {
            (true, _) => Need::Manifest,
            (_, true) => Need::Trees,
            _ => Need::Files(store.missing()),
        };
        let progress =
            Progress { done: store.bytes_done(), total: store.bytes_total(), files: store.files_total(), received: 0 };
        Ok(Reply::Ready(Plan { layout: store.layout().clone(), need, progress }))
    }
}

fn seed() -> Result<[u8; 32], Error> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|_| Error::NoRandomness)?;
    Ok(seed)
}

fn broken(source: io::Error) -> Error {
    Error::Socket { address: (Ipv6Addr::UNSPECIFIED, 0).into(), source }
}
