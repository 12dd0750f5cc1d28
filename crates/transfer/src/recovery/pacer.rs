//! Spreads what the window permits over the round trip (RFC 9002 section 7.7), a train at a time.

use std::time::{Duration, Instant};

/// The bytes of one train, the most that one system call sends.
pub(crate) const TRAIN: usize = 64 * 1024;
/// Below this round-trip time timers are coarser than the gaps that they would make, and trains leave when they can.
const UNPACED_RTT: Duration = Duration::from_millis(1);
/// A train is held back until it is worth this much sending time: many small ones cost more than they smooth.
const QUANTUM: Duration = Duration::from_millis(1);
/// What a late wake-up may catch up with.
const CATCH_UP: Duration = Duration::from_millis(2);
/// The least bucket, in datagrams: the burst that RFC 9002 section 7.7 lets any sender make.
const LEAST_BURST: usize = 10;

/// A bucket of bytes that may leave; it overdraws when packets leave that cannot wait.
pub(super) struct Pacer {
    tokens: f64,
    filled: Instant,
    flow: Option<Flow>,
    /// A train has begun to leave: the rest of it need not wait for another quantum.
    draining: bool,
}

/// The rate and what follows from it, in bytes (a second).
#[derive(Clone, Copy)]
struct Flow {
    rate: f64,
    quantum: f64,
    capacity: f64,
    datagram: f64,
}

impl Pacer {
    /// Paces nothing until the first [`Pacer::set_rate`].
    pub(super) fn new(now: Instant) -> Self {
        Self { tokens: 0.0, filled: now, flow: None, draining: false }
    }

    /// `gain` windows a round trip from now on.
    pub(super) fn set_rate(&mut self, now: Instant, window: usize, rtt: Duration, gain: f64, mtu: usize) {
        let was_paced = self.flow.is_some();
        self.fill(now);
        self.flow = (rtt >= UNPACED_RTT).then(|| {
            let rate = gain * window as f64 / rtt.as_secs_f64();
            let burst = (LEAST_BURST * mtu).min(TRAIN) as f64;
            let quantum = (rate * QUANTUM.as_secs_f64()).clamp((2 * mtu) as f64, TRAIN as f64);
            Flow { rate, quantum, capacity: (rate * CATCH_UP.as_secs_f64()).max(burst), datagram: mtu as f64 }
        });
        if let (false, Some(flow)) = (was_paced, self.flow) {
            (self.tokens, self.filled) = (flow.capacity, now);
        }
    }

    pub(super) fn on_sent(&mut self, now: Instant, bytes: usize) {
        self.fill(now);
        self.tokens -= bytes as f64;
        self.draining = self.flow.is_some_and(|flow| self.tokens >= flow.datagram);
    }

    /// Bytes that may leave now.
    pub(super) fn allowance(&self, now: Instant) -> usize {
        match self.flow {
            None => usize::MAX,
            Some(flow) => {
                let tokens = self.tokens_at(now, flow);
                if tokens < self.enough(flow) { 0 } else { tokens as usize }
            }
        }
    }

    /// When [`Pacer::allowance`] stops being zero, if it is.
    pub(super) fn next_send(&self, now: Instant) -> Option<Instant> {
        let flow = self.flow?;
        let missing = self.enough(flow) - self.tokens_at(now, flow);
        // A microsecond more than the division says, so that rounding does not wake the caller for nothing.
        (missing > 0.0).then(|| now + Duration::from_secs_f64(missing / flow.rate) + Duration::from_micros(1))
    }

    fn enough(&self, flow: Flow) -> f64 {
        if self.draining { flow.datagram } else { flow.quantum }
    }

    fn fill(&mut self, now: Instant) {
        if let Some(flow) = self.flow
            && now > self.filled
        {
            self.tokens = self.tokens_at(now, flow);
            self.filled = now;
        }
    }

    fn tokens_at(&self, now: Instant, flow: Flow) -> f64 {
        let gained = flow.rate * now.saturating_duration_since(self.filled).as_secs_f64();
        (self.tokens + gained).min(flow.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trains_leave_at_the_rate() {
        let mut now = Instant::now();
        let start = now;
        let mut pacer = Pacer::new(now);
        // 1.25 windows of 800 kB in 100 ms: 10 MB/s.
        pacer.set_rate(now, 800_000, Duration::from_millis(100), 1.25, 1200);
        let (mut sent, mut trains) = (0, 0);
        while sent < 1_000_000 {
            let train = pacer.allowance(now).min(TRAIN);
            if train > 0 {
                assert!(train as f64 <= 20_000.0, "catches up with no more than 2 ms");
                pacer.on_sent(now, train);
                sent += train;
                trains += 1;
            } else {
                now = pacer.next_send(now).unwrap();
            }
        }
        let took = (now - start).as_secs_f64();
        assert!((0.095..0.101).contains(&took), "{took}");
        assert!((90..=101).contains(&trains), "{trains} trains of about a millisecond");
    }

    #[test]
    fn a_train_is_whole_when_it_is_sent_packet_by_packet() {
        let mut now = Instant::now();
        let mut pacer = Pacer::new(now);
        pacer.set_rate(now, 800_000, Duration::from_millis(100), 1.25, 1200);
        for _ in 0..10 {
            let mut packets = 0;
            while pacer.allowance(now) >= 1200 {
                pacer.on_sent(now, 1200);
                packets += 1;
            }
            assert!(packets >= 8, "{packets} packets of a millisecond's 10,000 bytes");
            now = pacer.next_send(now).unwrap();
        }
    }

    #[test]
    fn fast_links_and_unknown_ones_are_not_paced() {
        let now = Instant::now();
        let mut pacer = Pacer::new(now);
        pacer.on_sent(now, 1_000_000);
        assert_eq!((pacer.allowance(now), pacer.next_send(now)), (usize::MAX, None));
        pacer.set_rate(now, 32_768, Duration::from_micros(999), 1.25, 1200);
        assert_eq!((pacer.allowance(now), pacer.next_send(now)), (usize::MAX, None));
    }

    #[test]
    fn an_overdrawn_bucket_delays_what_follows() {
        let now = Instant::now();
        let mut pacer = Pacer::new(now);
        pacer.set_rate(now, 80_000, Duration::from_millis(100), 1.25, 1200);
        pacer.on_sent(now, 112_000);
        let next = pacer.next_send(now).unwrap();
        assert!((Duration::from_millis(100)..Duration::from_millis(104)).contains(&(next - now)), "{:?}", next - now);
        assert_eq!(pacer.allowance(now + Duration::from_millis(99)), 0);
        assert!(pacer.allowance(next) >= 2400);
    }
}
