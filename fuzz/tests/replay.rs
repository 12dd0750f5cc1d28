//! Every file of the corpus, through its target.

use sealane_fuzz::TARGETS;
use std::collections::BTreeSet;
use std::fs::{read, read_dir};
use std::path::Path;

#[test]
fn the_corpus_replays() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let folders = read_dir(&corpus).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let targets = TARGETS.iter().map(|(name, _)| name.to_string());
    assert_eq!(folders.collect::<BTreeSet<_>>(), targets.collect(), "a folder for each target, and no other");
    for (name, target) in TARGETS {
        let files: Vec<_> = read_dir(corpus.join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(!files.is_empty(), "{name} has no corpus");
        for file in files {
            println!("{}", file.display()); // shown when the target panics
            target(&read(&file).unwrap());
        }
    }
}
