//! What every backend must pass: published vectors, and random batches beside an implementation that is not ours.
//!
//! In go an engine and an oracle; out comes a [`Report`] of what ran. The first difference is a panic that names the
//! case and the seed that repeats it. The vectors are in `conformance/vectors.rs`.

mod vectors;

use crate::{Cipher, Engine, Error, Job, Key, Nonce, TAG, Verdict};
use std::fmt;

/// The inputs of one packet. Printed, it says its lengths.
#[derive(Clone)]
pub struct Packet {
    /// Its cipher.
    pub cipher: Cipher,
    /// [`Cipher::key_len`] bytes.
    pub secret: Vec<u8>,
    /// [`Cipher::nonce_len`] bytes; a [`Vector`] may have another length, which must be refused.
    pub nonce: Vec<u8>,
    /// What is authenticated only.
    pub aad: Vec<u8>,
    /// The plaintext.
    pub text: Vec<u8>,
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} packet of {} bytes, {} of AAD", self.cipher, self.text.len(), self.aad.len())
    }
}

/// A packet with the published answer.
pub struct Vector {
    /// Where it is from.
    pub name: String,
    /// The inputs.
    pub packet: Packet,
    /// Ciphertext and tag.
    pub sealed: Vec<u8>,
    /// Whether `sealed` opens to the packet's text; if not, it must be refused.
    pub valid: bool,
}

/// What [`check`] did.
#[derive(Debug)]
pub struct Report {
    /// [`Engine::name`].
    pub engine: &'static str,
    /// Published vectors met.
    pub vectors: usize,
    /// Packets sealed and opened again.
    pub packets: usize,
    /// Those whose sealed bytes were compared with the oracle's, a number for each of [`Cipher::ALL`].
    pub compared: [usize; Cipher::ALL.len()],
    /// Altered packets refused and zeroed, the others of their batch intact.
    pub forged: usize,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} vectors, {} packets sealed and opened", self.engine, self.vectors, self.packets)?;
        for (cipher, compared) in Cipher::ALL.iter().zip(self.compared) {
            write!(f, ", {compared} of {cipher} compared")?;
        }
        write!(f, ", {} forgeries refused", self.forged)
    }
}

/// Runs everything: the vectors; batches of mixed ciphers, keys and lengths (every length to 1100, the edges around
/// 2^14, 2^16 and 2^20, every AAD length to 80), each sealed, compared, opened, then opened with some packets altered;
/// and a packet of each cipher with every single bit of it altered.
///
/// `oracle` seals a packet to ciphertext and tag, or returns `None` for a cipher it lacks: that packet is then compared
/// with nothing, as the report tells.
///
/// # Panics
/// At the first difference, naming the packet and `seed`.
pub fn check(engine: &Engine, seed: u64, oracle: impl Fn(&Packet) -> Option<Vec<u8>>) -> Report {
    let vectors = vectors::published();
    check_vectors(engine, &vectors);
    let report = Report { engine: engine.name(), vectors: vectors.len(), packets: 0, compared: [0; 4], forged: 0 };
    let mut run = Run { engine, seed, random: Random(seed), oracle, report };
    run.mixed_batches();
    run.every_bit();
    run.report
}

/// Seals and opens every vector, all in one batch.
///
/// # Panics
/// At the first difference, naming the vector.
pub fn check_vectors(engine: &Engine, vectors: &[Vector]) {
    let keys: Vec<Key> = vectors.iter().map(|vector| key(&vector.packet)).collect();
    let packets = || vectors.iter().map(|vector| &vector.packet);
    let mut sealed: Vec<Vec<u8>> = packets().map(room).collect();
    engine.seal(&mut jobs(&keys, packets(), &mut sealed));
    let mut opened: Vec<Vec<u8>> = vectors.iter().map(|vector| vector.sealed.clone()).collect();
    let mut batch = jobs(&keys, packets(), &mut opened);
    engine.open(&mut batch);
    let verdicts: Vec<Verdict> = batch.iter().map(Job::verdict).collect();
    for (((vector, sealed), opened), verdict) in vectors.iter().zip(&sealed).zip(&opened).zip(verdicts) {
        let Vector { name, packet, valid, .. } = vector;
        if *valid {
            assert!(sealed == &vector.sealed, "{name}: sealed differs");
            assert!(verdict == Verdict::Authentic, "{name}: refused");
            assert!(opened.starts_with(&packet.text), "{name}: opened differs");
        } else {
            assert!(verdict == Verdict::Forged, "{name}: accepted");
            assert!(opened.iter().all(|byte| *byte == 0), "{name}: not zeroed");
        }
    }
}

/// The packet's nonce, `None` when a nonce cannot have its length.
pub fn nonce(packet: &Packet) -> Option<Nonce> {
    let long = packet.nonce[..].try_into().ok().map(Nonce::Long);
    packet.nonce[..].try_into().ok().map(Nonce::Short).or(long)
}

fn key(packet: &Packet) -> Key {
    Key::new(packet.cipher, &packet.secret).unwrap_or_else(|error| panic!("{packet}: {error}"))
}

/// The packet's text, with garbage where the tag goes.
fn room(packet: &Packet) -> Vec<u8> {
    [&packet.text[..], &[0xa5; TAG]].concat()
}

fn jobs<'a>(keys: &'a [Key], packets: impl Iterator<Item = &'a Packet>, bufs: &'a mut [Vec<u8>]) -> Vec<Job<'a>> {
    let job = |((key, packet), buf): ((&'a Key, &'a Packet), &'a mut Vec<u8>)| -> Result<Job<'a>, Error> {
        Job::new(key, nonce(packet).expect("a nonce of 12 or 24 bytes"), &packet.aad, buf)
    };
    keys.iter().zip(packets).zip(bufs).map(|each| job(each).unwrap_or_else(|error| panic!("{error}"))).collect()
}

struct Run<'a, O> {
    engine: &'a Engine,
    seed: u64,
    random: Random,
    oracle: O,
    report: Report,
}

impl<O: Fn(&Packet) -> Option<Vec<u8>>> Run<'_, O> {
    fn mixed_batches(&mut self) {
        let mut shapes = Vec::new();
        for cipher in Cipher::ALL {
            shapes.extend((0..=1100).map(|text| (cipher, text, text % 23)));
            shapes.extend((0..=80).map(|aad| (cipher, 100 + aad % 17, aad)));
            shapes.extend([255, 256, 257, 4096, 65_537].map(|aad| (cipher, 33, aad)));
            for edge in [1 << 14, 1 << 16, 1 << 20] {
                let around = [-257, -64, -17, -16, -15, -1, 0, 1, 15, 16, 17, 64, 257];
                shapes.extend(around.map(|offset: isize| (cipher, (edge as usize).saturating_add_signed(offset), 13)));
            }
        }
        for i in (1..shapes.len()).rev() {
            shapes.swap(i, self.random.below(i + 1));
        }
        let mut shapes = &shapes[..];
        while !shapes.is_empty() {
            let (batch, rest) = shapes.split_at(shapes.len().min(1 + self.random.below(64)));
            let packets = batch.iter().map(|(cipher, text, aad)| self.random.packet(*cipher, *text, *aad)).collect();
            self.batch(packets);
            shapes = rest;
        }
        self.batch(Vec::new());
    }

    /// Seals, compares, opens; then alters some packets and opens again.
    fn batch(&mut self, packets: Vec<Packet>) {
        let sealed = self.seal(&packets);
        for (packet, sealed) in packets.iter().zip(&sealed) {
            if let Some(expected) = (self.oracle)(packet) {
                assert!(*sealed == expected, "{packet} sealed differs from the oracle, seed {}", self.seed);
                self.report.compared[packet.cipher as usize] += 1;
            }
        }
        self.open(&packets, &sealed, &vec![true; packets.len()]);
        self.report.packets += packets.len();

        let (mut altered, mut bufs) = (packets, sealed);
        let intact: Vec<bool> =
            altered.iter_mut().zip(&mut bufs).map(|(packet, buf)| !self.random.alter(packet, buf)).collect();
        self.open(&altered, &bufs, &intact);
    }

    fn seal(&self, packets: &[Packet]) -> Vec<Vec<u8>> {
        let keys: Vec<Key> = packets.iter().map(key).collect();
        let mut bufs: Vec<Vec<u8>> = packets.iter().map(room).collect();
        let mut batch = jobs(&keys, packets.iter(), &mut bufs);
        self.engine.seal(&mut batch);
        assert!(batch.iter().all(|job| job.verdict() == Verdict::Sealed), "not sealed, seed {}", self.seed);
        bufs
    }

    /// Opens the batch: the intact give their text, the others are refused and zeroed.
    fn open(&mut self, packets: &[Packet], sealed: &[Vec<u8>], intact: &[bool]) {
        let keys: Vec<Key> = packets.iter().map(key).collect();
        let mut bufs = sealed.to_vec();
        let mut batch = jobs(&keys, packets.iter(), &mut bufs);
        self.engine.open(&mut batch);
        let verdicts: Vec<Verdict> = batch.iter().map(Job::verdict).collect();
        for (((packet, buf), intact), verdict) in packets.iter().zip(&bufs).zip(intact).zip(verdicts) {
            let seed = self.seed;
            if *intact {
                assert!(verdict == Verdict::Authentic, "{packet} refused, seed {seed}");
                assert!(buf.starts_with(&packet.text), "{packet} opened differs, seed {seed}");
            } else {
                assert!(verdict == Verdict::Forged, "{packet} accepted though altered, seed {seed}");
                assert!(buf.iter().all(|byte| *byte == 0), "{packet} not zeroed, seed {seed}");
                self.report.forged += 1;
            }
        }
    }

    /// A packet of each cipher, with each single bit of tag, ciphertext, AAD, nonce and key flipped in its turn.
    fn every_bit(&mut self) {
        for cipher in Cipher::ALL {
            let packet = self.random.packet(cipher, 21, 13);
            let sealed = self.seal(std::slice::from_ref(&packet)).concat();
            let (mut packets, mut bufs) = (Vec::new(), Vec::new());
            for field in 0..4 {
                let bits = fields(&mut packet.clone(), &mut sealed.clone())[field].len() * 8;
                for bit in 0..bits {
                    let (mut packet, mut buf) = (packet.clone(), sealed.clone());
                    fields(&mut packet, &mut buf)[field][bit / 8] ^= 1 << (bit % 8);
                    packets.push(packet);
                    bufs.push(buf);
                }
            }
            let intact = vec![false; packets.len()];
            self.open(&packets, &bufs, &intact);
        }
    }
}

/// All that decides whether a packet is authentic; `buf` is ciphertext and tag.
fn fields<'a>(packet: &'a mut Packet, buf: &'a mut Vec<u8>) -> [&'a mut Vec<u8>; 4] {
    [buf, &mut packet.aad, &mut packet.nonce, &mut packet.secret]
}

/// SplitMix64: enough to vary test data, and the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
        bytes
    }

    fn packet(&mut self, cipher: Cipher, text: usize, aad: usize) -> Packet {
        let (secret, nonce) = (self.bytes(cipher.key_len()), self.bytes(cipher.nonce_len()));
        Packet { cipher, secret, nonce, aad: self.bytes(aad), text: self.bytes(text) }
    }

    /// Forges the packet in one way, or, one time in a few, in none; says whether it did.
    fn alter(&mut self, packet: &mut Packet, buf: &mut Vec<u8>) -> bool {
        match self.below(7) {
            0 => packet.aad.push(0),
            1 if buf.len() > TAG => buf.truncate(buf.len() - 1),
            way @ 2..=5 => {
                let field = &mut fields(packet, buf)[way - 2];
                if field.is_empty() {
                    return false;
                }
                let bit = self.below(field.len() * 8);
                field[bit / 8] ^= 1 << (bit % 8);
            }
            _ => return false,
        }
        true
    }
}
