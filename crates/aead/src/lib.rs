//! The engine: seals and opens packets by the batch.
//!
//! In go [`Job`]s, each with its own [`Key`], [`Nonce`], associated data and buffer; out comes a [`Verdict`] in each, the
//! packet sealed or opened in its place. Nothing is allocated a call, and a packet that fails is zeroed.
//!
//! ```
//! use sealane_aead::{Cipher, Engine, Job, Key, TAG, Verdict};
//!
//! let key = Key::new(Cipher::ChaCha20Poly1305, &[7; 32])?;
//! let mut packet = *b"hello................"; // five bytes of plaintext, then room for the tag
//! assert_eq!(packet.len(), 5 + TAG);
//!
//! let engine = Engine::new();
//! engine.seal(&mut [Job::new(&key, [1; 12].into(), b"header", &mut packet)?]);
//!
//! let mut jobs = [Job::new(&key, [1; 12].into(), b"header", &mut packet)?];
//! engine.open(&mut jobs);
//! assert_eq!(jobs[0].verdict(), Verdict::Authentic);
//! assert_eq!(&packet[..5], b"hello");
//! # Ok::<(), sealane_aead::Error>(())
//! ```
//!
//! A protocol does not choose nonces: [`Sealer`] mints packet numbers, [`Opener`] refuses replayed ones. How many packets
//! one key may carry is for the protocol to limit, by renewing keys: for AES-GCM an attacker's advantage grows with the
//! square of the blocks sealed, for ChaCha20-Poly1305 with the forgeries tried (RFC 9001, appendix B).
//!
//! Secrets are wiped when dropped; a copy that a move left on the stack is beyond reach.
//!
//! Read next: `job.rs` and `engine.rs` (the batch), `session.rs` (nonces), `backend/portable.rs` (the ciphers), and
//! [`conformance`], which every backend must pass.

mod backend;
mod cipher;
pub mod conformance;
mod engine;
mod error;
mod job;
mod key;
mod session;
mod window;

pub use cipher::{Cipher, TAG};
pub use engine::Engine;
pub use error::Error;
pub use job::{Job, Verdict};
pub use key::{Key, Nonce};
pub use session::{Number, Opener, Sealer};
