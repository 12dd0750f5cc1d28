//! Loss detection (RFC 9002), congestion control (RFC 9438), pacing and the search for the path's datagram size
//! (RFC 8899) of one packet number space.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

/// The state of one path's recovery. `T` is what a packet carried; it comes back when the packet is acked or lost.
pub(crate) struct Recovery<T> {
    next: u64,
    sent: Vec<(u64, T)>,
}

/// A packet that left.
pub(crate) struct Sent<T> {
    /// UDP payload bytes.
    pub size: usize,
    /// Whether the peer must acknowledge it.
    pub ack_eliciting: bool,
    /// What comes back when it is acked or lost.
    pub contents: T,
}

/// What [`Recovery::on_timeout`] did or wants.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Timeout {
    /// Called too early.
    Nothing,
    /// Packets were declared lost.
    Lost,
    /// Send one or two ack-eliciting packets now, whatever the window says.
    Probe,
}

/// The peer acknowledged a packet that was never sent.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer acknowledged a packet that was not sent")]
pub(crate) struct AckedUnsent;

impl<T> Recovery<T> {
    pub(crate) fn new(_now: Instant) -> Self {
        Self { next: 0, sent: Vec::new() }
    }

    pub(crate) fn on_sent(&mut self, _now: Instant, number: u64, sent: Sent<T>) {
        self.next = number + 1;
        self.sent.push((number, sent.contents));
    }

    pub(crate) fn on_sent_mtu_probe(&mut self, _now: Instant, number: u64, _size: usize) {
        self.next = number + 1;
    }

    pub(crate) fn on_ack(
        &mut self,
        _now: Instant,
        ranges: &[RangeInclusive<u64>],
        _delay: Duration,
        _ecn_ce: u64,
        acked: &mut impl FnMut(T),
        _lost: &mut impl FnMut(T),
    ) -> Result<(), AckedUnsent> {
        if ranges.first().is_some_and(|range| *range.end() >= self.next) {
            return Err(AckedUnsent);
        }
        self.sent.extract_if(.., |(number, _)| ranges.iter().any(|r| r.contains(number))).for_each(|(_, t)| acked(t));
        Ok(())
    }

    pub(crate) fn timeout(&self) -> Option<Instant> {
        None
    }

    pub(crate) fn on_timeout(&mut self, _now: Instant, _lost: &mut impl FnMut(T)) -> Timeout {
        Timeout::Nothing
    }

    pub(crate) fn allowance(&self, _now: Instant) -> usize {
        65_536
    }

    pub(crate) fn next_send(&self, _now: Instant) -> Option<Instant> {
        None
    }

    pub(crate) fn on_app_limited(&mut self) {}

    pub(crate) fn mtu(&self) -> usize {
        1200
    }

    pub(crate) fn mtu_probe(&mut self, _now: Instant) -> Option<usize> {
        None
    }

    pub(crate) fn on_path_change(&mut self, _now: Instant) {}

    pub(crate) fn smoothed_rtt(&self) -> Duration {
        Duration::from_millis(333)
    }

    pub(crate) fn pto(&self) -> Duration {
        Duration::from_secs(1)
    }

    pub(crate) fn in_flight(&self) -> usize {
        0
    }

    pub(crate) fn window(&self) -> usize {
        65_536
    }

    pub(crate) fn lost_packets(&self) -> u64 {
        0
    }

    pub(crate) fn pto_count(&self) -> u32 {
        0
    }

    pub(crate) fn largest_acked(&self) -> Option<u64> {
        None
    }
}
