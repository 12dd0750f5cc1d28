//! Sealing and opening in memory: each case is a set of equal packets, sealed or opened in place, batch by batch.
//!
//! `keys` is `one` (set up beforehand) or `each` (every packet under its own, set up within the measured time).

#[cfg(feature = "peers")]
mod peers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrayvec::ArrayVec;
use sealane_aead::{Cipher, Engine, Job, Key, Nonce, TAG, Verdict};

use super::Cases;
use crate::record::Published;
use crate::runner::{Better, Case, Measure, Sample, Subject, mean_time};
use crate::{Depth, Error};

/// Packets of a case: as many as stay within a second-level cache, but no more than this.
const MAX_PACKETS: usize = 64;
const CACHE: usize = 1 << 20;
/// As long as the clear header of a data packet.
const AAD: &[u8] = b"twelve bytes";
const GIB: f64 = (1u64 << 30) as f64;

#[derive(Clone, Copy, PartialEq)]
enum Keys {
    One,
    Each,
}

#[derive(Clone, Copy)]
struct Spec {
    open: bool,
    cipher: Cipher,
    bytes: usize,
    batch: usize,
    keys: Keys,
}

/// Sizes and published figures of XChaCha20-Poly1305, GiB/s: seal (C3) and open (C4).
const PUBLISHED: [(usize, f64, f64); 3] = [(1 << 10, 4.77, 4.48), (1 << 16, 8.15, 7.84), (1 << 20, 8.56, 8.35)];

pub(super) fn cases(depth: Depth) -> Cases {
    let specs = specs(depth);
    Box::new(specs.into_iter().map(move |spec| case(spec, depth)))
}

fn specs(depth: Depth) -> Vec<Spec> {
    use Keys::{Each, One};
    let all = [64, 309, 1420, 8952, 65536];
    let shapes: Vec<(usize, usize, Keys)> = match depth {
        Depth::Smoke => vec![(64, MAX_PACKETS, One), (309, MAX_PACKETS, Each)],
        Depth::Quick => {
            let one = [309, 1420, 65536].map(|bytes| (bytes, MAX_PACKETS, One));
            [one.as_slice(), &[(309, MAX_PACKETS, Each), (309, 1, One)]].concat()
        }
        Depth::Full => {
            all.into_iter().flat_map(|b| [(b, MAX_PACKETS, One), (b, MAX_PACKETS, Each), (b, 1, One)]).collect()
        }
    };
    let ciphers = Cipher::ALL.into_iter();
    let mut shapes: Vec<_> =
        ciphers.flat_map(|c| shapes.iter().map(move |&(bytes, batch, keys)| (c, bytes, batch, keys))).collect();
    let answering = PUBLISHED.map(|(bytes, ..)| (Cipher::XChaCha20Poly1305, bytes, 1, One));
    shapes.extend(
        answering.into_iter().filter(|shape| depth != Depth::Smoke && !shapes.contains(shape)).collect::<Vec<_>>(),
    );
    let both = |(cipher, bytes, batch, keys)| [false, true].map(|open| Spec { open, cipher, bytes, batch, keys });
    shapes.into_iter().flat_map(both).collect()
}

fn case(spec: Spec, depth: Depth) -> Result<Case, Error> {
    let input = Arc::new(Input::new(spec)?);
    let (sample, runs) = match depth {
        Depth::Smoke => (Duration::ZERO, 1),
        Depth::Quick => (Duration::from_millis(12), 11),
        Depth::Full => (Duration::from_millis(50), 21),
    };
    let params = BTreeMap::from([
        ("cipher", spec.cipher.name().into()),
        ("bytes", spec.bytes.into()),
        ("batch", input.batch.into()),
        ("keys", if spec.keys == Keys::One { "one" } else { "each" }.into()),
    ]);
    let case = if spec.open { "open" } else { "seal" };
    Ok(Case { case, params, measures: vec![measure(spec)], subjects: subjects(&input)?, sample, runs })
}

fn subjects(input: &Arc<Input>) -> Result<Vec<Subject>, Error> {
    #[cfg(feature = "peers")]
    let peers = peers::all(input);
    #[cfg(not(feature = "peers"))]
    let peers = ["ring", "aws-lc-rs", "rustcrypto"].map(super::left_out);
    Ok([sealane(input)?].into_iter().chain(peers).collect())
}

fn measure(spec: Spec) -> Measure {
    let published = PUBLISHED.into_iter().find(|&(bytes, ..)| {
        spec.cipher == Cipher::XChaCha20Poly1305 && spec.bytes == bytes && spec.batch == 1 && spec.keys == Keys::One
    });
    let answers: &[&str] = match (published, spec.open) {
        (None, _) => &[],
        (Some(_), false) => &["C3"],
        (Some(_), true) => &["C4"],
    };
    let published = published.and_then(|(_, seal, open)| Published::one(if spec.open { open } else { seal } * GIB));
    Measure { metric: "goodput", unit: "B/s", param: None, better: Better::More, answers, published }
}

/// What every subject of a case works on.
struct Input {
    spec: Spec,
    /// Packets a call.
    batch: usize,
    /// A key and a nonce a packet.
    secrets: Vec<(Vec<u8>, Vec<u8>)>,
    /// All packets before the work, each with room for its tag.
    start: Vec<u8>,
}

impl Input {
    fn new(spec: Spec) -> Result<Self, Error> {
        let packets = (CACHE / spec.bytes).clamp(1, MAX_PACKETS);
        let mut random = blake3::Hasher::new().update(b"sealane bench crypto").finalize_xof();
        let mut bytes = |len| {
            let mut bytes = vec![0; len];
            random.fill(&mut bytes);
            bytes
        };
        let secrets = (0..packets).map(|_| (bytes(spec.cipher.key_len()), bytes(spec.cipher.nonce_len()))).collect();
        let start = bytes(packets * (spec.bytes + TAG));
        let mut input = Self { spec, batch: spec.batch.min(packets), secrets, start };
        if spec.open {
            let mut packets = std::mem::take(&mut input.start);
            Sealane::new(&input)?.work(&input, &mut packets, false)?;
            input.start = packets;
        }
        Ok(input)
    }

    fn stride(&self) -> usize {
        self.spec.bytes + TAG
    }

    fn key(&self, packet: usize) -> &[u8] {
        &self.secrets[if self.spec.keys == Keys::One { 0 } else { packet }].0
    }

    fn nonce(&self, packet: usize) -> &[u8] {
        &self.secrets[packet].1
    }
}

/// A subject that does `work` on all packets and is measured by it.
fn subject(
    name: String,
    input: &Arc<Input>,
    work: impl Fn(&Input, &mut [u8]) -> Result<(), Error> + 'static,
) -> Subject {
    let input = input.clone();
    let mut packets = input.start.clone();
    let work = move |time| {
        let restore = |packets: &mut Vec<u8>| packets.copy_from_slice(&input.start);
        let mean = mean_time(time, &mut packets, restore, |packets| work(&input, packets))?;
        let checked = if input.spec.open { input.spec.bytes } else { input.stride() };
        let mut answer = blake3::Hasher::new();
        for packet in packets.chunks(input.stride()) {
            answer.update(&packet[..checked]);
        }
        let bytes = input.secrets.len() * input.spec.bytes;
        Ok(Sample { values: vec![bytes as f64 / mean.as_secs_f64()], answer: answer.finalize() })
    };
    Subject::new(name, work)
}

fn sealane(input: &Arc<Input>) -> Result<Subject, Error> {
    let ours = Sealane::new(input)?;
    let name = format!("sealane/{}", ours.engine.name());
    Ok(subject(name, input, move |input, packets| ours.work(input, packets, input.spec.open)))
}

struct Sealane {
    engine: Engine,
    /// The one key.
    key: Key,
}

impl Sealane {
    fn new(input: &Input) -> Result<Self, Error> {
        Ok(Self { engine: Engine::new(), key: Key::new(input.spec.cipher, input.key(0))? })
    }

    fn work(&self, input: &Input, packets: &mut [u8], open: bool) -> Result<(), Error> {
        let each = input.spec.keys == Keys::Each;
        let mut fresh = Vec::with_capacity(input.batch);
        for (number, batch) in packets.chunks_mut(input.stride() * input.batch).enumerate() {
            let first = number * input.batch;
            fresh.clear();
            for packet in first..first + if each { batch.len() / input.stride() } else { 0 } {
                fresh.push(Key::new(input.spec.cipher, input.key(packet))?);
            }
            // Filled in its place: a collected one would be copied whole.
            let mut jobs = ArrayVec::<Job<'_>, MAX_PACKETS>::new();
            for (index, packet) in batch.chunks_exact_mut(input.stride()).enumerate() {
                let key = fresh.get(index).unwrap_or(&self.key);
                jobs.push(Job::new(key, nonce(input.nonce(first + index)), AAD, packet)?);
            }
            if open {
                self.engine.open(&mut jobs);
            } else {
                self.engine.seal(&mut jobs);
            }
            if open && jobs.iter().any(|job| !matches!(job.verdict(), Verdict::Authentic)) {
                return Err(Error::Rejected { subject: "sealane", step: "open" });
            }
        }
        Ok(())
    }
}

fn nonce(bytes: &[u8]) -> Nonce {
    match <[u8; 12]>::try_from(bytes) {
        Ok(short) => short.into(),
        Err(_) => <[u8; 24]>::try_from(bytes).expect("a nonce has 12 or 24 bytes").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: Spec = Spec { open: true, cipher: Cipher::Aes128Gcm, bytes: 100, batch: 64, keys: Keys::One };

    #[test]
    fn every_subject_refuses_a_forged_packet() {
        for cipher in Cipher::ALL {
            let mut input = Input::new(Spec { cipher, ..SPEC }).unwrap();
            input.start[116 * 63] ^= 1;
            for mut subject in subjects(&Arc::new(input)).unwrap() {
                let outcome = subject.work(Duration::ZERO);
                assert!(matches!(outcome, None | Some(Err(Error::Rejected { .. }))), "{}", subject.name);
            }
        }
    }

    #[test]
    fn opening_gives_back_what_was_sealed() {
        let sealed = Arc::new(Input::new(SPEC).unwrap());
        let plain = Input::new(Spec { open: false, ..SPEC }).unwrap();
        let mut packets = sealed.start.clone();
        Sealane::new(&sealed).unwrap().work(&sealed, &mut packets, true).unwrap();
        assert_ne!(sealed.start[..100], plain.start[..100]);
        assert!(packets.chunks(116).zip(plain.start.chunks(116)).all(|(opened, text)| opened[..100] == text[..100]));
    }

    #[test]
    fn quick_answers_both_published_rows_at_every_size() {
        let answers: Vec<_> = specs(Depth::Quick).into_iter().map(|spec| measure(spec).answers).collect();
        for row in ["C3", "C4"] {
            assert_eq!(answers.iter().filter(|answers| answers.contains(&row)).count(), 3);
        }
    }
}
