//! The program between two machines: network namespaces joined by a veth pair, made and removed here.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

const PORT: &str = "7447";
const SENDER: &str = "10.117.0.1";
const GETTER: &str = "10.117.0.2";

/// Two hosts and the link between them; gone when dropped.
struct Hosts {
    names: [String; 2],
    dir: tempfile::TempDir,
}

impl Hosts {
    /// `None`, and a line that says so, where namespaces cannot be made.
    fn new(test: &str, tag: &str) -> Option<Self> {
        let names = ["a", "b"].map(|side| format!("sl{}{tag}{side}", std::process::id()));
        let hosts = Self { names, dir: tempfile::tempdir().unwrap() };
        match hosts.set_up() {
            Ok(()) => Some(hosts),
            Err(failed) => {
                sealane_skip::skip(test, &format!("`{failed}` does not work here"));
                None
            }
        }
    }

    fn set_up(&self) -> Result<(), String> {
        let [a, b] = &self.names;
        ip(&format!("netns add {a}"))?;
        ip(&format!("netns add {b}"))?;
        ip(&format!("-n {a} link add veth0 type veth peer name veth0 netns {b}"))?;
        for (name, address) in [(a, SENDER), (b, GETTER)] {
            ip(&format!("-n {name} address add {address}/24 dev veth0"))?;
            ip(&format!("-n {name} link set veth0 up"))?;
        }
        Ok(())
    }

    /// So slow that there is time to do something halfway.
    fn slow_down(&self) -> Result<(), String> {
        run("tc", &format!("-n {} qdisc add dev veth0 root tbf rate 160mbit burst 128kb latency 20ms", self.names[0]))
    }

    fn file(&self, megabytes: usize) -> std::path::PathBuf {
        let path = self.dir.path().join("file");
        let bytes: Vec<u8> =
            (0..megabytes << 18).flat_map(|n: usize| (n as u32).wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
        fs::write(&path, bytes).unwrap();
        path
    }

    fn sealane(&self, host: usize, args: &[&str]) -> Program {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[host], env!("CARGO_BIN_EXE_sealane")]).args(args);
        for variable in ["HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"] {
            command.env(variable, self.dir.path());
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Program { child, out }
    }

    fn send(&self, file: &Path) -> (Program, String) {
        let address = format!("{SENDER}:{PORT}");
        let path = file.to_str().unwrap();
        let mut sender = self.sealane(0, &["send", path, "--port", PORT, "--address", &address, "--json"]);
        let event = sender.until("ticket");
        let ticket = event["ticket"].as_str().unwrap().to_string();
        (sender, ticket)
    }

    fn get(&self, ticket: &str) -> Program {
        let out = self.dir.path().join("out");
        self.sealane(1, &["get", ticket, "-o", out.to_str().unwrap(), "--json"])
    }

    fn compare(&self, file: &Path) {
        let got = fs::read(self.dir.path().join("out/file")).unwrap();
        assert!(got == fs::read(file).unwrap(), "the file arrived changed");
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = ip(&format!("netns delete {name}"));
        }
    }
}

struct Program {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Program {
    /// Reads events up to one of that name.
    fn until(&mut self, name: &str) -> Value {
        self.find(|event| event["event"] == name)
    }

    fn find(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut seen = String::new();
        loop {
            let start = seen.len();
            assert!(self.out.read_line(&mut seen).unwrap() > 0, "it ended early:\n{seen}");
            let event: Value = serde_json::from_str(&seen[start..]).unwrap();
            if wanted(&event) {
                return event;
            }
        }
    }

    fn until_half(&mut self) {
        self.find(|event| {
            event["event"] == "progress" && event["done"].as_u64() > Some(0) && {
                event["done"].as_u64().unwrap() * 2 >= event["total"].as_u64().unwrap()
            }
        });
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ip(args: &str) -> Result<(), String> {
    run("ip", args)
}

fn run(program: &str, args: &str) -> Result<(), String> {
    let done = Command::new(program).args(args.split(' ')).stderr(Stdio::null()).status();
    if done.is_ok_and(|status| status.success()) { Ok(()) } else { Err(format!("{program} {args}")) }
}

#[test]
fn a_file_crosses_a_link_whoever_comes_first() {
    let Some(hosts) = Hosts::new("a_file_crosses_a_link_whoever_comes_first", "o") else { return };
    let file = hosts.file(20);
    let (sender, ticket) = hosts.send(&file);
    hosts.get(&ticket).until("finished");
    hosts.compare(&file);

    drop(sender);
    fs::remove_dir_all(hosts.dir.path().join("out")).unwrap();
    let mut getter = hosts.get(&ticket);
    std::thread::sleep(std::time::Duration::from_millis(700));
    let (_sender, again) = hosts.send(&file);
    assert_eq!(again, ticket, "the same key, port and file make the same ticket");
    getter.until("finished");
    hosts.compare(&file);
}

#[test]
fn a_transfer_goes_on_when_the_getters_address_changes() {
    check_change_of_address("a_transfer_goes_on_when_the_getters_address_changes", "g", 1, GETTER);
}

#[test]
fn a_transfer_goes_on_when_the_senders_address_changes() {
    check_change_of_address("a_transfer_goes_on_when_the_senders_address_changes", "s", 0, SENDER);
}

fn check_change_of_address(test: &str, tag: &str, host: usize, old: &str) {
    let Some(hosts) = Hosts::new(test, tag) else { return };
    if let Err(failed) = hosts.slow_down() {
        return sealane_skip::skip(test, &format!("`{failed}` does not work here"));
    }
    let file = hosts.file(48);
    let (_sender, ticket) = hosts.send(&file);
    let mut getter = hosts.get(&ticket);
    getter.until_half();
    let name = &hosts.names[host];
    ip(&format!("-n {name} address add 10.117.0.{}/24 dev veth0", 7 + host)).unwrap();
    ip(&format!("-n {name} address delete {old}/24 dev veth0")).unwrap();
    // Deleting the first address of a subnet takes the others with it.
    let _ = ip(&format!("-n {name} address add 10.117.0.{}/24 dev veth0", 7 + host));
    let event = getter.find(|event| event["event"] == "finished" || event["event"] == "lost");
    assert_eq!(event["event"], "finished", "the session must survive");
    hosts.compare(&file);
}
