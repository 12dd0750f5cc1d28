//! A file to a file, from one process to another over loopback: what a person waits for, and what it costs the machine.
//! Beside it the same work in one thread, stage by stage.

mod peers;
mod stages;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

use sealane_aead::Cipher;
use tempfile::TempDir;

use super::Cases;
use super::serve::{NO_PROGRAM, serve};
use crate::process::{Process, command};
use crate::record::{METHOD, Published};
use crate::runner::{Better, Case, Measure, Sample, Subject};
use crate::{Depth, Error, Plan};

/// The size of the published figures.
const GB: u64 = 1_000_000_000;
/// No transfer takes longer.
const LIMIT: Duration = Duration::from_secs(120);
/// What AES instructions are for, and what needs none.
const CIPHERS: [Cipher; 2] = [Cipher::Aes128Gcm, Cipher::XChaCha20Poly1305];

pub(super) fn cases(plan: &Plan) -> Cases {
    let (depth, program) = (plan.depth, plan.program.clone());
    let mut source = None;
    let case = move |number| {
        let source: &Rc<Source> = match &mut source {
            Some(source) => source,
            none => none.insert(Rc::new(Source::new(bytes(depth))?)),
        };
        // The long one at the end may take what time the others left.
        match CIPHERS.get(number) {
            Some(cipher) => Ok(stages::case(source, *cipher, depth)),
            None => case(source, &program, depth),
        }
    };
    Box::new((0..1 + CIPHERS.len()).map(case))
}

fn bytes(depth: Depth) -> u64 {
    match depth {
        Depth::Smoke => 4_000_000,
        Depth::Quick => GB / 4,
        Depth::Full => GB,
    }
}

fn case(source: &Rc<Source>, program: &Path, depth: Depth) -> Result<Case, Error> {
    let runs = match depth {
        Depth::Smoke => 1,
        Depth::Quick => 5,
        Depth::Full => 9,
    };
    let trial = Rc::new(Source::new(100_000)?);
    let peers = peers::all().into_iter().map(|(name, peer)| {
        let start = match peer {
            Ok(start) => start,
            Err(reason) => return Subject::absent(name, reason),
        };
        match sample(name, &trial, &start) {
            Ok(_) => subject(name, source, start),
            Err(_) => Subject::absent(name, "is here, but did not pass a trial with a small file"),
        }
    });
    let subjects = CIPHERS.map(|cipher| ours(cipher, source, program)).into_iter().chain(peers).collect();
    let params = BTreeMap::from([
        ("bytes", source.bytes.into()),
        (METHOD, "two processes, file to file over loopback; cpu includes the sender's hashing".into()),
    ]);
    let mut measures = measures(source.bytes);
    if !cfg!(target_os = "linux") {
        measures.truncate(3); // `process.rs` knows no other system's books
    }
    Ok(Case { case: "file", params, measures, subjects, sample: Duration::ZERO, runs })
}

/// In the order of the values of [`sample`].
fn measures(bytes: u64) -> Vec<Measure> {
    let measure = |metric, unit, param, better, published: Option<f64>| Measure {
        metric,
        unit,
        param,
        better,
        answers: if published.is_some() { &["C9"] } else { &[] },
        published: published.and_then(Published::one),
    };
    let whole = (bytes == GB).then_some(2.43);
    vec![
        measure("goodput", "B/s", None, Better::More, Some(3.29e9 / 8.0)),
        measure("latency", "s", Some(("of", "fetching all")), Better::Less, whole),
        measure("latency", "s", Some(("of", "sender's start until it can be fetched")), Better::Less, None),
        measure("cpu", "s/GB", Some(("side", "both")), Better::Less, None),
        measure("resident", "B", Some(("side", "sender, peak")), Better::Less, Some(45e6)),
        measure("resident", "B", Some(("side", "receiver, peak")), Better::Less, Some(42e6)),
    ]
}

/// A file of bytes that cannot be compressed, and its hash.
struct Source {
    folder: TempDir,
    bytes: u64,
    hash: blake3::Hash,
}

impl Source {
    const NAME: &str = "file";

    fn new(bytes: u64) -> Result<Self, Error> {
        let folder = tempfile::tempdir()?;
        let mut file = File::create(folder.path().join(Self::NAME))?;
        let mut random = blake3::Hasher::new().update(b"sealane bench transfer").finalize_xof();
        let (mut hasher, mut left, mut part) = (blake3::Hasher::new(), bytes, vec![0; 1 << 20]);
        while left > 0 {
            let part = &mut part[..usize::try_from(left).unwrap_or(usize::MAX).min(1 << 20)];
            random.fill(part);
            hasher.update(part);
            file.write_all(part)?;
            left -= part.len() as u64;
        }
        // What is on disk already is not written while something is measured.
        file.sync_all()?;
        Ok(Self { folder, bytes, hash: hasher.finalize() })
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(Self::NAME)
    }
}

/// How a program moves a file: starts the sending side in a home of its own and says what fetches the file into the
/// folder given last.
type Start = Box<dyn Fn(&Source, &Path, &Path) -> Result<(Vec<Process>, Command), Error>>;

fn ours(cipher: Cipher, source: &Rc<Source>, program: &Path) -> Subject {
    let name = match cipher {
        Cipher::Aes128Gcm => "sealane/aes-128-gcm",
        Cipher::Aes256Gcm => "sealane/aes-256-gcm",
        Cipher::ChaCha20Poly1305 => "sealane/chacha20-poly1305",
        Cipher::XChaCha20Poly1305 => "sealane/xchacha20-poly1305",
    };
    if !program.is_file() {
        return Subject::absent(name, NO_PROGRAM);
    }
    let program = program.to_path_buf();
    let start = move |source: &Source, home: &Path, into: &Path| {
        let (sender, ticket) = serve(&program, home, Some(cipher), &source.path())?;
        let mut get = command(&program, home);
        get.arg("get").arg(ticket.to_string()).arg("-o").arg(into);
        Ok((vec![sender], get))
    };
    subject(name, source, Box::new(start))
}

fn subject(name: &'static str, source: &Rc<Source>, start: Start) -> Subject {
    let source = source.clone();
    Subject::new(name, move |_| sample(name, &source, &start))
}

fn sample(subject: &'static str, source: &Source, start: &Start) -> Result<Sample, Error> {
    let home = tempfile::tempdir()?;
    let into = home.path().join("into");
    std::fs::create_dir(&into)?;
    let begun = Instant::now();
    let (senders, mut get) = start(source, home.path(), &into)?;
    let ready = begun.elapsed().as_secs_f64();
    let ended = Process::spawn(&mut get)?.wait(&senders, LIMIT)?;
    drop(senders);
    if !ended.status.success() {
        return Err(Error::Rejected { subject, step: "fetch a file" });
    }
    let answer = hash(&into.join(Source::NAME))?;
    if answer != source.hash {
        return Err(Error::Rejected { subject, step: "deliver a file as it was" });
    }
    let (bytes, took) = (source.bytes as f64, ended.took.as_secs_f64());
    let cpu = (ended.usage.cpu + ended.other.cpu) / bytes * 1e9;
    let values = vec![bytes / took, took, ready, cpu, ended.other.peak as f64, ended.usage.peak as f64];
    Ok(Sample { values, answer })
}

fn hash(file: &Path) -> io::Result<blake3::Hash> {
    Ok(blake3::Hasher::new().update_reader(File::open(file)?)?.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Something that "fetches" by the shell.
    fn shell(script: &'static str) -> Start {
        Box::new(move |source, home, into| {
            let mut get = command(Path::new("/bin/sh"), home);
            get.args(["-c", script, "sh"]).arg(source.path()).arg(into);
            Ok((Vec::new(), get))
        })
    }

    #[test]
    fn a_file_that_does_not_arrive_as_it_was_is_no_figure() {
        let source = Source::new(3_000_000).unwrap();
        let run = |script| sample("shell", &source, &shell(script)).map(|sample| sample.answer);
        assert_eq!(run("cp \"$1\" \"$2\"").unwrap(), source.hash);
        for (script, step) in
            [("head -c 99 \"$1\" > \"$2/file\"", "as it was"), ("exit 1", "fetch"), ("exit 0", "No such")]
        {
            let error = run(script).unwrap_err().to_string();
            assert!(error.contains(step), "{script}: {error}");
        }
    }

    #[test]
    fn a_sample_has_a_value_for_every_measure() {
        let source = Source::new(1000).unwrap();
        let sample = sample("shell", &source, &shell("cp \"$1\" \"$2\"")).unwrap();
        assert_eq!(sample.values.len(), measures(GB).len());
        assert!(measures(GB).iter().filter(|measure| measure.answers == ["C9"]).count() == 4);
        assert!(measures(5).iter().filter(|measure| measure.answers == ["C9"]).count() == 3);
    }

    #[test]
    fn every_peer_is_there_or_says_why_not() {
        let source = Rc::new(Source::new(1 << 20).unwrap());
        let names: Vec<&str> = peers::all().iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["scp/aes128-gcm", "scp/chacha20-poly1305", "rsync/unencrypted", "croc", "sendme"]);
        let case = case(&source, Path::new("nowhere/sealane"), Depth::Smoke).unwrap();
        assert!(case.subjects.iter().skip(2).map(|subject| subject.name.as_str()).eq(names));
        assert!(case.subjects.iter().take(2).all(Subject::is_absent));
    }
}
