//! The keys in use: one epoch to seal with, up to three to open with, and their renewal (spec 4.4, 4.5).

use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use sealane_aead::{Error as AeadError, Job, Number, Opener, Sealer};

use crate::keys::{Answer, KeyError, Keys, Role};

/// How long old keys still open.
const OVERLAP: Duration = Duration::from_secs(10);

/// When keys are renewed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Renewal {
    /// Packets in one direction.
    pub(crate) packets: u64,
    /// Time since the last renewal.
    pub(crate) age: Duration,
}

impl Default for Renewal {
    fn default() -> Self {
        Self { packets: 1 << 22, age: Duration::from_secs(120) }
    }
}

/// Packets in one direction and epoch at which a session ends.
const SPENT: u64 = 1 << 23;

pub(super) struct Epochs {
    keys: Keys,
    renewal: Renewal,
    sealer: Sealer,
    seal_epoch: u64,
    /// Number of the next packet, and of the first of this epoch.
    next: u64,
    first: u64,
    openers: ArrayVec<(u64, Opener), 3>,
    opened: u64,
    renewed: Instant,
    old_until: Option<Instant>,
    /// A KEY to be sent.
    due: Option<(u64, [u8; 32])>,
}

impl Epochs {
    pub(super) fn new(now: Instant, keys: Keys, renewal: Renewal) -> Self {
        Self {
            sealer: keys.sealer(0),
            openers: [(0, keys.opener())].into_iter().collect(),
            keys,
            renewal,
            seal_epoch: 0,
            next: 0,
            first: 0,
            opened: 0,
            renewed: now,
            old_until: None,
            due: None,
        }
    }

    /// Whether this epoch's keys have one packet left, for the CLOSE that says so.
    pub(super) fn are_spent(&self) -> bool {
        self.next - self.first >= SPENT - 1
    }

    /// The number of the next packet and its epoch on the wire; `None` when this epoch's keys are spent.
    pub(super) fn mint(&mut self) -> Option<(u8, Number)> {
        if self.next - self.first >= SPENT {
            return None;
        }
        let number = self.sealer.mint().ok()?;
        self.next = number.get() + 1;
        Some((self.seal_epoch as u8, number))
    }

    pub(super) fn seal_job<'a>(
        &'a self,
        number: Number,
        aad: &'a [u8],
        buf: &'a mut [u8],
    ) -> Result<Job<'a>, AeadError> {
        self.sealer.job(number, aad, buf)
    }

    /// `None` for a packet of an epoch without keys, or one that was seen before.
    pub(super) fn open_job<'a>(&'a self, epoch: u8, number: u64, aad: &'a [u8], buf: &'a mut [u8]) -> Option<Job<'a>> {
        let (_, opener) = self.openers.iter().find(|(of, _)| *of as u8 == epoch)?;
        opener.job(number, aad, buf).ok()
    }

    /// Marks an authentic packet; `false` when a copy of it came in the same batch.
    pub(super) fn accept(&mut self, now: Instant, epoch: u8, number: u64) -> bool {
        let Some(at) = self.openers.iter().position(|(of, _)| *of as u8 == epoch) else { return false };
        if self.openers[at].1.accept(number).is_err() {
            return false;
        }
        let epoch = self.openers[at].0;
        if epoch > self.seal_epoch {
            self.seal_with(now, epoch);
        }
        if epoch == self.seal_epoch {
            self.opened += 1;
        }
        true
    }

    fn seal_with(&mut self, now: Instant, epoch: u64) {
        self.sealer = self.keys.sealer(self.next);
        self.seal_epoch = epoch;
        self.first = self.next;
        self.opened = 0;
        self.renewed = now;
        self.old_until = Some(now + OVERLAP);
    }

    fn add_opener(&mut self) {
        if self.openers.is_full() {
            self.openers.remove(0);
        }
        self.openers.push((self.keys.epoch(), self.keys.opener()));
    }

    /// Drops old keys and, on the initiator, begins a renewal that is due. `seed` is fresh randomness.
    pub(super) fn on_time(&mut self, now: Instant, seed: impl FnOnce() -> [u8; 32]) {
        if self.old_until.is_some_and(|until| until <= now) {
            self.old_until = None;
            self.openers.retain(|(epoch, _)| *epoch >= self.seal_epoch);
        }
        let old = now.saturating_duration_since(self.renewed) >= self.renewal.age;
        let many = self.next - self.first >= self.renewal.packets || self.opened >= self.renewal.packets;
        if self.keys.role() == Role::Initiator && !self.proposed() && (old || many) {
            self.due = Some(self.keys.propose(seed()));
            self.renewed = now;
        }
    }

    fn proposed(&self) -> bool {
        self.keys.is_proposed()
    }

    /// When [`Epochs::on_time`] has something to do.
    pub(super) fn timeout(&self) -> Option<Instant> {
        let renew = (self.keys.role() == Role::Initiator && !self.proposed()).then(|| self.renewed + self.renewal.age);
        self.old_until.into_iter().chain(renew).min()
    }

    pub(super) fn on_key(
        &mut self,
        now: Instant,
        epoch: u64,
        public: &[u8; 32],
        seed: [u8; 32],
    ) -> Result<(), KeyError> {
        if self.keys.role() == Role::Initiator {
            if self.keys.complete(epoch, public)? {
                self.add_opener();
                self.seal_with(now, epoch);
            }
            return Ok(());
        }
        match self.keys.answer(epoch, public, seed)? {
            Answer::Advanced(ours) => {
                self.add_opener();
                self.due = Some((epoch, ours));
            }
            Answer::Repeat(ours) => self.due = Some((epoch, ours)),
            Answer::Stale => {}
        }
        Ok(())
    }

    pub(super) fn key_due(&self) -> bool {
        self.due.is_some()
    }

    pub(super) fn take_key(&mut self) -> Option<(u64, [u8; 32])> {
        self.due.take()
    }

    /// The packet with this KEY was lost.
    pub(super) fn on_key_lost(&mut self, key: (u64, [u8; 32])) {
        let stale = match self.keys.role() {
            Role::Initiator => !self.proposed() || key.0 <= self.keys.epoch(),
            Role::Responder => key.0 != self.keys.epoch() || self.seal_epoch == key.0,
        };
        if !stale {
            self.due = Some(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_aead::Cipher;

    #[test]
    fn keys_end_with_one_packet_to_say_so() {
        let keys = Keys::new(Role::Responder, Cipher::ChaCha20Poly1305, ([1; 32], [2; 32]), &[3; 32]);
        let mut epochs = Epochs::new(Instant::now(), keys, Renewal::default());
        (epochs.sealer, epochs.next) = (epochs.keys.sealer(SPENT - 2), SPENT - 2);
        assert!(!epochs.are_spent());
        assert_eq!(epochs.mint().unwrap().1.get(), SPENT - 2);
        assert!(epochs.are_spent());
        assert_eq!(epochs.mint().unwrap().1.get(), SPENT - 1);
        assert!(epochs.mint().is_none());
    }

    #[test]
    fn keys_are_renewed_by_age_and_old_ones_open_for_ten_seconds() {
        let start = Instant::now();
        let keys = |role| Keys::new(role, Cipher::ChaCha20Poly1305, ([1; 32], [2; 32]), &[3; 32]);
        let mut getter = Epochs::new(start, keys(Role::Initiator), Renewal::default());
        let mut provider = Epochs::new(start, keys(Role::Responder), Renewal::default());
        getter.on_time(start + Duration::from_secs(119), || [4; 32]);
        assert!(!getter.key_due());
        let now = getter.timeout().unwrap();
        assert_eq!(now, start + Duration::from_secs(120));
        getter.on_time(now, || [4; 32]);
        let (epoch, public) = getter.take_key().unwrap();
        provider.on_key(now, epoch, &public, [5; 32]).unwrap();
        assert_eq!(provider.mint().unwrap().0, 0, "until the getter shows that it has the keys");
        let (epoch, public) = provider.take_key().unwrap();
        getter.on_key(now, epoch, &public, [6; 32]).unwrap();
        assert_eq!(getter.mint().unwrap().0, 1);
        assert!(provider.accept(now, 1, 0));
        assert_eq!(provider.mint().unwrap().0, 1);
        for epochs in [&mut getter, &mut provider] {
            epochs.on_time(now + OVERLAP - Duration::from_millis(1), || [7; 32]);
            assert_eq!(epochs.openers.len(), 2);
            epochs.on_time(now + OVERLAP, || [7; 32]);
            assert_eq!(epochs.openers.len(), 1);
        }
    }
}
