//! Flows through one bottleneck, in virtual time.

use super::super::pacer::TRAIN;
use super::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

/// Acknowledge after so many packets or so much time, at once when one is missing.
const ACK_EVERY: usize = 32;
const ACK_DELAY: Duration = Duration::from_millis(5);
const ONE_WAY: Duration = Duration::from_millis(25);
/// 100 Mbit/s.
const RATE: f64 = 12.5e6;
/// The bottleneck's buffer in bytes: what it carries in one round trip.
const BUFFER: f64 = RATE * 0.050;

struct Path {
    loss: f64,
    /// Added to the delay at random, so that packets overtake each other.
    jitter: Duration,
    mtu: usize,
    idle_at: Instant,
}

enum Event {
    Arrive { flow: usize, number: u64 },
    AckDue { flow: usize },
    Ack { flow: usize, ranges: Vec<RangeInclusive<u64>>, delay: Duration },
    Wake { flow: usize },
}

struct Flow {
    recovery: Recovery<usize>,
    next: u64,
    wake: Option<Instant>,
    goodput: usize,
    /// The receiving side: ranges in rising order, packets unacknowledged, since when.
    received: Vec<RangeInclusive<u64>>,
    waiting: usize,
    waiting_since: Instant,
    largest_at: Instant,
}

struct Sim {
    start: Instant,
    now: Instant,
    rng: ChaCha8Rng,
    path: Path,
    flows: Vec<Flow>,
    events: BTreeMap<(Instant, u64), Event>,
    serial: u64,
}

impl Sim {
    fn new(seed: u64, loss: f64, mtu: usize) -> Self {
        let start = Instant::now();
        Self {
            start,
            now: start,
            rng: ChaCha8Rng::seed_from_u64(seed),
            path: Path { loss, jitter: Duration::ZERO, mtu, idle_at: start },
            flows: Vec::new(),
            events: BTreeMap::new(),
            serial: 0,
        }
    }

    fn add_flow(&mut self) {
        self.flows.push(Flow {
            recovery: Recovery::new(self.now),
            next: 0,
            wake: None,
            goodput: 0,
            received: Vec::new(),
            waiting: 0,
            waiting_since: self.now,
            largest_at: self.now,
        });
        self.at(self.now, Event::Wake { flow: self.flows.len() - 1 });
    }

    /// Goodput of each flow in Mbit/s over the next `seconds`.
    fn run(&mut self, seconds: u64) -> Vec<f64> {
        let before: Vec<usize> = self.flows.iter().map(|flow| flow.goodput).collect();
        let end = self.now + Duration::from_secs(seconds);
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= end) {
            let ((now, _), event) = entry.remove_entry();
            self.now = now;
            self.handle(event);
        }
        self.now = end;
        let rate = |(flow, before): (&Flow, usize)| (flow.goodput - before) as f64 * 8e-6 / seconds as f64;
        self.flows.iter().zip(before).map(rate).collect()
    }

    fn at(&mut self, when: Instant, event: Event) {
        self.serial += 1;
        self.events.insert((when, self.serial), event);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive { flow, number } => self.arrive(flow, number),
            Event::AckDue { flow } => self.ack(flow),
            Event::Ack { flow, ranges, delay } => {
                let Flow { recovery, goodput, .. } = &mut self.flows[flow];
                recovery.on_ack(self.now, &ranges, delay, 0, &mut |size| *goodput += size, &mut |_| {}).unwrap();
                self.pump(flow);
            }
            Event::Wake { flow } => {
                self.flows[flow].wake.take_if(|at| *at == self.now);
                self.pump(flow);
            }
        }
    }

    fn pump(&mut self, flow: usize) {
        let now = self.now;
        if self.flows[flow].recovery.on_timeout(now, &mut |_| {}) == Timeout::Probe {
            self.send(flow, self.flows[flow].recovery.mtu());
        }
        if let Some(size) = self.flows[flow].recovery.mtu_probe(now) {
            let number = self.flows[flow].next;
            self.flows[flow].recovery.on_sent_mtu_probe(now, number, size);
            self.transmit(flow, size);
        }
        loop {
            let recovery = &self.flows[flow].recovery;
            let (mtu, train) = (recovery.mtu(), recovery.allowance(now).min(TRAIN));
            if train == 0 {
                break;
            }
            (0..train / mtu).for_each(|_| self.send(flow, mtu));
        }
        let Flow { recovery, wake, .. } = &mut self.flows[flow];
        let due = [recovery.timeout(), recovery.next_send(now)].into_iter().flatten().min();
        if let Some(due) = due.map(|due| due.max(now))
            && wake.is_none_or(|at| at > due)
        {
            *wake = Some(due);
            self.at(due, Event::Wake { flow });
        }
    }

    fn send(&mut self, flow: usize, size: usize) {
        let Flow { recovery, next, .. } = &mut self.flows[flow];
        recovery.on_sent(self.now, *next, Sent { size, ack_eliciting: true, contents: size });
        self.transmit(flow, size);
    }

    /// Takes the next number through the bottleneck.
    fn transmit(&mut self, flow: usize, size: usize) {
        let number = self.flows[flow].next;
        self.flows[flow].next += 1;
        let queued = self.path.idle_at.saturating_duration_since(self.now).as_secs_f64() * RATE;
        if size > self.path.mtu || queued + size as f64 > BUFFER || self.rng.random_bool(self.path.loss) {
            return;
        }
        self.path.idle_at = self.path.idle_at.max(self.now) + Duration::from_secs_f64(size as f64 / RATE);
        let jitter = self.path.jitter.mul_f64(self.rng.random::<f64>());
        self.at(self.path.idle_at + ONE_WAY + jitter, Event::Arrive { flow, number });
    }

    fn arrive(&mut self, index: usize, number: u64) {
        let (now, flow) = (self.now, &mut self.flows[index]);
        if flow.waiting == 0 {
            flow.waiting_since = now;
        }
        flow.waiting += 1;
        let place = flow.received.partition_point(|range| *range.end() < number);
        let in_order = place == flow.received.len();
        if in_order {
            flow.largest_at = now;
        }
        flow.received.insert(place, number..=number);
        let merges = |ranges: &[RangeInclusive<u64>], i: usize| *ranges[i].end() + 1 == *ranges[i + 1].start();
        for i in [place, place.wrapping_sub(1)] {
            if i < flow.received.len() - 1 && merges(&flow.received, i) {
                flow.received[i] = *flow.received[i].start()..=*flow.received[i + 1].end();
                flow.received.remove(i + 1);
            }
        }
        // As many ranges as an acknowledgement has room for.
        let excess = flow.received.len().saturating_sub(64);
        flow.received.drain(..excess);
        let first = flow.waiting == 1;
        if flow.waiting >= ACK_EVERY || !in_order {
            self.ack(index);
        } else if first {
            self.at(now + ACK_DELAY, Event::AckDue { flow: index });
        }
    }

    fn ack(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        if flow.waiting == 0 {
            return;
        }
        flow.waiting = 0;
        let ranges = flow.received.iter().rev().cloned().collect();
        let delay = self.now - flow.largest_at;
        let lost = self.rng.random_bool(self.path.loss);
        if !lost {
            self.at(self.now + ONE_WAY, Event::Ack { flow: index, ranges, delay });
        }
    }
}

/// Goodput in Mbit/s of one flow over 30 s.
fn one_flow(seed: u64, loss: f64, mtu: usize, jitter: Duration) -> f64 {
    let mut sim = Sim::new(seed, loss, mtu);
    sim.path.jitter = jitter;
    sim.add_flow();
    let goodput = sim.run(30)[0];
    println!("seed {seed}, loss {loss}, mtu {mtu}, jitter {jitter:?}: {goodput:.1} Mbit/s");
    goodput
}

#[test]
fn a_clean_path_is_filled() {
    for seed in 1..=3 {
        assert!(one_flow(seed, 0.0, 1452, Duration::ZERO) > 90.0);
    }
}

#[test]
fn random_loss_costs_what_the_formula_says() {
    // RFC 9438 section 4.3 and RFC 5681: at 1 % and 50 ms CUBIC is Reno, 1.2 / sqrt(p) datagrams a round trip.
    for (mtu, least) in [(1452, 2.0), (8952, 12.0)] {
        for seed in 1..=3 {
            let goodput = one_flow(seed, 0.01, mtu, Duration::ZERO);
            assert!((least..95.0).contains(&goodput), "{goodput}");
        }
    }
    for seed in 1..=3 {
        assert!(one_flow(seed, 0.0001, 1452, Duration::ZERO) > 25.0);
    }
}

#[test]
fn reordering_is_learned() {
    for seed in 1..=3 {
        assert!(one_flow(seed, 0.0, 1452, Duration::from_millis(10)) > 80.0);
    }
}

#[test]
fn two_flows_share_the_path() {
    for seed in 1..=3 {
        let mut sim = Sim::new(seed, 0.0, 1452);
        sim.add_flow();
        sim.run(5);
        sim.add_flow();
        sim.run(25);
        let shares = sim.run(40);
        println!("seed {seed}: {shares:.1?} Mbit/s");
        assert!(shares[0] < 2.0 * shares[1] && shares[1] < 2.0 * shares[0]);
        assert!(shares[0] + shares[1] > 85.0);
    }
}

#[test]
fn a_path_that_shrinks_goes_on_after_a_while() {
    let mut sim = Sim::new(1, 0.0, 8952);
    sim.add_flow();
    sim.run(10);
    assert_eq!(sim.flows[0].recovery.mtu(), 8952);
    sim.path.mtu = 1452;
    let recovering = sim.run(15)[0];
    assert_eq!(sim.flows[0].recovery.mtu(), 1452);
    let after = sim.run(30)[0];
    println!("{recovering:.1}, then {after:.1} Mbit/s, {:?} in all", sim.now - sim.start);
    assert!(recovering > 20.0 && after > 70.0);
}
