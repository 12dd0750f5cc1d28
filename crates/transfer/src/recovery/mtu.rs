//! The search for the largest datagram that the path carries (RFC 8899), and its loss (section 4.3: black holes).

use std::ops::Range;
use std::time::{Duration, Instant};

/// UDP payloads worth trying: what every path must carry (RFC 8899 section 5.1.2, RFC 9000 section 14), then the sizes that
/// common paths end at. All but the last are for IPv6 (48 bytes of headers),
/// which also fits IPv4.
const SIZES: [usize; 10] = [
    1200, // the floor
    1232, // 1280: the least that IPv6 permits, many VPNs
    1372, // 1420: WireGuard
    1412, // 1460: clouds
    1444, // 1492: PPPoE
    1452, // 1500: Ethernet
    1472, // 1500 over IPv4
    4052, // 4100: half-size jumbo frames
    8452, // 8500: transit gateways of clouds
    8952, // 9000: jumbo frames, loopback
];
const ETHERNET: usize = 5;
/// Lost this many times, a size is too big (RFC 8899 section 5.1.2: MAX_PROBES).
const TRIES: u32 = 3;
/// A path may come to carry more: when to look again after a search that ended.
const RAISE: Duration = Duration::from_secs(60);
/// How long the floor is kept after a black hole.
const AFTER_BLACK_HOLE: Duration = Duration::from_secs(5);
/// So many losses of full-size packets, or probe time-outs, with none of that size acked since, are a black hole.
const BLACK_HOLE: u32 = 3;

/// What is known about one path.
pub(super) struct Mtu {
    /// `SIZES[current]` is known to pass.
    current: usize,
    /// `SIZES[too_big..]` are known, or taken, not to pass.
    too_big: usize,
    /// The probe on its way, and its place in [`SIZES`].
    probe: Option<(u64, usize)>,
    failed_tries: u32,
    /// No search before this instant.
    pause: Option<Instant>,
    /// The newest acked packet that tells about the current size.
    proven: Option<u64>,
    suspicions: u32,
}

impl Mtu {
    pub(super) fn new() -> Self {
        Self {
            current: 0,
            too_big: SIZES.len(),
            probe: None,
            failed_tries: 0,
            pause: None,
            proven: None,
            suspicions: 0,
        }
    }

    pub(super) fn size(&self) -> usize {
        SIZES[self.current]
    }

    /// The size of a probe that should leave now.
    pub(super) fn wanted(&mut self, now: Instant) -> Option<usize> {
        if self.pause.is_some_and(|until| now < until) || self.probe.is_some() {
            return None;
        }
        self.pause = None;
        Some(SIZES[self.candidate()?])
    }

    pub(super) fn on_probe_sent(&mut self, number: u64, size: usize) {
        self.probe = SIZES.iter().position(|s| *s == size).map(|index| (number, index));
    }

    pub(super) fn on_probe_acked(&mut self, now: Instant, number: u64) {
        let Some((_, index)) = self.probe.take_if(|(sent, _)| *sent == number) else { return };
        self.current = self.current.max(index);
        self.failed_tries = 0;
        self.suspicions = 0;
        self.proven = Some(number);
        self.end_search(now);
    }

    pub(super) fn on_probe_lost(&mut self, now: Instant, number: u64) {
        let Some((_, index)) = self.probe.take_if(|(sent, _)| *sent == number) else { return };
        self.failed_tries += 1;
        if self.failed_tries == TRIES {
            self.failed_tries = 0;
            self.too_big = index;
            self.end_search(now);
        }
    }

    /// Whether a packet of `size` bytes tells about the current size: it is more than the next smaller one.
    pub(super) fn is_full(&self, size: usize) -> bool {
        self.current == 0 || size > SIZES[self.current - 1]
    }

    pub(super) fn is_probing(&self) -> bool {
        self.probe.is_some()
    }

    /// Packets were acked together; `newest_full` is the newest of those for which [`Mtu::is_full`].
    pub(super) fn on_acked(&mut self, newest_full: u64) {
        self.proven = self.proven.max(Some(newest_full));
        self.suspicions = 0;
    }

    /// Packets were declared lost together; `newest_full` as above.
    pub(super) fn on_lost(&mut self, now: Instant, newest_full: u64) {
        if Some(newest_full) > self.proven {
            self.suspect(now);
        }
    }

    /// A probe time-out passed. When all that leaves is too big, no acknowledgement ever tells.
    pub(super) fn on_pto(&mut self, now: Instant) {
        self.suspect(now);
    }

    fn suspect(&mut self, now: Instant) {
        self.suspicions += 1;
        if self.suspicions >= BLACK_HOLE && self.current > 0 {
            *self = Self { pause: Some(now + AFTER_BLACK_HOLE), ..Self::new() };
        }
    }

    /// Sets the timer that begins the next search when this one has nothing left to try.
    fn end_search(&mut self, now: Instant) {
        if self.candidate().is_none() && self.current + 1 < SIZES.len() {
            self.too_big = SIZES.len();
            self.pause = Some(now + RAISE);
        }
    }

    /// Ethernet first, since most paths are; then the largest; then what lies in the middle.
    fn candidate(&self) -> Option<usize> {
        let open: Range<usize> = self.current + 1..self.too_big;
        if open.is_empty() {
            None
        } else if open.contains(&ETHERNET) {
            Some(ETHERNET)
        } else if self.too_big == SIZES.len() {
            Some(SIZES.len() - 1)
        } else {
            Some(open.start + open.len() / 2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers probes as a path that carries `limit` bytes would, until none is wanted; returns how many there were.
    fn search(mtu: &mut Mtu, now: Instant, number: &mut u64, limit: usize) -> usize {
        let before = *number;
        while let Some(size) = mtu.wanted(now) {
            *number += 1;
            mtu.on_probe_sent(*number, size);
            assert_eq!(mtu.wanted(now), None, "one probe at a time");
            if size <= limit { mtu.on_probe_acked(now, *number) } else { mtu.on_probe_lost(now, *number) }
        }
        (*number - before) as usize
    }

    #[test]
    fn every_path_is_found_with_few_probes() {
        let limits =
            [(1200, 1200, 12), (1300, 1232, 10), (1452, 1452, 10), (1472, 1472, 8), (8952, 8952, 2), (65_000, 8952, 2)];
        for (limit, found, probes) in limits {
            let (mut mtu, mut number) = (Mtu::new(), 0);
            let used = search(&mut mtu, Instant::now(), &mut number, limit);
            assert_eq!(mtu.size(), found);
            assert!(used <= probes, "{used} probes for {limit}");
        }
    }

    #[test]
    fn a_path_that_grows_is_noticed_after_the_pause() {
        let (mut mtu, mut number, now) = (Mtu::new(), 0, Instant::now());
        search(&mut mtu, now, &mut number, 1452);
        assert_eq!(mtu.wanted(now + RAISE - Duration::from_millis(1)), None);
        search(&mut mtu, now + RAISE, &mut number, 8952);
        assert_eq!(mtu.size(), 8952);
        assert_eq!(mtu.wanted(now + 10 * RAISE), None, "there is nothing larger to look for");
    }

    #[test]
    fn a_black_hole_leads_to_the_floor_and_a_new_search() {
        let (mut mtu, mut number, now) = (Mtu::new(), 0, Instant::now());
        search(&mut mtu, now, &mut number, 8952);
        assert!(!mtu.is_full(1472) && mtu.is_full(8940));
        mtu.on_acked(100);
        for lost in 101..103 {
            mtu.on_lost(now, lost);
        }
        assert_eq!(mtu.size(), 8952);
        mtu.on_lost(now, 111);
        assert_eq!((mtu.size(), mtu.wanted(now)), (SIZES[0], None));
        search(&mut mtu, now + AFTER_BLACK_HOLE, &mut number, 1452);
        assert_eq!(mtu.size(), 1452);
    }

    #[test]
    fn congestion_is_no_black_hole_and_silence_is() {
        let (mut mtu, mut number, now) = (Mtu::new(), 0, Instant::now());
        search(&mut mtu, now, &mut number, 8952);
        mtu.on_acked(200);
        for lost in 100..150 {
            mtu.on_lost(now, lost);
        }
        assert_eq!(mtu.size(), 8952, "a later packet of that size has passed");
        for _ in 0..BLACK_HOLE {
            mtu.on_pto(now);
        }
        assert_eq!(mtu.size(), SIZES[0]);
    }
}
