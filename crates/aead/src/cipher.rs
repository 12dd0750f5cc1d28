use crate::Error;
use std::{fmt, str::FromStr};

/// Bytes of an authentication tag, the same for every cipher.
pub const TAG: usize = 16;

/// An AEAD cipher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cipher {
    /// AES-128-GCM (NIST SP 800-38D).
    Aes128Gcm,
    /// AES-256-GCM (NIST SP 800-38D).
    Aes256Gcm,
    /// ChaCha20-Poly1305 (RFC 8439).
    ChaCha20Poly1305,
    /// XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03).
    XChaCha20Poly1305,
}

impl Cipher {
    /// Every cipher.
    pub const ALL: [Self; 4] = [Self::Aes128Gcm, Self::Aes256Gcm, Self::ChaCha20Poly1305, Self::XChaCha20Poly1305];

    /// The name that [`Cipher::from_str`] takes back, such as `aes-128-gcm`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aes128Gcm => "aes-128-gcm",
            Self::Aes256Gcm => "aes-256-gcm",
            Self::ChaCha20Poly1305 => "chacha20-poly1305",
            Self::XChaCha20Poly1305 => "xchacha20-poly1305",
        }
    }

    /// Bytes of a key.
    pub fn key_len(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            _ => 32,
        }
    }

    /// Bytes of a nonce.
    pub fn nonce_len(self) -> usize {
        match self {
            Self::XChaCha20Poly1305 => 24,
            _ => 12,
        }
    }

    /// Bytes of plaintext that one nonce may carry at most: both counters are of 32 bits, and block 0 (or 1) is the tag's.
    pub fn max_plaintext(self) -> u64 {
        match self {
            Self::Aes128Gcm | Self::Aes256Gcm => (1 << 36) - 32,
            Self::ChaCha20Poly1305 | Self::XChaCha20Poly1305 => (1 << 38) - 64,
        }
    }
}

impl fmt::Display for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Cipher {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|cipher| cipher.name() == name).ok_or(Error::UnknownCipher)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reads_back_and_another_does_not() {
        for cipher in Cipher::ALL {
            assert_eq!(cipher.to_string().parse(), Ok(cipher));
        }
        assert_eq!("AES-128-GCM".parse::<Cipher>(), Err(Error::UnknownCipher));
    }

    #[test]
    fn the_longest_plaintext_uses_the_last_counter() {
        assert_eq!(Cipher::Aes256Gcm.max_plaintext() / 16, u64::from(u32::MAX) - 1);
        assert_eq!(Cipher::ChaCha20Poly1305.max_plaintext() / 64, u64::from(u32::MAX));
    }
}
