use crate::Cipher;

/// What can go wrong before a packet is worked on. That a packet is forged is a [`crate::Verdict`], not an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    // The peer, or someone in between, misbehaved.
    /// The packet number was accepted before, or lies too far behind the newest.
    #[error("packet {0} was seen before or is too old")]
    Replayed(u64),

    // The caller misused us.
    /// No cipher has this name.
    #[error("not a cipher: one of aes-128-gcm, aes-256-gcm, chacha20-poly1305, xchacha20-poly1305")]
    UnknownCipher,
    /// The key is not of [`Cipher::key_len`] bytes.
    #[error("{cipher} takes a key of {} bytes, not {got}", .cipher.key_len())]
    KeyLength {
        /// The cipher asked for.
        cipher: Cipher,
        /// Bytes given.
        got: usize,
    },
    /// The nonce or initial vector is not of [`Cipher::nonce_len`] bytes.
    #[error("{cipher} takes a nonce of {} bytes, not {got}", .cipher.nonce_len())]
    NonceLength {
        /// The cipher of the key.
        cipher: Cipher,
        /// Bytes given.
        got: usize,
    },
    /// The buffer is shorter than a tag.
    #[error("{0} bytes have no room for the tag of 16")]
    NoRoomForTag(usize),
    /// The plaintext is longer than [`Cipher::max_plaintext`].
    #[error("{0} bytes are more than one nonce of the cipher can carry")]
    TooLong(usize),
    /// The packet number was minted by another sealer, so its nonce may be used up in this one.
    #[error("the packet number was minted by another sealer")]
    ForeignNumber,

    // A resource failed.
    /// Every packet number of the key is used; only a new key helps.
    #[error("every packet number of this key is used")]
    Exhausted,
}
