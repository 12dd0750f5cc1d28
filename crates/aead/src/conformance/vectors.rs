//! The vectors that the ciphers' specifications print.

use super::{Packet, Vector};
use crate::Cipher;

/// RFC 8439 (2.8.2 and A.5), draft-irtf-cfrg-xchacha-03 (A.3.1), and test cases 1 to 4 and 13 to 16 of McGrew and
/// Viega's "The Galois/Counter Mode of Operation", those with a nonce of 96 bits.
pub(super) fn published() -> Vec<Vector> {
    let mut vectors = vec![
        vector("RFC 8439, 2.8.2", Cipher::ChaCha20Poly1305, &SUNSCREEN),
        vector("RFC 8439, A.5", Cipher::ChaCha20Poly1305, &DRAFTS),
        vector("XChaCha, A.3.1", Cipher::XChaCha20Poly1305, &XSUNSCREEN),
    ];
    for (cipher, cases, first) in [(Cipher::Aes128Gcm, &GCM_128, 1), (Cipher::Aes256Gcm, &GCM_256, 13)] {
        let named = cases.iter().zip(first..).map(|(case, i)| vector(&format!("GCM test case {i}"), cipher, case));
        vectors.extend(named);
    }
    vectors
}

struct Case {
    secret: &'static str,
    nonce: &'static str,
    aad: &'static str,
    text: &'static str,
    sealed: &'static str,
}

fn vector(name: &str, cipher: Cipher, case: &Case) -> Vector {
    let [secret, nonce, aad, text, sealed] = [case.secret, case.nonce, case.aad, case.text, case.sealed].map(bytes);
    Vector { name: name.to_owned(), packet: Packet { cipher, secret, nonce, aad, text }, sealed, valid: true }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().map(|c| c.to_digit(16).expect("a hex digit") as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

const SUNSCREEN: Case = Case {
    secret: "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
    nonce: "070000004041424344454647",
    aad: "50515253c0c1c2c3c4c5c6c7",
    text: "\
            4c616469657320616e642047656e746c656d656e206f662074686520636c617373206f66202739393a204966204920636f75\
            6c64206f6666657220796f75206f6e6c79206f6e652074697020666f7220746865206675747572652c2073756e7363726565\
            6e20776f756c642062652069742e",
    sealed: "\
            d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b1a71\
            de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc3ff4def0\
            8e4b7a9de576d26586cec64b61161ae10b594f09e26a7e902ecbd0600691",
};

const DRAFTS: Case = Case {
    secret: "1c9240a5eb55d38af333888604f6b5f0473917c1402b80099dca5cbc207075c0",
    nonce: "000000000102030405060708",
    aad: "f33388860000000000004e91",
    text: "\
            496e7465726e65742d4472616674732061726520647261667420646f63756d656e74732076616c696420666f722061206d61\
            78696d756d206f6620736978206d6f6e74687320616e64206d617920626520757064617465642c207265706c616365642c20\
            6f72206f62736f6c65746564206279206f7468657220646f63756d656e747320617420616e792074696d652e204974206973\
            20696e617070726f70726961746520746f2075736520496e7465726e65742d447261667473206173207265666572656e6365\
            206d6174657269616c206f7220746f2063697465207468656d206f74686572207468616e206173202fe2809c776f726b2069\
            6e2070726f67726573732e2fe2809d",
    sealed: "\
            64a0861575861af460f062c79be643bd5e805cfd345cf389f108670ac76c8cb24c6cfc18755d43eea09ee94e382d26b0bdb7\
            b73c321b0100d4f03b7f355894cf332f830e710b97ce98c8a84abd0b948114ad176e008d33bd60f982b1ff37c8559797a06e\
            f4f0ef61c186324e2b3506383606907b6a7c02b0f9f6157b53c867e4b9166c767b804d46a59b5216cde7a4e99040c5a40433\
            225ee282a1b0a06c523eaf4534d7f83fa1155b0047718cbc546a0d072b04b3564eea1b422273f548271a0bb2316053fa7699\
            1955ebd63159434ecebb4e466dae5a1073a6727627097a1049e617d91d361094fa68f0ff77987130305beaba2eda04df997b\
            714d6c6f2c29a6ad5cb4022b02709beead9d67890cbb22392336fea1851f38",
};

const XSUNSCREEN: Case = Case {
    secret: "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
    nonce: "404142434445464748494a4b4c4d4e4f5051525354555657",
    aad: "50515253c0c1c2c3c4c5c6c7",
    text: "\
            4c616469657320616e642047656e746c656d656e206f662074686520636c617373206f66202739393a204966204920636f75\
            6c64206f6666657220796f75206f6e6c79206f6e652074697020666f7220746865206675747572652c2073756e7363726565\
            6e20776f756c642062652069742e",
    sealed: "\
            bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb731c7f1b0b4aa6440bf3a82f4eda7e39ae64\
            c6708c54c216cb96b72e1213b4522f8c9ba40db5d945b11b69b982c1bb9e3f3fac2bc369488f76b2383565d3fff921f9664c\
            97637da9768812f615c68b13b52ec0875924c1c7987947deafd8780acf49",
};

const GCM_128: [Case; 4] = [
    Case {
        secret: "00000000000000000000000000000000",
        nonce: "000000000000000000000000",
        aad: "",
        text: "",
        sealed: "58e2fccefa7e3061367f1d57a4e7455a",
    },
    Case {
        secret: "00000000000000000000000000000000",
        nonce: "000000000000000000000000",
        aad: "",
        text: "00000000000000000000000000000000",
        sealed: "0388dace60b6a392f328c2b971b2fe78ab6e47d42cec13bdf53a67b21257bddf",
    },
    Case {
        secret: "feffe9928665731c6d6a8f9467308308",
        nonce: "cafebabefacedbaddecaf888",
        aad: "",
        text: "\
            d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16a\
            edf5aa0de657ba637b391aafd255",
        sealed: "\
            42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba3\
            0b396a0aac973d58e091473f59854d5c2af327cd64a62cf35abd2ba6fab4",
    },
    Case {
        secret: "feffe9928665731c6d6a8f9467308308",
        nonce: "cafebabefacedbaddecaf888",
        aad: "feedfacedeadbeeffeedfacedeadbeefabaddad2",
        text: "\
            d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16a\
            edf5aa0de657ba637b39",
        sealed: "\
            42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba3\
            0b396a0aac973d58e0915bc94fbc3221a5db94fae95ae7121a47",
    },
];

const GCM_256: [Case; 4] = [
    Case {
        secret: "0000000000000000000000000000000000000000000000000000000000000000",
        nonce: "000000000000000000000000",
        aad: "",
        text: "",
        sealed: "530f8afbc74536b9a963b4f1c4cb738b",
    },
    Case {
        secret: "0000000000000000000000000000000000000000000000000000000000000000",
        nonce: "000000000000000000000000",
        aad: "",
        text: "00000000000000000000000000000000",
        sealed: "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919",
    },
    Case {
        secret: "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
        nonce: "cafebabefacedbaddecaf888",
        aad: "",
        text: "\
            d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16a\
            edf5aa0de657ba637b391aafd255",
        sealed: "\
            522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f6\
            1e6393ba7a0abcc9f662898015adb094dac5d93471bdec1a502270e3cc6c",
    },
    Case {
        secret: "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
        nonce: "cafebabefacedbaddecaf888",
        aad: "feedfacedeadbeeffeedfacedeadbeefabaddad2",
        text: "\
            d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16a\
            edf5aa0de657ba637b39",
        sealed: "\
            522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f6\
            1e6393ba7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b",
    },
];
