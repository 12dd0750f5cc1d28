//! Help, keys, completions, and the edges of the command line.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::Value;

use crate::sandbox::{Sandbox, free_port, text};

#[test]
fn help_has_examples_and_wrong_usage_has_code_2() {
    let sandbox = Sandbox::new();
    for verb in ["send", "get", "bench", "keygen", "completions", "man"] {
        let help = sandbox.run(&[verb, "--help"]);
        assert_eq!(help.status.code(), Some(0));
        assert!(text(&help.stdout).contains(&format!("\n  sealane {verb}")), "{}", text(&help.stdout));
    }
    for wrong in [&[][..], &["send"], &["get"], &["fetch"], &["get", "x", "--wait", "0"], &["bench", "crypt"]] {
        let ended = sandbox.run(wrong);
        assert_eq!((ended.status.code(), ended.stdout), (Some(2), vec![]), "{wrong:?}");
    }
}

#[test]
fn a_key_is_secret_and_never_overwritten() {
    let sandbox = Sandbox::new();
    let made = sandbox.run(&["keygen", "my.key"]);
    assert_eq!(made.status.code(), Some(0));
    let public = text(&made.stdout).trim();
    assert!(public.len() == 64 && public.bytes().all(|digit| digit.is_ascii_hexdigit()), "{public}");
    let path = sandbox.path("my.key");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

    let before = fs::read(&path).unwrap();
    let again = sandbox.run(&["keygen", "my.key"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("exists already") && text(&again.stderr).contains("hint: "));
    assert_eq!(fs::read(&path).unwrap(), before);

    sandbox.file("data", 10, "key");
    let (mut sender, ticket) = sandbox.send(free_port(), &["data"]);
    assert_eq!(sandbox.run(&["get", &ticket, "--key", "my.key", "-o", "out"]).status.code(), Some(0));
    assert_eq!(sender.wait_for("came")["peer"], public);
}

#[test]
fn the_usual_key_is_made_once() {
    let sandbox = Sandbox::new();
    let made = sandbox.run(&["keygen"]);
    assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    let path = sandbox.path(".local/share/sealane/key");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    sandbox.file("data", 10, "usual");
    let (mut sender, _) = sandbox.send(free_port(), &["data"]);
    assert!(!sender.kill().stderr.contains("made a new key"));
}

#[test]
fn completions_and_manual_pages_know_the_verbs() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = sandbox.run(&["completions", shell]);
        assert_eq!(script.status.code(), Some(0));
        assert!(text(&script.stdout).contains("keygen"), "{shell}");
    }
    assert_eq!(sandbox.run(&["man", "pages"]).status.code(), Some(0));
    assert!(fs::read_to_string(sandbox.path("pages/sealane-send.1")).unwrap().contains("Ctrl\\-C"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let sandbox = Sandbox::new();
    let mut child =
        sandbox.sealane(&["completions", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), text(&ended.stderr)), (Some(0), ""));
}

#[test]
fn bench_prints_records_and_a_page() {
    let sandbox = Sandbox::new();
    let ended = sandbox.run(&["bench", "latency", "--smoke", "--json", "-", "--html", "page.html"]);
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
    let records: Vec<Value> = text(&ended.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!records.is_empty() && records.iter().all(|record| record["suite"] == "latency"));
    assert!(fs::read_to_string(sandbox.path("page.html")).unwrap().contains("</html>"));
}
