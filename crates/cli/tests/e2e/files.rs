//! What was sent is what arrives.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use crate::sandbox::{Running, Sandbox, free_port, hash, text};

#[test]
fn files_of_every_size_around_a_chunk_arrive() {
    let sandbox = Sandbox::new();
    for len in [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1] {
        let name = format!("{len} bytes");
        let source = sandbox.file(&name, len, &name);
        let (_sender, ticket) = sandbox.send(free_port(), &[&name]);
        let ended = sandbox.get(&ticket, "out", &[]).end();
        let finished = ended.finished();
        assert_eq!(finished["bytes"], len);
        let target = fs::canonicalize(sandbox.path("out")).unwrap().join(&name);
        assert_eq!(finished["paths"], serde_json::json!([target.to_str().unwrap()]));
        assert_eq!(hash(&target), hash(&source));
    }
}

#[test]
fn the_id_is_what_b3sum_prints() {
    let sandbox = Sandbox::new();
    let source = sandbox.file("data", 3_000_000, "id");
    let (port, address) = (free_port().to_string(), "127.0.0.1:9");
    let mut sender = Running::new(sandbox.sealane(&["send", "--json", "--port", &port, "--address", address, "data"]));
    assert_eq!(sender.wait_for("ticket")["id"], hash(&source));
}

#[test]
fn a_folder_arrives_with_its_names_and_modes_and_without_its_links() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path("Zürich/空/נוף")).unwrap();
    fs::create_dir(sandbox.path("Zürich/nothing in it")).unwrap();
    sandbox.write("Zürich/empty", "");
    sandbox.write("Zürich/空/✓ done.txt", "done");
    let tool = sandbox.write("Zürich/tool", "#!/bin/sh\n");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    sandbox.file("Zürich/空/נוף/large", 5_000_000, "large");
    sandbox.write("beside.txt", "a second argument");
    symlink("/etc/passwd", sandbox.path("Zürich/link")).unwrap();

    let (mut sender, ticket) = sandbox.send(free_port(), &["Zürich", "beside.txt"]);
    let ended = sandbox.get(&ticket, "out", &[]).end();
    assert_eq!(ended.finished()["paths"].as_array().unwrap().len(), 2);
    let stderr = sender.kill().stderr;
    assert!(stderr.contains("warning: skipped") && stderr.contains("Zürich/link"), "{stderr}");

    fs::remove_file(sandbox.path("Zürich/link")).unwrap();
    for name in ["Zürich", "beside.txt"] {
        let (here, there) = (sandbox.path(name), sandbox.path("out").join(name));
        let diff = Command::new("diff").arg("-r").args([here, there]).output().unwrap();
        assert!(diff.status.success(), "{}", text(&diff.stdout));
    }
    assert_eq!(fs::read_dir(sandbox.path("out")).unwrap().count(), 2);
    let mode = |name: &str| fs::metadata(sandbox.path("out/Zürich").join(name)).unwrap().permissions().mode() & 0o111;
    assert_eq!([mode("tool") != 0, mode("empty") != 0], [true, false]);
    assert!(sandbox.path("out/Zürich/nothing in it").is_dir());
}

#[test]
fn the_receiver_may_come_first() {
    let sandbox = Sandbox::new();
    let source = sandbox.file("data", 2_000_000, "first");
    let port = free_port();
    let (mut sender, ticket) = sandbox.send(port, &["data"]);
    sender.kill();

    let mut getter = sandbox.get(&ticket, "out", &[]);
    let (mut sender, again) = sandbox.send(port, &["data"]);
    assert_eq!(again, ticket, "the same key, port and content make the same ticket");
    getter.end().finished();
    assert_eq!(hash(&sandbox.path("out/data")), hash(&source));
    assert_eq!(sender.wait_for("came")["peer"], sender.wait_for("done")["peer"]);
    assert_eq!(sender.wait_for("left")["why"], "done");
    sender.interrupt();
    assert_eq!(sender.end().code, Some(0), "Ctrl-C is how serving ends");
}

#[test]
fn every_cipher_can_be_asked_for() {
    let sandbox = Sandbox::new();
    sandbox.file("data", 2_000_000, "ciphers");
    let (_sender, ticket) = sandbox.send(free_port(), &["data"]);
    for cipher in ["aes-128-gcm", "aes-256-gcm", "chacha20-poly1305", "xchacha20-poly1305"] {
        let mut getter = sandbox.get(&ticket, cipher, &["--cipher", cipher]);
        assert_eq!(getter.wait_for("connected")["cipher"], cipher);
        getter.end().finished();
    }
}

#[test]
fn people_get_data_on_stdout_and_words_on_stderr() {
    let sandbox = Sandbox::new();
    sandbox.file("data", 1000, "people");
    let port = free_port();
    let (mut sender, ticket) = sandbox.send(port, &["data"]);
    let got = sandbox.run(&["get", &ticket, "-o", "out"]);
    assert_eq!(got.status.code(), Some(0));
    let target = fs::canonicalize(sandbox.path("out/data")).unwrap();
    assert_eq!(text(&got.stdout), format!("{}\n", target.display()));
    assert!(text(&got.stderr).contains("Gbit/s"), "{}", text(&got.stderr));
    sender.kill();

    let address = format!("127.0.0.1:{port}");
    let mut plain =
        Running::new(sandbox.sealane(&["send", "--port", &port.to_string(), "--address", &address, "data"]));
    sandbox.get(&ticket, "out2", &[]).end().finished();
    plain.interrupt();
    let ended = plain.end();
    assert_eq!(ended.events, [ticket.as_str()], "the ticket, and nothing else");
    assert!(ended.stderr.contains("has everything"), "{ended:?}");
}
