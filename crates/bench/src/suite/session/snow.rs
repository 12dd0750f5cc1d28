//! snow alone: the three messages of Noise XX, without cookie, addresses or ciphers to agree on.

use std::time::{Duration, Instant};

use ::snow::params::{CipherChoice, DHChoice, HashChoice};
use ::snow::resolvers::{CryptoResolver, DefaultResolver, FallbackResolver};
use ::snow::types::{Cipher, Dh, Hash, Random};
use ::snow::{Builder, HandshakeState};
use sealane_transfer::Identity;

use super::{SECRETS, Wire};
use crate::Error;

pub(super) const NAME: &str = "snow/XX";
const REJECTED: Error = Error::Rejected { subject: NAME, step: "shake hands" };

pub(super) fn shake(wire: &mut Wire) -> Result<(Duration, [u8; 32]), Error> {
    let responder_key = Identity::from_secret(SECRETS[1]).public().0;
    let start = Instant::now();
    let shaken = exchange(wire)?;
    let took = start.elapsed();
    match shaken {
        [Some(initiator), Some(responder)] if responder == responder_key => Ok((took, initiator)),
        _ => Err(REJECTED),
    }
}

/// Whom each side found: the responder the initiator, and the other way round.
fn exchange(wire: &mut Wire) -> Result<[Option<[u8; 32]>; 2], Error> {
    let failed = |_: ::snow::Error| REJECTED;
    let side = |secret: &[u8], initiates| -> Result<HandshakeState, ::snow::Error> {
        let pattern = "Noise_XX_25519_ChaChaPoly_BLAKE2s".parse()?;
        let resolver = FallbackResolver::new(Box::new(Fixed), Box::new(DefaultResolver));
        let builder = Builder::with_resolver(pattern, Box::new(resolver)).local_private_key(secret)?;
        if initiates { builder.build_initiator() } else { builder.build_responder() }
    };
    let mut sides = [side(&SECRETS[0], true).map_err(failed)?, side(&SECRETS[1], false).map_err(failed)?];
    let (mut buffer, mut payload) = ([0; 256], [0; 256]);
    for message in 0..3 {
        let from = message % 2;
        let len = sides[from].write_message(&[], &mut buffer).map_err(failed)?;
        let (lane, _) = wire.carry(from, &buffer[..len])?;
        sides[1 - from].read_message(lane.packet(0), &mut payload).map_err(failed)?;
    }
    let [initiator, responder] = sides;
    let known = |side: &HandshakeState| side.get_remote_static().and_then(|key| key.try_into().ok());
    let known = [known(&responder), known(&initiator)];
    for side in [initiator, responder] {
        side.into_transport_mode().map_err(failed)?;
    }
    Ok(known)
}

/// Sealane's side of the case draws its ephemeral keys from a fixed seed too; what follows from them is work all the same.
struct Fixed;

impl Random for Fixed {
    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), ::snow::Error> {
        out.fill(5);
        Ok(())
    }
}

impl CryptoResolver for Fixed {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Self))
    }

    fn resolve_dh(&self, _: &DHChoice) -> Option<Box<dyn Dh>> {
        None
    }

    fn resolve_hash(&self, _: &HashChoice) -> Option<Box<dyn Hash>> {
        None
    }

    fn resolve_cipher(&self, _: &CipherChoice) -> Option<Box<dyn Cipher>> {
        None
    }
}
