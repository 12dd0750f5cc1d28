//! The keys of a session and their renewal (spec/transfer.md, section 4).
//!
//! `Keys` begins with what the handshake gave, hands out the `Sealer` and the `Opener` of its epoch, and moves to the
//! next epoch by a Diffie-Hellman exchange: `propose` and `complete` on the initiator, `answer` on the responder.
//! The owner keeps the opener of the old epoch for as long as 4.4 says.

use sealane_aead::{Cipher, Opener, Sealer};
use snow::params::DHChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Dh, Random};
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, Zeroizing};

const TRAFFIC: &str = "sealane transfer 1 traffic secret";
const KEY: &str = "sealane transfer 1 packet key";
const IV: &str = "sealane transfer 1 packet iv";
const RENEWAL: &str = "sealane transfer 1 renewal";

type Secret = Zeroizing<[u8; 32]>;

/// Who opened the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Initiator,
    Responder,
}

/// The peer broke the rules of renewal: the session is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeyError {
    #[error("the peer sent a key that was not due")]
    NotDue,
    #[error("the peer sent a key with which no secret can be shared")]
    NullSecret,
}

/// What a responder does about a KEY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The keys moved to the next epoch; send this public key.
    Advanced([u8; 32]),
    /// The KEY came again: send this public key again.
    Repeat([u8; 32]),
    /// The KEY belongs to an earlier epoch: nothing to do.
    Stale,
}

/// The secrets of one epoch, both directions.
pub(crate) struct Keys {
    role: Role,
    cipher: Cipher,
    epoch: u64,
    hash: Secret,
    seal: Secret,
    open: Secret,
    renewal: Renewal,
}

enum Renewal {
    None,
    /// An initiator waits for the answer to this key.
    Proposed(Box<dyn Dh>),
    /// A responder answered the first of these keys with the second.
    Answered {
        theirs: [u8; 32],
        ours: [u8; 32],
    },
}

impl Keys {
    /// Epoch 0, from Noise's split (initiator to responder first) and handshake hash.
    pub(crate) fn new(role: Role, cipher: Cipher, mut split: ([u8; 32], [u8; 32]), hash: &[u8; 32]) -> Self {
        let forward = derive(TRAFFIC, &[&split.0, hash]);
        let backward = derive(TRAFFIC, &[&split.1, hash]);
        split.0.zeroize();
        split.1.zeroize();
        let (seal, open) = match role {
            Role::Initiator => (forward, backward),
            Role::Responder => (backward, forward),
        };
        Self { role, cipher, epoch: 0, hash: Zeroizing::new(*hash), seal, open, renewal: Renewal::None }
    }

    pub(crate) fn role(&self) -> Role {
        self.role
    }

    /// Renewals so far; on the wire modulo 256.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether an initiator waits for the answer to its key.
    pub(crate) fn is_proposed(&self) -> bool {
        matches!(self.renewal, Renewal::Proposed(_))
    }

    /// Seals for the peer in this epoch. The first packet gets `first_number`: above every number of earlier epochs.
    pub(crate) fn sealer(&self, first_number: u64) -> Sealer {
        let (key, iv) = self.material(&self.seal);
        Sealer::starting_at(self.cipher, &key[..self.cipher.key_len()], &iv[..self.cipher.nonce_len()], first_number)
            .expect("key and IV are as long as the cipher wants")
    }

    /// Opens what the peer seals in this epoch.
    pub(crate) fn opener(&self) -> Opener {
        let (key, iv) = self.material(&self.open);
        Opener::new(self.cipher, &key[..self.cipher.key_len()], &iv[..self.cipher.nonce_len()])
            .expect("key and IV are as long as the cipher wants")
    }

    fn material(&self, secret: &Secret) -> (Secret, Secret) {
        (derive(KEY, &[&**secret]), derive(IV, &[&**secret]))
    }

    /// Initiator: begins a renewal, `seed` being the fresh private key, and returns the epoch and the public key to
    /// send. While an answer is awaited the same key is returned and `seed` is not used.
    pub(crate) fn propose(&mut self, seed: [u8; 32]) -> (u64, [u8; 32]) {
        debug_assert_eq!(self.role, Role::Initiator, "only the initiator renews");
        if !matches!(self.renewal, Renewal::Proposed(_)) {
            self.renewal = Renewal::Proposed(x25519_from(seed));
        }
        let Renewal::Proposed(dh) = &self.renewal else { unreachable!("proposed just above") };
        (self.epoch + 1, public_of(&**dh))
    }

    /// Responder: takes a KEY. `seed` is the fresh private key. The owner goes on sealing with the old epoch until a
    /// packet of the new one verified.
    pub(crate) fn answer(&mut self, epoch: u64, public: &[u8; 32], seed: [u8; 32]) -> Result<Answer, KeyError> {
        if self.role != Role::Responder {
            return Err(KeyError::NotDue);
        }
        if epoch < self.epoch {
            return Ok(Answer::Stale);
        }
        match self.renewal {
            Renewal::Answered { theirs, ours } if epoch == self.epoch && theirs == *public => {
                return Ok(Answer::Repeat(ours));
            }
            _ if epoch != self.epoch + 1 => return Err(KeyError::NotDue),
            _ => {}
        }
        let mut dh = x25519_from(seed);
        let ours = public_of(&*dh);
        let advanced = self.advance(&*dh, public);
        dh.set(&[0; 32]);
        advanced?;
        self.renewal = Renewal::Answered { theirs: *public, ours };
        Ok(Answer::Advanced(ours))
    }

    /// Initiator: takes the answering KEY; `true` when the keys moved to the next epoch, which the owner seals with from
    /// then on, and `false` when the KEY had come before.
    pub(crate) fn complete(&mut self, epoch: u64, public: &[u8; 32]) -> Result<bool, KeyError> {
        if self.role == Role::Initiator && 0 < epoch && epoch <= self.epoch {
            return Ok(false);
        }
        match std::mem::replace(&mut self.renewal, Renewal::None) {
            Renewal::Proposed(mut dh) if epoch == self.epoch + 1 => {
                let advanced = self.advance(&*dh, public);
                dh.set(&[0; 32]);
                advanced.map(|()| true)
            }
            other => {
                self.renewal = other;
                Err(KeyError::NotDue)
            }
        }
    }

    fn advance(&mut self, dh: &dyn Dh, public: &[u8; 32]) -> Result<(), KeyError> {
        let mut shared = Zeroizing::new([0; 32]);
        dh.dh(public, &mut *shared).map_err(|_| KeyError::NullSecret)?;
        for secret in [&mut self.seal, &mut self.open] {
            *secret = derive(RENEWAL, &[&**secret, &*shared, &*self.hash]);
        }
        self.epoch += 1;
        Ok(())
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        if let Renewal::Proposed(dh) = &mut self.renewal {
            dh.set(&[0; 32]); // snow does not zeroise
        }
    }
}

fn derive(context: &str, parts: &[&[u8; 32]]) -> Secret {
    let mut hasher = blake3::Hasher::new_derive_key(context);
    for part in parts {
        hasher.update(*part);
    }
    let mut hash = hasher.finalize();
    let secret = Zeroizing::new(*hash.as_bytes());
    hasher.zeroize();
    hash.zeroize();
    secret
}

fn x25519_from(mut private: [u8; 32]) -> Box<dyn Dh> {
    let mut dh = x25519();
    dh.set(&private);
    private.zeroize();
    dh
}

/// The X25519 public key of a private one.
pub(crate) fn x25519_public(private: &[u8; 32]) -> [u8; 32] {
    let mut dh = x25519();
    dh.set(private);
    let public = public_of(&*dh);
    dh.set(&[0; 32]);
    public
}

fn public_of(dh: &dyn Dh) -> [u8; 32] {
    dh.pubkey().try_into().expect("X25519 keys have 32 bytes")
}

/// snow's X25519, with an all-zero shared secret as an error.
pub(crate) fn x25519() -> Box<dyn Dh> {
    Box::new(X25519(DefaultResolver.resolve_dh(&DHChoice::Curve25519).expect("snow is built with Curve25519")))
}

struct X25519(Box<dyn Dh>);

impl Dh for X25519 {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn pub_len(&self) -> usize {
        self.0.pub_len()
    }

    fn priv_len(&self) -> usize {
        self.0.priv_len()
    }

    fn set(&mut self, private: &[u8]) {
        self.0.set(private);
    }

    fn generate(&mut self, rng: &mut dyn Random) -> Result<(), snow::Error> {
        self.0.generate(rng)
    }

    fn pubkey(&self) -> &[u8] {
        self.0.pubkey()
    }

    fn privkey(&self) -> &[u8] {
        self.0.privkey()
    }

    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), snow::Error> {
        self.0.dh(public, out)?;
        if out[..32].ct_eq(&[0; 32]).into() { Err(snow::Error::Dh) } else { Ok(()) }
    }
}

#[cfg(test)]
mod vectors;
