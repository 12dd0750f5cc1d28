//! What leaves a session: choosing frames, filling packets, sealing a lane of them as one batch.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Instant;

use arrayvec::ArrayVec;
use sealane_aead::{Engine, Job, Number, TAG};
use sealane_lane::Lane;
use sealane_net::Ecn;

use super::{Closed, Connection};
use crate::Content;
use crate::layout::Piece;
use crate::message::{Message, Reason};
use crate::recovery::Sent;
use crate::wire::{DATA_HEADER, Writer, control_overhead, data_overhead, write_data_header};

/// Packets sealed as one batch.
const MAX_BATCH: usize = 64;
/// Bytes of a packet that has room for KEY, CHALLENGE, ANSWER and an ACK.
const LEAST_PACKET: usize = 128;
/// Room in a packet below which no further DATA frame is begun: its header alone takes up to 21 bytes.
const WORTH_A_FRAME: usize = 64;

/// Bytes of a piece.
#[derive(Debug, Clone, Copy)]
struct Span {
    piece: u64,
    offset: u32,
    len: u32,
}

/// What a packet carried and must be told, or sent again, when its fate is known.
#[derive(Default)]
pub(super) struct Contents {
    ack: Option<u64>,
    span: Option<Span>,
    /// Further spans: of the small files that share a packet.
    spans: Vec<Span>,
    control: Option<Range<u64>>,
    key: Option<Box<(u64, [u8; 32])>>,
    challenge: bool,
}

/// What waits to be sent besides control bytes and acknowledgements.
#[derive(Default)]
pub(super) struct Outbox {
    /// Pieces asked for; of the first, the bytes before `offset` are on their way.
    pub(super) requests: VecDeque<Range<u64>>,
    offset: u32,
    lost: VecDeque<Span>,
    pub(super) answer: Option<[u8; 8]>,
    ping: bool,
    /// Packets that must leave whatever the window says.
    pub(super) probes: u8,
    /// The content could not be read: nothing more of it is sent.
    pub(super) failed: bool,
}

impl Outbox {
    pub(super) fn has_data(&self) -> bool {
        !self.requests.is_empty() || !self.lost.is_empty()
    }

    pub(super) fn ping(&mut self, wanted: bool) {
        self.ping |= wanted;
    }

    pub(super) fn wants_ping(&self) -> bool {
        self.ping
    }

    /// The next bytes to send, those that were lost first.
    fn next_span(&mut self, content: &dyn Content, room: usize) -> Option<Span> {
        let fit = |piece, offset, len: u32| {
            let room = room.saturating_sub(data_overhead(piece, offset, room));
            len.min(room as u32)
        };
        if let Some(span) = self.lost.front_mut() {
            let len = fit(span.piece, span.offset, span.len);
            let taken = Span { len, ..*span };
            span.offset += len;
            span.len -= len;
            if span.len == 0 {
                self.lost.pop_front();
            }
            return Some(taken);
        }
        let request = self.requests.front_mut()?;
        let (piece, offset) = (request.start, self.offset);
        let size = content.piece_len(Piece(piece)).unwrap_or(0) as u32;
        let len = fit(piece, offset, size - offset);
        self.offset += len;
        if self.offset == size {
            self.offset = 0;
            request.start += 1;
            if request.is_empty() {
                self.requests.pop_front();
            }
        }
        Some(Span { piece, offset, len })
    }
}

/// Where the packets of a lane are to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// The peer.
    pub to: SocketAddr,
    /// Their congestion mark.
    pub ecn: Option<Ecn>,
}

impl Connection {
    /// Fills the empty `lane` with sealed packets, or leaves it empty when nothing may leave now.
    pub(crate) fn fill(&mut self, now: Instant, lane: &mut Lane, engine: &Engine, content: &dyn Content) -> Transmit {
        let transmit = Transmit { to: self.path.address(), ecn: Some(Ecn::Ect0) };
        if self.ended().is_some() {
            return transmit;
        }
        let mut numbers = ArrayVec::<Number, MAX_BATCH>::new();
        if !self.fill_probe(now, lane, &mut numbers) {
            while !numbers.is_full() && self.fill_packet(now, lane, content, &mut numbers) {}
        }
        if numbers.is_empty() {
            if self.recovery.allowance(now) >= self.recovery.mtu() {
                self.recovery.on_app_limited();
            }
            return transmit;
        }
        let mut jobs = ArrayVec::<Job<'_>, MAX_BATCH>::new();
        for (packet, number) in lane.packets_mut().zip(numbers) {
            let (header, body) = packet.split_at_mut(DATA_HEADER);
            let job = self.epochs.seal_job(number, header, body);
            jobs.push(job.expect("minted by this sealer, with room for the tag"));
        }
        engine.seal(&mut jobs);
        self.last_sent = now;
        transmit
    }

    /// A packet that finds out whether the path takes larger ones.
    fn fill_probe(&mut self, now: Instant, lane: &mut Lane, numbers: &mut ArrayVec<Number, MAX_BATCH>) -> bool {
        let idle = !self.outbox.has_data() || self.closing.is_some() || self.finish.is_some();
        if idle
            || self.epochs.are_spent()
            || self.path.timeout().is_some()
            || self.recovery.allowance(now) < self.recovery.mtu()
        {
            return false;
        }
        let Some(size) = self.recovery.mtu_probe(now).filter(|size| *size <= lane.room()) else { return false };
        let Some((epoch, number)) = self.mint() else { return false };
        let packet = lane.push(size).expect("there is room");
        write_data_header(packet, epoch, self.peer_id, number.get());
        let mut writer = Writer::new(&mut packet[DATA_HEADER..size - TAG]);
        writer.ping();
        writer.padding(size);
        self.recovery.on_sent_mtu_probe(now, number.get(), size);
        numbers.push(number);
        true
    }

    /// Adds one packet to the lane; `false` when there is nothing to say, or not now.
    fn fill_packet(
        &mut self,
        now: Instant,
        lane: &mut Lane,
        content: &dyn Content,
        numbers: &mut ArrayVec<Number, MAX_BATCH>,
    ) -> bool {
        if self.epochs.are_spent() {
            self.close(Closed::KeysSpent);
        }
        if self.ended().is_some() {
            return false;
        }
        let size = self.recovery.mtu().min(self.path.allowance());
        let probe = self.outbox.probes > 0;
        let may = probe || self.recovery.allowance(now) >= self.recovery.mtu();
        let must_ack = self.received.due().is_some_and(|due| due <= now);
        let close = self.closing.is_some();
        if !(probe || must_ack || close || may && self.has_news()) || !self.may_speak() || size > lane.room() {
            return false;
        }
        let packet = lane.push(size).expect("there is room");
        let mut writer = Writer::new(&mut packet[DATA_HEADER..size - TAG]);
        let mut contents = Contents::default();
        let mut wants_ack = may && !close && self.write_urgent(&mut writer, &mut contents);
        if (must_ack || self.received.has_news())
            && let Some(ack) = self.received.ack(now)
            && writer.ack(&ack)
        {
            contents.ack = ack.ranges.first().map(|range| *range.end());
            self.received.on_ack_sent();
        }
        if let Some((why, told)) = &mut self.closing {
            *told = writer.close(why.code());
        } else if may {
            wants_ack |= self.write_frames(&mut writer, &mut contents, content);
            if probe && !wants_ack {
                wants_ack = writer.ping();
            }
            self.outbox.probes = self.outbox.probes.saturating_sub(1);
        }
        let len = writer.finish();
        let minted = if len == 0 { None } else { self.mint() };
        let Some((epoch, number)) = minted else {
            lane.shrink_last(0);
            return false;
        };
        write_data_header(packet, epoch, self.peer_id, number.get());
        let size = DATA_HEADER + len + TAG;
        lane.shrink_last(size);
        self.path.on_sent(size);
        self.recovery.on_sent(now, number.get(), Sent { size, ack_eliciting: wants_ack, contents });
        numbers.push(number);
        true
    }

    /// The next packet's epoch and number; ends the session when its keys are spent.
    fn mint(&mut self) -> Option<(u8, Number)> {
        let minted = self.epochs.mint();
        if minted.is_none() {
            self.closing = Some((Closed::KeysSpent, true));
        }
        minted
    }

    /// Writes what there is room for in every packet, before an ACK takes it; `false` when there is nothing.
    fn write_urgent(&mut self, writer: &mut Writer<'_>, contents: &mut Contents) -> bool {
        let before = writer.remaining();
        if let Some((epoch, public)) = self.epochs.take_key()
            && writer.key(epoch, &public)
        {
            contents.key = Some(Box::new((epoch, public)));
        }
        if let Some(challenge) = self.path.challenge() {
            contents.challenge = writer.challenge(&challenge);
        }
        if let Some(answer) = self.outbox.answer.take() {
            writer.answer(&answer);
        }
        writer.remaining() < before
    }

    /// Writes the rest of what wants an acknowledgement; `false` when there is nothing.
    fn write_frames(&mut self, writer: &mut Writer<'_>, contents: &mut Contents, content: &dyn Content) -> bool {
        let before = writer.remaining();
        if std::mem::take(&mut self.outbox.ping) {
            writer.ping();
        }
        self.write_control(writer, contents);
        while self.outbox.has_data() && (writer.remaining() >= WORTH_A_FRAME) {
            let room = writer.remaining();
            let Some(span) = self.outbox.next_span(content, room) else { break };
            let Some(buf) = writer.data(span.piece, span.offset, span.len as usize) else { break };
            if let Err(error) = content.read(Piece(span.piece), span.offset as usize, buf) {
                tracing::warn!(%error, "cannot serve");
                writer.take_back(room - writer.remaining());
                self.outbox = Outbox { failed: true, ..Outbox::default() };
                self.send(&Message::Failed(Reason::Unreadable));
                self.write_control(writer, contents);
                break;
            }
            if contents.span.is_none() {
                contents.span = Some(span);
            } else {
                contents.spans.push(span);
            }
        }
        if self.outbox.has_data() && contents.span.is_some() {
            // Equal packets leave as one train.
            writer.padding(WORTH_A_FRAME);
        }
        writer.remaining() < before
    }

    /// Writes messages, unless this packet has some.
    fn write_control(&mut self, writer: &mut Writer<'_>, contents: &mut Contents) {
        let room = writer.remaining().checked_sub(control_overhead(u64::MAX >> 2, writer.remaining()));
        if contents.control.is_none()
            && let Some(room) = room
            && let Some((range, bytes)) = self.control_out.take(room)
        {
            writer.control(range.start, &bytes);
            contents.control = Some(range);
        }
    }

    /// Whether a packet of any use may leave: not when an address that has not answered has been sent enough.
    pub(super) fn may_speak(&self) -> bool {
        self.path.allowance() >= LEAST_PACKET
    }

    pub(super) fn has_news(&self) -> bool {
        self.outbox.has_data()
            || self.outbox.ping
            || self.outbox.answer.is_some()
            || self.control_out.can_send()
            || self.epochs.key_due()
            || self.path.challenge_due()
    }

    pub(super) fn on_acked(&mut self, contents: Contents) {
        if let Some(range) = contents.control {
            self.control_out.on_acked(range);
        }
        if let Some(highest) = contents.ack {
            self.received.forget_up_to(highest);
        }
    }

    pub(super) fn on_lost(&mut self, contents: Contents) {
        if !self.outbox.failed {
            self.outbox.lost.extend(contents.span.into_iter().chain(contents.spans));
        }
        if let Some(range) = contents.control {
            self.control_out.on_lost(range);
        }
        if let Some(key) = contents.key {
            self.epochs.on_key_lost(*key);
        }
        if contents.challenge {
            self.path.on_challenge_lost();
        }
    }
}
