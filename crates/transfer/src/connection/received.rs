//! Which packets arrived, and when to say so (spec 5.2).

use std::time::{Duration, Instant};

use arrayvec::ArrayVec;

use crate::ranges::RangeSet;
use crate::wire::{ACK_RANGES, Ack};

/// How long an acknowledgement may wait for company.
const MAX_ACK_DELAY: Duration = Duration::from_millis(25);

/// The packets of one direction.
#[derive(Default)]
pub(super) struct Received {
    numbers: RangeSet,
    /// When the highest number arrived.
    highest_at: Option<Instant>,
    marks: u64,
    /// Packets that want an acknowledgement and have none.
    waiting: usize,
    /// When the first of them must have one.
    due: Option<Instant>,
}

impl Received {
    pub(super) fn highest(&self) -> Option<u64> {
        self.numbers.as_slice().last().map(|range| range.end - 1)
    }

    pub(super) fn on_packet(&mut self, now: Instant, number: u64, wants_ack: bool, marked: bool) {
        let in_order = self.highest().map_or(number == 0, |highest| number == highest + 1);
        if self.highest().is_none_or(|highest| number > highest) {
            self.highest_at = Some(now);
        }
        self.numbers.insert(number..number + 1);
        // The oldest range goes first: its packets were acknowledged many times over.
        if self.numbers.as_slice().len() > ACK_RANGES {
            self.numbers.pop(u64::MAX);
        }
        self.marks += u64::from(marked);
        if wants_ack {
            self.waiting += 1;
            let delay = if !in_order || marked || self.waiting >= 2 { Duration::ZERO } else { MAX_ACK_DELAY };
            self.due = Some(self.due.map_or(now + delay, |due| due.min(now + delay)));
        }
    }

    /// When an acknowledgement must leave.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// What to tell the peer; `None` before the first packet.
    pub(super) fn ack(&self, now: Instant) -> Option<Ack> {
        let ranges: ArrayVec<_, ACK_RANGES> =
            self.numbers.as_slice().iter().rev().map(|range| range.start..=range.end - 1).collect();
        let delay = now.saturating_duration_since(self.highest_at?);
        Some(Ack { ranges, delay, ce: self.marks })
    }

    /// Whether an acknowledgement would tell anything new.
    pub(super) fn has_news(&self) -> bool {
        self.waiting > 0
    }

    pub(super) fn on_ack_sent(&mut self) {
        self.waiting = 0;
        self.due = None;
    }

    /// The peer knows of the packets up to `number`: they need no more acknowledgement.
    pub(super) fn forget_up_to(&mut self, number: u64) {
        let Some(highest) = self.highest() else { return };
        // The highest stays: it is what the next packet is compared with.
        self.numbers.remove(0..(number + 1).min(highest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_packet_waits_two_or_a_gap_do_not() {
        let now = Instant::now();
        let mut received = Received::default();
        received.on_packet(now, 0, true, false);
        assert_eq!(received.due(), Some(now + MAX_ACK_DELAY));
        received.on_packet(now, 1, true, false);
        assert_eq!(received.due(), Some(now));
        received.on_ack_sent();
        assert_eq!(received.due(), None);
        received.on_packet(now, 3, true, false);
        assert_eq!(received.due(), Some(now));
        let ack = received.ack(now + MAX_ACK_DELAY).unwrap();
        assert_eq!(ack.ranges.as_slice(), [3..=3, 0..=1]);
        assert_eq!(ack.delay, MAX_ACK_DELAY);
    }

    #[test]
    fn memory_is_bounded_and_the_newest_ranges_are_kept() {
        let now = Instant::now();
        let mut received = Received::default();
        (0..1000).for_each(|n| received.on_packet(now, 2 * n, true, n % 2 == 0));
        let ack = received.ack(now).unwrap();
        assert_eq!((ack.ranges.len(), ack.ce), (ACK_RANGES, 500));
        assert_eq!(ack.ranges[0], 1998..=1998);
        received.forget_up_to(1990);
        assert_eq!(received.ack(now).unwrap().ranges.as_slice(), [1998..=1998, 1996..=1996, 1994..=1994, 1992..=1992]);
        received.forget_up_to(1998);
        assert_eq!(received.highest(), Some(1998));
    }

    #[test]
    fn acknowledgements_alone_ask_for_none() {
        let now = Instant::now();
        let mut received = Received::default();
        received.on_packet(now, 0, false, false);
        assert_eq!((received.due(), received.has_news()), (None, false));
    }
}
