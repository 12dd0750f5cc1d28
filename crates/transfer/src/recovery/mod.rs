//! Loss detection (RFC 9002), congestion control (RFC 9438), pacing and the search for the path's datagram size
//! (RFC 8899) of one packet number space.
//!
//! In go packets sent, acknowledgements and time; out come the contents of packets acked or lost, how much may leave
//! now, and when to come back. Read on in [`sent`] for what is remembered, [`cubic`] for the window, [`mtu`] for sizes.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use self::cubic::Cubic;
use self::mtu::Mtu;
use self::pacer::Pacer;
use self::rtt::Rtt;
use self::sent::{LostMemory, Record, Ring, State};

mod cubic;
mod mtu;
mod pacer;
mod rtt;
mod sent;
#[cfg(test)]
mod tests;

/// The most packets in the ring, and so its memory: at 1200 bytes each, what 25 Gbit/s holds in 25 ms.
const MAX_TRACKED: usize = 65_536;
/// A packet is lost when one this many numbers later is acked (RFC 9002 section 6.1.1) ...
const PACKET_THRESHOLD: u64 = 3;
/// ... up to this many on paths that reorder, about what several trains in parallel queues can overtake.
const MAX_PACKET_THRESHOLD: u64 = 512;
/// A packet is lost when a later one is acked and it left 9/8 of a round trip ago (RFC 9002 section 6.1.2) ...
const TIME_THRESHOLD: u32 = 9;
/// ... up to two round trips on paths that reorder (RFC 8985 section 6.2 bounds its window alike).
const MAX_TIME_THRESHOLD: u32 = 16;
/// In probe time-outs (RFC 9002 section 7.6.1).
const PERSISTENT_CONGESTION: u32 = 3;
/// In probe time-outs: how long a packet that elicits no acknowledgement is remembered when none comes.
const QUIET_MEMORY: u32 = 3;
/// Windows a round trip that pacing lets out: more than one, so that the window and not the pacer is the limit.
const PACING_GAIN: f64 = 1.25;
const PACING_GAIN_SLOW_START: f64 = 2.0;

/// The recovery of one connection. `T` is what a packet carried; it comes back once, when the packet is acked or lost.
///
/// Order of calls: [`Recovery::allowance`] and [`Recovery::mtu_probe`] before sending, [`Recovery::on_sent`] for every
/// packet that left, [`Recovery::on_ack`] for every acknowledgement, [`Recovery::on_timeout`] when
/// [`Recovery::timeout`] has come.
pub(crate) struct Recovery<T> {
    ring: Ring<T>,
    lost: LostMemory,
    /// Taken from the full ring, to be given back as lost at the next occasion.
    evicted: Vec<T>,
    rtt: Rtt,
    cubic: Cubic,
    pacer: Pacer,
    mtu: Mtu,
    /// Bytes of ack-eliciting packets on this path.
    in_flight: usize,
    /// Undecided ack-eliciting packets, those of former paths too.
    outstanding: usize,
    /// The first packet of this path.
    path_start: u64,
    largest_acked: Option<u64>,
    last_eliciting: Instant,
    loss_time: Option<Instant>,
    pto_count: u32,
    /// Packets before this one left before the last reduction of the window: they neither shrink nor grow it.
    reduced_until: u64,
    reduction: Option<Reduction>,
    /// Packets before this one left while the application, not the window, was the limit.
    app_limited_until: u64,
    ecn_ce: u64,
    packet_threshold: u64,
    /// In eighths of a round trip.
    time_threshold: u32,
    lost_packets: u64,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timeout {
    /// Nothing was due.
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

/// A reduction of the window that is undone if all its losses prove to be late arrivals.
struct Reduction {
    before: Cubic,
    /// Its losses have numbers from here to `reduced_until`.
    from: u64,
    /// Those that have not arrived.
    missing: u64,
}

/// What one acknowledgement brought.
#[derive(Default)]
struct News {
    acked_any: bool,
    eliciting: usize,
    /// Bytes that leave the flight.
    bytes: usize,
    /// Bytes that count for growth.
    growth: usize,
    largest_sent_at: Option<Instant>,
    newest_full: Option<u64>,
    mtu_probe: Option<u64>,
}

/// What one search for losses found.
#[derive(Default)]
struct Losses {
    any: bool,
    /// Losses that call for a reduction of the window.
    fresh: u64,
    /// Losses that belong to the last reduction.
    same: u64,
    newest_full: Option<u64>,
    persistent: bool,
}

/// Sending.
impl<T> Recovery<T> {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            ring: Ring::new(),
            lost: LostMemory::new(),
            evicted: Vec::new(),
            rtt: Rtt::new(),
            cubic: Cubic::new(now),
            pacer: Pacer::new(now),
            mtu: Mtu::new(),
            in_flight: 0,
            outstanding: 0,
            path_start: 0,
            largest_acked: None,
            last_eliciting: now,
            loss_time: None,
            pto_count: 0,
            reduced_until: 0,
            reduction: None,
            app_limited_until: 0,
            ecn_ce: 0,
            packet_threshold: PACKET_THRESHOLD,
            time_threshold: TIME_THRESHOLD,
            lost_packets: 0,
        }
    }

    /// A handshake took this long: what the first probe time-out is reckoned with (RFC 9002 section 6.2.2).
    pub(crate) fn on_round_trip(&mut self, now: Instant, took: Duration) {
        self.rtt.on_sample(now, took, Duration::ZERO);
    }

    /// Packet `number` left. Contents of packets that elicit no acknowledgement may never come back: such a packet is
    /// forgotten when it is old and nothing came.
    ///
    /// # Panics
    /// When `number` is not one more than the number before.
    pub(crate) fn on_sent(&mut self, now: Instant, number: u64, sent: Sent<T>) {
        let state = if sent.ack_eliciting { State::Eliciting(sent.contents) } else { State::Quiet(sent.contents) };
        self.push(now, number, sent.size, state);
    }

    /// Like [`Recovery::on_sent`], for a packet of the size that [`Recovery::mtu_probe`] asked for. Its loss is no sign
    /// of congestion.
    pub(crate) fn on_sent_mtu_probe(&mut self, now: Instant, number: u64, size: usize) {
        self.mtu.on_probe_sent(number, size);
        self.push(now, number, size, State::MtuProbe);
    }

    /// Bytes that may leave now under window and pacing, whole datagrams of [`Recovery::mtu`] bytes; 0 = not now.
    pub(crate) fn allowance(&self, now: Instant) -> usize {
        let bytes = self.room().min(self.pacer.allowance(now));
        bytes - bytes % self.mtu()
    }

    /// When to ask again, if the pacer alone holds packets back.
    pub(crate) fn next_send(&self, now: Instant) -> Option<Instant> {
        if self.room() < self.mtu() { None } else { self.pacer.next_send(now) }
    }

    /// There was nothing to send although the window was open: what is in flight now says nothing about whether the path
    /// bears more (RFC 9002 section 7.8).
    pub(crate) fn on_app_limited(&mut self) {
        self.app_limited_until = self.ring.next();
    }

    /// The size of a probe of the path that should leave now, in UDP payload bytes.
    pub(crate) fn mtu_probe(&mut self, now: Instant) -> Option<usize> {
        self.mtu.wanted(now)
    }

    fn room(&self) -> usize {
        if self.ring.len() >= MAX_TRACKED { 0 } else { self.window().saturating_sub(self.in_flight) }
    }

    fn push(&mut self, now: Instant, number: u64, size: usize, state: State<T>) {
        self.forget_old(now);
        if !matches!(state, State::Quiet(_)) {
            if self.in_flight == 0 {
                self.cubic.on_pause(now);
            }
            self.in_flight += size;
            self.outstanding += 1;
            self.last_eliciting = now;
            self.pacer.on_sent(now, size);
        }
        self.ring.push(number, Record { at: now, size: size as u32, state });
    }

    /// Keeps the ring bounded, whatever the peer does not acknowledge.
    fn forget_old(&mut self, now: Instant) {
        while let Some((_, record)) = self.ring.front() {
            let quiet_and_old = matches!(record.state, State::Quiet(_))
                && now.saturating_duration_since(record.at) > QUIET_MEMORY * self.rtt.pto();
            if !quiet_and_old && self.ring.len() < MAX_TRACKED {
                return;
            }
            let Some((number, record)) = self.ring.pop_front() else { return };
            match record.state {
                State::Eliciting(contents) => {
                    self.leave_flight(number, record.size);
                    self.lost_packets += 1;
                    self.evicted.push(contents);
                }
                State::MtuProbe => {
                    self.leave_flight(number, record.size);
                    self.mtu.on_probe_lost(now, number);
                }
                State::Quiet(_) | State::Acked => {}
            }
        }
    }

    fn leave_flight(&mut self, number: u64, size: u32) {
        self.outstanding -= 1;
        if number >= self.path_start {
            self.in_flight -= size as usize;
        }
    }
}

/// Acknowledgements, losses and time.
impl<T> Recovery<T> {
    /// The peer acknowledged `ranges`, the largest numbers first, and says that it waited `delay` with it and has seen
    /// `ecn_ce` congestion marks in all.
    ///
    /// # Errors
    /// [`AckedUnsent`], and then nothing was done.
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        ranges: &[RangeInclusive<u64>],
        delay: Duration,
        ecn_ce: u64,
        acked: &mut impl FnMut(T),
        lost: &mut impl FnMut(T),
    ) -> Result<(), AckedUnsent> {
        let Some(largest) = ranges.iter().map(|range| *range.end()).max() else { return Ok(()) };
        if largest >= self.ring.next() {
            return Err(AckedUnsent);
        }
        self.evicted.drain(..).for_each(&mut *lost);
        self.take_late_arrivals(ranges);
        let news = self.take_acked(ranges, largest, acked);
        self.largest_acked = self.largest_acked.max(Some(largest));
        if !news.acked_any {
            return Ok(());
        }
        self.in_flight -= news.bytes;
        self.outstanding -= news.eliciting;
        self.pto_count = 0;
        if let (Some(at), 1..) = (news.largest_sent_at, news.eliciting) {
            self.rtt.on_sample(now, now.saturating_duration_since(at), delay);
        }
        if let Some(number) = news.mtu_probe {
            self.mtu.on_probe_acked(now, number);
        }
        if let Some(number) = news.newest_full {
            self.mtu.on_acked(number);
        }
        let before = self.reduced_until;
        if ecn_ce > self.ecn_ce {
            self.ecn_ce = ecn_ce;
            if largest >= self.reduced_until {
                self.cubic.on_congestion(self.mtu.size());
                (self.reduced_until, self.reduction) = (self.ring.next(), None);
            }
        }
        self.find_losses(now, lost);
        if self.reduced_until == before && news.eliciting > 0 {
            self.cubic.on_ack(now, news.growth, self.rtt.smoothed(), self.mtu.size());
        }
        self.set_pace(now);
        Ok(())
    }

    /// When [`Recovery::on_timeout`] wants to be called; `None` while nothing is in flight.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        if !self.evicted.is_empty() {
            return Some(self.last_eliciting);
        }
        let pto = || self.last_eliciting + self.rtt.backed_off_pto(self.pto_count);
        self.loss_time.or_else(|| (self.outstanding > 0).then(pto))
    }

    /// The instant of [`Recovery::timeout`] has come.
    pub(crate) fn on_timeout(&mut self, now: Instant, lost: &mut impl FnMut(T)) -> Timeout {
        if self.timeout().is_none_or(|at| now < at) {
            return Timeout::Nothing;
        }
        if !self.evicted.is_empty() {
            self.evicted.drain(..).for_each(lost);
            return Timeout::Lost;
        }
        if self.loss_time.is_some() {
            let any = self.find_losses(now, lost);
            self.set_pace(now);
            return if any { Timeout::Lost } else { Timeout::Nothing };
        }
        self.pto_count += 1;
        // Silence after nothing but a probe of the path's size is no news about smaller packets.
        if self.outstanding > usize::from(self.mtu.is_probing()) {
            self.mtu.on_pto(now);
        }
        Timeout::Probe
    }

    /// Packets take another path from now on: what was learned is void. Those in flight stay tracked, and count no more.
    pub(crate) fn on_path_change(&mut self, now: Instant) {
        (self.rtt, self.cubic, self.pacer, self.mtu) = (Rtt::new(), Cubic::new(now), Pacer::new(now), Mtu::new());
        self.path_start = self.ring.next();
        self.reduced_until = self.path_start;
        (self.in_flight, self.pto_count, self.reduction) = (0, 0, None);
        (self.packet_threshold, self.time_threshold) = (PACKET_THRESHOLD, TIME_THRESHOLD);
        self.lost.clear();
    }

    fn take_acked(&mut self, ranges: &[RangeInclusive<u64>], largest: u64, acked: &mut impl FnMut(T)) -> News {
        let mut news = News::default();
        let counts_for_growth = self.reduced_until.max(self.app_limited_until);
        for range in ranges {
            for (number, record) in self.ring.of(range) {
                let state = std::mem::replace(&mut record.state, State::Acked);
                let size = record.size as usize;
                match state {
                    State::Acked => continue,
                    State::Eliciting(contents) => acked(contents),
                    State::MtuProbe => news.mtu_probe = Some(number),
                    State::Quiet(contents) => {
                        acked(contents);
                        news.acked_any = true;
                        if number == largest && number >= self.path_start {
                            news.largest_sent_at = Some(record.at);
                        }
                        continue;
                    }
                }
                news.acked_any = true;
                news.eliciting += 1;
                if number >= self.path_start {
                    news.bytes += size;
                    if number == largest {
                        news.largest_sent_at = Some(record.at);
                    }
                    if self.mtu.is_full(size) {
                        news.newest_full = news.newest_full.max(Some(number));
                    }
                }
                if number >= counts_for_growth {
                    news.growth += size;
                }
            }
        }
        news
    }

    /// Packets that were declared lost and arrived: the path reorders more than was thought.
    fn take_late_arrivals(&mut self, ranges: &[RangeInclusive<u64>]) {
        let largest_acked = self.largest_acked.unwrap_or(0);
        let mut any = false;
        for number in ranges.iter().flat_map(|range| self.lost.take(range).collect::<Vec<_>>()) {
            any = true;
            let overtaken_by = largest_acked.saturating_sub(number) + 1;
            self.packet_threshold = self.packet_threshold.max(overtaken_by).min(MAX_PACKET_THRESHOLD);
            if let Some(reduction) = &mut self.reduction
                && (reduction.from..self.reduced_until).contains(&number)
            {
                reduction.missing -= 1;
            }
        }
        if any {
            self.time_threshold = (self.time_threshold + 1).min(MAX_TIME_THRESHOLD);
        }
        if let Some(reduction) = self.reduction.take_if(|reduction| reduction.missing == 0) {
            self.cubic.undo(reduction.before);
        }
    }

    /// Declares packets lost, reacts to it, and sets the timer for the next that may be; whether any was.
    fn find_losses(&mut self, now: Instant, lost: &mut impl FnMut(T)) -> bool {
        let losses = self.take_lost(now, lost);
        if let Some(number) = losses.newest_full {
            self.mtu.on_lost(now, number);
        }
        if losses.fresh > 0 {
            let before = self.cubic.clone();
            self.cubic.on_congestion(self.mtu.size());
            self.reduction = Some(Reduction { before, from: self.reduced_until, missing: losses.fresh });
            self.reduced_until = self.ring.next();
        } else if let Some(reduction) = &mut self.reduction {
            reduction.missing += losses.same;
        }
        if losses.persistent {
            self.cubic.on_persistent_congestion(self.mtu.size());
            self.rtt.forget_min();
        }
        losses.any
    }

    fn take_lost(&mut self, now: Instant, lost: &mut impl FnMut(T)) -> Losses {
        let mut losses = Losses::default();
        self.loss_time = None;
        let Some(largest) = self.largest_acked else { return losses };
        let delay = self.rtt.loss_delay(self.time_threshold);
        let too_long = PERSISTENT_CONGESTION * self.rtt.pto();
        let mut silent_since: Option<Instant> = None;
        while let Some((number, record)) = self.ring.front()
            && number <= largest
        {
            let is_acked = matches!(record.state, State::Acked);
            if !is_acked && number + self.packet_threshold > largest && record.at + delay > now {
                self.loss_time = Some(record.at + delay);
                break;
            }
            let Some((_, record)) = self.ring.pop_front() else { break };
            match record.state {
                State::Acked => {
                    silent_since = None;
                    continue;
                }
                State::Quiet(contents) => {
                    lost(contents);
                    losses.any = true;
                    continue;
                }
                State::MtuProbe => {
                    self.leave_flight(number, record.size);
                    self.mtu.on_probe_lost(now, number);
                    losses.any = true;
                    continue;
                }
                State::Eliciting(contents) => lost(contents),
            }
            losses.any = true;
            self.lost_packets += 1;
            self.leave_flight(number, record.size);
            if number < self.path_start {
                continue;
            }
            self.lost.push(number);
            if self.mtu.is_full(record.size as usize) {
                losses.newest_full = Some(number);
            }
            if number >= self.reduced_until {
                losses.fresh += 1;
            } else if self.reduction.as_ref().is_some_and(|reduction| number >= reduction.from) {
                losses.same += 1;
            }
            if self.rtt.first_sample().is_some_and(|first| record.at > first) {
                losses.persistent |= record.at - *silent_since.get_or_insert(record.at) > too_long;
            }
        }
        losses
    }

    fn set_pace(&mut self, now: Instant) {
        if self.rtt.first_sample().is_some() {
            let gain = if self.cubic.in_slow_start() { PACING_GAIN_SLOW_START } else { PACING_GAIN };
            self.pacer.set_rate(now, self.window(), self.rtt.smoothed(), gain, self.mtu.size());
        }
    }
}

/// What is known.
impl<T> Recovery<T> {
    /// The size of a datagram, in UDP payload bytes: at least 1200. Packets are told apart as full by it.
    pub(crate) fn mtu(&self) -> usize {
        self.mtu.size()
    }

    pub(crate) fn smoothed_rtt(&self) -> Duration {
        self.rtt.smoothed()
    }

    /// The probe time-out without back-off.
    pub(crate) fn pto(&self) -> Duration {
        self.rtt.pto()
    }

    /// Bytes of ack-eliciting packets that are neither acked nor lost.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// The congestion window in bytes.
    pub(crate) fn window(&self) -> usize {
        self.cubic.window(self.mtu.size())
    }

    /// Packets declared lost so far, MTU probes aside.
    pub(crate) fn lost_packets(&self) -> u64 {
        self.lost_packets
    }
}
