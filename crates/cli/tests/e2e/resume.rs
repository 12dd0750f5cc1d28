//! Whatever is killed goes on.

use crate::link::SlowLink;
use crate::sandbox::{Sandbox, free_port, hash};

/// Over a slow link, long enough to be killed half-way.
const LARGE: u64 = 100_000_000;

#[test]
fn a_killed_receiver_goes_on_and_fetches_nearly_nothing_twice() {
    let sandbox = Sandbox::new();
    let source = sandbox.file("large", LARGE, "receiver");
    let port = free_port();
    let link = SlowLink::new(port);
    let (_sender, ticket) = sandbox.send_behind(port, link.port, &["large"]);
    let mut getter = sandbox.get(&ticket, "out", &[]);
    let had = getter.wait_for_share(0.5);
    assert_eq!(getter.kill().code, None);
    assert!(!sandbox.path("out/large").exists(), "nothing has its final name before it is verified");

    let mut getter = sandbox.get(&ticket, "out", &[]);
    let kept = getter.wait_for("offered")["done"].as_u64().unwrap();
    assert!(kept >= had - had / 50, "had {had}, kept {kept}");
    let received = getter.end().finished()["received"].as_u64().unwrap();
    assert!(received <= LARGE - kept + LARGE / 50, "kept {kept}, received {received}");
    assert_eq!(hash(&sandbox.path("out/large")), hash(&source));
}

#[test]
fn a_receiver_goes_on_by_itself_when_a_killed_sender_is_back() {
    let sandbox = Sandbox::new();
    let source = sandbox.file("large", LARGE, "sender");
    let port = free_port();
    let link = SlowLink::new(port);
    let (mut sender, ticket) = sandbox.send_behind(port, link.port, &["large"]);
    let mut getter = sandbox.get(&ticket, "out", &[]);
    getter.wait_for_share(0.5);
    sender.kill();

    let (_sender, again) = sandbox.send_behind(port, link.port, &["large"]);
    assert_eq!(again, ticket);
    assert_eq!(getter.wait_for("lost")["why"], "timed out");
    getter.wait_for("connected");
    let received = getter.end().finished()["received"].as_u64().unwrap();
    assert!(received <= LARGE + LARGE / 4, "what is on disk is not fetched again: {received}");
    assert_eq!(hash(&sandbox.path("out/large")), hash(&source));
}

#[test]
fn an_interrupted_receiver_says_so_and_goes_on() {
    let sandbox = Sandbox::new();
    let source = sandbox.file("large", LARGE, "interrupted");
    let port = free_port();
    let link = SlowLink::new(port);
    let (_sender, ticket) = sandbox.send_behind(port, link.port, &["large"]);
    let mut getter = sandbox.get(&ticket, "out", &[]);
    getter.wait_for_share(0.5);
    getter.interrupt();
    let ended = getter.end();
    assert!(ended.failed(130).contains("the same command goes on from here"));

    let mut getter = sandbox.get(&ticket, "out", &[]);
    assert!(getter.wait_for("offered")["done"].as_u64().unwrap() > 0);
    getter.end().finished();
    assert_eq!(hash(&sandbox.path("out/large")), hash(&source));
}
