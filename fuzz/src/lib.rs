//! In: hostile bytes. Out: nothing, or a panic that libFuzzer or the replay test reports.
//!
//! [`TARGETS`] is the list: one for each parser and each state machine. Each has a folder in `corpus/`, which
//! `tests/replay.rs` runs through it. `main.rs` is the program that `.ci/run` fuzzes.

use bech32::{Bech32m, Hrp};
use sealane_lane::Lane;
use sealane_transfer::layout::{Layout, Piece, Root};
use sealane_transfer::manifest::Manifest;
use sealane_transfer::name::RelPath;
use sealane_transfer::ticket::Ticket;
use std::path::{Component, Path};

/// A target takes any bytes and asserts what must hold of them.
pub type Target = fn(&[u8]);

/// Each target by the name of its folder in `corpus/`.
pub const TARGETS: &[(&str, Target)] =
    &[("lane", lane), ("manifest", manifest), ("name", name), ("root", root), ("ticket", ticket)];

/// Pairs of command and size: what is in a lane never leaves its slab and never overlaps.
fn lane(bytes: &[u8]) {
    let mut lane = Lane::new(1024, 16);
    for command in bytes.chunks_exact(2) {
        let size = usize::from(command[1]) * 8;
        match command[0] % 4 {
            0 => _ = lane.push(size),
            1 => _ = lane.commit(size / 2..size, usize::from(command[0])),
            2 if !lane.is_empty() => lane.shrink_last(size.min(lane.packet(lane.len() - 1).len())),
            2 => {}
            _ => lane.clear(),
        }
        let sum: usize = (0..lane.len()).map(|index| lane.packet(index).len()).sum();
        assert!(sum <= lane.used() && lane.used() + lane.spare_mut().len() == 1024);
        assert_eq!(lane.packets_mut().map(|packet| packet.len()).sum::<usize>(), sum);
        let mut first = 0;
        while first < lane.len() {
            first += lane.train(first, 8, 600).0;
        }
        assert_eq!(first, lane.len());
    }
}

/// A manifest that is accepted has one encoding, only safe paths, and pieces that cover it exactly.
fn manifest(bytes: &[u8]) {
    let Ok(manifest) = Manifest::decode(bytes) else { return };
    assert_eq!(manifest.encode(), bytes);
    manifest.entries().iter().for_each(|entry| assert_inside(entry.path.as_path()));
    let layout = Layout::new(&Root::Set { manifest_len: bytes.len() as u64 }).with_manifest(&manifest);
    assert_covers(&layout, bytes.len() as u64 + manifest.trees_len() + manifest.total_bytes());
}

/// A path that is accepted stays inside the folder it is joined to.
fn name(bytes: &[u8]) {
    if let Ok(path) = RelPath::new(bytes) {
        assert_inside(path.as_path());
    }
}

/// An OFFER's root has one encoding, and pieces up to its end.
fn root(bytes: &[u8]) {
    let Ok(root) = Root::decode(bytes) else { return };
    assert_eq!(root.encode(), bytes);
    let layout = Layout::new(&root);
    match &root {
        Root::File { name, size, .. } => {
            assert_inside(Path::new(name.as_str()));
            assert_covers(&layout, size + layout.trees_len());
        }
        Root::Set { manifest_len } => assert_covers(&layout, *manifest_len),
    }
}

/// A ticket's text, and its content under a right checksum: what is accepted is what would be printed.
fn ticket(bytes: &[u8]) {
    let sealed = bech32::encode_lower::<Bech32m>(Hrp::parse_unchecked("sealane"), bytes).unwrap_or_default();
    for text in [&*sealed, &*String::from_utf8_lossy(bytes)] {
        if let Ok(ticket) = text.parse::<Ticket>() {
            assert!(ticket.to_string().eq_ignore_ascii_case(text.trim()));
        }
    }
}

fn assert_inside(path: &Path) {
    assert!(path.components().all(|part| matches!(part, Component::Normal(_))), "{path:?} leaves its folder");
}

/// The last piece is there and the next is not, and, where it is quick to sum, all together have `total` bytes.
fn assert_covers(layout: &Layout, total: u64) {
    let pieces = layout.total_pieces();
    assert_eq!(layout.piece_len(Piece(pieces)), None);
    assert_eq!(layout.what(Piece(u64::MAX)), None);
    if pieces <= 4096 {
        let lengths = (0..pieces).map(|piece| layout.piece_len(Piece(piece)).expect("a piece before the end") as u64);
        assert_eq!(lengths.sum::<u64>(), total);
    }
}
