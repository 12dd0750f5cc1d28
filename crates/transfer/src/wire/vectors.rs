//! `spec/vectors/parsing.json`: each case has one outcome.

use serde_json::Value;

use super::*;
use crate::message::{Message, MessageReader};

const VECTORS: &str = include_str!("../../../../spec/vectors/parsing.json");

fn bytes(case: &Value) -> Vec<u8> {
    let hex = case["bytes"].as_str().unwrap();
    let mut bytes: Vec<_> =
        (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect();
    bytes.resize(bytes.len() + case["zeros"].as_u64().unwrap_or(0) as usize, 0);
    bytes
}

fn check(kind: &str, outcome: fn(&[u8]) -> &'static str) {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    let cases = vectors[kind].as_array().unwrap();
    assert!(cases.len() > 20, "{kind} is missing");
    for case in cases {
        assert_eq!(outcome(&bytes(case)), case["outcome"], "{kind}: {}", case["name"]);
    }
}

#[test]
fn datagrams() {
    check("datagrams", |bytes| if Datagram::parse(bytes).is_some() { "accept" } else { "drop" });
}

#[test]
fn frames_in_a_payload() {
    check("frames", |bytes| if frames(bytes).all(|frame| frame.is_ok()) { "accept" } else { "close" });
}

#[test]
fn messages() {
    check("messages", |bytes| {
        let mut reader = MessageReader::default();
        reader.push(bytes);
        match reader.next() {
            Ok(Some(_)) => "accept",
            Ok(None) => {
                reader.push(&[5, 0]);
                if reader.next() == Ok(Some(Message::Done)) { "skip" } else { "wait" }
            }
            Err(Malformed) => "close",
        }
    });
}
