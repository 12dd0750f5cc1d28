//! In: hostile bytes. Out: nothing, or a panic that libFuzzer or the replay test reports.
//!
//! [`TARGETS`] is the list: one for each parser and each state machine. Each has a folder in `corpus/`, which
//! `tests/replay.rs` runs through it. `main.rs` is the program that `.ci/run` fuzzes.

use bech32::{Bech32m, Hrp};
use sealane_aead::{Cipher, Engine, Error, Opener, Sealer, TAG, Verdict};
use sealane_lane::Lane;
use sealane_transfer::fuzzing::{control_stream, datagram, getter, handshake, payload, provider, recovery};
use sealane_transfer::layout::{Layout, Piece, Root};
use sealane_transfer::manifest::Manifest;
use sealane_transfer::name::RelPath;
use sealane_transfer::ticket::Ticket;
use std::collections::BTreeSet;
use std::path::{Component, Path};

/// A target takes any bytes and asserts what must hold of them.
pub type Target = fn(&[u8]);

/// Each target by the name of its folder in `corpus/`.
pub const TARGETS: &[(&str, Target)] = &[
    ("control_stream", control_stream),
    ("datagram", datagram),
    ("engine", engine),
    ("getter", getter),
    ("handshake", handshake),
    ("lane", lane),
    ("manifest", manifest),
    ("name", name),
    ("payload", payload),
    ("provider", provider),
    ("recovery", recovery),
    ("replay", replay),
    ("root", root),
    ("ticket", ticket),
];

/// Cipher, split, altered byte, then AAD and plaintext: what was sealed opens, on every backend, and nothing else does.
fn engine(bytes: &[u8]) {
    let Some(([choice, split, altered], rest)) = bytes.split_first_chunk() else { return };
    let cipher = Cipher::ALL[usize::from(*choice) % Cipher::ALL.len()];
    let (aad, plaintext) = rest.split_at(rest.len().min((*split).into()));
    let (secret, iv) = (vec![*choice; cipher.key_len()], vec![*split; cipher.nonce_len()]);
    let sealer = Sealer::new(cipher, &secret, &iv).expect("secret and iv of the cipher's lengths");
    let opener = Opener::new(cipher, &secret, &iv).expect("the same");
    let mut sealed = [plaintext, &[0; TAG]].concat();
    let number = sealer.mint().expect("the first number");
    Engine::new().seal(&mut [sealer.job(number, aad, &mut sealed).expect("a job that fits")]);

    let open = |engine: Engine, packet: &mut Vec<u8>| {
        let mut jobs = [opener.job(0, aad, packet).expect("a job that fits")];
        engine.open(&mut jobs);
        jobs[0].verdict()
    };
    let mut forged = sealed.clone();
    let at = usize::from(*altered) % forged.len();
    forged[at] ^= 1 << (split % 8);
    assert_eq!(open(Engine::new(), &mut forged), Verdict::Forged);
    assert!(forged.iter().all(|byte| *byte == 0));
    assert_eq!(open(Engine::portable(), &mut sealed), Verdict::Authentic);
    assert_eq!(&sealed[..plaintext.len()], plaintext);
}

/// Steps between packet numbers, four bytes each: none is accepted twice, and the newest always is.
fn replay(bytes: &[u8]) {
    let mut opener = Opener::new(Cipher::ChaCha20Poly1305, &[0; 32], &[0; 12]).expect("a key of 32 bytes");
    let (mut accepted, mut number) = (BTreeSet::new(), 0_u64);
    for step in bytes.as_chunks().0 {
        number = number.saturating_add_signed(i32::from_be_bytes(*step).into());
        let newest = accepted.last().is_none_or(|last| number > *last);
        let expected = opener.job(number, &[], &mut [0; TAG]).map(drop);
        assert_eq!(opener.accept(number), expected);
        match expected {
            Ok(()) => assert!(accepted.insert(number)),
            Err(error) => assert!(error == Error::Replayed(number) && !newest),
        }
    }
}

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
