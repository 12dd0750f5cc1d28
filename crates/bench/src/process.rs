//! Programs that are measured: started in a home of their own, asked how much memory and time they took, killed at the end.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

/// `program` in the home `home`, silent but for what it answers on its standard output.
pub(crate) fn command(program: &Path, home: &Path) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).env("HOME", home);
    for folder in ["CONFIG", "CACHE", "DATA", "STATE", "RUNTIME"] {
        let suffix = if folder == "RUNTIME" { "DIR" } else { "HOME" };
        command.env(format!("XDG_{folder}_{suffix}"), home);
    }
    command
}

/// Where `PATH`, or where system programs are, has an executable of this name.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// What a family of processes took: one and those that it started.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Usage {
    /// Seconds on processors, user and system; those that ended included.
    pub(crate) cpu: f64,
    /// Bytes resident.
    pub(crate) resident: u64,
    /// The most bytes that were resident in each, summed.
    pub(crate) peak: u64,
}

/// A running program; killed when dropped.
pub(crate) struct Process {
    child: Child,
    started: Instant,
}

/// How a program ended.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// Wall time from its start.
    pub(crate) took: Duration,
    pub(crate) usage: Usage,
    /// What the other family took until then, from its start.
    pub(crate) other: Usage,
}

impl Process {
    pub(crate) fn spawn(command: &mut Command) -> io::Result<Self> {
        let started = Instant::now();
        Ok(Self { child: command.spawn()?, started })
    }

    /// Its standard output, once, when it was piped.
    pub(crate) fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    pub(crate) fn has_ended(&mut self) -> io::Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    pub(crate) fn usage(&self) -> Usage {
        usage(self.child.id())
    }

    /// Waits for the end and watches the memory of both families meanwhile; after `limit` it is killed.
    pub(crate) fn wait(mut self, other: &[Self], limit: Duration) -> io::Result<Ended> {
        let (pid, others) = (self.child.id(), other.iter().map(|other| other.child.id()).collect::<Vec<_>>());
        let all = |others: &[u32]| others.iter().map(|pid| usage(*pid)).fold(Usage::default(), Usage::with);
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let mut peaks = (0, 0);
                while !over.load(Ordering::Relaxed) {
                    peaks = (usage(pid).peak.max(peaks.0), all(&others).peak.max(peaks.1));
                    if self.started.elapsed() > limit {
                        kill(pid);
                    }
                    thread::sleep(Duration::from_millis(20));
                }
                peaks
            });
            // It stays a zombie, whose times can be read, until it is waited for without NOWAIT.
            let waited = waitid(WaitId::Pid(known(pid)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            let took = self.started.elapsed();
            over.store(true, Ordering::Relaxed);
            let (mut usage, mut other) = (usage(pid), all(&others));
            let peaks = watcher.join().expect("the watcher does not panic");
            (usage.peak, other.peak) = (usage.peak.max(peaks.0), other.peak.max(peaks.1));
            waited?;
            Ok(Ended { status: ExitStatus::default(), took, usage, other })
        })
        .and_then(|ended| Ok(Ended { status: self.child.wait()?, ..ended }))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Those it started first, while it is still known whose they are.
        family(self.child.id()).into_iter().skip(1).for_each(|member| kill(member.pid));
        let _ = self.child.kill(); // it may have ended by itself
        let _ = self.child.wait();
    }
}

fn known(pid: u32) -> Pid {
    i32::try_from(pid).ok().and_then(Pid::from_raw).expect("the system gave this number")
}

fn kill(pid: u32) {
    let _ = kill_process(known(pid), Signal::KILL); // it may have ended by itself
}

impl Usage {
    fn with(self, other: Self) -> Self {
        Self { cpu: self.cpu + other.cpu, resident: self.resident + other.resident, peak: self.peak + other.peak }
    }
}

fn usage(pid: u32) -> Usage {
    family(pid).into_iter().map(Member::usage).fold(Usage::default(), Usage::with)
}

/// A line of `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Member {
    pid: u32,
    parent: u32,
    /// Of itself and of those of its children that it waited for.
    ticks: u64,
}

impl Member {
    fn parse(stat: &str) -> Option<Self> {
        let (head, tail) = stat.rsplit_once(')')?; // the name may hold anything
        let fields: Vec<&str> = tail.split_whitespace().collect();
        let ticks = fields.get(11..15)?.iter().map(|field| field.parse::<u64>()).sum::<Result<_, _>>().ok()?;
        Some(Self { pid: head.split_once(' ')?.0.parse().ok()?, parent: fields[1].parse().ok()?, ticks })
    }

    fn usage(self) -> Usage {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        Usage {
            cpu: self.ticks as f64 / rustix::param::clock_ticks_per_second() as f64,
            resident: bytes(&status, "VmRSS:"),
            peak: bytes(&status, "VmHWM:"),
        }
    }
}

/// A size in `/proc/PID/status`; 0 of a process that has ended.
fn bytes(status: &str, field: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// `pid` and its descendants, it first; empty when it is gone.
fn family(pid: u32) -> Vec<Member> {
    let stat = |entry: io::Result<fs::DirEntry>| fs::read_to_string(entry.ok()?.path().join("stat")).ok();
    let all: Vec<Member> = fs::read_dir("/proc")
        .map(|entries| entries.filter_map(|entry| Member::parse(&stat(entry)?)).collect())
        .unwrap_or_default();
    let mut members: Vec<Member> = all.iter().filter(|member| member.pid == pid).copied().collect();
    let mut next = 0;
    while let Some(parent) = members.get(next) {
        let parent = parent.pid;
        members.extend(all.iter().filter(|member| member.parent == parent));
        next += 1;
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_stat_is_read_whatever_the_name() {
        let stat = "42 (a) b (c) S 7 1 1 0 -1 4 5 6 7 8 100 20 3 4 20 0 1 0";
        assert_eq!(Member::parse(stat), Some(Member { pid: 42, parent: 7, ticks: 127 }));
        assert_eq!(Member::parse("42 (cut"), None);
        assert_eq!(bytes("VmPeak:\t  9 kB\nVmRSS:\t  12 kB\n", "VmRSS:"), 12 * 1024);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_family_is_measured_to_its_end_and_ends_with_its_head() {
        let home = tempfile::tempdir().unwrap();
        let spawn = |script| Process::spawn(command(Path::new("/bin/sh"), home.path()).args(["-c", script])).unwrap();
        let other = [spawn("sleep 100 & sleep 100; :")];
        let ended = spawn("echo x | cat > \"$HOME/out\"; exit 3").wait(&other, Duration::from_secs(50)).unwrap();
        assert_eq!((ended.status.code(), fs::read(home.path().join("out")).unwrap()), (Some(3), b"x\n".to_vec()));
        assert!(ended.other.peak > 0 && ended.other.resident > 0);
        let members = family(other[0].child.id());
        drop(other);
        assert_eq!(members.len(), 3);
        // A signal takes effect when its receiver next runs.
        let resident = || members.iter().map(|member| usage(member.pid).resident).sum::<u64>();
        let deadline = Instant::now() + Duration::from_secs(10);
        while resident() > 0 && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(resident(), 0);
        let late = spawn("sleep 100").wait(&[], Duration::ZERO).unwrap();
        assert_eq!(late.status.code(), None);
    }
}
