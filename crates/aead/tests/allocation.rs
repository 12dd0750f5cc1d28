//! Sealing and opening allocate nothing, however the packets end.

use sealane_aead::{Cipher, Engine, Opener, Sealer, TAG, Verdict};

#[test]
fn a_packet_allocates_nothing_from_number_to_verdict() {
    for cipher in Cipher::ALL {
        let (secret, iv) = (vec![1; cipher.key_len()], vec![2; cipher.nonce_len()]);
        let sealer = Sealer::new(cipher, &secret, &iv).unwrap();
        let mut opener = Opener::new(cipher, &secret, &iv).unwrap();
        let (mut good, mut bad) = (vec![3; 1420 + TAG], vec![3; 1420 + TAG]);
        let engine = Engine::new();
        let allocated = allocation_counter::measure(|| {
            let (first, second) = (sealer.mint().unwrap(), sealer.mint().unwrap());
            let mut jobs =
                [sealer.job(first, b"header", &mut good).unwrap(), sealer.job(second, b"header", &mut bad).unwrap()];
            engine.seal(&mut jobs);
            let mut jobs = [opener.job(0, b"header", &mut good).unwrap(), opener.job(1, b"forged", &mut bad).unwrap()];
            engine.open(&mut jobs);
            assert_eq!(jobs.map(|job| job.verdict()), [Verdict::Authentic, Verdict::Forged]);
            opener.accept(0).unwrap();
        });
        assert_eq!((allocated.count_total, allocated.bytes_total), (0, 0), "{cipher}");
    }
    assert_eq!(
        allocation_counter::measure(|| drop(std::hint::black_box(vec![0; 9]))).count_total,
        1,
        "the counter counts"
    );
}
