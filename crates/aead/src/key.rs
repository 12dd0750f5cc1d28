use crate::{
    Cipher, Error,
    backend::portable::{aes_gcm::AesGcm, chacha20},
};
use aes::{Aes128Enc, Aes256Enc};

/// A cipher's key, expanded once, used by any number of jobs.
///
/// It is wiped when dropped and neither copied nor printed:
///
/// ```compile_fail,E0277
/// fn printed<T: std::fmt::Debug>() {}
/// printed::<sealane_aead::Key>();
/// ```
/// ```compile_fail,E0277
/// fn copied<T: Clone>() {}
/// copied::<sealane_aead::Key>();
/// ```
pub struct Key {
    pub(crate) schedule: Schedule,
}

pub(crate) enum Schedule {
    Aes128Gcm(AesGcm<Aes128Enc>),
    Aes256Gcm(AesGcm<Aes256Enc>),
    ChaCha20Poly1305(chacha20::Key),
    XChaCha20Poly1305(chacha20::Key),
}

impl Key {
    /// Expands `secret`.
    ///
    /// # Errors
    /// [`Error::KeyLength`] when it is not of [`Cipher::key_len`] bytes.
    pub fn new(cipher: Cipher, secret: &[u8]) -> Result<Self, Error> {
        let schedule = match cipher {
            Cipher::Aes128Gcm => AesGcm::new(secret).map(Schedule::Aes128Gcm),
            Cipher::Aes256Gcm => AesGcm::new(secret).map(Schedule::Aes256Gcm),
            Cipher::ChaCha20Poly1305 => chacha20::Key::new(secret).map(Schedule::ChaCha20Poly1305),
            Cipher::XChaCha20Poly1305 => chacha20::Key::new(secret).map(Schedule::XChaCha20Poly1305),
        };
        Ok(Self { schedule: schedule.ok_or(Error::KeyLength { cipher, got: secret.len() })? })
    }

    /// The cipher it is for.
    pub fn cipher(&self) -> Cipher {
        match self.schedule {
            Schedule::Aes128Gcm(_) => Cipher::Aes128Gcm,
            Schedule::Aes256Gcm(_) => Cipher::Aes256Gcm,
            Schedule::ChaCha20Poly1305(_) => Cipher::ChaCha20Poly1305,
            Schedule::XChaCha20Poly1305(_) => Cipher::XChaCha20Poly1305,
        }
    }
}

/// A number used once a key: 12 bytes, for XChaCha20-Poly1305 24.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nonce {
    /// For AES-GCM and ChaCha20-Poly1305.
    Short([u8; 12]),
    /// For XChaCha20-Poly1305.
    Long([u8; 24]),
}

impl AsRef<[u8]> for Nonce {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Short(bytes) => bytes,
            Self::Long(bytes) => bytes,
        }
    }
}

impl From<[u8; 12]> for Nonce {
    fn from(bytes: [u8; 12]) -> Self {
        Self::Short(bytes)
    }
}

impl From<[u8; 24]> for Nonce {
    fn from(bytes: [u8; 24]) -> Self {
        Self::Long(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_ciphers_own_key_length_is_taken() {
        for cipher in Cipher::ALL {
            for got in 0..=65 {
                let key = Key::new(cipher, &vec![1; got]);
                if got == cipher.key_len() {
                    assert_eq!(key.map(|key| key.cipher()), Ok(cipher));
                } else {
                    assert_eq!(key.err(), Some(Error::KeyLength { cipher, got }));
                }
            }
        }
    }
}
