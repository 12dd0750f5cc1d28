//! Where the time goes: one thread takes a file through every stage of a transfer, 1 MiB at a time, and times each.
//!
//! What overlaps in a real transfer, and what recovery and waiting cost, is not in it; the shares are of the sum of the
//! stages, and so add up to 100 %.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use rustix::fs::{FallocateFlags, fallocate};
use sealane_aead::{Cipher, Job, Number, TAG, Verdict};
use sealane_lane::Lane;
use sealane_net::RECEIVE_BUFFER;
use sealane_transfer::tree::{CHUNK, ObjectId, chunk_value, verify_tree};

use super::super::line::{HEADER, Line, REJECTED};
use super::{Source, hash};
use crate::record::{METHOD, Published};
use crate::runner::{Better, Case, Measure, Sample, Subject};
use crate::{Depth, Error};

/// Names of the stages, with the published per cent of row C10, which sum to 108.8.
const STAGES: [(&str, f64); 7] = [
    ("read", 7.5),
    ("chunking into packets", 1.8),
    ("BLAKE3", 6.5),
    ("seal", 5.0),
    ("network", 74.9),
    ("open", 5.1),
    ("write", 8.0),
];

/// In the order of [`STAGES`].
#[derive(Clone, Copy)]
enum Stage {
    Read,
    Cut,
    Hash,
    Seal,
    Network,
    Open,
    Write,
}

/// The datagram that a transfer over loopback arrives at.
const BYTES: usize = 8952;
const TEXT: usize = BYTES - HEADER - TAG;
/// Packets that fit into one train.
const TRAIN: usize = (RECEIVE_BUFFER - 1) / BYTES;
const NAME: &str = "sealane/one thread";

pub(super) fn case(source: &Rc<Source>, cipher: Cipher, depth: Depth) -> Case {
    let measure = |(stage, published)| Measure {
        metric: "share",
        unit: "%",
        param: Some(("stage", stage)),
        better: Better::Less,
        answers: &["C10"],
        published: Published::one(published),
    };
    let runs = match depth {
        Depth::Smoke => 1,
        Depth::Quick => 5,
        Depth::Full => 11,
    };
    let params = BTreeMap::from([
        ("bytes", source.bytes.into()),
        ("cipher", cipher.name().into()),
        ("packet", BYTES.into()),
        (METHOD, "each stage timed alone in one thread, MiB by MiB; shares of their sum".into()),
    ]);
    let source = source.clone();
    let subject = Subject::new(NAME, move |_| sample(&source, cipher));
    let measures = STAGES.map(measure).to_vec();
    Case { case: "stages", params, measures, subjects: vec![subject], sample: Duration::ZERO, runs }
}

fn sample(source: &Source, cipher: Cipher) -> Result<Sample, Error> {
    let from = File::open(source.path())?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("written");
    let into = File::create(&path)?;
    match fallocate(&into, FallocateFlags::empty(), 0, source.bytes) {
        Ok(()) => {}
        Err(_) => into.set_len(source.bytes)?, // not every file system reserves
    }
    let mut stages = Stages::new(cipher)?;
    let (mut chunk, mut arrived, mut tree) = (vec![0; CHUNK], Vec::with_capacity(CHUNK + TEXT), Vec::new());
    let mut watch = Watch { at: Instant::now(), times: [Duration::ZERO; STAGES.len()] };
    for offset in (0..source.bytes).step_by(CHUNK) {
        let len = usize::try_from(source.bytes - offset).unwrap_or(CHUNK).min(CHUNK);
        let chunk = &mut chunk[..len];
        watch.at = Instant::now();
        from.read_exact_at(chunk, offset)?;
        watch.lap(Stage::Read);
        tree.push(chunk_value(offset, chunk));
        watch.lap(Stage::Hash);
        arrived.clear();
        for train in chunk.chunks(TRAIN * TEXT) {
            stages.carry(train, &mut arrived, &mut watch)?;
        }
        into.write_all_at(&arrived, offset)?;
        watch.lap(Stage::Write);
    }
    if !verify_tree(ObjectId(*source.hash.as_bytes()), source.bytes, &tree) {
        return Err(Error::Rejected { subject: NAME, step: "hash the file" });
    }
    let answer = hash(&path)?;
    if answer != source.hash {
        return Err(Error::Rejected { subject: NAME, step: "write the file as it was" });
    }
    let sum: Duration = watch.times.iter().sum();
    let values = watch.times.iter().map(|time| time.as_secs_f64() / sum.as_secs_f64() * 100.0).collect();
    Ok(Sample { values, answer })
}

/// Gives the time since the last lap to a stage.
struct Watch {
    at: Instant,
    times: [Duration; STAGES.len()],
}

impl Watch {
    fn lap(&mut self, stage: Stage) {
        let now = Instant::now();
        self.times[stage as usize] += now - std::mem::replace(&mut self.at, now);
    }
}

/// Two ends with room for trains.
struct Stages(Line);

impl Stages {
    fn new(cipher: Cipher) -> Result<Self, Error> {
        Line::new(cipher, [Lane::new(RECEIVE_BUFFER, TRAIN), Lane::new(8 * RECEIVE_BUFFER, 512)]).map(Self)
    }

    /// Moves the text of one train through all stages and appends what was opened to `arrived`.
    fn carry(&mut self, text: &[u8], arrived: &mut Vec<u8>, watch: &mut Watch) -> Result<(), Error> {
        let line = &mut self.0;
        let out = &mut line.lanes[0];
        out.clear();
        let mut numbers = ArrayVec::<Number, TRAIN>::new();
        for text in text.chunks(TEXT) {
            let packet = out.push(HEADER + text.len() + TAG).ok_or(REJECTED)?;
            let number = line.sealer.mint()?;
            packet[HEADER - 8..HEADER].copy_from_slice(&number.get().to_be_bytes());
            packet[HEADER..HEADER + text.len()].copy_from_slice(text);
            numbers.push(number);
        }
        watch.lap(Stage::Cut);

        let jobs = out.packets_mut().zip(numbers).map(|(packet, number)| {
            let (header, sealed) = packet.split_at_mut(HEADER);
            line.sealer.job(number, header, sealed)
        });
        line.engine.seal(&mut jobs.collect::<Result<ArrayVec<Job<'_>, TRAIN>, _>>()?);
        watch.lap(Stage::Seal);

        line.carry()?;
        watch.lap(Stage::Network);

        let mut numbers = ArrayVec::<u64, TRAIN>::new();
        let mut jobs = ArrayVec::<Job<'_>, TRAIN>::new();
        for packet in line.lanes[1].packets_mut() {
            let (header, sealed) = packet.split_at_mut(HEADER);
            let number = u64::from_be_bytes(*header.last_chunk().ok_or(REJECTED)?);
            numbers.push(number);
            jobs.push(line.opener.job(number, header, sealed)?);
        }
        line.engine.open(&mut jobs);
        if jobs.iter().any(|job| job.verdict() != Verdict::Authentic) {
            return Err(REJECTED);
        }
        drop(jobs);
        numbers.into_iter().try_for_each(|number| line.opener.accept(number))?;
        watch.lap(Stage::Open);

        let into = &line.lanes[1];
        for index in 0..into.len() {
            let packet = into.packet(index);
            arrived.extend_from_slice(&packet[HEADER..packet.len() - TAG]);
        }
        watch.lap(Stage::Write);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_arrives_and_the_shares_are_of_the_whole() {
        let source = Source::new(2_500_000).unwrap();
        for cipher in Cipher::ALL {
            let sample = sample(&source, cipher).unwrap();
            assert_eq!((sample.values.len(), sample.answer), (STAGES.len(), source.hash));
            assert!((sample.values.iter().sum::<f64>() - 100.0).abs() < 1e-6);
            assert!(sample.values.iter().all(|share| *share > 0.0), "{:?}", sample.values);
        }
    }
}
