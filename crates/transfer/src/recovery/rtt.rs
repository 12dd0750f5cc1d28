//! Round-trip time and what follows from it (RFC 9002 sections 5 and 6).

use std::time::{Duration, Instant};

/// The longest that a peer may hold back an acknowledgement: a constant of the protocol.
pub(crate) const MAX_ACK_DELAY: Duration = Duration::from_millis(25);
/// The finest time that timers are trusted with (RFC 9002 section 6.1.2).
pub(super) const GRANULARITY: Duration = Duration::from_millis(1);
/// Assumed until the first sample (RFC 9002 section 6.2.2).
const INITIAL: Duration = Duration::from_millis(333);
/// Probe timers double up to here and no further, so that a path that comes back is noticed within seconds.
/// Two packets in this time burden no network.
const MAX_BACKED_OFF_PTO: Duration = Duration::from_secs(5);

/// The estimator of one path.
pub(super) struct Rtt {
    latest: Duration,
    smoothed: Duration,
    variation: Duration,
    min: Duration,
    first_sample: Option<Instant>,
}

impl Rtt {
    pub(super) fn new() -> Self {
        Self { latest: INITIAL, smoothed: INITIAL, variation: INITIAL / 2, min: INITIAL, first_sample: None }
    }

    /// A round trip took `sample`, of which the peer says that it spent `ack_delay` itself.
    pub(super) fn on_sample(&mut self, now: Instant, sample: Duration, ack_delay: Duration) {
        self.latest = sample;
        if self.first_sample.is_none() {
            self.first_sample = Some(now);
            (self.min, self.smoothed, self.variation) = (sample, sample, sample / 2);
            return;
        }
        self.min = self.min.min(sample);
        let ack_delay = ack_delay.min(MAX_ACK_DELAY);
        let adjusted = if sample >= self.min + ack_delay { sample - ack_delay } else { sample };
        self.variation = (3 * self.variation + self.smoothed.abs_diff(adjusted)) / 4;
        self.smoothed = (7 * self.smoothed + adjusted) / 8;
    }

    /// After persistent congestion the path may be another one: its minimum is sought anew (RFC 9002 section 5.2).
    pub(super) fn forget_min(&mut self) {
        self.min = self.latest;
    }

    pub(super) fn smoothed(&self) -> Duration {
        self.smoothed
    }

    /// When the first sample was taken; packets older than it say nothing about persistent congestion.
    pub(super) fn first_sample(&self) -> Option<Instant> {
        self.first_sample
    }

    pub(super) fn pto(&self) -> Duration {
        self.smoothed + (4 * self.variation).max(GRANULARITY) + MAX_ACK_DELAY
    }

    /// The probe time-out after `count` of them in a row went unanswered.
    pub(super) fn backed_off_pto(&self, count: u32) -> Duration {
        self.pto().saturating_mul(1 << count.min(16)).min(MAX_BACKED_OFF_PTO.max(self.pto()))
    }

    /// How long after its sending a packet counts as lost once a later one is acked; `eighths` of a round trip.
    pub(super) fn loss_delay(&self, eighths: u32) -> Duration {
        (self.latest.max(self.smoothed) * eighths / 8).max(GRANULARITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn the_first_sample_sets_everything_and_the_next_is_smoothed() {
        let (now, mut rtt) = (Instant::now(), Rtt::new());
        assert_eq!(rtt.pto(), ms(333) + 4 * (ms(333) / 2) + ms(25));
        rtt.on_sample(now, ms(100), ms(20));
        assert_eq!((rtt.smoothed, rtt.variation, rtt.min), (ms(100), ms(50), ms(100)));
        rtt.on_sample(now, ms(200), ms(20));
        assert_eq!(rtt.smoothed, ms(110));
        assert_eq!(rtt.variation, Duration::from_micros((50_000 * 3 + 80_000) / 4));
    }

    #[test]
    fn a_delay_is_believed_up_to_the_constant_and_never_below_the_minimum() {
        let (now, mut rtt) = (Instant::now(), Rtt::new());
        rtt.on_sample(now, ms(100), ms(0));
        rtt.on_sample(now, ms(180), ms(500));
        assert_eq!(rtt.smoothed, (7 * ms(100) + ms(155)) / 8);
        let (now, mut rtt) = (Instant::now(), Rtt::new());
        rtt.on_sample(now, ms(100), ms(0));
        rtt.on_sample(now, ms(110), ms(20));
        assert_eq!(rtt.smoothed, (7 * ms(100) + ms(110)) / 8);
    }

    #[test]
    fn back_off_doubles_up_to_its_bound() {
        let (now, mut rtt) = (Instant::now(), Rtt::new());
        rtt.on_sample(now, ms(100), ms(0));
        assert_eq!(rtt.backed_off_pto(0), ms(325));
        assert_eq!(rtt.backed_off_pto(3), ms(2600));
        assert_eq!(rtt.backed_off_pto(u32::MAX), MAX_BACKED_OFF_PTO);
        rtt.on_sample(now, ms(60_000), ms(0));
        assert_eq!(rtt.backed_off_pto(9), rtt.pto());
    }
}
