//! Whole transfers in virtual time: `world.rs` runs them, `seeds.rs` draws networks at random, `scenarios.rs` has the
//! courses of events that need a name.

#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod seeds;
#[cfg(test)]
mod world;
