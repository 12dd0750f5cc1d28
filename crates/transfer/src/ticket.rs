//! The ticket: what a provider's user hands to a getter's user (spec 9).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use bech32::primitives::decode::{CheckedHrpstring, CheckedHrpstringError};
use bech32::{Bech32m, Hrp};

use crate::error::Error;
use crate::tree::ObjectId;

/// Most addresses of a ticket: 592 characters then, still a QR code.
pub const MAX_ADDRS: usize = 16;

const HRP: Hrp = Hrp::parse_unchecked("sealane");
const VERSION: u8 = 1;
const FILE: u8 = 0;
const SET: u8 = 1;

/// Why a text is not a ticket (spec 9.2 to 9.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TicketFault {
    /// Not bech32 that begins with `sealane1`.
    #[error("it does not begin with sealane1, or holds characters that no ticket has")]
    NotATicket,
    /// Mistyped, cut or altered.
    #[error("its checksum is wrong: it was mistyped or cut")]
    Checksum,
    /// From another version of the program.
    #[error("its version is unknown: it is from a newer program")]
    Version,
    /// The checksum is right, but the content ends early.
    #[error("its content is cut short")]
    Truncated,
    /// The checksum is right, but the content goes on.
    #[error("its content is too long")]
    Trailing,
    /// Neither a file nor a set, or not the encoding that this content has.
    #[error("its content is malformed")]
    Malformed,
    /// No address, or more than [`MAX_ADDRS`].
    #[error("it has no address, or more than 16")]
    Addresses,
    /// An address that nobody can be reached at: port 0, unspecified or multicast.
    #[error("one of its addresses cannot be a provider's")]
    Unusable,
}

/// Where something is offered, by whom, and what it is. Grants the right to fetch it: not public.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The file's id, or the manifest's.
    pub id: ObjectId,
    /// Whether `id` is a manifest's.
    pub set: bool,
    /// The provider's static public key (X25519).
    pub key: [u8; 32],
    /// Where to try, best first; 1..=[`MAX_ADDRS`]. The scope of an IPv6 address does not travel.
    pub addrs: Vec<SocketAddr>,
}

impl Ticket {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION, if self.set { SET } else { FILE }];
        out.extend(self.id.0);
        out.extend(self.key);
        out.push(self.addrs.len() as u8);
        for addr in &self.addrs {
            match addr.ip() {
                IpAddr::V4(ip) => out.extend([&[4], &ip.octets()[..]].concat()),
                IpAddr::V6(ip) => out.extend([&[6], &ip.octets()[..]].concat()),
            }
            out.extend(addr.port().to_be_bytes());
        }
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, TicketFault> {
        let mut rest = bytes;
        if take(&mut rest)? != [VERSION] {
            return Err(TicketFault::Version);
        }
        let set = match take(&mut rest)? {
            [FILE] => false,
            [SET] => true,
            _ => return Err(TicketFault::Malformed),
        };
        let (id, key) = (ObjectId(take(&mut rest)?), take(&mut rest)?);
        let [count] = take(&mut rest)?;
        if !(1..=MAX_ADDRS).contains(&usize::from(count)) {
            return Err(TicketFault::Addresses);
        }
        let addrs = (0..count).map(|_| address(&mut rest)).collect::<Result<_, _>>()?;
        if rest.is_empty() { Ok(Self { id, set, key, addrs }) } else { Err(TicketFault::Trailing) }
    }
}

fn address(rest: &mut &[u8]) -> Result<SocketAddr, TicketFault> {
    let ip = match take(rest)? {
        [4] => IpAddr::V4(Ipv4Addr::from(take::<4>(rest)?)),
        [6] => IpAddr::V6(Ipv6Addr::from(take::<16>(rest)?)),
        _ => return Err(TicketFault::Malformed),
    };
    let addr = SocketAddr::new(ip, u16::from_be_bytes(take(rest)?));
    if ip.is_unspecified() || ip.is_multicast() || addr.port() == 0 { Err(TicketFault::Unusable) } else { Ok(addr) }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], TicketFault> {
    let (head, after) = rest.split_first_chunk().ok_or(TicketFault::Truncated)?;
    *rest = after;
    Ok(*head)
}

/// Lower-case bech32m; upper case is as good and makes a smaller QR code.
impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        bech32::encode_lower_to_fmt::<Bech32m, _>(f, HRP, &self.encode()).map_err(|_| fmt::Error)
    }
}

impl FromStr for Ticket {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let checked = CheckedHrpstring::new::<Bech32m>(text.trim()).map_err(|error| match error {
            CheckedHrpstringError::Checksum(_) => TicketFault::Checksum,
            _ => TicketFault::NotATicket,
        })?;
        if checked.hrp() != HRP {
            return Err(TicketFault::NotATicket.into());
        }
        let bytes: Vec<u8> = checked.byte_iter().collect();
        let ticket = Self::decode(&bytes)?;
        // Left-over bits of the last character are the only freedom there is.
        if ticket.to_string().eq_ignore_ascii_case(text.trim()) {
            Ok(ticket)
        } else {
            Err(TicketFault::Malformed.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_read_is_what_was_printed(id: [u8; 32], key: [u8; 32], set: bool, ips in prop::collection::vec(any::<IpAddr>(), 1..=16)) {
            let usable = |ip: &IpAddr| !ip.is_unspecified() && !ip.is_multicast();
            let addrs: Vec<_> = ips.into_iter().filter(usable).map(|ip| SocketAddr::new(ip, 1)).collect();
            prop_assume!(!addrs.is_empty());
            let ticket = Ticket { id: ObjectId(id), set, key, addrs };
            let text = ticket.to_string();
            prop_assert!(text.len() <= 592);
            prop_assert_eq!(text.parse::<Ticket>().unwrap(), ticket.clone());
            prop_assert_eq!(text.to_uppercase().parse::<Ticket>().unwrap(), ticket);
        }

        #[test]
        fn no_altered_letter_goes_unnoticed(at in 8usize..100, to in "[0-9a-zA-Z ]") {
            let addrs = vec!["192.0.2.1:9".parse().unwrap()];
            let text = Ticket { id: ObjectId([1; 32]), set: true, key: [2; 32], addrs }.to_string();
            let mut altered = text.clone();
            altered.replace_range(at..=at, &to);
            prop_assert_eq!(altered.parse::<Ticket>().is_ok(), altered == text);
        }
    }

    #[test]
    fn text_of_any_length_is_refused_in_peace() {
        for text in ["", " ", "sealane1", "🎟", &"q".repeat(100_000), &format!("sealane1{}", "q".repeat(2000))] {
            assert!(matches!(text.parse::<Ticket>(), Err(Error::Ticket(_))));
        }
    }
}
