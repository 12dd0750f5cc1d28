use super::*;
use proptest::prelude::*;

mod sim;

const RTT: Duration = Duration::from_millis(100);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A recovery whose packets carry their own numbers, and what came back.
struct Bench {
    start: Instant,
    recovery: Recovery<u64>,
    next: u64,
    acked: Vec<u64>,
    lost: Vec<u64>,
}

impl Bench {
    fn new() -> Self {
        let start = Instant::now();
        Self { start, recovery: Recovery::new(start), next: 0, acked: Vec::new(), lost: Vec::new() }
    }

    /// One acked packet sets the round-trip time to [`RTT`]; the next number is 1, the time after it is `RTT`.
    fn with_rtt() -> Self {
        let mut bench = Self::new();
        bench.send(0, 1);
        bench.ack(100, &[0..=0]).unwrap();
        bench.acked.clear();
        bench
    }

    fn send(&mut self, at: u64, packets: u64) {
        self.send_as(at, packets, true);
    }

    fn send_as(&mut self, at: u64, packets: u64, ack_eliciting: bool) {
        for _ in 0..packets {
            let sent = Sent { size: self.recovery.mtu(), ack_eliciting, contents: self.next };
            self.recovery.on_sent(self.start + ms(at), self.next, sent);
            self.next += 1;
        }
    }

    fn ack(&mut self, at: u64, ranges: &[RangeInclusive<u64>]) -> Result<(), AckedUnsent> {
        self.ack_marked(at, ranges, 0)
    }

    fn ack_marked(&mut self, at: u64, ranges: &[RangeInclusive<u64>], ce: u64) -> Result<(), AckedUnsent> {
        let (acked, lost) = (&mut self.acked, &mut self.lost);
        let (acked, lost) = (&mut |number| acked.push(number), &mut |number| lost.push(number));
        self.recovery.on_ack(self.start + ms(at), ranges, Duration::ZERO, ce, acked, lost)
    }

    fn timeout(&mut self) -> Timeout {
        let at = self.recovery.timeout().expect("a timer");
        self.recovery.on_timeout(at, &mut |number| self.lost.push(number))
    }
}

#[test]
fn three_later_numbers_make_a_packet_lost() {
    let mut bench = Bench::with_rtt();
    bench.send(100, 5);
    bench.ack(200, &[4..=4]).unwrap();
    assert_eq!((bench.acked.as_slice(), bench.lost.as_slice()), (&[4][..], &[1][..]));
    assert_eq!((bench.recovery.lost_packets(), bench.recovery.in_flight()), (1, 3 * 1200));
    assert_eq!(bench.recovery.largest_acked, Some(4));
}

#[test]
fn nine_eighths_of_a_round_trip_make_a_packet_lost() {
    let mut bench = Bench::with_rtt();
    bench.send(100, 2);
    bench.ack(200, &[2..=2]).unwrap();
    assert_eq!(bench.lost, [0; 0]);
    let due = bench.start + ms(100) + RTT * 9 / 8;
    assert_eq!(bench.recovery.timeout(), Some(due));
    assert_eq!(bench.recovery.on_timeout(due - ms(1), &mut |_| unreachable!()), Timeout::Nothing);
    assert_eq!(bench.timeout(), Timeout::Lost);
    assert_eq!(bench.lost, [1]);
    assert_eq!(bench.recovery.timeout(), None);
}

#[test]
fn silence_asks_for_probes_ever_more_rarely() {
    let mut bench = Bench::with_rtt();
    bench.send(100, 1);
    let pto = bench.recovery.pto();
    assert_eq!(pto, ms(100 + 200 + 25));
    for doublings in 0..3 {
        assert_eq!(bench.recovery.timeout(), Some(bench.start + ms(100) + pto * (1 << doublings)));
        assert_eq!(bench.timeout(), Timeout::Probe);
    }
    assert_eq!((bench.recovery.pto_count, bench.lost.len()), (3, 0));
    bench.ack(9000, &[1..=1]).unwrap();
    assert_eq!((bench.recovery.pto_count, bench.recovery.timeout()), (0, None));
}

#[test]
fn what_was_not_sent_cannot_be_acked() {
    let mut bench = Bench::with_rtt();
    bench.send(100, 3);
    assert_eq!(bench.ack(200, &[2..=4, 0..=0]), Err(AckedUnsent));
    assert_eq!(bench.ack(200, &[0..=u64::MAX]), Err(AckedUnsent));
    assert_eq!((bench.acked.len(), bench.recovery.in_flight()), (0, 3 * 1200));
}

/// The time line of RFC 9002 section 7.6.3, with our shorter probe time-outs.
#[test]
fn long_silence_collapses_the_window() {
    for (acked_between, collapses) in [(None, true), (Some(5), false)] {
        let mut bench = Bench::with_rtt();
        for step in 1..=8 {
            bench.send(step * 250, 1);
        }
        bench.send(4000, 1);
        let mut ranges = vec![9..=9];
        ranges.extend(acked_between.map(|number| number..=number));
        bench.ack(4100, &ranges).unwrap();
        assert_eq!(bench.recovery.window() == 2 * 1200, collapses);
    }
}

#[test]
fn a_round_trip_has_one_reduction() {
    let mut bench = Bench::with_rtt();
    let before = bench.recovery.window();
    bench.send(100, 20);
    bench.ack(200, &[4..=4]).unwrap();
    let reduced = bench.recovery.window();
    assert_eq!(reduced, (before as f64 * 0.7) as usize);
    bench.ack(210, &[14..=14, 4..=4]).unwrap();
    bench.ack_marked(220, &[15..=20], 7).unwrap();
    assert_eq!(bench.recovery.window(), reduced);
    bench.send(220, 1);
    bench.ack_marked(320, &[21..=21], 8).unwrap();
    assert!(bench.recovery.window().abs_diff(reduced * 7 / 10) <= 1);
    bench.send(320, 1);
    bench.ack_marked(420, &[22..=22], 8).unwrap();
    assert!(bench.recovery.window() >= reduced * 7 / 10, "the count is cumulative");
}

#[test]
fn the_window_grows_only_when_it_is_used() {
    let mut bench = Bench::with_rtt();
    let before = bench.recovery.window();
    bench.send(100, 5);
    bench.recovery.on_app_limited();
    bench.ack(200, &[1..=5]).unwrap();
    assert_eq!(bench.recovery.window(), before);
    bench.send(200, 5);
    bench.ack(300, &[6..=10]).unwrap();
    assert_eq!(bench.recovery.window(), before + 5 * 1200);
}

#[test]
fn a_reduction_for_packets_that_were_only_late_is_undone() {
    let mut bench = Bench::with_rtt();
    let before = bench.recovery.window();
    bench.send(100, 20);
    bench.ack(200, &[10..=10]).unwrap();
    assert_eq!(bench.lost, [1, 2, 3, 4, 5, 6, 7]);
    assert!(bench.recovery.window() < before);
    bench.ack(201, &[2..=10]).unwrap();
    assert!(bench.recovery.window() < before, "one is still missing");
    bench.ack(202, &[1..=10]).unwrap();
    assert_eq!(bench.recovery.window(), before);
    assert_eq!(bench.acked, [10, 8, 9], "what was given back as lost does not come back again");

    bench.send(300, 20);
    bench.lost.clear();
    bench.ack(400, &[30..=30, 11..=21]).unwrap();
    assert_eq!(bench.lost, [0; 0], "nine numbers are no longer too many");
    bench.ack(401, &[32..=32]).unwrap();
    assert_eq!(bench.lost, [22]);
}

#[test]
fn another_path_starts_anew() {
    let mut bench = Bench::with_rtt();
    bench.send(100, 10);
    bench.ack(200, &[10..=10]).unwrap();
    bench.recovery.on_path_change(bench.start + ms(210));
    let fresh = Recovery::<u64>::new(bench.start);
    assert_eq!((bench.recovery.in_flight(), bench.recovery.window()), (0, fresh.window()));
    assert_eq!(bench.recovery.smoothed_rtt(), fresh.smoothed_rtt());
    assert!(bench.recovery.timeout().is_some(), "what is outstanding is not forgotten");
    bench.send(220, 4);
    bench.ack(260, &[14..=14, 9..=9]).unwrap();
    assert_eq!(bench.lost.iter().filter(|number| **number <= 10).count(), 8, "lost, and without a reduction");
    assert_eq!(bench.recovery.smoothed_rtt(), ms(40));
    let mut other = Bench::new();
    other.send(0, 4);
    other.recovery.on_path_change(other.start);
    other.ack(50, &[0..=3]).unwrap();
    assert_eq!(other.recovery.smoothed_rtt(), fresh.smoothed_rtt(), "the old path's time says nothing");
}

#[test]
fn memory_is_bounded_when_nothing_is_acked() {
    let mut bench = Bench::new();
    let packets = MAX_TRACKED as u64;
    bench.send(0, packets);
    assert_eq!(bench.recovery.allowance(bench.start), 0);
    bench.send_as(1, 10, false);
    assert_eq!(bench.recovery.ring.len(), MAX_TRACKED);
    assert_eq!(bench.timeout(), Timeout::Lost);
    assert_eq!(bench.lost, (0..10).collect::<Vec<_>>());
    bench.ack(2, &[0..=packets - 1]).unwrap();
    assert_eq!((bench.acked.len() as u64, bench.recovery.in_flight()), (packets - 10, 0));

    let mut receiver = Bench::with_rtt();
    for at in 0..100_000 {
        receiver.send_as(100 + at, 1, false);
    }
    assert!(receiver.recovery.ring.len() < 1000, "acks that nobody acks are forgotten");
    assert_eq!((receiver.recovery.timeout(), receiver.recovery.in_flight()), (None, 0));
}

#[test]
fn a_lost_mtu_probe_is_no_congestion() {
    let mut bench = Bench::with_rtt();
    let before = bench.recovery.window();
    let now = bench.start + ms(100);
    let size = bench.recovery.mtu_probe(now).unwrap();
    bench.recovery.on_sent_mtu_probe(now, bench.next, size);
    bench.next += 1;
    assert_eq!(bench.recovery.in_flight(), size);
    bench.send(100, 3);
    bench.ack(200, &[2..=4]).unwrap();
    assert_eq!((bench.recovery.in_flight(), bench.recovery.mtu(), bench.lost.len()), (0, 1200, 0));
    assert_eq!(bench.recovery.window(), before + 3 * 1200);
    let now = bench.start + ms(200);
    assert_eq!(bench.recovery.mtu_probe(now), Some(size), "it may have been bad luck");
    bench.recovery.on_sent_mtu_probe(now, bench.next, size);
    bench.ack(300, &[5..=5]).unwrap();
    assert_eq!(bench.recovery.mtu(), size);
}

/// What may happen to a connection, with times in milliseconds.
#[derive(Clone, Debug)]
enum Event {
    Send(u8, bool),
    Probe,
    Ack(Vec<(u8, u8)>, u8),
    Wait(u16),
    Timer,
    Move,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (1u8..20, any::<bool>()).prop_map(|(packets, eliciting)| Event::Send(packets, eliciting)),
        1 => Just(Event::Probe),
        4 => (prop::collection::vec((0u8..30, 0u8..8), 1..5), 0u8..3).prop_map(|(ranges, ce)| Event::Ack(ranges, ce)),
        2 => (0u16..300).prop_map(Event::Wait),
        2 => Just(Event::Timer),
        1 => Just(Event::Move),
    ]
}

proptest! {
    #[test]
    fn contents_come_back_once(events in prop::collection::vec(event(), 1..120)) {
        let mut bench = Bench::new();
        let (mut at, mut ce, mut probes, mut quiet) = (0, 0, Vec::new(), Vec::new());
        for event in events {
            let now = bench.start + ms(at);
            match event {
                Event::Send(packets, eliciting) => {
                    quiet.extend((bench.next..bench.next + u64::from(packets)).filter(|_| !eliciting));
                    bench.send_as(at, packets.into(), eliciting);
                }
                Event::Probe => if let Some(size) = bench.recovery.mtu_probe(now) {
                    bench.recovery.on_sent_mtu_probe(now, bench.next, size);
                    probes.push(bench.next);
                    bench.next += 1;
                },
                Event::Ack(ranges, marks) => {
                    let mut ranges: Vec<_> = ranges.into_iter().map(|(back, len)| {
                        let end = bench.next.saturating_sub(u64::from(back));
                        end.saturating_sub(len.into())..=end
                    }).collect();
                    ranges.sort_by_key(|range| std::cmp::Reverse(*range.end()));
                    ce += u64::from(marks);
                    let unsent = *ranges[0].end() >= bench.next;
                    prop_assert_eq!(bench.ack_marked(at, &ranges, ce).is_err(), unsent);
                }
                Event::Wait(time) => at += u64::from(time),
                Event::Timer => if let Some(due) = bench.recovery.timeout() {
                    at = at.max((due - bench.start).as_millis() as u64 + 1);
                    bench.recovery.on_timeout(bench.start + ms(at), &mut |number| bench.lost.push(number));
                },
                Event::Move => bench.recovery.on_path_change(now),
            }
            prop_assert!(bench.recovery.window() >= 2 * bench.recovery.mtu());
        }
        if bench.next > 0 {
            bench.ack(at, &[0..=bench.next - 1]).unwrap();
        }
        prop_assert_eq!((bench.recovery.in_flight(), bench.recovery.timeout()), (0, None));
        let mut back: Vec<u64> = bench.acked.iter().chain(&bench.lost).copied().collect();
        let all = back.len();
        back.sort_unstable();
        back.dedup();
        prop_assert_eq!(back.len(), all, "some came back twice");
        // Old ones that elicit no acknowledgement may be forgotten.
        back.retain(|number| !quiet.contains(number));
        let expect: Vec<u64> = (0..bench.next).filter(|n| !probes.contains(n) && !quiet.contains(n)).collect();
        prop_assert_eq!(back, expect);
    }
}
