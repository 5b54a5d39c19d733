//! Rights at the native port: which messages of clients and of other nodes this node takes.
//!
//! A table of the wire format ([`quorate_wire::rights`]) has the peers that may say a message, and the right that it demands of a client, and decides by them;
//! whether a user has it is decided by [`quorate_access`]. Here the two meet, where messages are taken from sockets, as they do where a simulation delivers them:
//!
//! ```text
//!   message ─► may such a peer say it? ─► replicas: of its group, or of its keyspace
//!                                     └─► clients: has its user what the message demands? ─► the replica
//!                                              kept per connection and shard, for half a second and until users change
//! ```
//!
//! A refusal is answered with [`Packet::Denied`], in words that name the right, counted, and written to the audit log. Until there is a user every client may do everything.

use std::sync::Arc;
use std::time::Duration;

use quorate_access::{Access, Claim, Refusal, Right, Standing, Wish};
use quorate_configuration::Message as Configuration;
use quorate_core::hash::FixedMap;
use quorate_core::{Address, ClientId, Instant, NodeId, ReplicaId, ShardId};
use quorate_log::Part;
use quorate_runtime::{LinkId, Turn};
use quorate_wire::catalogue::{EntryDemand, Named, SYSTEM_SHARD, demands};
use quorate_wire::rights::{
    PacketRow, Taking, decide_client, is_said_by_nodes, packet_row, row, transaction_of, without_hints,
};
use quorate_wire::{About, Denial, Envelope, Packet, Peer, ProtocolMessage};

use super::Node;
use super::catalogue::{Catalogue, Reading};
use super::hosted::Hosted;
use super::loops::Handed;
use super::routes::Routes;
use crate::entrance::{Entrance, Who};

/// So long a connection's rights in a keyspace are kept: tokens expire meanwhile.
const KEPT_FOR: Duration = Duration::from_millis(500);

/// So often the audit log has the same refusal of the same connection.
const TOLD_INTERVAL: Duration = Duration::from_secs(1);

/// A connection that speaks to more shards than this has its rights looked up more often.
const SHARDS_KEPT_MAX: usize = 4_096;

/// The users and their rights, as this node knows them, and the number of refusals.
#[derive(Debug)]
pub(crate) struct Rights {
    entrance: Arc<Entrance>,
    kept: FixedMap<LinkId, Kept>,
    /// How many messages and requests were refused for want of a right.
    denied: u64,
    /// How many were said by a peer that does not say such things.
    unsaid: u64,
}

/// The rights of a connection, as they were a moment ago.
#[derive(Debug, Default)]
struct Kept {
    version: u64,
    until: Instant,
    standings: FixedMap<ShardId, Standing>,
    /// The refusal that was recorded last, and when.
    told: Option<(Instant, String)>,
}

/// Why a message is not taken.
enum Objection {
    /// Its peer says no such thing.
    Unsaid,
    /// The right is missing.
    Denied(Refusal),
    /// The same, of something that nothing waits for.
    PassedOver,
}

impl From<Refusal> for Objection {
    fn from(refusal: Refusal) -> Self {
        Objection::Denied(refusal)
    }
}

impl Rights {
    pub(crate) fn new(entrance: Arc<Entrance>) -> Self {
        Rights { entrance, kept: FixedMap::default(), denied: 0, unsaid: 0 }
    }

    pub(crate) fn entrance(&self) -> &Entrance {
        &self.entrance
    }

    /// How many messages and requests were refused for want of a right.
    pub(crate) fn denied(&self) -> u64 {
        self.denied
    }

    /// How many messages were passed over because such a peer says no such thing.
    pub(crate) fn unsaid(&self) -> u64 {
        self.unsaid
    }

    pub(crate) fn forget_link(&mut self, link: LinkId) {
        self.kept.remove(&link);
    }

    /// The user of a connection.
    fn who(&self, link: LinkId, access: &Access, turn: &Turn<'_>) -> Who {
        let shown = turn.remote(link).and_then(|remote| remote.shown.as_deref());
        self.entrance.who(shown, access, turn.time.clock)
    }

    /// The standing of a connection in the keyspace that a shard belongs to.
    fn standing(
        &mut self,
        link: LinkId,
        (shard, keyspace): (ShardId, &str),
        (access, version): (&Access, u64),
        turn: &Turn<'_>,
    ) -> Standing {
        let now = turn.time.now;
        if let Some(kept) = self.kept.get(&link)
            && kept.version == version
            && now < kept.until
            && let Some(standing) = kept.standings.get(&shard)
        {
            return *standing;
        }
        let who = self.who(link, access, turn);
        let standing = access.standing(who.visitor(), keyspace, turn.time.clock);
        let kept = self.kept.entry(link).or_default();
        if kept.version != version || now >= kept.until || kept.standings.len() >= SHARDS_KEPT_MAX {
            (kept.version, kept.until) = (version, now + KEPT_FOR);
            kept.standings.clear();
        }
        kept.standings.insert(shard, standing);
        standing
    }
}

impl Node {
    /// True if a message of a client is to be taken. One that is not is answered.
    pub(super) fn may_say(
        &mut self,
        link: LinkId,
        client: ClientId,
        envelope: &mut Envelope,
        turn: &mut Turn<'_>,
    ) -> bool {
        let objection = match self.judge_client(link, client, envelope, turn) {
            Ok(()) => {
                self.note_writes(link, &envelope.message, turn);
                return true;
            }
            Err(objection) => objection,
        };
        let reason = match objection {
            Objection::PassedOver => return false,
            Objection::Unsaid => {
                self.rights.unsaid += 1;
                "this is said by replicas, and not by clients".to_owned()
            }
            Objection::Denied(refusal) => self.note_denial(link, &refusal, turn),
        };
        let replica = match envelope.to {
            Address::Replica(replica) => Some(replica),
            Address::Client(_) => None,
        };
        let question = match &envelope.message {
            ProtocolMessage::Configuration(Part::Own(message)) => Some(message.request()),
            _ => None,
        };
        let transaction = transaction_of(&envelope.message);
        let denial = Denial { about: About::Message, replica, transaction, question, reason };
        turn.send(link, &Packet::Denied(denial));
        false
    }

    fn judge_client(
        &mut self,
        link: LinkId,
        client: ClientId,
        envelope: &mut Envelope,
        turn: &Turn<'_>,
    ) -> Result<(), Objection> {
        let said = row(&envelope.message);
        if !said.is_of_clients() {
            return Err(Objection::Unsaid);
        }
        let Address::Replica(replica) = envelope.to else { return Err(Objection::Unsaid) };
        let Some((access, version)) = self.rights.entrance.in_force() else { return Ok(()) };
        // A replica that is not here takes no messages, and nothing is to be loaded for it.
        let Some(keyspace) = keyspace_name(&self.replicas, &self.routes, self.reading.as_ref(), replica)
        else {
            return Err(Objection::PassedOver);
        };
        let place = (replica.shard, keyspace);
        let standing = self.rights.standing(link, place, (&access, version), turn);
        match decide_client(said, &envelope.message, client, standing) {
            Taking::Whole => {}
            Taking::WithoutHints => without_hints(&mut envelope.message),
            Taking::PassedOver => return Err(Objection::PassedOver),
            Taking::Unsaid => return Err(Objection::Unsaid),
            Taking::Denied(claim) => {
                let who = self.rights.who(link, &access, turn);
                // It decides as the copy did, unless the user was given the right in this very moment.
                access.admit(who.visitor(), Wish::In(keyspace, claim), turn.time.clock)?;
                without_hints(&mut envelope.message);
            }
            Taking::IfEntriesMay => {
                let ProtocolMessage::Configuration(Part::Own(message)) = &envelope.message else {
                    return Err(Objection::Unsaid);
                };
                self.judge_entries(link, client, message, &access, turn)?;
            }
        }
        Ok(())
    }

    /// Judges a message about entries of the catalogue: all that it demands.
    fn judge_entries(
        &self,
        link: LinkId,
        client: ClientId,
        message: &Configuration,
        access: &Access,
        turn: &Turn<'_>,
    ) -> Result<(), Refusal> {
        let who = self.rights.who(link, access, turn);
        let admit = |wish: Wish<'_>| access.admit(who.visitor(), wish, turn.time.clock);
        for demand in demands(message, client) {
            match demand {
                EntryDemand::Known => admit(Wish::Known)?,
                EntryDemand::AdministerSome => admit(Wish::Somewhere(Right::Administer))?,
                EntryDemand::Cluster | EntryDemand::Access => admit(Wish::Cluster)?,
                EntryDemand::In(named, claim) => match self.name_of(&named) {
                    Some(name) => admit(Wish::In(&name, claim))?,
                    None => admit(Wish::Cluster)?,
                },
                EntryDemand::IfThere(named, claim) => {
                    if let Some(name) = self.name_of(&named) {
                        admit(Wish::In(&name, claim))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes to the audit log what a client is about to change of the catalogue. A client that asks again is recorded again, and so is one that asked a replica that does not lead.
    fn note_writes(&self, link: LinkId, message: &ProtocolMessage, turn: &Turn<'_>) {
        let ProtocolMessage::Configuration(Part::Own(Configuration::Write { write, .. })) = message else {
            return;
        };
        let entrance = &self.rights.entrance;
        let (Some(remote), true) = (turn.remote(link), entrance.is_audited()) else { return };
        let who = entrance.in_force().map(|(access, _)| self.rights.who(link, &access, turn));
        let user = who.as_ref().and_then(Who::user);
        // Counters go along with what is counted.
        for put in write.puts.iter().filter(|put| !put.key.starts_with(b"next/")) {
            let what = if put.value.is_some() { "write" } else { "delete" };
            entrance.note_administration(user, remote.address, what, &String::from_utf8_lossy(&put.key));
        }
    }

    /// The name of a keyspace that an entry names, also if it was dropped and can come back; none if there is none, as far as this node knows.
    fn name_of(&self, named: &Named) -> Option<String> {
        let id = match named {
            Named::Name(name) => return Some(name.clone()),
            Named::Id(id) => *id,
            Named::Shard(shard) => self.routes.keyspace_of(*shard)?,
        };
        let reading = self.reading.as_ref()?;
        let listed = reading.listed(id).map(|keyspace| keyspace.name.clone());
        listed.or_else(|| reading.drops.get(&id).map(|dropped| dropped.name.clone()))
    }

    /// Counts a refusal, and writes it to the audit log. Gives it in words.
    fn note_denial(&mut self, link: LinkId, refusal: &Refusal, turn: &Turn<'_>) -> String {
        self.rights.denied += 1;
        let reason = format!("{refusal}, and nothing was done");
        if let (Some(remote), Some((access, _))) = (turn.remote(link), self.rights.entrance.in_force()) {
            // A client that asks again and again is recorded once a second.
            let kept = self.rights.kept.entry(link).or_default();
            let is_new = kept.told.as_ref().is_none_or(|(at, told)| {
                *told != reason || turn.time.now.saturating_since(*at) >= TOLD_INTERVAL
            });
            if is_new {
                kept.told = Some((turn.time.now, reason.clone()));
                let who = self.rights.who(link, &access, turn);
                self.rights.entrance.note_refusal(who.user(), remote.address, &reason);
            }
        }
        reason
    }

    /// True if another node says such things in this name: a replica within its group or its keyspace, a coordinator to the configuration service.
    pub(super) fn may_say_as_node(&mut self, envelope: &Envelope) -> bool {
        let Envelope { from, to, message, .. } = envelope;
        let are_of_one = |one, other| self.are_of_one_keyspace(one, other);
        let is_sound = is_said_by_nodes(*from, *to, message, are_of_one);
        self.rights.unsaid += u64::from(!is_sound);
        is_sound
    }

    /// True if both shards are known to be of one keyspace, or too little is known of one of them: its keyspace may have been created a moment ago.
    fn are_of_one_keyspace(&self, one: ShardId, other: ShardId) -> bool {
        match (self.routes.keyspace_of(one), self.routes.keyspace_of(other)) {
            (Some(one), Some(other)) => one == other,
            _ => one != SYSTEM_SHARD && other != SYSTEM_SHARD,
        }
    }

    /// True if a packet of a client that is no message is to be taken. One that is not is answered.
    pub(super) fn may_ask(&mut self, link: LinkId, packet: &Packet, turn: &mut Turn<'_>) -> bool {
        let is_client = turn.remote(link).is_some_and(|remote| matches!(remote.identity, Peer::Client(_)));
        if !is_client {
            return true;
        }
        match self.judge_packet(link, packet, turn) {
            Ok(()) => true,
            Err(refusal) => {
                let reason = self.note_denial(link, &refusal, turn);
                answer_denied(link, packet, reason, turn);
                false
            }
        }
    }

    fn judge_packet(&self, link: LinkId, packet: &Packet, turn: &Turn<'_>) -> Result<(), Refusal> {
        let demanding = packet_row(packet);
        let Some((access, _)) = self.rights.entrance.in_force() else { return Ok(()) };
        let who = self.rights.who(link, &access, turn);
        let admit = |wish: Wish<'_>| access.admit(who.visitor(), wish, turn.time.clock);
        let name = |replica| keyspace_name(&self.replicas, &self.routes, self.reading.as_ref(), replica);
        let in_keyspace = |replica: &ReplicaId, claim| match name(*replica) {
            Some(keyspace) => admit(Wish::In(keyspace, claim)),
            // It is told that it is not here.
            None => admit(Wish::Known),
        };
        match (demanding, packet) {
            // A node says them, or they mean nothing to one; or the certificate of a node is looked at for them.
            (
                PacketRow::Transport
                | PacketRow::Message
                | PacketRow::Anybody
                | PacketRow::Applicant
                | PacketRow::Node
                | PacketRow::Answer,
                _,
            ) => Ok(()),
            (PacketRow::Cluster, _) => admit(Wish::Cluster),
            (PacketRow::AdministersSome, _) => admit(Wish::Somewhere(Right::Administer)),
            (PacketRow::CoordinatesSome, _) => admit(Wish::Somewhere(Right::Coordinate)),
            (
                PacketRow::AdministersReplica,
                Packet::AcceptLoss { replica, .. } | Packet::DeclareLost { replica, .. },
            ) => in_keyspace(replica, Claim::Administer),
            (PacketRow::ComparesReplica, Packet::Verify { replica, .. }) => {
                // The catalogue holds the hashes of passwords.
                match replica.shard {
                    SYSTEM_SHARD => admit(Wish::Cluster),
                    _ => in_keyspace(replica, Claim::Compare),
                }
            }
            (PacketRow::ReadsReplica, Packet::Changes { replica, .. }) => match replica.shard {
                SYSTEM_SHARD => admit(Wish::Cluster),
                _ => in_keyspace(replica, Claim::Read),
            },
            (PacketRow::Listens, Packet::Listen { topics }) => {
                topics.iter().try_for_each(|topic| admit(Wish::Listen(topic)))
            }
            (PacketRow::Announces, Packet::Announce { topic, .. }) => admit(Wish::Announce(topic)),
            (row, packet) => unreachable!("{row:?} is the row of {packet:?}"),
        }
    }

    /// Takes in what the copy of the catalogue holds of users, roles and tokens.
    pub(super) fn renew_access(&mut self, turn: &mut Turn<'_>) {
        let Some(read) = self.catalogue.as_mut().and_then(Catalogue::take_access) else { return };
        let (entries, access) = match read {
            Ok(read) => read,
            Err(error) => {
                tracing::error!(%error, "users and roles cannot be read: rights stay as they were known last");
                return;
            }
        };
        let is_in_force = access.is_in_force();
        let before = self.rights.entrance.set_access(access);
        let was_in_force = before.as_ref().is_some_and(|before| before.is_in_force());
        if is_in_force || was_in_force {
            if let Err(error) = self.data.remember_access(&entries) {
                tracing::error!(%error, "users and roles cannot be remembered; after a restart, those before count until they can be read");
            }
            tracing::info!(entries = entries.len(), "users, roles or tokens have changed");
        }
        if is_in_force && !was_in_force {
            tracing::warn!("access control is in force");
            self.here.loops.hand_to_others(|| Handed::AccessControl);
            self.end_unjudged(turn);
        }
    }

    /// Ends the connections of clients whose password could not be judged before there were users: they make new ones.
    pub(super) fn end_unjudged(&mut self, turn: &mut Turn<'_>) {
        for link in turn.link_ids() {
            let shown = turn.remote(link).and_then(|remote| remote.shown.as_ref());
            if shown.is_some_and(|shown| shown.proof.is_none()) {
                turn.close(link, "there are users now: connect again");
            }
        }
    }

    /// Another node says what the token of its doors is.
    pub(super) fn hear_token(&mut self, node: NodeId, hash: &[u8]) {
        match hash.try_into() {
            Ok(hash) => self.rights.entrance.set_token(node, hash),
            Err(_) => {
                tracing::warn!(%node, "the node tells a hash of another length: its doors are strangers here")
            }
        }
    }

    /// Notes what a client has administered by a packet.
    pub(super) fn note_administration(&self, link: LinkId, what: &str, of: &str, turn: &Turn<'_>) {
        let (Some(remote), Some((access, _))) = (turn.remote(link), self.rights.entrance.in_force()) else {
            return;
        };
        let who = self.rights.who(link, &access, turn);
        self.rights.entrance.note_administration(who.user(), remote.address, what, of);
    }
}

/// The name of the keyspace of a replica, as far as it is on this event loop; on another one, as the catalogue says. None if it is not on this node.
fn keyspace_name<'a>(
    replicas: &'a FixedMap<ReplicaId, Hosted>,
    routes: &Routes,
    reading: Option<&'a Reading>,
    replica: ReplicaId,
) -> Option<&'a str> {
    if let Some(hosted) = replicas.get(&replica) {
        return Some(&hosted.placement.keyspace_name);
    }
    routes.elsewhere(replica.into())?;
    let (reading, keyspace) = (reading?, routes.keyspace_of(replica.shard)?);
    let listed = reading.listed(keyspace).map(|keyspace| keyspace.name.as_str());
    listed.or_else(|| reading.drops.get(&keyspace).map(|dropped| dropped.name.as_str()))
}

/// Answers a packet of which the right is missing.
fn answer_denied(link: LinkId, packet: &Packet, reason: String, turn: &mut Turn<'_>) {
    let denied = |about, replica, reason| {
        Packet::Denied(Denial { about, replica, transaction: None, question: None, reason })
    };
    let answer = match packet {
        Packet::AcceptLoss { replica, .. } => {
            Packet::AcceptLossReply { replica: *replica, refused: Some(reason), passes: false }
        }
        Packet::DeclareLost { replica, .. } => {
            Packet::DeclareLostReply { replica: *replica, refused: Some(reason) }
        }
        Packet::Verify { replica, .. } => denied(About::Verify, Some(*replica), reason),
        Packet::Changes { replica, .. } => denied(About::Changes, Some(*replica), reason),
        Packet::StatusRequest => denied(About::Status, None, reason),
        Packet::ReplicasRequest => denied(About::Replicas, None, reason),
        _ => denied(About::Announcement, None, reason),
    };
    turn.send(link, &answer);
}
