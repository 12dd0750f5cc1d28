//! The vectors of spec/vectors: one line, one case, one expected answer. They were made by a program that shares no code
//! with this one.

use sealane_transfer::error::Error;
use sealane_transfer::layout::Root;
use sealane_transfer::manifest::Manifest;
use sealane_transfer::name::RelPath;
use sealane_transfer::ticket::Ticket;
use sealane_transfer::tree::{hash_file, verify_tree};

/// The words of every line that is not a comment.
fn cases(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(' ').collect())
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    assert_eq!(digits.len() % 2, 0, "{hex}");
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// `ok`, the fault, or (where there is no fault to tell) the error.
fn class<T>(result: Result<T, Error>) -> String {
    match result {
        Ok(_) => "ok".into(),
        Err(Error::Manifest(fault)) => format!("{fault:?}"),
        Err(Error::Ticket(fault)) => format!("{fault:?}"),
        Err(Error::Name { fault, .. }) => format!("{fault:?}"),
        Err(Error::Root) => "Root".into(),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn trees() {
    for case in cases(include_str!("../../../spec/vectors/tree.txt")) {
        let content: Vec<u8> = (0..case[0].parse().unwrap()).map(|i: usize| (i % 251) as u8).collect();
        let hashed = hash_file(&content[..], &mut |_| ()).unwrap();
        assert_eq!(hashed.id, case[1].parse().unwrap(), "{} bytes", case[0]);
        let tree: Vec<[u8; 32]> = case[2..].iter().map(|value| bytes(value).try_into().unwrap()).collect();
        assert_eq!(hashed.tree, tree, "{} bytes", case[0]);
        assert_eq!(verify_tree(hashed.id, hashed.size, &tree), !tree.is_empty());
    }
}

#[test]
fn manifests() {
    for case in cases(include_str!("../../../spec/vectors/manifest.txt")) {
        let encoded = bytes(case[2]);
        let decoded = Manifest::decode(&encoded);
        if let Ok(manifest) = &decoded {
            assert_eq!(manifest.encode(), encoded, "{}", case[0]);
        }
        assert_eq!(class(decoded), case[1], "{}", case[0]);
    }
}

#[test]
fn paths() {
    for case in cases(include_str!("../../../spec/vectors/path.txt")) {
        assert_eq!(class(RelPath::new(&bytes(case[2].trim_matches('-')))), case[1], "{}", case[0]);
    }
}

#[test]
fn roots() {
    for case in cases(include_str!("../../../spec/vectors/root.txt")) {
        let encoded = bytes(case[2].trim_matches('-'));
        let decoded = Root::decode(&encoded);
        if let Ok(root) = &decoded {
            assert_eq!(root.encode(), encoded, "{}", case[0]);
        }
        match decoded {
            Err(Error::Name { .. }) => assert_eq!("Name", case[1], "{}", case[0]),
            other => assert_eq!(class(other), case[1], "{}", case[0]),
        }
    }
}

#[test]
fn tickets() {
    for case in cases(include_str!("../../../spec/vectors/ticket.txt")) {
        let parsed = case[2].parse::<Ticket>();
        if let Ok(ticket) = &parsed {
            assert_eq!(ticket.to_string(), case[2].to_lowercase(), "{}", case[0]);
        }
        assert_eq!(class(parsed), case[1], "{}", case[0]);
    }
    let first = cases(include_str!("../../../spec/vectors/ticket.txt")).next().unwrap()[2];
    let ticket: Ticket = format!(" \t{first}\r\n").parse().unwrap();
    assert_eq!((ticket.id.0[31], ticket.key[0], ticket.set), (31, 32, false));
    assert_eq!(ticket.addrs, ["192.0.2.1:9777".parse().unwrap(), "[2001:db8::1]:9777".parse().unwrap()]);
}
