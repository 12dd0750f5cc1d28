use crate::{Cipher, Error, Key, Nonce, TAG};

/// One packet to be sealed or opened in place.
pub struct Job<'a> {
    pub(crate) key: &'a Key,
    pub(crate) nonce: Nonce,
    pub(crate) aad: &'a [u8],
    pub(crate) buf: &'a mut [u8],
    pub(crate) verdict: Verdict,
}

/// What became of a [`Job`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No engine has seen it yet.
    Pending,
    /// The buffer holds ciphertext and tag.
    Sealed,
    /// The tag was right; the buffer holds the plaintext, then the tag.
    Authentic,
    /// The tag was wrong; the buffer is zeroed.
    Forged,
}

impl<'a> Job<'a> {
    /// A packet: `aad` is authenticated only; `buf` is the plaintext followed by [`TAG`] bytes of any content, or, to be
    /// opened, the ciphertext followed by its tag.
    ///
    /// # Errors
    /// [`Error::NonceLength`], [`Error::NoRoomForTag`] or [`Error::TooLong`] when one does not fit the key's cipher.
    pub fn new(key: &'a Key, nonce: Nonce, aad: &'a [u8], buf: &'a mut [u8]) -> Result<Self, Error> {
        let cipher = key.cipher();
        let got = nonce.as_ref().len();
        if got != cipher.nonce_len() {
            return Err(Error::NonceLength { cipher, got });
        }
        check_length(cipher, buf.len())?;
        Ok(Self { key, nonce, aad, buf, verdict: Verdict::Pending })
    }

    /// What became of it.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }
}

fn check_length(cipher: Cipher, buf: usize) -> Result<(), Error> {
    let text = buf.checked_sub(TAG).ok_or(Error::NoRoomForTag(buf))?;
    if text as u64 > cipher.max_plaintext() { Err(Error::TooLong(text)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn the_longest_plaintext_is_the_ciphers() {
        for cipher in Cipher::ALL {
            let longest = cipher.max_plaintext() as usize;
            assert_eq!(check_length(cipher, longest + TAG), Ok(()));
            assert_eq!(check_length(cipher, longest + 1 + TAG), Err(Error::TooLong(longest + 1)));
        }
    }

    #[test]
    fn a_job_fits_its_cipher_or_is_refused() {
        for cipher in Cipher::ALL {
            let key = Key::new(cipher, &vec![0; cipher.key_len()]).unwrap();
            let (right, wrong) = match cipher.nonce_len() {
                12 => (Nonce::from([0; 12]), Nonce::from([0; 24])),
                _ => (Nonce::from([0; 24]), Nonce::from([0; 12])),
            };
            let refused = Error::NonceLength { cipher, got: wrong.as_ref().len() };
            assert_eq!(Job::new(&key, wrong, &[], &mut [0; 16]).err(), Some(refused));
            assert_eq!(Job::new(&key, right, &[], &mut [0; 15]).err(), Some(Error::NoRoomForTag(15)));
            assert_eq!(Job::new(&key, right, &[], &mut [0; 16]).map(|job| job.verdict()), Ok(Verdict::Pending));
        }
    }
}
