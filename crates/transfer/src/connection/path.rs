//! The address of the peer, and what happens when it changes (spec 5.7).

use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The least time that an answer to a challenge has.
const MIN_WAIT: Duration = Duration::from_secs(1);

/// Where the peer is.
pub(super) struct Path {
    address: SocketAddr,
    trial: Option<Trial>,
}

/// A new address that has not answered yet.
struct Trial {
    earlier: SocketAddr,
    challenge: [u8; 8],
    challenge_due: bool,
    until: Instant,
    received: usize,
    sent: usize,
}

impl Path {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address, trial: None }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Counts what came. `newest`: this is the packet with the highest number yet. Returns whether the path changed.
    pub(super) fn on_packet(&mut self, now: Instant, from: SocketAddr, size: usize, newest: bool, arg: Fresh) -> bool {
        if from == self.address {
            if let Some(trial) = &mut self.trial {
                trial.received += size;
            }
            return false;
        }
        if !newest {
            return false;
        }
        let earlier = self.trial.as_ref().map_or(self.address, |trial| trial.earlier);
        self.address = from;
        self.trial = (from != earlier).then(|| Trial {
            earlier,
            challenge: arg.challenge,
            challenge_due: true,
            until: now + MIN_WAIT.max(3 * arg.pto),
            received: size,
            sent: 0,
        });
        true
    }

    /// Bytes that the peer's address may be sent now.
    pub(super) fn allowance(&self) -> usize {
        self.trial.as_ref().map_or(usize::MAX, |trial| (3 * trial.received).saturating_sub(trial.sent))
    }

    pub(super) fn on_sent(&mut self, size: usize) {
        if let Some(trial) = &mut self.trial {
            trial.sent += size;
        }
    }

    /// A challenge to be sent now, once.
    pub(super) fn challenge(&mut self) -> Option<[u8; 8]> {
        let trial = self.trial.as_mut().filter(|trial| trial.challenge_due)?;
        trial.challenge_due = false;
        Some(trial.challenge)
    }

    pub(super) fn challenge_due(&self) -> bool {
        self.trial.as_ref().is_some_and(|trial| trial.challenge_due)
    }

    /// The packet with the challenge was lost.
    pub(super) fn on_challenge_lost(&mut self) {
        if let Some(trial) = &mut self.trial {
            trial.challenge_due = true;
        }
    }

    pub(super) fn on_answer(&mut self, answer: [u8; 8]) {
        self.trial.take_if(|trial| trial.challenge == answer);
    }

    pub(super) fn timeout(&self) -> Option<Instant> {
        self.trial.as_ref().map(|trial| trial.until)
    }

    /// Returns whether the earlier address was taken up again.
    pub(super) fn on_timeout(&mut self, now: Instant) -> bool {
        let Some(trial) = self.trial.take_if(|trial| trial.until <= now) else { return false };
        self.address = trial.earlier;
        true
    }
}

/// What a trial that begins needs.
pub(super) struct Fresh {
    pub(super) challenge: [u8; 8],
    pub(super) pto: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    fn fresh() -> Fresh {
        Fresh { challenge: [9; 8], pto: Duration::from_millis(100) }
    }

    #[test]
    fn a_new_address_is_sent_little_until_it_answers() {
        let now = Instant::now();
        let mut path = Path::new(address(1));
        assert!(!path.on_packet(now, address(2), 100, false, fresh()), "an old packet moves nothing");
        assert!(path.on_packet(now, address(2), 100, true, fresh()));
        assert_eq!((path.address(), path.allowance()), (address(2), 300));
        assert_eq!((path.challenge(), path.challenge()), (Some([9; 8]), None));
        path.on_sent(250);
        assert_eq!(path.allowance(), 50);
        path.on_answer([8; 8]);
        assert_eq!(path.allowance(), 50);
        path.on_answer([9; 8]);
        assert_eq!(path.allowance(), usize::MAX);
        assert!(!path.on_timeout(now + MIN_WAIT));
    }

    #[test]
    fn without_an_answer_the_earlier_address_returns() {
        let now = Instant::now();
        let mut path = Path::new(address(1));
        path.on_packet(now, address(2), 100, true, fresh());
        path.on_packet(now, address(3), 100, true, fresh());
        assert!(!path.on_timeout(now));
        assert!(path.on_timeout(path.timeout().unwrap()));
        assert_eq!((path.address(), path.timeout()), (address(1), None));
    }
}
