//! The handshake (spec/transfer.md, section 3), without I/O: Noise messages go in and out, and what both sides know at
//! its end is `Established`.
//!
//! Initiator: `start`, then `finish` with each Response that comes. Responder: `respond`, then `finish` with each Finish
//! that comes. A message that fails leaves the state as it was, so a forged one does not keep the real one out.
//!
//! snow does not zeroise: a handshake's chaining key and ephemeral key stay in freed memory until it is used again.

use std::fmt;
use std::str::FromStr;

use sealane_aead::Cipher;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher as NoiseCipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};
use zeroize::{Zeroize, Zeroizing};

use crate::keys::{Keys, Role, x25519, x25519_public};
use crate::wire::{NOISE_1, NOISE_2, NOISE_3, SessionId};

const PATTERN: &str = "Noise_XX_25519_ChaChaPoly_BLAKE2s";
const PROLOGUE: &[u8] = b"sealane transfer 1";

/// A cipher's number is its place, and its bit in a mask.
const NUMBERS: [Cipher; 4] =
    [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305, Cipher::XChaCha20Poly1305];

/// A peer's static X25519 key: who it is. As text 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerKey(pub [u8; 32]);

/// Not 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key is 64 hexadecimal digits")]
pub struct NotAKey;

impl fmt::Display for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PeerKey {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Self, NotAKey> {
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(NotAKey);
        }
        let mut key = [0; 32];
        for (i, byte) in key.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * i..][..2], 16).map_err(|_| NotAKey)?;
        }
        Ok(PeerKey(key))
    }
}

/// A static key pair. Neither `Clone` nor `Debug`; zeroised.
pub struct Identity {
    private: Zeroizing<[u8; 32]>,
    public: PeerKey,
}

impl Identity {
    /// From 32 random bytes, or from those that [`secret`](Self::secret) gave.
    pub fn from_secret(mut secret: [u8; 32]) -> Self {
        let identity = Self { public: PeerKey(x25519_public(&secret)), private: Zeroizing::new(secret) };
        secret.zeroize();
        identity
    }

    /// What others pin.
    pub fn public(&self) -> PeerKey {
        self.public
    }

    /// To be saved where nobody else reads it.
    pub fn secret(&self) -> &[u8; 32] {
        &self.private
    }
}

/// The ciphers that a machine offers, and those of them that it computes fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ciphers {
    offered: u8,
    fast: u8,
}

impl Ciphers {
    /// Offers all; ChaCha20 is fast everywhere, AES where the CPU has instructions for it and for GHASH.
    pub fn of_this_machine() -> Self {
        Self { offered: 0b1111, fast: if aes_is_fast() { 0b1111 } else { 0b1100 } }
    }

    /// Offers `cipher` and calls it fast, whatever the machine says.
    pub fn only(cipher: Cipher) -> Self {
        Self { offered: bit(cipher), fast: bit(cipher) }
    }

    /// The rule of 3.3.
    fn choose(self, peer: Self) -> Option<Cipher> {
        let (offered, fast) = (self.offered & peer.offered, self.fast & peer.fast);
        let aes128 = bit(Cipher::Aes128Gcm);
        if offered & fast & aes128 != 0 {
            return Some(Cipher::Aes128Gcm);
        }
        [3, 2, 0, 1].into_iter().find(|number| offered & 1 << number != 0).map(|number| NUMBERS[number])
    }
}

fn number(cipher: Cipher) -> u8 {
    match cipher {
        Cipher::Aes128Gcm => 0,
        Cipher::Aes256Gcm => 1,
        Cipher::ChaCha20Poly1305 => 2,
        Cipher::XChaCha20Poly1305 => 3,
    }
}

fn bit(cipher: Cipher) -> u8 {
    1 << number(cipher)
}

fn aes_is_fast() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

/// Why a handshake message did not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HandshakeError {
    /// Drop it: anyone can have sent it.
    #[error("a handshake message did not verify")]
    Forged,
    /// Anyone who saw the Init can cause this.
    #[error("the peer has another key than the expected one")]
    WrongPeer,
    #[error("no cipher that both sides offer")]
    NoCommonCipher,
}

/// What a finished handshake gives.
pub(crate) struct Established {
    pub peer: PeerKey,
    /// What the peer wants its datagrams addressed to.
    pub peer_id: SessionId,
    pub cipher: Cipher,
    pub keys: Keys,
}

/// What makes a handshake's state, again if need be: the same messages come of it each time.
struct Start {
    private: Zeroizing<[u8; 32]>,
    ephemeral: Zeroizing<[u8; 32]>,
    /// The initiator's.
    id: SessionId,
}

impl Start {
    fn new(identity: &Identity, id: SessionId, mut seed: [u8; 32]) -> Self {
        let start = Self { private: identity.private.clone(), ephemeral: Zeroizing::new(seed), id };
        seed.zeroize();
        start
    }

    fn state(&self, role: Role) -> HandshakeState {
        let prologue = [PROLOGUE, &self.id.0].concat();
        let resolver = Resolver { ephemeral: self.ephemeral.clone() };
        let pattern = PATTERN.parse().expect("a pattern that snow knows");
        let builder = Builder::with_resolver(pattern, Box::new(resolver))
            .local_private_key(&*self.private)
            .and_then(|builder| builder.prologue(&prologue))
            .expect("each is set once");
        match role {
            Role::Initiator => builder.build_initiator(),
            Role::Responder => builder.build_responder(),
        }
        .expect("XX needs no more than a static key")
    }
}

/// The getter's side.
pub(crate) struct Initiator {
    start: Start,
    peer: PeerKey,
    state: HandshakeState,
}

impl Initiator {
    /// Begins session `id` with the owner of `peer` and returns Noise message 1. `seed`: random, used once; it is the
    /// ephemeral private key.
    pub(crate) fn start(identity: &Identity, peer: PeerKey, id: SessionId, seed: [u8; 32]) -> (Self, [u8; NOISE_1]) {
        let start = Start::new(identity, id, seed);
        let (state, message) = Self::begin(&start);
        (Self { start, peer, state }, message)
    }

    fn begin(start: &Start) -> (HandshakeState, [u8; NOISE_1]) {
        let mut state = start.state(Role::Initiator);
        let message = write(&mut state, &[]).expect("message 1 is an ephemeral key");
        (state, message)
    }

    /// Takes Noise message 2 and returns Noise message 3. After an error the next message 2 may be tried, after success
    /// none.
    pub(crate) fn finish(
        &mut self,
        message_2: &[u8; NOISE_2],
        ciphers: Ciphers,
    ) -> Result<(Established, [u8; NOISE_3]), HandshakeError> {
        let result = self.attempt(message_2, ciphers);
        if result.is_err() && self.state.get_remote_static().is_some() {
            self.state = Self::begin(&self.start).0;
        }
        result
    }

    fn attempt(
        &mut self,
        message_2: &[u8; NOISE_2],
        ciphers: Ciphers,
    ) -> Result<(Established, [u8; NOISE_3]), HandshakeError> {
        let [peer_id @ .., offered, fast]: [u8; 10] = read(&mut self.state, message_2)?;
        if remote_static(&self.state)? != self.peer {
            return Err(HandshakeError::WrongPeer);
        }
        let cipher = ciphers.choose(Ciphers { offered, fast }).ok_or(HandshakeError::NoCommonCipher)?;
        let message_3 = write(&mut self.state, &[number(cipher)])?;
        Ok((established(&mut self.state, Role::Initiator, SessionId(peer_id), cipher)?, message_3))
    }
}

/// The provider's side.
pub(crate) struct Responder {
    start: Start,
    message_1: [u8; NOISE_1],
    payload: [u8; 10],
    state: HandshakeState,
}

impl Responder {
    /// Answers Noise message 1 of session `id` with Noise message 2, which names `own_id`. `seed`: random, used once.
    pub(crate) fn respond(
        identity: &Identity,
        id: SessionId,
        own_id: SessionId,
        ciphers: Ciphers,
        seed: [u8; 32],
        message_1: &[u8; NOISE_1],
    ) -> Result<(Self, [u8; NOISE_2]), HandshakeError> {
        let start = Start::new(identity, id, seed);
        let mut payload = [0; 10];
        payload[..8].copy_from_slice(&own_id.0);
        payload[8..].copy_from_slice(&[ciphers.offered, ciphers.fast]);
        let (state, message_2) = Self::begin(&start, message_1, &payload)?;
        Ok((Self { start, message_1: *message_1, payload, state }, message_2))
    }

    fn begin(
        start: &Start,
        message_1: &[u8; NOISE_1],
        payload: &[u8; 10],
    ) -> Result<(HandshakeState, [u8; NOISE_2]), HandshakeError> {
        let mut state = start.state(Role::Responder);
        read::<0>(&mut state, message_1)?;
        let message_2 = write(&mut state, payload)?;
        Ok((state, message_2))
    }

    /// Takes Noise message 3. After an error the next message 3 may be tried, after success none.
    pub(crate) fn finish(&mut self, message_3: &[u8; NOISE_3]) -> Result<Established, HandshakeError> {
        let result = self.attempt(message_3);
        // snow keeps the key that a message mixed in before it failed. Without the real sealed static key, which only
        // someone on the path can copy, it does not get as far, and a forgery costs no Diffie-Hellman.
        if result.is_err() && self.state.get_remote_static().is_some() {
            self.state = Self::begin(&self.start, &self.message_1, &self.payload)?.0;
        }
        result
    }

    fn attempt(&mut self, message_3: &[u8; NOISE_3]) -> Result<Established, HandshakeError> {
        let [number] = read(&mut self.state, message_3)?;
        let cipher = *NUMBERS.get(usize::from(number)).ok_or(HandshakeError::NoCommonCipher)?;
        let [.., offered, _] = self.payload;
        if offered & bit(cipher) == 0 {
            return Err(HandshakeError::NoCommonCipher);
        }
        established(&mut self.state, Role::Responder, self.start.id, cipher)
    }
}

fn read<const N: usize>(state: &mut HandshakeState, message: &[u8]) -> Result<[u8; N], HandshakeError> {
    let mut payload = [0; N];
    let len = state.read_message(message, &mut payload).map_err(|_| HandshakeError::Forged)?;
    if len == N { Ok(payload) } else { Err(HandshakeError::Forged) }
}

fn write<const N: usize>(state: &mut HandshakeState, payload: &[u8]) -> Result<[u8; N], HandshakeError> {
    // snow wants room for a tag even where it writes none.
    let mut buf = [0; NOISE_2 + 16];
    state.write_message(payload, &mut buf).map_err(|_| HandshakeError::Forged)?;
    let (message, _) = buf.split_first_chunk().expect("no message is longer than the second");
    Ok(*message)
}

fn remote_static(state: &HandshakeState) -> Result<PeerKey, HandshakeError> {
    let key = state.get_remote_static().and_then(|key| key.try_into().ok());
    key.map(PeerKey).ok_or(HandshakeError::Forged)
}

fn established(
    state: &mut HandshakeState,
    role: Role,
    peer_id: SessionId,
    cipher: Cipher,
) -> Result<Established, HandshakeError> {
    let peer = remote_static(state)?;
    let hash: [u8; 32] = state.get_handshake_hash().try_into().map_err(|_| HandshakeError::Forged)?;
    let keys = Keys::new(role, cipher, state.dangerously_get_raw_split(), &hash);
    Ok(Established { peer, peer_id, cipher, keys })
}

/// snow's primitives, with X25519 that refuses a null secret and randomness that is one ephemeral key.
struct Resolver {
    ephemeral: Zeroizing<[u8; 32]>,
}

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Once(Some(self.ephemeral.clone()))))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        (*choice == DHChoice::Curve25519).then(x25519)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn NoiseCipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

/// Gives its bytes once: XX makes one key a side.
struct Once(Option<Zeroizing<[u8; 32]>>);

impl Random for Once {
    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), snow::Error> {
        let bytes = self.0.take().filter(|bytes| bytes.len() == out.len()).ok_or(snow::Error::Rng)?;
        out.copy_from_slice(&*bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
