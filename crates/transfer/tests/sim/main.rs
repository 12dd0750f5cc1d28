//! Whole transfers in virtual time: `world.rs` runs them, `seeds.rs` draws networks at random, `scenarios.rs` has the
//! courses of events that need a name, `handshake.rs` goes datagram by datagram.

#[cfg(test)]
mod handshake;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod seeds;
#[cfg(test)]
mod world;
