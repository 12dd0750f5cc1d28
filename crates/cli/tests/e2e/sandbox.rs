//! A folder of its own for a test, and `sealane` running in it.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

/// Ends a test that waits for what does not come; says nothing about speed.
const HANGS: Duration = Duration::from_secs(60);

pub(crate) struct Sandbox {
    dir: TempDir,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        Self { dir: TempDir::with_prefix("sealane-test").unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A file of `len` bytes that `seed` determines.
    pub(crate) fn file(&self, name: &str, len: u64, seed: &str) -> PathBuf {
        let path = self.path(name);
        let bytes = blake3::Hasher::new().update(seed.as_bytes()).finalize_xof();
        std::io::copy(&mut bytes.take(len), &mut File::create(&path).unwrap()).unwrap();
        path
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
        path
    }

    /// The program with `args`, at home in this folder.
    pub(crate) fn sealane(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sealane"));
        command.args(args);
        self.at_home(command)
    }

    /// `command`, at home in this folder.
    pub(crate) fn at_home(&self, mut command: Command) -> Command {
        command.current_dir(self.dir.path()).env("HOME", self.dir.path());
        for name in ["XDG_DATA_HOME", "RUST_LOG", "RUST_BACKTRACE"] {
            command.env_remove(name);
        }
        command.stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.sealane(args).output().unwrap()
    }

    /// A sender of `paths` at `port`, and its ticket.
    pub(crate) fn send(&self, port: u16, paths: &[&str]) -> (Running, String) {
        self.send_behind(port, port, paths)
    }

    /// The same, but the ticket names the port of a link to it.
    pub(crate) fn send_behind(&self, port: u16, link: u16, paths: &[&str]) -> (Running, String) {
        let (port, address) = (port.to_string(), format!("127.0.0.1:{link}"));
        let flags = ["send", "--json", "--port", &port, "--address", &address];
        let mut sender = Running::new(self.sealane(&[&flags, paths].concat()));
        let ticket = sender.wait_for("ticket")["ticket"].as_str().unwrap().to_owned();
        (sender, ticket)
    }

    /// A getter of `ticket` into `dir`.
    pub(crate) fn get(&self, ticket: &str, dir: &str, more: &[&str]) -> Running {
        let flags = ["get", "--json", ticket, "-o", dir];
        Running::new(self.sealane(&[&flags, more].concat()))
    }
}

/// The program at work, with `--json`; killed when dropped.
pub(crate) struct Running {
    child: Child,
    events: Receiver<Value>,
    stderr: Option<JoinHandle<String>>,
}

/// How it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    /// Those that nobody waited for.
    pub(crate) events: Vec<Value>,
    pub(crate) stderr: String,
}

impl Running {
    pub(crate) fn new(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, events) = mpsc::channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = sender.send(serde_json::from_str(&line).unwrap_or(Value::String(line)));
            }
        });
        let mut stderr = child.stderr.take().unwrap();
        let stderr = thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        });
        Self { child, events, stderr: Some(stderr) }
    }

    /// The next event of that name; those before it are dropped.
    pub(crate) fn wait_for(&mut self, name: &str) -> Value {
        loop {
            match self.events.recv_timeout(HANGS) {
                Ok(event) if event["event"] == name => return event,
                Ok(_) => {}
                Err(_) => panic!("no event {name:?}: {:?}", self.kill()),
            }
        }
    }

    /// The progress when at least `share` of all bytes are verified.
    pub(crate) fn wait_for_share(&mut self, share: f64) -> u64 {
        loop {
            let event = self.wait_for("progress");
            let [done, total] = ["done", "total"].map(|name| event[name].as_u64().unwrap());
            if total > 0 && done as f64 >= share * total as f64 {
                return done;
            }
        }
    }

    pub(crate) fn interrupt(&self) {
        let status = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        assert!(status.unwrap().success());
    }

    /// SIGKILL: it has no time for anything.
    pub(crate) fn kill(&mut self) -> Ended {
        self.child.kill().unwrap();
        self.end()
    }

    /// Waits until it ends by itself.
    pub(crate) fn end(&mut self) -> Ended {
        let code = self.child.wait().unwrap().code();
        let stderr = self.stderr.take().map_or_else(String::new, |thread| thread.join().unwrap());
        Ended { code, events: self.events.iter().collect(), stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// The event `finished` of a getter that did.
    pub(crate) fn finished(&self) -> &Value {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.events.iter().find(|event| event["event"] == "finished").unwrap()
    }

    /// Asserts that it failed with `code`, and told people and programs the same; gives the message.
    pub(crate) fn failed(&self, code: i32) -> &str {
        assert_eq!(self.code, Some(code), "{self:?}");
        let error = self.events.last().unwrap();
        assert_eq!((&error["event"], &error["code"]), (&"error".into(), &code.into()), "{self:?}");
        let message = error["message"].as_str().unwrap();
        assert!(self.stderr.contains(&format!("error: {message}\n")), "{self:?}");
        message
    }
}

/// A port that nothing uses, outside the range from which the system gives ports away.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let base = 10_000 + (std::process::id() % 300) as u16 * 64;
    loop {
        let port = base + NEXT.fetch_add(1, Ordering::Relaxed);
        if UdpSocket::bind(("::", port)).or_else(|_| UdpSocket::bind(("0.0.0.0", port))).is_ok() {
            return port;
        }
    }
}

/// What stdout or stderr held.
pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

pub(crate) fn hash(path: &Path) -> String {
    blake3::Hasher::new().update_reader(File::open(path).unwrap()).unwrap().finalize().to_string()
}
