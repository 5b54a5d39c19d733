//! A site joins the others, among them one that comes back after it was lost (section 5.7, *re-integration*).
//!
//! ```text
//!   an operator: SITE joins ─► configuration service ─► its leader: JOIN to the others ─► JOIN stable there: they forget nothing that it may lack
//!     all have answered ─► FETCH: the state of one of them, in pages ─► ADOPT stable ─► the rest comes as it comes to every site
//!   it has all ─► configuration service: it is ready ─► its copies count, clients use it, the others wait for it when a site is lost
//!   the site that stands in for the one that it replaces: hands its role over, as it hands a container over
//! ```
//!
//! A site that comes back has a new name: its transactions are counted anew, and no vector takes new ones for old ones that were abandoned. Nothing
//! of what it had before is used.
//!
//! No step depends on a single leader: what the others keep for it stands in their logs, what it has adopted in its own, and that it is ready in the
//! list of the configuration service. That list has one order, so a site that is lost later is lost either before or after another one is ready, for
//! all of them alike: its end is settled by those that were ready before, and a site that joins meanwhile is not ready before the end is settled. If
//! more sites are lost at once than a transaction survives, a site that joins may have what is abandoned. It has promised nothing yet, and begins anew.

use std::collections::BTreeMap;

use quorate_core::log::Log;
use quorate_core::topology::{Join, Settlement};
use quorate_core::{ClientId, Context, Instant, Key, ReplicaId, ShardId, TransactionId};

use super::commit::Way;
use super::leader::{Leader, Peer};
use super::state::Frozen;
use super::{Out, Replica};
use crate::container::{Container, Replicas, role};
use crate::entry::{Commit, Entry, Page};
use crate::histories::Update;
use crate::message::Message;
use crate::reasons;
use crate::vector::{LocalSite, Vector};

/// How far the leader of a site that joins has come. A later leader begins anew.
#[derive(Debug, Default)]
pub(super) struct Joining {
    /// The sites that have answered, each with all that it had forgotten by then.
    expected: BTreeMap<LocalSite, Vector>,
    /// The site whose state is adopted.
    source: Option<Source>,
    /// The last site that was asked for its state: another time another one is.
    last: Option<LocalSite>,
}

/// A state that is fetched.
#[derive(Debug)]
struct Source {
    site: LocalSite,
    /// The name of the state.
    state: u64,
    /// The page that is asked for.
    number: u32,
    /// True while it is on its way into the log.
    is_appended: bool,
    /// When a page has come last.
    heard: Instant,
}

/// The state of this site that another one fetches.
#[derive(Debug)]
pub(super) struct Lent {
    to: ReplicaId,
    state: u64,
    rest: Frozen,
    /// The page that was sent last, and its number.
    page: (u32, Page),
    /// When it was asked for last.
    asked: Instant,
}

/// A role that is about to be handed over.
#[derive(Debug)]
pub(super) struct Returning {
    /// The role.
    role: LocalSite,
    /// The site that gets it.
    to: LocalSite,
    /// Writes of what it lets in are refused from this instant on, until the transactions have ended that were under way.
    since: Instant,
    /// True once the transaction that hands it over is appended.
    is_appended: bool,
}

impl Replica {
    /// The local sites that this one knows by its log: those that the keyspace was created with, and those that have joined.
    pub(super) fn sites(&self) -> impl Iterator<Item = LocalSite> + use<> {
        self.config.sites(self.state.joined.len())
    }

    /// True if the others wait for a site: it was founded with the keyspace, or has all that they have.
    pub(super) fn counts(&self, site: LocalSite) -> bool {
        self.config.joined_at(site).is_none_or(|at| self.joins.get(at).is_some_and(|join| join.is_ready))
    }

    /// True if this site serves clients.
    pub(super) fn serves(&self) -> bool {
        self.state.is_whole() && self.counts(self.site)
    }

    /// Goes on with what the configuration service has said of sites that join.
    pub(super) fn attend_joins(
        &mut self,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        if self.leader.is_none() || self.is_removed() {
            return;
        }
        if self.state.is_whole() {
            self.attend_lent(context.now);
            self.attend_roles(context, log, outbox);
        } else {
            self.ask_to_be_expected(context.now, outbox);
            self.fetch(context, outbox);
        }
    }

    /// The proposal that this site is ready: it has the state of another one, and knows of all removals.
    pub(super) fn readiness(&self) -> Option<Settlement> {
        let is_new = self.state.is_whole() && !self.counts(self.site);
        let knows_all = self.state.removals.len() == self.known.len()
            && self.state.removals.iter().all(|removal| removal.end.is_some());
        let ready = Some(self.config.shard_of(self.site));
        (is_new && knows_all).then(|| Settlement { removals: self.known.len(), ends: Vec::new(), ready })
    }

    /// The sites whose answers a site waits for that joins.
    fn elders(&self) -> Vec<LocalSite> {
        let is_left = |site: &LocalSite| self.known.iter().all(|removal| removal.site != *site);
        let all = self.config.sites(self.joins.len());
        all.filter(|site| *site != self.site && is_left(site) && self.counts(*site)).collect()
    }

    fn ask_to_be_expected(&mut self, now: Instant, outbox: &mut Out) {
        // The list is not known here before it names this site.
        if self.joins.len() <= self.config.joined_at(self.site).unwrap_or_default() {
            return;
        }
        for site in self.elders() {
            self.expect(site, now);
            let Some(leader) = &mut self.leader else { return };
            if let Some(peer) = leader.peers.get_mut(&site) {
                peer.redirects = 0;
            }
            if leader.joining.expected.contains_key(&site) {
                continue;
            }
            let timeout = self.config.resend_timeout;
            if let Some(peer) = leader.peers.get_mut(&site)
                && now - peer.heard >= timeout
            {
                peer.heard = now;
                self.suspect(site);
            }
            outbox.send(self.leader_of(site), Message::Join {});
        }
    }

    /// Another replica leads a site than the one that was asked.
    pub(super) fn ask_again(&mut self, site: LocalSite, context: &mut Context<'_>, outbox: &mut Out) {
        let Some(leader) = &mut self.leader else { return };
        if !leader.joining.expected.contains_key(&site) {
            return outbox.send(self.leader_of(site), Message::Join {});
        }
        if let Some(source) = leader.joining.source.as_mut().filter(|source| source.site == site) {
            source.heard = context.now;
            self.fetch(context, outbox);
        }
    }

    /// A site joins, as the configuration service has said, too.
    pub(super) fn on_join(
        &mut self,
        from: ReplicaId,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some(site) = self.other_site(from.shard) else { return outbox.ignored(reasons::NO_SITE) };
        let Some(at) = self.config.joined_at(site) else { return outbox.ignored(reasons::NONSENSE) };
        if self.leader.is_none() {
            return self.send_not_leading(from.into(), None, log, outbox);
        }
        self.expect(site, context.now);
        self.note_leader(site, from.index, context.now, outbox);
        let Some(leader) = &mut self.leader else { return };
        if let Some(peer) = leader.peers.get_mut(&site) {
            // Its words from before it had to begin anew count no more.
            *peer = Peer::new(from.index, context.now);
        }
        if leader.raising {
            // The floor is to be known that it has to have, and it asks again.
            return outbox.ignored(reasons::UNDER_WAY);
        }
        if self.state.joined.len() > at {
            let floor = self.state.histories.floor().clone();
            return outbox.send(from, Message::Expected { floor });
        }
        let Some(leader) = &mut self.leader else { return };
        if leader.expecting > at {
            return outbox.ignored(reasons::UNDER_WAY);
        }
        match log.append(Entry::Join(self.config.joined[..=at].to_vec())) {
            Some(_) => {
                leader.expecting = at + 1;
                let known = self.config.joined.len();
                assert!(leader.expecting <= known, "{} sites are expected, of {known}", leader.expecting);
            }
            None => outbox.ignored(reasons::LOG_CLOSED),
        }
    }

    /// Knows a site as another one. From here on the floor waits for it.
    fn expect(&mut self, site: LocalSite, now: Instant) {
        let first = self.config.groups.members(self.config.shard_of(site)).at(0);
        if let Some(leader) = &mut self.leader {
            leader.peers.entry(site).or_insert_with(|| Peer::new(first, now));
        }
    }

    /// JOIN is stable.
    pub(super) fn on_joined(&mut self, joined: &[ShardId], now: Instant, outbox: &mut Out) {
        if joined.len() > self.config.joined.len() {
            self.config.joined = joined.to_vec();
        }
        let Some(site) = joined.last().and_then(|shard| self.other_site(*shard)) else { return };
        if self.leader.is_none() || self.is_over(site) {
            return;
        }
        self.expect(site, now);
        let floor = self.state.histories.floor().clone();
        outbox.send(self.leader_of(site), Message::Expected { floor });
    }

    /// True if a site was taken out and its end is settled.
    pub(super) fn is_over(&self, site: LocalSite) -> bool {
        self.state.removal(site).is_some_and(|removal| removal.end.is_some())
    }

    pub(super) fn on_expected(
        &mut self,
        from: ReplicaId,
        floor: Vector,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(site) = self.other_site(from.shard) else { return outbox.ignored(reasons::NO_SITE) };
        self.note_leader(site, from.index, context.now, outbox);
        let is_whole = self.state.is_whole();
        let Some(leader) = self.leader.as_mut().filter(|_| !is_whole) else {
            return outbox.ignored(reasons::NOT_OPEN);
        };
        if leader.joining.expected.insert(site, floor).is_none() {
            self.fetch(context, outbox);
        }
    }

    /// Asks for the next page, once all have answered. If nothing has come for long, another site is asked for its state.
    fn fetch(&mut self, context: &mut Context<'_>, outbox: &mut Out) {
        let elders = self.elders();
        let timeout = self.config.wait_timeout;
        let Some(leader) = &mut self.leader else { return };
        let joining = &mut leader.joining;
        if elders.is_empty() || !elders.iter().all(|site| joining.expected.contains_key(site)) {
            return;
        }
        let is_over = |source: &Source| {
            !elders.contains(&source.site) || (!source.is_appended && context.now - source.heard >= timeout)
        };
        let mut silent = None;
        if joining.source.as_ref().is_none_or(is_over) {
            silent = joining.source.as_ref().map(|source| source.site);
            let after = |site: &&LocalSite| joining.last.is_none_or(|last| **site > last);
            let site = *elders.iter().find(after).unwrap_or(&elders[0]);
            joining.last = Some(site);
            let state = context.random.below(u64::MAX);
            joining.source = Some(Source { site, state, number: 0, is_appended: false, heard: context.now });
        }
        let source = joining.source.as_ref().map(|source| (source.site, source.state, source.number));
        let is_appended = joining.source.as_ref().is_some_and(|source| source.is_appended);
        if let Some(site) = silent {
            self.suspect(site);
        }
        if let Some((site, state, number)) = source.filter(|_| !is_appended) {
            outbox.send(self.leader_of(site), Message::Fetch { state, number });
        }
    }

    pub(super) fn on_fetch(
        &mut self,
        from: ReplicaId,
        state: u64,
        number: u32,
        context: &Context<'_>,
        log: &impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some(site) = self.other_site(from.shard) else { return outbox.ignored(reasons::NO_SITE) };
        if self.leader.is_none() {
            return self.send_not_leading(from.into(), None, log, outbox);
        }
        // A site that has not promised to keep what the other one may lack might send what misses something at once.
        if self.config.joined_at(site).is_none_or(|at| at >= self.state.joined.len()) || self.counts(site) {
            return outbox.ignored(reasons::NONSENSE);
        }
        if number == 0 {
            let mut rest = self.state.freeze_shared(self.config.page_bytes_max);
            let page = rest.next_page().expect("a state has at least its bounds");
            let lent = Lent { to: from, state, rest, page: (0, page), asked: context.now };
            if let Some(leader) = &mut self.leader {
                leader.lent = Some(lent);
            }
        }
        let lent = self.leader.as_mut().and_then(|leader| leader.lent.as_mut());
        let Some(lent) = lent.filter(|lent| lent.to == from && lent.state == state) else {
            return outbox.ignored(reasons::NOT_OPEN);
        };
        lent.asked = context.now;
        if number == lent.page.0 + 1
            && let Some(page) = lent.rest.next_page()
        {
            assert!(number > lent.page.0, "page {number} is lent after {}", lent.page.0);
            lent.page = (number, page);
        }
        let (at, page) = &lent.page;
        if *at != number {
            return outbox.ignored(reasons::NONSENSE);
        }
        let (is_last, page) = (lent.rest.is_done(), page.clone());
        outbox.send(from, Message::State { state, number, is_last, page });
    }

    /// Forgets a state that nobody fetches any more.
    fn attend_lent(&mut self, now: Instant) {
        let timeout = self.config.wait_timeout;
        if let Some(leader) = &mut self.leader {
            leader.lent.take_if(|lent| now - lent.asked >= timeout);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_state(
        &mut self,
        from: ReplicaId,
        (state, number): (u64, u32),
        is_last: bool,
        page: Page,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some(site) = self.other_site(from.shard) else { return outbox.ignored(reasons::NO_SITE) };
        self.note_leader(site, from.index, context.now, outbox);
        let is_whole = self.state.is_whole();
        let Some(leader) = self.leader.as_mut().filter(|_| !is_whole) else {
            return outbox.ignored(reasons::NOT_OPEN);
        };
        let joining = &mut leader.joining;
        let is_meant = |source: &&mut Source| {
            (source.site, source.state, source.number) == (site, state, number) && !source.is_appended
        };
        let Some(source) = joining.source.as_mut().filter(is_meant) else {
            return outbox.ignored(reasons::NOT_OPEN);
        };
        let fits = match &page {
            Page::Bounds { committed, .. } => {
                let has_all = joining.expected.values().all(|floor| committed.includes_all(floor));
                if number == 0 && !has_all {
                    // Another site has forgotten already what this one has not.
                    joining.source = None;
                    return outbox.ignored(reasons::FORGOTTEN);
                }
                number == 0
            }
            Page::Locks(_) | Page::Ended(_) | Page::Partial {} => false,
            Page::Registers(_)
            | Page::Counts(_)
            | Page::Containers(_)
            | Page::Journal { .. }
            | Page::Joined(_)
            | Page::Removals { .. } => number > 0,
        };
        if !fits {
            joining.source = None;
            return outbox.ignored(reasons::MALFORMED);
        }
        source.heard = context.now;
        match log.append(Entry::Adopt { number, is_last, page }) {
            Some(_) => source.is_appended = true,
            None => outbox.ignored(reasons::LOG_CLOSED),
        }
    }

    /// ADOPT is stable.
    pub(super) fn on_adopted(
        &mut self,
        number: u32,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        // Backups, too: each of them may lead next.
        self.note_joined();
        if self.leader.is_none() {
            return;
        }
        if self.state.is_whole() {
            self.leader = Some(self.new_leader(context.now));
            return self.attend_sites(context, log, outbox);
        }
        let Some(leader) = &mut self.leader else { return };
        let adopted = self.state.adopted();
        match &mut leader.joining.source {
            Some(source) if source.number == number && adopted == number as usize + 1 => {
                // The time that its own log takes is not the other site's.
                (source.number, source.is_appended, source.heard) = (number + 1, false, context.now);
                self.fetch(context, outbox);
            }
            _ => leader.joining.source = None,
        }
    }

    /// Gives up a state that has what is abandoned.
    pub(super) fn begin_anew(&mut self, log: &mut impl Log<Entry>, outbox: &mut Out) {
        let own = self.state.committed.of(self.site);
        assert!(own == 0, "{own} transactions of {} have committed, and it was never ready", self.site);
        if log.append(Entry::Anew {}).is_none() {
            outbox.ignored(reasons::LOG_CLOSED);
        }
    }

    /// ANEW is stable.
    pub(super) fn on_anew(&mut self, context: &mut Context<'_>, outbox: &mut Out) {
        if self.leader.is_some() {
            self.leader = Some(self.new_leader(context.now));
            self.ask_to_be_expected(context.now, outbox);
        }
    }

    /// The log may know of more sites than the host did.
    pub(super) fn note_joined(&mut self) {
        if self.state.joined.len() > self.config.joined.len() {
            self.config.joined.clone_from(&self.state.joined);
        }
    }

    /// A leader that knows all that is durable.
    pub(super) fn new_leader(&self, now: Instant) -> Leader {
        let others = self.sites().filter(|site| *site != self.site && !self.is_over(*site));
        let first = |site| self.config.groups.members(self.config.shard_of(site)).at(0);
        let others = others.map(|site| (site, first(site)));
        let leader = Leader::new(&self.state, self.site, others, now);
        assert!(!leader.peers.contains_key(&self.site), "{} would propagate to itself", self.site);
        leader
    }
}

/// Roles are handed over to the sites that replace those that had them.
impl Replica {
    /// True if the role is about to be handed over of the site that lets in this at first.
    pub(super) fn is_returning(&self, first: LocalSite) -> bool {
        let returning = self.leader.as_ref().and_then(|leader| leader.returning.as_ref());
        returning.is_some_and(|returning| returning.role == first)
    }

    /// The roles that a site gets back which has joined: that of the site that it replaces, and what that one had got back.
    fn roles_of(&self, join: &Join) -> Vec<LocalSite> {
        let mut roles = Vec::new();
        let mut replaced = join.replaces;
        while let Some(shard) = replaced
            && let Some(site) = self.config.site_at(shard)
            && !roles.contains(&site)
        {
            roles.push(site);
            replaced = self.joins.iter().find(|join| join.shard == shard).and_then(|join| join.replaces);
        }
        roles
    }

    /// The first role that this site has, and another one is to have that is ready.
    fn role_to_return(&self) -> Option<(LocalSite, LocalSite)> {
        let is_there = |join: &&Join| {
            join.is_ready
                && self.config.site_at(join.shard).is_some_and(|site| {
                    site != self.site
                        && !self.is_frozen(site)
                        && self.known.iter().all(|known| known.site != site)
                })
        };
        let is_here = |role: &LocalSite| {
            let holder = self.state.successor(*role);
            holder.is_some_and(|(site, needs)| site == self.site && self.state.committed.includes_all(&needs))
        };
        self.joins.iter().filter(is_there).find_map(|join| {
            let role = self.roles_of(join).into_iter().find(is_here)?;
            Some((role, self.config.site_at(join.shard)?))
        })
    }

    /// Hands a role over: refuses writes of what it lets in until no transaction is under way that writes that, as long as votes may take.
    /// If one takes longer, clients have their turn before it is tried again.
    fn attend_roles(&mut self, context: &Context<'_>, log: &mut impl Log<Entry>, outbox: &mut Out) {
        let (now, patience) = (context.now, self.config.vote_timeout);
        if !self.holds_lease(now) {
            return;
        }
        let next = self.role_to_return();
        let Some(leader) = &mut self.leader else { return };
        leader.returning.take_if(|returning| {
            let is_tried = (returning.role, returning.to);
            !returning.is_appended && (next != Some(is_tried) || now - returning.since >= patience)
        });
        if leader.returning.is_none()
            && let Some((role, to)) = next
            && leader.returned.is_none_or(|at| now - at >= 2 * patience)
        {
            leader.returned = Some(now);
            leader.returning = Some(Returning { role, to, since: now, is_appended: false });
        }
        self.return_role(log, outbox);
    }

    /// Appends the transaction that hands a role over, if nothing is in its way.
    pub(super) fn return_role(&mut self, log: &mut impl Log<Entry>, outbox: &mut Out) {
        let Some(leader) = &self.leader else { return };
        let Some(Returning { role: of, to, is_appended: false, .. }) = leader.returning else { return };
        let is_meant = |key: &Key| self.first_holder(key) == of;
        if leader.holds_any(is_meant) || self.state.locked().any(is_meant) {
            return;
        }
        let container = Some(Container { preferred: to, replicas: Replicas::ALL, stays: true });
        let updates = vec![Update::Place { name: role(of), container }];
        let sequence = leader.appended + 1;
        // No client has such a name. The number is taken once, so the transaction's name is new.
        let transaction =
            TransactionId { client: ClientId(u64::MAX - u64::from(of.0)), sequence, attempt: 0 };
        let snapshot = self.newest();
        if self.append_commit(None, transaction, snapshot, updates, Way::Fast, log, outbox)
            && let Some(returning) = self.leader.as_mut().and_then(|leader| leader.returning.as_mut())
        {
            returning.is_appended = true;
        }
    }

    /// A transaction is stable that may have handed a role over.
    pub(super) fn note_returned(&mut self, commit: &Commit) {
        let Some(leader) = &mut self.leader else { return };
        leader.returning.take_if(|returning| {
            matches!(&commit.updates[..], [Update::Place { name, .. }] if *name == role(returning.role))
        });
    }
}
