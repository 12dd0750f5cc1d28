//! One packet at a time through the whole path: seal, send, receive over UDP on loopback, open. Sender and receiver are in
//! one thread, so no figure includes the waking of another.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use sealane_aead::{Cipher, TAG, Verdict};
use sealane_lane::Lane;
use sealane_net::RECEIVE_BUFFER;

use super::Cases;
use super::line::{HEADER, Line, REJECTED};
use crate::record::Published;
use crate::runner::{Better, Case, Measure, Sample, Subject};
use crate::{Depth, Error};

/// The largest datagram that fits an Ethernet frame over IPv4.
const BYTES: usize = 1472;

/// What is measured, with the published microseconds of row C16; `None` is the mean.
const QUANTILES: [(&str, Option<f64>, f64); 5] = [
    ("mean", None, 4.2),
    ("p50", Some(0.5), 3.8),
    ("p95", Some(0.95), 8.1),
    ("p99", Some(0.99), 15.3),
    ("p99.9", Some(0.999), 32.7),
];

pub(super) fn cases(depth: Depth) -> Cases {
    let ciphers = match depth {
        Depth::Smoke | Depth::Quick => vec![Cipher::Aes128Gcm, Cipher::XChaCha20Poly1305],
        Depth::Full => Cipher::ALL.to_vec(),
    };
    Box::new(ciphers.into_iter().map(move |cipher| case(cipher, depth)))
}

fn case(cipher: Cipher, depth: Depth) -> Result<Case, Error> {
    let (packets, runs) = match depth {
        Depth::Smoke => (20, 1),
        Depth::Quick => (10_000, 11),
        Depth::Full => (100_000, 21),
    };
    let measures = QUANTILES.map(|(quantile, _, published)| Measure {
        metric: "latency",
        unit: "s",
        param: Some(("quantile", quantile)),
        better: Better::Less,
        answers: &["C16"],
        published: Published::one(published * 1e-6),
    });
    #[cfg(feature = "peers")]
    let peer = ring::subject(cipher, packets)?;
    #[cfg(not(feature = "peers"))]
    let peer = super::left_out("ring+std");
    let subjects = vec![subject("sealane/udp", packets, Sealane::new(cipher)?), peer];
    let params = BTreeMap::from([("bytes", BYTES.into()), ("cipher", cipher.name().into())]);
    Ok(Case { case: "packet", params, measures: measures.to_vec(), subjects, sample: Duration::ZERO, runs })
}

/// A sender and its receiver.
trait Path {
    /// Carries `text` through and returns what came out.
    fn carry(&mut self, text: &[u8]) -> Result<&[u8], Error>;
}

fn subject(name: &'static str, packets: u64, mut path: impl Path + 'static) -> Subject {
    let work = move |_| {
        let mut times = Vec::with_capacity(usize::try_from(packets).expect("a count of packets in memory"));
        let mut answer = blake3::Hasher::new();
        let mut text = [0; BYTES - HEADER - TAG];
        for packet in 0..packets {
            text[..8].copy_from_slice(&packet.to_be_bytes());
            let start = Instant::now();
            let received = path.carry(&text)?;
            times.push(start.elapsed());
            answer.update(received);
        }
        Ok(Sample { values: quantiles(&times), answer: answer.finalize() })
    };
    Subject::new(name, work)
}

/// Mean and quantiles as [`QUANTILES`] lists them, in seconds.
fn quantiles(times: &[Duration]) -> Vec<f64> {
    let mut histogram = Histogram::<u64>::new(3).expect("three digits are allowed");
    for time in times {
        // Not `saturating_record`: that clamps to the range of the moment, which begins at 2.
        let nanos = u64::try_from(time.as_nanos()).expect("less than 500 years");
        histogram.record(nanos).expect("the range grows with the values");
    }
    let nanos = |quantile: Option<f64>| quantile.map_or(histogram.mean(), |at| histogram.value_at_quantile(at) as f64);
    QUANTILES.map(|(_, quantile, _)| nanos(quantile) * 1e-9).to_vec()
}

/// Packets born in a lane, sealed, sent, received and opened where they lie.
struct Sealane(Line);

impl Sealane {
    fn new(cipher: Cipher) -> Result<Self, Error> {
        Line::new(cipher, [Lane::new(BYTES, 1), Lane::new(RECEIVE_BUFFER, 64)]).map(Self)
    }
}

impl Path for Sealane {
    fn carry(&mut self, text: &[u8]) -> Result<&[u8], Error> {
        let line = &mut self.0;
        let out = &mut line.lanes[0];
        out.clear();
        let (header, sealed) = out.push(BYTES).ok_or(REJECTED)?.split_at_mut(HEADER);
        let number = line.sealer.mint()?;
        header[HEADER - 8..].copy_from_slice(&number.get().to_be_bytes());
        sealed[..text.len()].copy_from_slice(text);
        line.engine.seal(&mut [line.sealer.job(number, header, sealed)?]);
        line.carry()?;

        let into = &mut line.lanes[1];
        let packet = into.packets_mut().next().filter(|packet| packet.len() == BYTES).ok_or(REJECTED)?;
        let (header, sealed) = packet.split_at_mut(HEADER);
        let number = u64::from_be_bytes(*header.last_chunk().ok_or(REJECTED)?);
        let mut jobs = [line.opener.job(number, header, sealed)?];
        line.engine.open(&mut jobs);
        if jobs[0].verdict() != Verdict::Authentic {
            return Err(REJECTED);
        }
        line.opener.accept(number)?;
        Ok(&into.packet(0)[HEADER..BYTES - TAG])
    }
}

/// What one writes without Sealane: ring and the sockets of the standard library.
#[cfg(feature = "peers")]
mod ring {
    use std::net::{SocketAddr, UdpSocket};

    use ::ring::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

    use super::super::line::{LOOPBACK, LOST};
    use super::*;

    const NAME: &str = "ring+std";
    const REJECTED: Error = Error::Rejected { subject: NAME, step: "carry a packet" };

    pub(super) fn subject(cipher: Cipher, packets: u64) -> Result<Subject, Error> {
        let algorithm = match cipher {
            Cipher::Aes128Gcm => &AES_128_GCM,
            Cipher::Aes256Gcm => &AES_256_GCM,
            Cipher::ChaCha20Poly1305 => &CHACHA20_POLY1305,
            Cipher::XChaCha20Poly1305 => return Ok(Subject::absent(NAME, "does not offer this cipher")),
        };
        let key = UnboundKey::new(algorithm, &vec![7; cipher.key_len()]).map_err(|_| REJECTED)?;
        let ends = [UdpSocket::bind(LOOPBACK)?, UdpSocket::bind(LOOPBACK)?];
        ends[1].set_read_timeout(Some(LOST))?;
        let to = ends[1].local_addr()?;
        let path = Ring { key: LessSafeKey::new(key), ends, to, next: 0, buffers: [vec![0; BYTES], vec![0; BYTES]] };
        Ok(super::subject(NAME, packets, path))
    }

    struct Ring {
        key: LessSafeKey,
        ends: [UdpSocket; 2],
        to: SocketAddr,
        next: u64,
        buffers: [Vec<u8>; 2],
    }

    fn nonce(number: u64) -> Nonce {
        let mut nonce = [9; 12];
        nonce[4..].copy_from_slice(&number.to_be_bytes());
        Nonce::assume_unique_for_key(nonce)
    }

    impl Path for Ring {
        fn carry(&mut self, text: &[u8]) -> Result<&[u8], Error> {
            let [out, into] = &mut self.buffers;
            let (header, sealed) = out.split_at_mut(HEADER);
            header[HEADER - 8..].copy_from_slice(&self.next.to_be_bytes());
            let (space, room) = sealed.split_at_mut(text.len());
            space.copy_from_slice(text);
            let aad = Aad::from(&*header);
            let tag = self.key.seal_in_place_separate_tag(nonce(self.next), aad, space).map_err(|_| REJECTED)?;
            room.copy_from_slice(tag.as_ref());
            self.next += 1;
            self.ends[0].send_to(out, self.to)?;

            if self.ends[1].recv(into)? != BYTES {
                return Err(REJECTED);
            }
            let (header, sealed) = into.split_at_mut(HEADER);
            let number = u64::from_be_bytes(*header.last_chunk().ok_or(REJECTED)?);
            Ok(self.key.open_in_place(nonce(number), Aad::from(&*header), sealed).map_err(|_| REJECTED)?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_times_from_a_microsecond_to_a_second() {
        for unit in [1, 10, 1000] {
            let times: Vec<Duration> = (1..=1000).rev().map(|n| Duration::from_micros(n * unit)).collect();
            let expect = [500.5, 500.0, 950.0, 990.0, 999.0].map(|micros| micros * 1e-6 * unit as f64);
            for (got, expect) in quantiles(&times).into_iter().zip(expect) {
                assert!((got / expect - 1.0).abs() < 2e-3, "{got} for {expect}");
            }
        }
    }
}
