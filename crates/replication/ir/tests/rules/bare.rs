//! A machine that is a member of a group and adds nothing of its own to it, so that each difference between protocols can be seen by itself.

use quorate_core::hosted::Boot;
use quorate_core::machine::{Input, InputOf, OutboxOf};
use quorate_core::{ClockTime, Context, Effect, Epoch, Instant, Machine, Outbox, Random};
use quorate_ir::member::{Beginning, Kept, Parts};
use quorate_ir::{
    Cursor, FloorMessage, Member as _, MemberEvent, MemberSettings, MemberState, SearchSettings,
};

use super::*;

/// A message to a member or from one.
#[derive(Clone, Debug, PartialEq)]
enum Said {
    Ir(Message<Times>),
    Floor(FloorMessage<Times>),
    Outdated,
}

impl From<Message<Times>> for Said {
    fn from(message: Message<Times>) -> Self {
        Said::Ir(message)
    }
}

impl From<FloorMessage<Times>> for Said {
    fn from(message: FloorMessage<Times>) -> Self {
        Said::Floor(message)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    ViewChange,
    Sweep,
}

/// The differences that constants of a member make.
trait Kind: std::fmt::Debug {
    const NOTHING_IS_OPEN: bool;
    const ENDS_WHEN_PASSED: bool;
    const ENDS_WHEN_WILD: bool;
}

/// A member whose operations are open for a while.
#[derive(Debug)]
struct Transactional;

impl Kind for Transactional {
    const NOTHING_IS_OPEN: bool = false;
    const ENDS_WHEN_PASSED: bool = false;
    const ENDS_WHEN_WILD: bool = true;
}

/// A member whose operations run where they arrive.
#[derive(Debug)]
struct Storing;

impl Kind for Storing {
    const NOTHING_IS_OPEN: bool = true;
    const ENDS_WHEN_PASSED: bool = true;
    const ENDS_WHEN_WILD: bool = false;
}

/// The membership under which a member speaks.
const EPOCH: Epoch = Epoch(2);

fn settings() -> MemberSettings {
    let search = SearchSettings {
        interval: Duration::from_secs(1),
        lag: Duration::from_micros(100),
        bytes_max: 1 << 20,
        lag_min: Duration::from_micros(10),
        lag_hurried: Duration::from_micros(100),
        patience: Duration::from_secs(10),
        limit: Duration::from_secs(20),
        ahead_max: Duration::from_micros(1_000),
        page_max: 100,
    };
    MemberSettings { page_bytes_max: 1 << 20, snapshot_records_min: 10, search }
}

/// How a member is set up.
#[derive(Clone, Copy, Debug)]
struct Setup {
    mistake: Option<Mistake>,
    page_bytes_max: usize,
}

impl Setup {
    const SOUND: Setup = Setup { mistake: None, page_bytes_max: 1 << 20 };
}

#[derive(Debug)]
struct Bare<K: Kind> {
    ir: Replica<Times>,
    ledger: Ledger,
    state: MemberState,
    is_behind: bool,
    /// How often it was told that it serves in a view.
    serves: u32,
    kind: std::marker::PhantomData<K>,
}

impl<K: Kind> Machine for Bare<K> {
    type Message = Said;
    type Timer = Timer;
    type Record = Fact<Times>;
    type Command = ();
    type Event = MemberEvent;
    type Config = Setup;

    fn restore(setup: Setup, records: impl IntoIterator<Item = Fact<Times>>) -> Self {
        let mut beginning = Beginning::new(records.into_iter().map(Self::fact), Boot::Initialise, false);
        let group = GroupSize::new(3).unwrap();
        let Setup { mistake, page_bytes_max } = setup;
        let ir = beginning.replica(group, ReplicaIndex(0), Duration::from_secs(1), page_bytes_max);
        let state = beginning.state(EPOCH, settings());
        let ledger = Ledger::default();
        let kind = std::marker::PhantomData;
        let mut bare =
            Bare { ir: ir.with_mistake(mistake), ledger, state, is_behind: false, serves: 0, kind };
        bare.rebuild(beginning);
        bare
    }

    fn epoch(&self, _: Address) -> Epoch {
        EPOCH
    }

    fn step(&mut self, context: &mut Context<'_>, input: InputOf<Self>, outbox: &mut OutboxOf<Self>) {
        let before = outbox.effects().len();
        match input {
            Input::Start => {
                self.write_creation(outbox);
                self.with_desk(context.random, outbox, |ir, desk| ir.start(desk));
            }
            Input::Message { from, message: Said::Floor(message), .. } => {
                self.on_floor_message(from, message, context, outbox);
            }
            Input::Message { from, message: Said::Ir(message), .. } => match message {
                Message::ProposeInconsistent { id, operation } => {
                    self.on_inconsistent(from, id, operation, context.random, outbox);
                }
                Message::ProposeConsensus { id, operation } => {
                    self.with_desk(context.random, outbox, |ir, desk| {
                        ir.on_propose_consensus(from, id, operation, desk);
                    });
                }
                message => self.on_view_message(from, message, context.random, outbox),
            },
            Input::Timer(Timer::ViewChange) => {
                self.with_desk(context.random, outbox, |ir, desk| ir.on_view_change_timeout(desk));
            }
            Input::Timer(Timer::Sweep) => {
                self.collect_at_rest();
                self.sweep_search(context, outbox);
                self.sweep_snapshot(context, outbox);
            }
            Input::Message { message: Said::Outdated, .. } | Input::Persisted(_) | Input::Command(()) => {}
        }
        self.count_records(&outbox.effects()[before..]);
    }
}

impl<K: Kind> quorate_ir::Member<Times> for Bare<K> {
    type Protocol = Ledger;

    const VIEW_CHANGE: Timer = Timer::ViewChange;
    const NOTHING_IS_OPEN: bool = K::NOTHING_IS_OPEN;
    const ENDS_WHEN_PASSED: bool = K::ENDS_WHEN_PASSED;
    const ENDS_WHEN_WILD: bool = K::ENDS_WHEN_WILD;

    fn id(&self) -> ReplicaId {
        ReplicaId { shard: ShardId(1), index: ReplicaIndex(0) }
    }

    fn ir(&self) -> &Replica<Times> {
        &self.ir
    }

    fn parts(&mut self) -> Parts<'_, Times, Ledger> {
        Parts { ir: &mut self.ir, protocol: &mut self.ledger, state: &mut self.state }
    }

    fn fact(record: Fact<Times>) -> Kept<Times, Fact<Times>> {
        Ok(record)
    }

    fn outdated() -> Said {
        Said::Outdated
    }

    fn keys(ledger: &Ledger) -> usize {
        ledger.stored.len()
    }

    fn collect_versions(&mut self, _: usize) -> bool {
        false
    }

    fn note_behind(&mut self) {
        self.is_behind = true;
    }

    fn on_serving(&mut self) {
        self.serves += 1;
    }
}

/// The first replica of three, which leads view 0, and its disk.
struct Leader<K: Kind> {
    machine: Bare<K>,
    now: Instant,
    clock: u64,
    log: Vec<Fact<Times>>,
    anchor: usize,
    truncations: usize,
}

impl<K: Kind> Leader<K> {
    fn new() -> Self {
        Self::with(Setup::SOUND)
    }

    fn with_mistake(mistake: Option<Mistake>) -> Self {
        Self::with(Setup { mistake, ..Setup::SOUND })
    }

    /// One that has started view 3, and of whose record another replica may ask for more: decisions of two transactions, without those that lie
    /// below a floor. Two more lie there.
    fn read_from() -> Self {
        let mut leader = Self::with(Setup { page_bytes_max: 1, ..Setup::SOUND });
        for (sequence, micros) in [(1, 5), (2, 6), (3, 50), (4, 60)] {
            leader.decides(sequence, micros);
        }
        leader.raises_floor(10);
        let handed_over = Message::DoViewChange {
            view: View(3),
            last_normal: Some(View(0)),
            lineage: vec![View(0)],
            part: Part::WHOLE,
            page: RecordPage::default(),
            outline: Outline::default(),
            supplement: 0,
            floor: at(10),
            complete: at(10),
            lives: BTreeMap::new(),
        };
        leader.hears(member(ReplicaIndex(1)), handed_over);
        assert_eq!((leader.machine.ir.view(), leader.machine.ir.status()), (View(3), Status::Normal));
        assert!(leader.machine.ir.is_read_from());
        leader
    }

    fn with(setup: Setup) -> Self {
        let machine = Bare::restore(setup, []);
        let mut leader = Leader {
            machine,
            now: Instant::START,
            clock: 10_000,
            log: Vec::new(),
            anchor: 0,
            truncations: 0,
        };
        leader.step(Input::Start);
        leader
    }

    /// The messages that it says in a step.
    fn step(&mut self, input: InputOf<Bare<K>>) -> Vec<(Address, Said)> {
        let mut outbox: OutboxOf<Bare<K>> = Outbox::new();
        let (clock, mut random) = (ClockTime::from_micros(self.clock), Random::new(1));
        self.machine.step(&mut Context { now: self.now, clock, random: &mut random }, input, &mut outbox);
        let mut said = Vec::new();
        for effect in outbox.drain() {
            match effect {
                Effect::Send { to, message } => said.push((to, message)),
                Effect::Persist { record, .. } => self.log.push(record),
                Effect::Anchor => self.anchor = self.log.len(),
                Effect::Truncate => {
                    self.log.drain(..std::mem::take(&mut self.anchor));
                    self.truncations += 1;
                }
                _ => {}
            }
        }
        said
    }

    fn hears(&mut self, from: Address, message: impl Into<Said>) -> Vec<(Address, Said)> {
        self.step(Input::Message { from, epoch: Epoch::FIRST, message: message.into() })
    }

    fn decides(&mut self, sequence: u64, micros: u64) {
        let id = operation(sequence, OperationId::INCONSISTENT);
        let operation = Decided { at: micros, last: micros };
        self.hears(CLIENT, Message::ProposeInconsistent { id, operation });
    }

    fn proposes(&mut self, sequence: u64, micros: u64) {
        let id = operation(sequence, 1);
        self.hears(CLIENT, Message::ProposeConsensus { id, operation: micros });
    }

    /// Below which timestamps it has others compared when it sweeps so much later.
    fn searches_after(&mut self, milliseconds: u64) -> BTreeSet<u64> {
        self.now = self.now + Duration::from_millis(milliseconds);
        let said = self.step(Input::Timer(Timer::Sweep));
        let below = said.iter().filter_map(|(_, said)| match said {
            Said::Floor(FloorMessage::Gather { below, .. }) => Some(below.micros),
            _ => None,
        });
        below.collect()
    }

    /// Another replica has these below, and no others.
    fn is_told(&mut self, by: u8, below: u64, executed: &[u64]) -> Vec<(Address, Said)> {
        let cursor = |sequence: &u64| -> Cursor { (at(*sequence), transaction(*sequence)) };
        let executed = executed.iter().map(cursor).collect();
        let summary = quorate_ir::Summary { executed, ..Default::default() };
        let from = (at(0), TransactionId::default());
        let reply = FloorMessage::GatherReply { view: View(0), below: at(below), from, summary };
        self.hears(member(ReplicaIndex(by)), reply)
    }

    /// Another replica starts a view in which nothing is new.
    fn enters(&mut self, view: View) {
        let start = Message::StartView {
            view,
            since: Some(View(0)),
            part: Part::WHOLE,
            page: RecordPage::default(),
            outline: Outline::default(),
            supplement: 0,
            floor: None,
            state: None,
            state_to: None,
        };
        self.hears(member(ReplicaIndex(1)), start);
        assert_eq!((self.machine.ir.view(), self.machine.ir.status()), (view, Status::Normal));
    }

    /// A floor is searched for, found, and raised.
    fn raises_floor(&mut self, below: u64) {
        let from = member(ReplicaIndex(1));
        self.hears(from, FloorMessage::Complete { view: self.machine.ir.view(), below: at(below) });
        self.hears(from, FloorMessage::RaiseFloor { floor: at(below) });
        assert_eq!(self.machine.ir.floor(), at(below));
    }
}

fn none() -> BTreeSet<u64> {
    BTreeSet::new()
}

/// A protocol that does not say when it has nothing to forget has floors searched for at all times.
#[test]
fn an_idle_member_searches_for_floors_unless_it_says_that_it_remembers_nothing() {
    let mut leader = Leader::<Transactional>::new();
    assert_eq!(leader.searches_after(0), none());
    assert_eq!(leader.searches_after(999), none());
    assert_eq!(leader.searches_after(1), BTreeSet::from([9_900]));
}

/// The clock of the leader was ahead when the search began, further than others believe it.
#[test]
fn a_search_by_a_wild_clock_ends_when_the_clock_is_right_again_or_not_as_the_protocol_says() {
    fn searched<K: Kind>(mistake: Option<Mistake>) -> [u64; 3] {
        let mut leader = Leader::<K>::with_mistake(mistake);
        leader.searches_after(0);
        leader.clock = 11_100;
        let sought = |leader: &mut Leader<K>, after| leader.searches_after(after).pop_first().unwrap();
        let wild = sought(&mut leader, 1_000);
        leader.clock = 10_000;
        let at_the_bound = sought(&mut leader, 1);
        leader.clock = 9_999;
        [wild, at_the_bound, sought(&mut leader, 1)]
    }
    assert_eq!(searched::<Transactional>(None), [11_000, 11_000, 9_899]);
    assert_eq!(searched::<Storing>(None), [11_000; 3]);
    assert_eq!(searched::<Transactional>(Some(Mistake::SeeksWildFloors)), [11_000; 3]);
    assert_eq!(searched::<Storing>(Some(Mistake::SeeksWildFloors)), [11_000; 3]);
}

#[test]
fn a_search_ends_when_the_floor_of_another_has_passed_its_goal_or_not_as_the_protocol_says() {
    fn searched<K: Kind>(floor: u64) -> BTreeSet<u64> {
        let mut leader = Leader::<K>::new();
        leader.searches_after(0);
        assert_eq!(leader.searches_after(1_000), BTreeSet::from([9_900]));
        leader.raises_floor(floor);
        leader.searches_after(1)
    }
    assert_eq!(searched::<Transactional>(9_901), BTreeSet::from([9_900]), "its time is not over");
    assert_eq!(searched::<Storing>(9_899), BTreeSet::from([9_900]), "it has not come so far");
    assert_eq!(searched::<Storing>(9_900), none());
    assert_eq!(searched::<Storing>(9_901), none());
}

/// The leader's own vote holds the floor up, but for a protocol in which nothing is open.
#[test]
fn a_member_waits_for_what_is_open_at_itself_if_anything_can_be() {
    fn has_chosen<K: Kind>() -> bool {
        let mut leader = Leader::<K>::new();
        leader.proposes(1, 50);
        leader.searches_after(0);
        leader.searches_after(1_000);
        leader.is_told(1, 9_900, &[]);
        let said = leader.is_told(2, 9_900, &[]);
        said.iter().any(|(_, said)| matches!(said, Said::Floor(FloorMessage::Complete { .. })))
    }
    assert_eq!((has_chosen::<Transactional>(), has_chosen::<Storing>()), (false, true));
}

/// It has told the others, before the crash, that it gave up earlier views.
#[test]
fn a_restart_from_a_snapshot_goes_on_from_the_view_in_which_that_was_begun() {
    let mut leader = Leader::<Transactional>::new();
    leader.enters(View(1));
    for sequence in 1..=20 {
        leader.decides(sequence, 10 * sequence);
    }
    for _ in 0..10 {
        leader.searches_after(1);
    }
    assert_eq!(leader.truncations, 1);
    assert!(matches!(leader.log[0], Fact::SnapshotBegun { view: View(1), .. }), "{:?}", leader.log[0]);
    let restarted = Bare::<Transactional>::restore(Setup::SOUND, leader.log.clone());
    assert_eq!((restarted.ir.view(), restarted.ir.status()), (View(1), Status::ViewChanging));
    assert_eq!(restarted.ir.record().lineage(), [View(0), View(1)]);
    assert_eq!(restarted.ledger.stored, leader.machine.ledger.stored);
}

/// Each record counts, that of its creation too.
#[test]
fn a_snapshot_is_begun_after_as_many_records_as_were_set() {
    for (decisions, begins) in [(8, false), (9, true)] {
        let mut leader = Leader::<Transactional>::new();
        for sequence in 1..=decisions {
            leader.decides(sequence, 10 * sequence);
        }
        leader.searches_after(1);
        let is_begun = leader.log.iter().any(|fact| matches!(fact, Fact::SnapshotBegun { .. }));
        assert_eq!(is_begun, begins, "{decisions}");
    }
}

/// It would forget that it has lost its record, or write down twice that it was created.
#[test]
fn a_member_is_created_once_and_only_if_it_is_to_be() {
    let created = |records: Vec<Fact<Times>>, boot, begins_anew| {
        let mut leader = Leader::<Transactional>::new();
        let records = records.into_iter().map(Bare::<Transactional>::fact);
        let mut beginning = Beginning::new(records, boot, begins_anew);
        let group = GroupSize::new(3).unwrap();
        leader.machine.ir = beginning.replica(group, ReplicaIndex(0), Duration::from_secs(1), 1 << 20);
        leader.machine.state = beginning.state(EPOCH, settings());
        leader.machine.rebuild(beginning);
        leader.log.clear();
        leader.step(Input::Start);
        let creations = leader.log.iter().filter(|fact| matches!(fact, Fact::Initialised)).count();
        (creations, leader.machine.ir.status())
    };
    let kept = || vec![Fact::Initialised];
    assert_eq!(created(vec![], Boot::Initialise, false), (1, Status::Normal));
    assert_eq!(created(vec![], Boot::Rejoin, false), (0, Status::Recovering));
    assert_eq!(created(vec![], Boot::Rejoin, true), (1, Status::Normal), "a planted bug");
    assert_eq!(created(kept(), Boot::Initialise, false), (0, Status::ViewChanging));
    assert_eq!(created(kept(), Boot::Rejoin, true), (0, Status::ViewChanging));
}

/// It says under which membership it speaks, to those before it, and tells its host of those after it.
#[test]
fn a_member_tells_of_another_membership_once() {
    let mut leader = Leader::<Transactional>::new();
    let mut hears = |epoch| {
        let mut outbox: OutboxOf<Bare<Transactional>> = Outbox::new();
        leader.machine.on_other_epoch(CLIENT, Epoch(epoch), &mut outbox);
        let effects: Vec<_> = outbox.drain().collect();
        match &effects[..] {
            [] => "nothing",
            [Effect::SendUnordered { message: Said::Outdated, .. }] => "outdated",
            [Effect::Emit(MemberEvent::Outdated { epoch: Epoch(told) })] if *told == epoch => "told",
            other => panic!("{other:?}"),
        }
    };
    assert_eq!([4, 4, 3, 5].map(&mut hears), ["told", "nothing", "nothing", "told"]);
    assert_eq!([1, 0].map(&mut hears), ["outdated"; 2]);
    assert_eq!(hears(EPOCH.0), "nothing", "it is its own");
}

/// A transaction that is open for longer than others are waited for.
#[test]
fn a_floor_stops_short_of_the_first_operation_that_is_open() {
    let mut leader = Leader::<Transactional>::new();
    leader.proposes(1, 50);
    leader.proposes(2, 60);
    leader.searches_after(0);
    leader.searches_after(1_000);
    for other in [1, 2] {
        leader.is_told(other, 9_900, &[]);
    }
    leader.now = leader.now + Duration::from_secs(11);
    let said = leader.step(Input::Timer(Timer::Sweep));
    let below = said.iter().find_map(|(_, said)| match said {
        Said::Floor(FloorMessage::Complete { below, .. }) => Some(below.micros),
        _ => None,
    });
    assert_eq!(below, Some(50));
}

/// Two searches may choose one floor, and what a replica was complete below in an earlier view it has told another leader.
#[test]
fn a_member_is_complete_in_the_view_in_which_it_was_asked() {
    let mut leader = Leader::<Transactional>::new();
    leader.enters(View(1));
    leader.searches_after(0);
    assert_eq!(leader.searches_after(3_000), BTreeSet::from([9_900]), "it is the third to try");
    for other in [1, 2] {
        let (view, below, from) = (View(1), at(9_900), (at(0), TransactionId::default()));
        let reply = FloorMessage::GatherReply { view, below, from, summary: Default::default() };
        leader.hears(member(ReplicaIndex(other)), reply);
    }
    let mut floor_after = |view| {
        let reply = FloorMessage::CompleteReply { view: View(view), below: at(9_900) };
        leader.hears(member(ReplicaIndex(1)), reply);
        leader.machine.ir.floor()
    };
    assert_eq!([0, 2, 1].map(&mut floor_after), [at(0), at(0), at(9_900)]);
}

/// Its record was replaced by that of another view, and what the pages so far were written from may be no more. The next is begun at once:
/// where views follow each other fast the log would never become shorter.
#[test]
fn a_snapshot_is_begun_anew_in_another_view_than_its_own() {
    let mut leader = Leader::<Transactional>::new();
    leader.proposes(1, 500);
    for sequence in 2..=10 {
        leader.decides(sequence, 10 * sequence);
    }
    leader.searches_after(1);
    assert!(
        leader.log.iter().any(|fact| matches!(fact, Fact::SnapshotBegun { .. })),
        "it waits for what is open"
    );
    leader.enters(View(1));
    assert_eq!(leader.truncations, 0);
    leader.searches_after(1);
    leader.searches_after(1);
    assert_eq!(leader.truncations, 1);
    assert!(matches!(leader.log[0], Fact::SnapshotBegun { view: View(1), .. }), "{:?}", leader.log[0]);
}

#[test]
fn a_member_searches_when_its_floor_has_stood_still_for_the_interval() {
    let mut leader = Leader::<Transactional>::new();
    leader.searches_after(0);
    leader.searches_after(900);
    leader.raises_floor(5_000);
    assert_eq!(leader.searches_after(100), none(), "it has just moved");
    assert_eq!(leader.searches_after(999), none());
    assert_eq!(leader.searches_after(1), BTreeSet::from([9_900]));
}

/// A protocol would do with each message else the work with which it begins to serve.
#[test]
fn a_member_is_told_once_that_it_serves_in_a_view() {
    let mut leader = Leader::<Transactional>::new();
    leader.proposes(1, 50);
    leader.decides(1, 50);
    assert_eq!(leader.machine.serves, 0, "it was created with its group");
    leader.enters(View(1));
    leader.proposes(2, 60);
    assert_eq!(leader.machine.serves, 1);
}

#[test]
fn what_another_replica_may_ask_for_is_not_collected() {
    let mut leader = Leader::<Transactional>::read_from();
    leader.searches_after(1);
    assert_eq!(leader.machine.ir.record().len(), 4);
    leader.hears(member(ReplicaIndex(1)), Message::Arrived);
    assert!(!leader.machine.ir.is_read_from());
    leader.searches_after(1);
    assert_eq!(leader.machine.ir.record().len(), 2);
}

/// Its floor stands still, and the others can go on with what they search for.
#[test]
fn a_member_that_is_read_from_raises_no_floor_and_answers_all_else() {
    let mut leader = Leader::<Transactional>::read_from();
    let other = member(ReplicaIndex(1));
    leader.hears(other, FloorMessage::Complete { view: View(3), below: at(20) });
    leader.hears(other, FloorMessage::RaiseFloor { floor: at(20) });
    assert_eq!(leader.machine.ir.floor(), at(10));
    let said = leader.hears(other, FloorMessage::Fetch { transactions: vec![transaction(3)] });
    let told = said.iter().find_map(|(_, said)| match said {
        Said::Floor(FloorMessage::Learn { operations }) => Some(operations.len()),
        _ => None,
    });
    assert_eq!(told, Some(1));
}

/// The record that it learns ends the operation that has held the floor up.
#[test]
fn a_search_goes_on_with_what_is_learned() {
    let mut leader = Leader::<Transactional>::new();
    leader.proposes(1, 50);
    leader.searches_after(0);
    leader.searches_after(1_000);
    for other in [1, 2] {
        leader.is_told(other, 9_900, &[]);
    }
    let decided = Decided { at: 9_950, last: 9_950 };
    let learned = FloorMessage::Learn { operations: vec![(transaction(1), decided)] };
    let said = leader.hears(member(ReplicaIndex(1)), learned);
    let completes = |said: &&Said| matches!(said, Said::Floor(FloorMessage::Complete { .. }));
    assert_eq!(said.iter().map(|(_, said)| said).filter(completes).count(), 2, "{said:?}");
}

/// Where little is written a snapshot takes one step to begin and one to end.
#[test]
fn a_snapshot_does_not_pause_between_its_phases() {
    let mut leader = Leader::<Transactional>::new();
    for sequence in 1..=20 {
        leader.decides(sequence, 10 * sequence);
    }
    leader.searches_after(1);
    assert_eq!(leader.truncations, 0);
    leader.searches_after(1);
    assert_eq!(leader.truncations, 1);
}
