//! In: hostile bytes. Out: nothing, or a panic that libFuzzer or the replay test reports.
//!
//! [`TARGETS`] is the list: one for each parser and each state machine. Each has a folder in `corpus/`, which
//! `tests/replay.rs` runs through it. `main.rs` is the program that `.ci/run` fuzzes.

use sealane_lane::Lane;

/// A target takes any bytes and asserts what must hold of them.
pub type Target = fn(&[u8]);

/// Each target by the name of its folder in `corpus/`.
pub const TARGETS: &[(&str, Target)] = &[("lane", lane)];

/// Pairs of command and size: what is in a lane never leaves its slab and always adds up.
fn lane(bytes: &[u8]) {
    let mut lane = Lane::new(1024, 16);
    for command in bytes.chunks_exact(2) {
        let size = usize::from(command[1]) * 8;
        match command[0] % 4 {
            0 => _ = lane.push(size),
            1 => _ = lane.commit(size, usize::from(command[0])),
            2 if !lane.is_empty() => lane.shrink_last(size.min(lane.packet(lane.len() - 1).len())),
            2 => {}
            _ => lane.clear(),
        }
        let sum: usize = (0..lane.len()).map(|index| lane.packet(index).len()).sum();
        assert!(sum == lane.bytes().len() && sum + lane.spare_mut().len() == 1024);
        assert_eq!(lane.packets_mut().count(), lane.len());
    }
}
