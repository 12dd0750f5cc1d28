//! What must not work ends with a message, a hint and a code, and leaves everything as it was.

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::sandbox::{Running, Sandbox, free_port, text};

#[test]
fn an_altered_ticket_is_wrong_usage() {
    let sandbox = Sandbox::new();
    sandbox.file("data", 1000, "altered");
    let (_sender, ticket) = sandbox.send(free_port(), &["data"]);
    let mut altered = ticket.clone();
    altered.replace_range(20..21, if ticket.as_bytes()[20] == b'q' { "p" } else { "q" });
    for wrong in [altered.as_str(), &ticket[..50], "nonsense", ""] {
        let ended = sandbox.get(wrong, "out", &[]).end();
        assert!(ended.failed(2).starts_with("this is not a valid ticket"), "{ended:?}");
        assert!(ended.stderr.contains("hint: copy the whole ticket again"));
    }
    assert!(!sandbox.path("out").exists());
}

#[test]
fn a_sender_with_another_key_is_not_believed() {
    let sandbox = Sandbox::new();
    sandbox.file("data", 1000, "key");
    let port = free_port();
    let (mut sender, ticket) = sandbox.send(port, &["data"]);
    sender.kill();
    let (_other, _) = sandbox.send(port, &["--key", "other.key", "data"]);
    let mut getter = sandbox.get(&ticket, "out", &["--wait", "2"]);
    getter.wait_for("wrong_peer");
    assert!(getter.end().failed(1).contains("does not have the ticket's key"));
    assert!(!sandbox.path("out/data").exists());
}

#[test]
fn other_content_of_the_same_sender_is_not_taken_for_it() {
    let sandbox = Sandbox::new();
    sandbox.file("data", 1000, "one");
    let port = free_port();
    let (mut sender, ticket) = sandbox.send(port, &["data"]);
    sender.kill();
    sandbox.file("data", 1000, "two");
    let (_sender, _) = sandbox.send(port, &["data"]);
    let ended = sandbox.get(&ticket, "out", &[]).end();
    assert!(ended.failed(1).contains("does not offer this any more"));
}

#[test]
fn an_unreachable_sender_is_named() {
    let sandbox = Sandbox::new();
    sandbox.file("data", 1000, "unreachable");
    let port = free_port();
    let (mut sender, ticket) = sandbox.send(port, &["data"]);
    sender.kill();
    let ended = sandbox.get(&ticket, "out", &["--wait", "2"]).end();
    assert_eq!(ended.failed(1), format!("no answer from 127.0.0.1:{port}"));
    assert!(ended.stderr.contains("hint: "), "{ended:?}");
}

#[test]
fn nothing_is_overwritten() {
    let sandbox = Sandbox::new();
    sandbox.file("data", 3_000_000, "overwritten");
    fs::create_dir(sandbox.path("out")).unwrap();
    sandbox.write("out/data", "mine");
    let (_sender, ticket) = sandbox.send(free_port(), &["data"]);
    let ended = sandbox.get(&ticket, "out", &[]).end();
    assert!(ended.failed(1).contains("exists already"));
    assert!(ended.stderr.contains("hint: move it away"), "{ended:?}");
    assert_eq!(fs::read_to_string(sandbox.path("out/data")).unwrap(), "mine");
}

/// A getter whose folder `out` is a file system of its own, mounted with `options`; `None`: the test is skipped.
fn get_into_mount(test: &str, sandbox: &Sandbox, ticket: &str, options: &str) -> Option<Running> {
    fs::create_dir(sandbox.path("out")).unwrap();
    let works = |flags: &&str| {
        let mount = "mount -t tmpfs tmpfs out";
        let tried = sandbox.at_home(Command::new("unshare")).args([flags, "sh", "-c", mount]).output();
        tried.is_ok_and(|done| done.status.success())
    };
    let Some(flags) = ["-m", "-rm"].into_iter().find(works) else {
        sealane_skip::skip(test, "cannot mount in a namespace of its own");
        return None;
    };
    let script = format!("mount -t tmpfs -o {options} tmpfs out && exec \"$@\"");
    let mut command = sandbox.at_home(Command::new("unshare"));
    command.args([
        flags,
        "sh",
        "-c",
        &script,
        "sh",
        env!("CARGO_BIN_EXE_sealane"),
        "get",
        "--json",
        "-o",
        "out",
        ticket,
    ]);
    Some(Running::new(command))
}

#[test]
fn a_full_disk_is_told_before_anything_is_fetched() {
    let sandbox = Sandbox::new();
    sandbox.file("data", 5_000_000, "full");
    let (_sender, ticket) = sandbox.send(free_port(), &["data"]);
    let test = "a_full_disk_is_told_before_anything_is_fetched";
    let Some(mut getter) = get_into_mount(test, &sandbox, &ticket, "size=1m") else { return };
    let ended = getter.end();
    assert!(ended.failed(1).contains("not enough space"), "{ended:?}");
    assert!(ended.stderr.contains("hint: make room"), "{ended:?}");
}

#[test]
fn a_read_only_folder_is_told() {
    let sandbox = Sandbox::new();
    sandbox.file("data", 1000, "read-only");
    let (_sender, ticket) = sandbox.send(free_port(), &["data"]);
    let Some(mut getter) = get_into_mount("a_read_only_folder_is_told", &sandbox, &ticket, "ro") else { return };
    let ended = getter.end();
    assert!(ended.failed(1).contains("Read-only file system"), "{ended:?}");
    assert!(ended.stderr.contains("hint: choose a place"), "{ended:?}");
}

#[test]
fn what_is_no_file_cannot_be_sent() {
    let sandbox = Sandbox::new();
    assert!(Command::new("mkfifo").arg(sandbox.path("pipe")).status().unwrap().success());
    let port = free_port().to_string();
    for (path, code, said) in [("pipe", 2, "neither a file nor a folder"), ("missing", 1, "cannot find")] {
        let ended = Running::new(sandbox.sealane(&["send", "--json", "--port", &port, path])).end();
        assert!(ended.failed(code).contains(said), "{ended:?}");
    }
}

#[test]
fn a_key_file_must_be_a_key_and_secret() {
    let sandbox = Sandbox::new();
    sandbox.file("data", 1000, "secret");
    let port = free_port().to_string();
    let send =
        |key: &str| Running::new(sandbox.sealane(&["send", "--json", "--port", &port, "--key", key, "data"])).end();
    let mode = |path: &str, mode| fs::set_permissions(sandbox.path(path), fs::Permissions::from_mode(mode)).unwrap();

    sandbox.write("exposed.key", &"ab".repeat(32));
    mode("exposed.key", 0o640);
    let ended = send("exposed.key");
    assert!(ended.failed(2).contains("(mode 640)") && ended.stderr.contains("hint: chmod 600"), "{ended:?}");
    for wrong in [String::new(), "ab".repeat(31), "xy".repeat(32), "ab".repeat(33), "ab\n".repeat(32)] {
        sandbox.write("wrong.key", &wrong);
        mode("wrong.key", 0o600);
        assert!(send("wrong.key").failed(2).contains("is not a key file"));
    }
}

#[test]
fn an_address_that_nobody_can_reach_is_wrong_usage() {
    let sandbox = Sandbox::new();
    sandbox.file("data", 1000, "address");
    let port = free_port().to_string();
    for address in ["0.0.0.0:7447", "127.0.0.1:0", "[ff02::1]:7447"] {
        let ended =
            Running::new(sandbox.sealane(&["send", "--json", "--port", &port, "--address", address, "data"])).end();
        assert!(ended.failed(2).contains("cannot be a provider's"), "{ended:?}");
    }
}

#[test]
fn a_taken_port_is_an_error_only_for_who_asked_for_it() {
    let sandbox = Sandbox::new();
    sandbox.file("data", 1000, "port");
    let hold = |port: u16| UdpSocket::bind(("::", port)).or_else(|_| UdpSocket::bind(("0.0.0.0", port)));
    let held = hold(free_port()).unwrap();
    let port = held.local_addr().unwrap().port().to_string();
    let ended = Running::new(sandbox.sealane(&["send", "--json", "--port", &port, "data"])).end();
    assert!(ended.failed(1).contains("cannot use UDP"), "{ended:?}");
    assert!(ended.stderr.contains("choose another with --port"), "{ended:?}");

    let _usual = hold(7447); // or someone else has it, which is as good
    let mut sender = Running::new(sandbox.sealane(&["send", "--json", "data"]));
    let ticket = sender.wait_for("ticket")["ticket"].as_str().unwrap().to_owned();
    let got = sandbox.run(&["get", &ticket, "-o", "out"]);
    assert_eq!(got.status.code(), Some(0), "{}", text(&got.stderr));
    assert!(sender.kill().stderr.contains("port 7447 is taken"));
}
