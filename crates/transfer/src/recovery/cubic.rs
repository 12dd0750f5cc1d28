//! The congestion window: CUBIC (RFC 9438) in bytes, with the recovery periods of RFC 9002 section 7.

use std::time::{Duration, Instant};

/// Window before anything is known; half a train, within what networks bear as a first flight.
const INITIAL_WINDOW: f64 = 32.0 * 1024.0;
/// In datagrams (RFC 9002 section 7.2).
const MIN_WINDOW: usize = 2;
/// Aggressiveness, in datagrams a cubic second (RFC 9438 section 5).
const C: f64 = 0.4;
/// What remains of the window after a loss.
const BETA: f64 = 0.7;
/// Growth with which Reno, reduced by [`BETA`], would be as fast as with one datagram and one half.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// The window of one path.
#[derive(Clone)]
pub(super) struct Cubic {
    window: f64,
    slow_start_threshold: f64,
    /// Where the plateau of the curve lies.
    w_max: f64,
    /// The window just before the last reduction.
    prior: f64,
    /// What Reno would have.
    w_est: f64,
    /// Seconds from the start of the curve to its plateau.
    k: f64,
    /// Time on the curve; it stands still while the application limits us (RFC 9438 section 5.8). `None` before the
    /// first growth after a reduction.
    elapsed: Option<f64>,
    last_ack: Instant,
}

impl Cubic {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            window: INITIAL_WINDOW,
            slow_start_threshold: f64::INFINITY,
            w_max: 0.0,
            prior: f64::INFINITY,
            w_est: 0.0,
            k: 0.0,
            elapsed: None,
            last_ack: now,
        }
    }

    pub(super) fn window(&self, mtu: usize) -> usize {
        (self.window as usize).max(MIN_WINDOW * mtu)
    }

    pub(super) fn in_slow_start(&self) -> bool {
        self.window < self.slow_start_threshold
    }

    /// Time since the last acknowledgement is not time on the curve: nothing was being sent.
    pub(super) fn on_pause(&mut self, now: Instant) {
        self.last_ack = now;
    }

    /// `bytes` were acked that had been sent after the last reduction and while the window was in use.
    pub(super) fn on_ack(&mut self, now: Instant, bytes: usize, rtt: Duration, mtu: usize) {
        let since_last = now.saturating_duration_since(self.last_ack).as_secs_f64();
        self.last_ack = now;
        if bytes == 0 {
            return;
        }
        self.window = self.window.max((MIN_WINDOW * mtu) as f64);
        let (acked, mtu) = (bytes as f64, mtu as f64);
        if self.in_slow_start() {
            self.window = (self.window + acked).min(self.slow_start_threshold.max(self.window));
            return;
        }
        let elapsed = match self.elapsed {
            Some(elapsed) => elapsed + since_last,
            None => self.start_curve(mtu),
        };
        self.elapsed = Some(elapsed);
        let alpha = if self.w_est < self.prior { ALPHA } else { 1.0 };
        self.w_est += alpha * mtu * acked / self.window;
        let curve = |t: f64| C * mtu * (t - self.k).powi(3) + self.w_max;
        if curve(elapsed) < self.w_est {
            self.window = self.window.max(self.w_est);
        } else {
            let target = curve(elapsed + rtt.as_secs_f64()).clamp(self.window, 1.5 * self.window);
            self.window += (target - self.window) * (acked / self.window).min(1.0);
        }
    }

    /// A packet was lost or marked: once a round trip.
    pub(super) fn on_congestion(&mut self, mtu: usize) {
        self.prior = self.window;
        // Fast convergence: a flow that lost before it was back where it had been leaves room to a new one.
        self.w_max = if self.window < self.w_max { self.window * (1.0 + BETA) / 2.0 } else { self.window };
        self.window = (self.window * BETA).max((MIN_WINDOW * mtu) as f64);
        self.slow_start_threshold = self.window;
        self.elapsed = None;
    }

    /// Nothing came through for a long time: start small (RFC 9002 section 7.6.2).
    pub(super) fn on_persistent_congestion(&mut self, mtu: usize) {
        self.window = (MIN_WINDOW * mtu) as f64;
        self.elapsed = None;
    }

    /// The reduction since `before` was for nothing.
    pub(super) fn undo(&mut self, before: Self) {
        let window = self.window.max(before.window);
        *self = Self { window, last_ack: self.last_ack, ..before };
    }

    /// Lays the curve through the present window and returns the time on it.
    fn start_curve(&mut self, mtu: f64) -> f64 {
        self.w_est = self.window;
        self.w_max = self.w_max.max(self.window);
        self.k = ((self.w_max - self.window) / (C * mtu)).cbrt();
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: usize = 1200;
    const RTT: Duration = Duration::from_millis(100);

    /// Acks one window a round trip, `trips` times, in ten pieces each.
    fn run(cubic: &mut Cubic, now: &mut Instant, trips: usize) {
        for _ in 0..trips * 10 {
            *now += RTT / 10;
            cubic.on_ack(*now, cubic.window(MTU) / 10, RTT, MTU);
        }
    }

    /// In congestion avoidance, just reduced from `datagrams`.
    fn reduced_from(datagrams: usize) -> (Cubic, Instant) {
        let now = Instant::now();
        let mut cubic = Cubic::new(now);
        cubic.window = (datagrams * MTU) as f64;
        cubic.on_congestion(MTU);
        (cubic, now)
    }

    #[test]
    fn slow_start_doubles_a_round_trip() {
        let now = Instant::now();
        let mut cubic = Cubic::new(now);
        assert_eq!(cubic.window(MTU), 32 * 1024);
        cubic.on_ack(now, 32 * 1024, RTT, MTU);
        assert!(cubic.in_slow_start());
        assert_eq!(cubic.window(MTU), 64 * 1024);
    }

    #[test]
    fn growth_follows_the_formula() {
        let (mut cubic, mut now) = reduced_from(2000);
        assert_eq!(cubic.window(MTU), 1400 * MTU);
        let k = (2000.0 * (1.0 - BETA) / C).cbrt();
        for trip in 1..=180 {
            run(&mut cubic, &mut now, 1);
            // The first ack starts the curve, a tenth of a round trip in.
            let t = RTT.as_secs_f64() * (trip as f64 - 0.1);
            let formula = (C * (t - k).powi(3) + 2000.0) * MTU as f64;
            let off = cubic.window / formula - 1.0;
            assert!(off.abs() < 0.02, "{off} at {t} s");
        }
        assert!(cubic.window(MTU) > 2000 * MTU, "past the plateau, into the convex part");
    }

    #[test]
    fn a_small_window_grows_as_reno_would() {
        let (mut cubic, mut now) = reduced_from(20);
        let rtt = Duration::from_millis(10);
        for _ in 0..5 {
            now += rtt;
            cubic.on_ack(now, cubic.window(MTU), rtt, MTU);
        }
        let grown = cubic.window / MTU as f64 - 14.0;
        assert!((0.9 * 5.0 * ALPHA..1.1 * 5.0 * ALPHA).contains(&grown), "{grown} datagrams in 5 round trips");
    }

    #[test]
    fn the_curve_waits_while_the_application_limits() {
        let (mut waited, mut now) = reduced_from(2000);
        run(&mut waited, &mut now, 3);
        let (mut other, mut then) = (waited.clone(), now);
        for _ in 0..100 {
            now += RTT;
            waited.on_ack(now, 0, RTT, MTU);
        }
        now += 50 * RTT;
        waited.on_pause(now);
        assert_eq!(waited.window, other.window);
        run(&mut waited, &mut now, 3);
        run(&mut other, &mut then, 3);
        assert!((waited.window / other.window - 1.0).abs() < 1e-9);
    }

    #[test]
    fn fast_convergence_lowers_the_plateau() {
        let (mut cubic, _) = reduced_from(1000);
        assert_eq!(cubic.w_max, 1000.0 * MTU as f64);
        cubic.on_congestion(MTU);
        assert_eq!(cubic.w_max, 700.0 * MTU as f64 * (1.0 + BETA) / 2.0);
    }

    #[test]
    fn the_window_has_a_floor() {
        let (mut cubic, _) = reduced_from(100);
        for _ in 0..50 {
            cubic.on_congestion(MTU);
        }
        assert_eq!(cubic.window(MTU), 2 * MTU);
        cubic.on_persistent_congestion(MTU);
        assert_eq!(cubic.window(8952), 2 * 8952);
    }

    #[test]
    fn an_undone_reduction_leaves_no_trace() {
        let (mut cubic, mut now) = reduced_from(500);
        run(&mut cubic, &mut now, 4);
        let before = cubic.clone();
        cubic.on_congestion(MTU);
        cubic.undo(before.clone());
        assert_eq!((cubic.window, cubic.k, cubic.elapsed), (before.window, before.k, before.elapsed));
        assert_eq!(cubic.slow_start_threshold, before.slow_start_threshold);
    }
}
