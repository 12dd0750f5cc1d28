use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn parsed(payload: &[u8]) -> Result<Vec<Frame<'_>>, Malformed> {
    frames(payload).collect()
}

fn number() -> impl Strategy<Value = u64> {
    (0..62_u32, any::<u64>()).prop_map(|(shift, bits)| (bits & VARINT_MAX) >> shift)
}

/// Ranges as pairs of (missing packets below, packets - 1), from the lowest up.
fn ack() -> impl Strategy<Value = Ack> {
    let steps = vec((0..1_u64 << 40, 0..1_u64 << 40), 1..=ACK_RANGES);
    (steps, 0..1_u64 << 62, number()).prop_map(|(steps, delay, ce)| {
        let mut next = 0;
        let mut ranges: ArrayVec<_, ACK_RANGES> = ArrayVec::new();
        for (gap, length) in steps {
            let start = next + gap;
            ranges.push(start..=start + length);
            next = start + length + 2;
        }
        ranges.reverse();
        Ack { ranges, delay: Duration::from_micros(delay), ce }
    })
}

/// Frames that own their bytes.
#[derive(Clone, Debug)]
enum Owned {
    Padding(usize),
    Ping,
    Ack(Box<Ack>),
    Control(u64, Vec<u8>),
    Data(u64, u32, Vec<u8>),
    Challenge([u8; 8]),
    Answer([u8; 8]),
    Key(u64, [u8; 32]),
    Close(u64),
}

impl Owned {
    fn frame(&self) -> Frame<'_> {
        match self {
            Owned::Padding(_) => Frame::Padding,
            Owned::Ping => Frame::Ping,
            Owned::Ack(ack) => Frame::Ack(ack.clone()),
            Owned::Control(offset, bytes) => Frame::Control { offset: *offset, bytes },
            Owned::Data(piece, offset, bytes) => Frame::Data { piece: *piece, offset: *offset, bytes },
            Owned::Challenge(bytes) => Frame::Challenge(*bytes),
            Owned::Answer(bytes) => Frame::Answer(*bytes),
            Owned::Key(epoch, public) => Frame::Key { epoch: *epoch, public: *public },
            Owned::Close(code) => Frame::Close(*code),
        }
    }

    fn write(&self, writer: &mut Writer<'_>) -> bool {
        match self {
            Owned::Padding(count) => {
                writer.padding(*count);
                true
            }
            Owned::Ping => writer.ping(),
            Owned::Ack(ack) => writer.ack(ack),
            Owned::Control(offset, bytes) => writer.control(*offset, bytes),
            Owned::Data(piece, offset, bytes) => {
                writer.data(*piece, *offset, bytes.len()).map(|room| room.copy_from_slice(bytes)).is_some()
            }
            Owned::Challenge(bytes) => writer.challenge(bytes),
            Owned::Answer(bytes) => writer.answer(bytes),
            Owned::Key(epoch, public) => writer.key(*epoch, public),
            Owned::Close(code) => writer.close(*code),
        }
    }
}

fn frame() -> impl Strategy<Value = Owned> {
    prop_oneof![
        (1..40_usize).prop_map(Owned::Padding),
        Just(Owned::Ping),
        ack().prop_map(Box::new).prop_map(Owned::Ack),
        (number(), vec(any::<u8>(), 0..90)).prop_map(|(offset, bytes)| Owned::Control(offset, bytes)),
        (number(), 0..u32::MAX - 90, vec(any::<u8>(), 0..90)).prop_map(|(p, o, bytes)| Owned::Data(p, o, bytes)),
        any::<[u8; 8]>().prop_map(Owned::Challenge),
        any::<[u8; 8]>().prop_map(Owned::Answer),
        (number(), any::<[u8; 32]>()).prop_map(|(epoch, public)| Owned::Key(epoch, public)),
        number().prop_map(Owned::Close),
    ]
}

proptest! {
    #[test]
    fn frames_come_back_as_written(all in vec(frame(), 1..12)) {
        let mut buf = vec![0xaa; 20_000];
        let mut writer = Writer::new(&mut buf);
        for frame in &all {
            prop_assert!(frame.write(&mut writer));
        }
        let written = writer.finish();
        let mut expected: Vec<_> = all.iter().map(Owned::frame).collect();
        expected.dedup_by(|a, b| (&*a, &*b) == (&Frame::Padding, &Frame::Padding));
        prop_assert_eq!(parsed(&buf[..written]), Ok(expected));
    }

    /// In too small a buffer a frame is written whole or not at all; an ACK may lose its lowest ranges.
    #[test]
    fn the_writer_stays_in_its_buffer(all in vec(frame(), 1..12), room in 0..300_usize) {
        let mut buf = vec![0xaa; room];
        let mut writer = Writer::new(&mut buf);
        let mut fitted = Vec::new();
        for frame in &all {
            let before = writer.remaining();
            if frame.write(&mut writer) && writer.remaining() < before {
                fitted.push(frame.frame());
            } else {
                prop_assert_eq!(writer.remaining(), before);
            }
        }
        let written = writer.finish();
        fitted.dedup_by(|a, b| (&*a, &*b) == (&Frame::Padding, &Frame::Padding));
        let read = if written == 0 { Vec::new() } else { parsed(&buf[..written])? };
        prop_assert_eq!(read.len(), fitted.len());
        for (read, fitted) in read.iter().zip(&fitted) {
            match (read, fitted) {
                (Frame::Ack(read), Frame::Ack(fitted)) => prop_assert!(fitted.ranges.starts_with(&read.ranges)),
                _ => prop_assert_eq!(read, fitted),
            }
        }
        prop_assert!(buf[written..].iter().all(|byte| *byte == 0xaa));
    }

    #[test]
    fn random_frames_end_in_a_frame_or_an_error(payload in vec(prop_oneof![0..10_u8, any::<u8>()], 0..200)) {
        let read: Vec<_> = frames(&payload).collect();
        prop_assert!(!read.is_empty() && read.len() <= payload.len().max(1));
        prop_assert!(read[..read.len() - 1].iter().all(Result::is_ok), "ends after the first error");
    }

    #[test]
    fn random_datagrams_are_dropped_or_encode_to_themselves(
        kind in 0..7_u8,
        version in 0..3_u8,
        mut bytes in vec(any::<u8>(), 0..130),
        size in prop_oneof![Just(28), Just(73), Just(114), Just(1198), 0..130_usize],
    ) {
        bytes.resize(size, 0);
        let bytes = [&[kind, version], &bytes[..]].concat();
        if let Some(datagram) = Datagram::parse(&bytes) {
            let encoded = datagram.encode();
            let header = [62, 30, 116, 75, 18][usize::from(kind) - 1];
            prop_assert_eq!(&encoded[..header], &bytes[..header]);
            prop_assert!(kind == 5 || encoded.len() == bytes.len());
        }
    }

    #[test]
    fn varints_are_as_short_as_can_be_and_come_back(number in number()) {
        let mut bytes = Vec::new();
        push_varint(&mut bytes, number);
        prop_assert_eq!(bytes.len(), varint_len(number));
        prop_assert_eq!(Reader(&bytes).varint(), Some(number));
        prop_assert_eq!(Reader(&bytes[..bytes.len() - 1]).varint(), None);
    }
}

#[test]
fn varints_of_rfc_9000_appendix_a() {
    let cases: [(&[u8], u64); 5] = [
        (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c], 151_288_809_941_952_652),
        (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
        (&[0x7b, 0xbd], 15_293),
        (&[0x25], 37),
        (&[0x40, 0x25], 37),
    ];
    for (bytes, number) in cases {
        assert_eq!(Reader(bytes).varint(), Some(number), "{bytes:02x?}");
    }
}

#[test]
fn every_datagram_comes_back_and_no_other_size_does() {
    let id = SessionId(*b"session1");
    let all = [
        Datagram::Init { id, cookie: &[7; COOKIE], noise: &[8; NOISE_1] },
        Datagram::Retry { id, cookie: &[7; COOKIE] },
        Datagram::Response { id, noise: &[8; NOISE_2] },
        Datagram::Finish { id, noise: &[8; NOISE_3] },
    ];
    for (datagram, size) in all.into_iter().zip([1200, 30, 116, 75]) {
        let bytes = datagram.encode();
        assert_eq!(bytes.len(), size);
        assert_eq!(Datagram::parse(&bytes), Some(datagram));
        assert_eq!(Datagram::parse(&[&bytes[..], &[0]].concat()), None, "{datagram:?} and a byte");
        (0..size).for_each(|cut| assert_eq!(Datagram::parse(&bytes[..cut]), None, "{datagram:?} cut to {cut}"));
    }
}

#[test]
fn a_data_header_is_what_parse_reads() {
    let data = Datagram::Data { epoch: 255, id: SessionId([9; 8]), number: u64::MAX - 1 };
    let mut bytes = [0; DATA_HEADER + 1 + TAG];
    write_data_header(&mut bytes, 255, SessionId([9; 8]), u64::MAX - 1);
    assert_eq!(Datagram::parse(&bytes), Some(data));
    assert_eq!(data.encode(), bytes[..DATA_HEADER]);
    assert_eq!(Datagram::parse(&bytes[..DATA_HEADER + TAG]), None, "nothing sealed");
}

#[test]
fn an_ack_of_one_more_range_than_allowed_is_malformed() {
    let ack = |further: u8| {
        let mut bytes = vec![2, 0x80, 0, 1, 0, 0, 0, 0x40, further, 0];
        bytes.resize(bytes.len() + 2 * usize::from(further), 0);
        bytes
    };
    let largest = ack(63);
    match parsed(&largest).as_deref() {
        Ok([Frame::Ack(ack)]) => assert_eq!(ack.ranges.len(), ACK_RANGES),
        other => panic!("64 ranges are allowed: {other:?}"),
    }
    assert_eq!(parsed(&ack(64)), Err(Malformed));
}

#[test]
fn a_data_frame_fits_exactly_where_its_overhead_says() {
    for len in [0, 1, 63, 64, 1000, 16_383, 16_384] {
        let size = data_overhead(70_000, 1 << 20, len) + len;
        let mut buf = vec![0; size];
        assert!(Writer::new(&mut buf[1..]).data(70_000, 1 << 20, len).is_none(), "{len}");
        assert_eq!(Writer::new(&mut buf).data(70_000, 1 << 20, len).map(|room| room.len()), Some(len));
        let size = control_overhead(70_000, len) + len;
        assert!(!Writer::new(&mut vec![0; size - 1]).control(70_000, &vec![1; len]), "{len}");
        assert!(Writer::new(&mut vec![0; size]).control(70_000, &vec![1; len]), "{len}");
    }
}
