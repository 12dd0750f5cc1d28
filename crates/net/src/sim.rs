//! A network without I/O: what arrives, when and in which state follows from a seed and the calls made.
//!
//! In go datagrams with the time of sending; out come, in order of arrival, those that survive the [`Profile`].

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::Ecn;

/// What a network does to datagrams. Probabilities are between 0 and 1, each datagram is judged alone; a direction is an
/// ordered pair of addresses. The default is a perfect network: no delay, no limit.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Probability that a datagram is lost.
    pub loss: f64,
    /// Probability that it arrives twice.
    pub duplicate: f64,
    /// Probability that one bit of it is flipped.
    pub corrupt: f64,
    /// Probability that it is held back by up to 1 ms or once more `delay`, whichever is longer, and overtaken.
    pub reorder: f64,
    /// Time under way, besides waiting.
    pub delay: Duration,
    /// Up to this much more, evenly; never changes the order.
    pub jitter: Duration,
    /// Bytes a second and direction.
    pub rate: Option<u64>,
    /// Bytes that wait for the `rate` at most; what comes when it is full is lost.
    pub queue: usize,
    /// Whether ECN-capable datagrams are marked (CE) while the queue is more than half full.
    pub mark: bool,
    /// Longer payloads are lost, in bytes.
    pub mtu: usize,
    /// When, since the start, nothing that is sent passes.
    pub partitions: Vec<Range<Duration>>,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            loss: 0.0,
            duplicate: 0.0,
            corrupt: 0.0,
            reorder: 0.0,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            rate: None,
            queue: usize::MAX,
            mark: false,
            mtu: 65_507,
            partitions: Vec::new(),
        }
    }
}

/// A datagram that has arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Datagram {
    /// The sender as the receiver sees it.
    pub from: SocketAddr,
    /// The receiver, by its own address.
    pub to: SocketAddr,
    /// The congestion mark.
    pub ecn: Option<Ecn>,
    /// The bytes.
    pub payload: Vec<u8>,
}

/// What has happened so far, in datagrams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Handed to [`Network::send`].
    pub sent: u64,
    /// Of those, the ones that never arrive, for whatever reason.
    pub lost: u64,
    /// Copies with a flipped bit.
    pub corrupted: u64,
    /// Arriving twice.
    pub duplicated: u64,
    /// Copies held back.
    pub reordered: u64,
    /// Marked CE on the way.
    pub marked: u64,
    /// Payload bytes handed to [`Network::send`].
    pub bytes: u64,
}

/// The network between all endpoints of a test.
pub struct Network {
    rng: ChaCha8Rng,
    start: Instant,
    profile: Profile,
    links: BTreeMap<(SocketAddr, SocketAddr), Link>,
    under_way: BinaryHeap<Reverse<UnderWay>>,
    bindings: Vec<Binding>,
    counters: Counters,
    copies: u64,
}

impl Network {
    /// A network that behaves as `profile` says, from `start` on.
    ///
    /// # Panics
    /// When a probability is not between 0 and 1, or the rate is 0.
    pub fn new(seed: u64, start: Instant, profile: Profile) -> Self {
        for probability in [profile.loss, profile.duplicate, profile.corrupt, profile.reorder] {
            assert!((0.0..=1.0).contains(&probability), "{probability} is no probability");
        }
        assert_ne!(profile.rate, Some(0), "a link without rate");
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            start,
            profile,
            links: BTreeMap::new(),
            under_way: BinaryHeap::new(),
            bindings: Vec::new(),
            counters: Counters::default(),
            copies: 0,
        }
    }

    /// What has happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// When the next datagram arrives, if any is under way.
    pub fn next_arrival(&self) -> Option<Instant> {
        self.under_way.peek().map(|Reverse(next)| next.at)
    }

    /// The next datagram that has arrived by `now`. To be called until there is none.
    pub fn receive(&mut self, now: Instant) -> Option<Datagram> {
        if self.next_arrival()? > now {
            return None;
        }
        self.under_way.pop().map(|Reverse(arrived)| arrived.datagram)
    }

    /// Gives the endpoint at `old` the address `new`, as a router does that forgets its translation table: what the
    /// endpoint sends comes from `new`, what is sent to `new` reaches it, what is sent to `old` is lost. The endpoint
    /// itself goes on under the address that it knows.
    pub fn rebind(&mut self, old: SocketAddr, new: SocketAddr) {
        let own = self.endpoint_at(old).unwrap_or(old);
        if let Some(binding) = self.bindings.iter_mut().find(|binding| binding.own == own) {
            binding.gone.push(binding.visible);
            binding.visible = new;
        } else {
            self.bindings.push(Binding { own, visible: new, gone: vec![own] });
        }
    }

    /// Sends `payload` at time `now`, which never goes back.
    pub fn send(&mut self, now: Instant, from: SocketAddr, to: SocketAddr, ecn: Option<Ecn>, payload: &[u8]) {
        self.counters.sent += 1;
        self.counters.bytes += payload.len() as u64;
        if self.travel(now, from, to, ecn, payload).is_none() {
            self.counters.lost += 1;
        }
    }

    /// `None`: lost.
    fn travel(
        &mut self,
        now: Instant,
        from: SocketAddr,
        to: SocketAddr,
        ecn: Option<Ecn>,
        payload: &[u8],
    ) -> Option<()> {
        let from = self.bindings.iter().find(|binding| binding.own == from).map_or(from, |binding| binding.visible);
        let direction = (from, to);
        let to = self.endpoint_at(to)?;
        let elapsed = now.saturating_duration_since(self.start);
        if payload.len() > self.profile.mtu || self.profile.partitions.iter().any(|times| times.contains(&elapsed)) {
            return None;
        }
        let link = self.links.entry(direction).or_insert(Link { free: now, last_arrival: now });
        let crowded = link.pass(now, payload.len(), &self.profile)?;
        let departure = link.free.max(now);
        if self.chance(self.profile.loss) {
            return None;
        }
        let marked = crowded && self.profile.mark && ecn.is_some();
        self.counters.marked += u64::from(marked);
        let ecn = if marked { Some(Ecn::Ce) } else { ecn };
        let twice = self.chance(self.profile.duplicate);
        self.counters.duplicated += u64::from(twice);
        for _ in 0..1 + usize::from(twice) {
            let datagram = Datagram { from, to, ecn, payload: payload.to_vec() };
            self.deliver(departure, direction, datagram);
        }
        Some(())
    }

    fn deliver(&mut self, departure: Instant, direction: (SocketAddr, SocketAddr), mut datagram: Datagram) {
        let jitter = self.profile.jitter.mul_f64(self.rng.random::<f64>());
        let mut at = departure + self.profile.delay + jitter;
        if let Some(link) = self.links.get_mut(&direction) {
            at = at.max(link.last_arrival);
            link.last_arrival = at;
        }
        if self.chance(self.profile.reorder) {
            let hold = self.profile.delay.max(Duration::from_millis(1));
            at += hold.mul_f64(self.rng.random::<f64>());
            self.counters.reordered += 1;
        }
        if !datagram.payload.is_empty() && self.chance(self.profile.corrupt) {
            let bit = self.rng.random_range(0..datagram.payload.len() * 8);
            datagram.payload[bit / 8] ^= 1 << (bit % 8);
            self.counters.corrupted += 1;
        }
        self.copies += 1;
        self.under_way.push(Reverse(UnderWay { at, order: self.copies, datagram }));
    }

    /// The own address of the endpoint that is seen at `address`; `None` when it has left.
    fn endpoint_at(&self, address: SocketAddr) -> Option<SocketAddr> {
        if let Some(binding) = self.bindings.iter().find(|binding| binding.visible == address) {
            return Some(binding.own);
        }
        let left = self.bindings.iter().any(|binding| binding.gone.contains(&address));
        (!left).then_some(address)
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.rng.random_bool(probability)
    }
}

/// One direction between two addresses.
struct Link {
    /// When all that was sent so far has left.
    free: Instant,
    last_arrival: Instant,
}

impl Link {
    /// Queues a datagram of `len` bytes; says whether more than half of the queue was taken. `None`: it was full.
    fn pass(&mut self, now: Instant, len: usize, profile: &Profile) -> Option<bool> {
        let Some(rate) = profile.rate else { return Some(false) };
        let rate = rate as f64;
        let waiting = (self.free.saturating_duration_since(now).as_secs_f64() * rate) as usize;
        if waiting > 0 && waiting.saturating_add(len) > profile.queue {
            return None;
        }
        self.free = self.free.max(now) + Duration::from_secs_f64(len as f64 / rate);
        Some(waiting > profile.queue / 2)
    }
}

/// An endpoint that was given another address.
struct Binding {
    own: SocketAddr,
    visible: SocketAddr,
    gone: Vec<SocketAddr>,
}

/// Ordered by time of arrival, then of sending.
struct UnderWay {
    at: Instant,
    order: u64,
    datagram: Datagram,
}

impl Ord for UnderWay {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl PartialOrd for UnderWay {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for UnderWay {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for UnderWay {}

#[cfg(test)]
mod tests;
