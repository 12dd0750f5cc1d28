use std::os::unix::fs::{PermissionsExt, symlink};

use tempfile::TempDir;

use super::*;
use crate::offer::Offer;

const BOOT: Option<[u8; 32]> = Some([1; 32]);
const NEXT_BOOT: Option<[u8; 32]> = Some([2; 32]);

fn bytes(size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    blake3::Hasher::new().update(&size.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

/// A source folder with one of everything, and its offer.
fn folder() -> (TempDir, Offer) {
    let source = tempfile::tempdir().unwrap();
    let album = source.path().join("álbum 📷");
    fs::create_dir_all(album.join("empty")).unwrap();
    fs::create_dir_all(album.join("deep/er")).unwrap();
    for (name, size) in [("none", 0), ("one", 1), ("chunk", CHUNK), ("two", CHUNK + 1), ("deep/er/four", 3 * CHUNK + 5)]
    {
        fs::write(album.join(name), bytes(size)).unwrap();
    }
    for (name, mode) in [("one", 0o755), ("two", 0o444), ("none", 0o640)] {
        fs::set_permissions(album.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::write(source.path().join("single"), bytes(2 * CHUNK)).unwrap();
    let offer = Offer::from_paths(&[album, source.path().join("single")], &mut |_| ()).unwrap();
    (source, offer)
}

fn file(size: usize) -> (TempDir, Offer) {
    let source = tempfile::tempdir().unwrap();
    fs::write(source.path().join("file"), bytes(size)).unwrap();
    let offer = Offer::from_paths(&[source.path().join("file")], &mut |_| ()).unwrap();
    (source, offer)
}

fn piece(offer: &Offer, piece: u64) -> Vec<u8> {
    let mut bytes = vec![0; offer.piece_len(Piece(piece)).unwrap()];
    offer.read(Piece(piece), 0, &mut bytes).unwrap();
    bytes
}

fn pieces(offer: &Offer, range: Range<u64>) -> Vec<u8> {
    range.flat_map(|number| piece(offer, number)).collect()
}

/// Opens the store and brings it to where chunks can be written.
fn open(dir: &Path, offer: &Offer, boot: Option<[u8; 32]>) -> Result<Store, Error> {
    let mut store = Store::open_booted(dir, offer.id(), offer.root(), boot)?;
    if store.needs_manifest() {
        store.set_manifest_booted(&pieces(offer, offer.layout().manifest_pieces()), boot)?;
    }
    if store.needs_trees() {
        store.set_trees(&pieces(offer, offer.layout().tree_pieces()))?;
    }
    Ok(store)
}

fn missing(store: &Store) -> Vec<u64> {
    store.missing().into_iter().flatten().collect()
}

fn fetch(store: &mut Store, offer: &Offer) {
    for number in missing(store) {
        store.write(Piece(number), &piece(offer, number)).unwrap();
    }
}

fn staging(dir: &TempDir, offer: &Offer) -> PathBuf {
    fs::canonicalize(dir.path()).unwrap().join(format!(".sealane-{}", &offer.id().to_string()[..16]))
}

/// Copies a folder; a program to do it would hold on to other tests' locks until it starts.
fn copy(from: &Path, to: &Path) {
    DirBuilder::new().mode(0o700).create(to).unwrap();
    for item in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(item.file_name());
        if item.file_type().unwrap().is_dir() {
            copy(&item.path(), &to)
        } else {
            fs::copy(item.path(), to).map(drop).unwrap()
        }
    }
}

/// Every path below `dir` with its mode (as far as the umask lets any mode through) and content, sorted.
fn listing(dir: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    let probe = tempfile::tempdir().unwrap();
    fs::create_dir(probe.path().join("umask")).unwrap();
    let allowed = probe.path().join("umask").metadata().unwrap().mode() & 0o777;
    let (mut all, mut folders) = (Vec::new(), vec![dir.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for item in fs::read_dir(folder).unwrap() {
            let (path, metadata) = (item.as_ref().unwrap().path(), item.unwrap().metadata().unwrap());
            let content = if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            all.push((path.strip_prefix(dir).unwrap().into(), metadata.mode() & allowed, content));
            if metadata.is_dir() {
                folders.push(path);
            }
        }
    }
    all.sort();
    all
}

#[test]
fn a_folder_arrives_whole_with_its_modes() {
    let (source, offer) = folder();
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(&dir.path().join("made/for/it"), &offer, BOOT).unwrap();
    assert_eq!((store.bytes_total(), store.files_total()), (offer.total_bytes(), 6));
    fetch(&mut store, &offer);
    assert_eq!(store.bytes_done(), store.bytes_total());
    let finals = store.finish().unwrap();
    assert_eq!(finals.iter().map(|path| path.file_name().unwrap()).collect::<Vec<_>>(), ["single", "álbum 📷"]);
    assert_eq!(listing(&dir.path().join("made/for/it")), listing(source.path()));
}

#[test]
fn single_files_of_every_edge_size_arrive() {
    for size in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK] {
        let (source, offer) = file(size);
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path(), &offer, BOOT).unwrap();
        fetch(&mut store, &offer);
        store.finish().unwrap();
        assert_eq!(listing(dir.path()), listing(source.path()), "{size} bytes");
    }
}

#[test]
fn a_run_that_ended_anywhere_is_taken_up() {
    let (source, offer) = folder();
    for boots in [[BOOT, BOOT], [BOOT, NEXT_BOOT], [None, None]] {
        let dir = tempfile::tempdir().unwrap();
        let mut written = 0;
        let all = missing(&open(dir.path(), &offer, boots[0]).unwrap());
        for (turn, &number) in all.iter().rev().enumerate() {
            let store = open(dir.path(), &offer, boots[turn % 2]).unwrap();
            assert_eq!(store.bytes_done(), written, "{turn} {boots:?}");
            assert_eq!(missing(&store), all[..all.len() - turn]);
            assert!(!store.needs_manifest() && matches!(store.finish(), Err(Error::TooEarly)));
            let mut store = open(dir.path(), &offer, boots[turn % 2]).unwrap();
            store.write(Piece(number), &piece(&offer, number)).unwrap();
            assert!(store.have(Piece(number)));
            written += offer.piece_len(Piece(number)).unwrap() as u64;
        }
        open(dir.path(), &offer, boots[1]).unwrap().finish().unwrap();
        assert_eq!(listing(dir.path()), listing(source.path()));
    }
}

#[test]
fn wrong_bytes_are_refused_before_anything_is_written() {
    let (_source, offer) = folder();
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path(), &offer, BOOT).unwrap();
    let before = listing(dir.path());
    for number in missing(&store) {
        let mut wrong = piece(&offer, number);
        *wrong.last_mut().unwrap() ^= 1;
        assert!(matches!(store.write(Piece(number), &wrong), Err(Error::Mismatch { piece, .. }) if piece.0 == number));
        assert!(matches!(store.write(Piece(number), &wrong[1..]), Err(Error::NoSuchPiece(_))));
    }
    let end = offer.layout().total_pieces();
    assert!(matches!(store.write(Piece(end), &[0]), Err(Error::NoSuchPiece(_))));
    assert!(matches!(store.write(Piece(0), &piece(&offer, 0)), Err(Error::NoSuchPiece(_))));
    assert_eq!(listing(dir.path()), before);
    assert_eq!(store.bytes_done(), 0);
}

#[test]
fn wrong_manifests_and_trees_are_refused() {
    let (_source, offer) = folder();
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path(), offer.id(), offer.root()).unwrap();
    assert!(matches!(store.set_trees(&[]), Err(Error::TooEarly)));
    assert!(matches!(store.write(Piece(0), &[]), Err(Error::NoSuchPiece(_))));
    let manifest = pieces(&offer, offer.layout().manifest_pieces());
    let mut altered = manifest.clone();
    altered[20] ^= 1;
    assert!(matches!(store.set_manifest(&altered), Err(Error::ManifestMismatch)));
    assert!(store.needs_manifest() && store.missing().is_empty());
    store.set_manifest(&manifest).unwrap();

    let trees = pieces(&offer, offer.layout().tree_pieces());
    let number = missing(&store).into_iter().find(|&piece| offer.piece_len(Piece(piece)) == Some(5)).unwrap();
    assert!(matches!(store.write(Piece(number), &piece(&offer, number)), Err(Error::TooEarly)));
    for wrong in (0..trees.len()).step_by(32) {
        let mut altered = trees.clone();
        altered[wrong] ^= 1;
        assert!(matches!(store.set_trees(&altered), Err(Error::TreeMismatch { .. })));
    }
    assert!(matches!(store.set_trees(&trees[..trees.len() - 32]), Err(Error::TreeMismatch { .. })));
    assert!(matches!(store.set_trees(&[&trees[..], &[0; 32]].concat()), Err(Error::Root)));
    assert!(store.needs_trees());
    store.set_trees(&trees).unwrap();
    store.write(Piece(number), &piece(&offer, number)).unwrap();
}

#[test]
fn no_bit_of_the_journal_makes_a_chunk_that_is_not_there() {
    let (_source, offer) = folder();
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path(), &offer, BOOT).unwrap();
    let all = missing(&store);
    let there = [all[1], all[4]];
    for number in there {
        store.write(Piece(number), &piece(&offer, number)).unwrap();
    }
    drop(store);
    let path = journal::path(&staging(&dir, &offer));
    let journal = fs::read(&path).unwrap();
    let kept = tempfile::tempdir().unwrap();
    copy(&staging(&dir, &offer), &kept.path().join("staging"));
    let whole = journal.len() * 8;
    for bit in (0..whole).step_by(7) {
        let mut altered = journal.clone();
        altered[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &altered).unwrap();
        let store = open(dir.path(), &offer, BOOT).unwrap();
        for &number in all.iter().filter(|number| !there.contains(number)) {
            assert!(!store.have(Piece(number)), "bit {bit}");
        }
        drop(store);
        fs::remove_dir_all(staging(&dir, &offer)).unwrap();
        copy(&kept.path().join("staging"), &staging(&dir, &offer));
    }
    for len in 0..journal.len() {
        fs::write(&path, &journal[..len]).unwrap();
        let store = open(dir.path(), &offer, BOOT).unwrap();
        assert!(missing(&store).len() >= all.len() - 2, "cut at {len}");
        drop(store);
        if !staging(&dir, &offer).exists() {
            copy(&kept.path().join("staging"), &staging(&dir, &offer));
        }
    }
}

#[test]
fn after_a_crash_every_claim_is_hashed_again() {
    let (_source, offer) = file(3 * CHUNK + 5);
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path(), &offer, BOOT).unwrap();
    fetch(&mut store, &offer);
    drop(store);
    let staged = staging(&dir, &offer).join("tree/file");
    OpenOptions::new().write(true).open(&staged).unwrap().write_all_at(&[0; 9], CHUNK as u64 + 77).unwrap();
    let mut store = open(dir.path(), &offer, NEXT_BOOT).unwrap();
    let first = offer.layout().file_pieces().start;
    assert_eq!(missing(&store), [first + 1]);
    fetch(&mut store, &offer);
    drop(store);

    // A staged file that is gone or cut is fetched again, even within one run of the kernel.
    OpenOptions::new().write(true).open(&staged).unwrap().set_len(CHUNK as u64).unwrap();
    assert_eq!(missing(&open(dir.path(), &offer, NEXT_BOOT).unwrap()).len(), 3);
    fs::remove_file(&staged).unwrap();
    assert_eq!(missing(&open(dir.path(), &offer, NEXT_BOOT).unwrap()).len(), 4);
}

#[test]
fn damaged_trees_and_manifests_on_disk_are_fetched_again() {
    let (source, offer) = folder();
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path(), &offer, BOOT).unwrap();
    let number = missing(&store)[0];
    store.write(Piece(number), &piece(&offer, number)).unwrap();
    drop(store);
    for name in ["trees", "manifest"] {
        let path = staging(&dir, &offer).join(name);
        let mut bytes = fs::read(&path).unwrap();
        bytes[9] ^= 1;
        fs::write(&path, bytes).unwrap();
        let store = Store::open_booted(dir.path(), offer.id(), offer.root(), BOOT).unwrap();
        assert_eq!((store.needs_trees(), store.needs_manifest()), (name == "trees", name == "manifest"));
    }
    let mut store = open(dir.path(), &offer, BOOT).unwrap();
    assert!(store.have(Piece(number)));
    fetch(&mut store, &offer);
    store.finish().unwrap();
    assert_eq!(listing(dir.path()), listing(source.path()));
}

#[test]
fn nothing_is_overwritten() {
    let (_source, offer) = file(5);
    let dir = tempfile::tempdir().unwrap();
    let taken = dir.path().join("file");
    let makes: [fn(&Path) -> io::Result<()>; 3] =
        [|path| fs::write(path, "mine"), |path| symlink("nowhere", path), |path| fs::create_dir(path)];
    for make in makes {
        make(&taken).unwrap();
        assert!(matches!(open(dir.path(), &offer, BOOT), Err(Error::Exists { .. })));
        assert!(!staging(&dir, &offer).exists(), "a transfer that got nowhere leaves nothing");
        fs::remove_file(&taken).or_else(|_| fs::remove_dir(&taken)).unwrap();
    }
    let mut store = open(dir.path(), &offer, BOOT).unwrap();
    fetch(&mut store, &offer);
    fs::write(&taken, "mine").unwrap();
    assert!(matches!(store.finish(), Err(Error::Exists { .. })));
    assert_eq!(fs::read(&taken).unwrap(), b"mine");
    assert!(matches!(open(dir.path(), &offer, BOOT), Err(Error::Exists { .. })));
    fs::remove_file(&taken).unwrap();
    open(dir.path(), &offer, BOOT).unwrap().finish().unwrap();
    assert_eq!(fs::read(&taken).unwrap(), bytes(5));
}

#[test]
fn a_finish_cut_short_is_taken_up() {
    let (source, offer) = folder();
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path(), &offer, BOOT).unwrap();
    fetch(&mut store, &offer);
    fs::write(dir.path().join("álbum 📷"), "in the way of the second name").unwrap();
    assert!(matches!(store.finish(), Err(Error::Exists { .. })));
    assert!(dir.path().join("single").exists());
    fs::remove_file(dir.path().join("álbum 📷")).unwrap();
    let store = open(dir.path(), &offer, NEXT_BOOT).unwrap();
    assert_eq!(store.bytes_done(), store.bytes_total());
    store.finish().unwrap();
    assert_eq!(listing(dir.path()), listing(source.path()));
}

#[test]
fn links_in_the_staging_folder_lead_nowhere() {
    let (_source, offer) = folder();
    let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut store = open(dir.path(), &offer, BOOT).unwrap();
    let tree = staging(&dir, &offer).join("tree");
    fs::remove_dir_all(tree.join("álbum 📷/deep")).unwrap();
    symlink(outside.path(), tree.join("álbum 📷/deep")).unwrap();
    fs::create_dir(outside.path().join("er")).unwrap();
    fs::write(outside.path().join("victim"), "mine").unwrap();
    symlink(outside.path().join("victim"), tree.join("single")).unwrap();
    symlink(outside.path().join("victim"), tree.join("álbum 📷/one")).unwrap();
    let mut refused = 0;
    for number in missing(&store) {
        refused += usize::from(store.write(Piece(number), &piece(&offer, number)).is_err());
    }
    assert_eq!(refused, 2 + 4, "two chunks of `single`, four of `four`; `one` replaces the link");
    assert_eq!(fs::read(outside.path().join("victim")).unwrap(), b"mine");
    assert_eq!(fs::read_dir(outside.path().join("er")).unwrap().count(), 0);
    drop(store);
    assert!(matches!(open(dir.path(), &offer, BOOT), Err(Error::Io { .. })), "a link where a folder belongs");
}

#[test]
fn a_staging_folder_that_is_not_ours_is_refused() {
    let (_source, offer) = file(5);
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let staging = staging(&dir, &offer);
    symlink(elsewhere.path(), &staging).unwrap();
    assert!(matches!(open(dir.path(), &offer, BOOT), Err(Error::ForeignStaging { .. })));
    fs::remove_file(&staging).unwrap();
    fs::create_dir(&staging).unwrap();
    fs::set_permissions(&staging, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(open(dir.path(), &offer, BOOT), Err(Error::ForeignStaging { .. })));
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

#[test]
fn one_process_at_a_time() {
    let (_source, offer) = file(5);
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path(), &offer, BOOT).unwrap();
    assert!(matches!(open(dir.path(), &offer, BOOT), Err(Error::Busy { .. })));
    drop(first);
    assert!(open(dir.path(), &offer, BOOT).is_ok());
}

#[test]
fn more_than_the_disk_holds_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let huge = |path: &str| Entry {
        path: crate::name::RelPath::new(path.as_bytes()).unwrap(),
        mode: crate::manifest::Mode::of(0o644),
        kind: Kind::File { size: 1 << 40, id: ObjectId([7; 32]) },
    };
    let manifest = Manifest::new(["a", "b", "c", "d"].map(huge).into()).unwrap().encode();
    let id = ObjectId::of(&manifest);
    let mut store = Store::open(dir.path(), id, &Root::Set { manifest_len: manifest.len() as u64 }).unwrap();
    let fits = store.available().unwrap() >= 1 << 42;
    match store.set_manifest(&manifest) {
        Err(Error::OutOfSpace { needed, .. }) => assert!(!fits && needed == 1 << 42),
        other => assert!(fits && other.is_ok()),
    }
    assert_eq!(store.needs_manifest(), !fits);
    drop(store);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), usize::from(fits));
}

#[test]
fn a_place_that_cannot_be_written_to_is_named() {
    let (source, offer) = file(5);
    let not_a_folder = source.path().join("file");
    for dir in [Path::new("/proc/self"), &not_a_folder] {
        assert!(matches!(open(dir, &offer, BOOT), Err(Error::Io { doing: "create", .. })), "{dir:?}");
    }
}

#[test]
fn another_offer_of_the_same_file_starts_anew() {
    let (_source, offer) = file(2 * CHUNK);
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path(), &offer, BOOT).unwrap();
    fetch(&mut store, &offer);
    drop(store);
    let Root::File { size, mode, .. } = *offer.root() else { panic!("one file") };
    let renamed = Root::File { name: crate::name::Name::new("other").unwrap(), size, mode };
    let mut store = Store::open_booted(dir.path(), offer.id(), &renamed, BOOT).unwrap();
    assert_eq!(store.bytes_done(), 0);
    store.set_trees(&pieces(&offer, offer.layout().tree_pieces())).unwrap();
    fetch(&mut store, &offer);
    assert_eq!(store.finish().unwrap().len(), 1);
    assert_eq!(listing(dir.path()).into_iter().map(|(path, ..)| path).collect::<Vec<_>>(), [Path::new("other")]);
}

#[test]
fn ten_thousand_small_files_arrive() {
    let source = tempfile::tempdir().unwrap();
    for folder in 0..100 {
        let path = source.path().join(format!("all/フォルダ {folder}"));
        fs::create_dir_all(&path).unwrap();
        for file in 0..100usize {
            fs::write(path.join(format!("é{file}")), bytes(file)).unwrap();
        }
    }
    let offer = Offer::from_paths(&[source.path().join("all")], &mut |_| ()).unwrap();
    assert_eq!(offer.files(), 10_000);
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path(), &offer, BOOT).unwrap();
    fetch(&mut store, &offer);
    store.finish().unwrap();
    assert_eq!(listing(dir.path()), listing(source.path()));
}
