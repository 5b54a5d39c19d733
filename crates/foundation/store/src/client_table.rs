//! The requests of clients and their results, so that nothing is done twice.
//!
//! A client that hears no answer asks again, and messages are repeated on their way. Per client the results of its last
//! requests are kept, by their numbers: as many as the *window* holds, so that a client may have that many requests on
//! their way at once. A request that was executed gives its result once more; one below the window is refused, because nobody
//! knows any more.
//!
//! Somebody else may want a result for a request that may still come: it is kept *aside* as long as it lies above the window,
//! which only the client's own requests move. A machine that names a number far ahead takes nothing from the client.
//!
//! *Clients are forgotten, too*, when there are too many: the one whose last request was executed the longest ago, counted
//! in positions of the log, never by a clock, so that all replicas forget the same. A client that is forgotten must not pass
//! for a new one, or a late copy of its request would be executed again. So each request says up to which position its
//! client knew the log when it first sent it. A request that was executed stands after that position; if everybody who
//! was forgotten had last been served before, it is not a request of one of them.
//!
//! *Source*: the client table of "Viewstamped Replication Revisited" (Liskov and Cowling, 2012), section 4.1, which holds one
//! request per client and forgets nobody.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::ClientId;
use quorate_core::log::Position;

/// A request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    /// The client that asks.
    pub client: ClientId,
    /// Counts the requests of this client.
    pub number: u64,
    /// Up to here the client knew the log when it first sent this request; the start, if it knew nothing of it.
    pub since: Position,
}

/// The state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known<'a, R> {
    /// It has not been executed.
    New,
    /// It has been executed, with this result.
    Executed(&'a R),
    /// It may have been executed so long ago that nobody knows any more. A client that has just come asks anew, knowing the
    /// log as it is now.
    TooOld,
}

/// The state that is kept of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered<R> {
    /// The client.
    pub client: ClientId,
    /// Where its last request was executed.
    pub used: Position,
    /// Of requests from before this position nothing was known when the client came, or came back.
    pub since: Position,
    /// The greatest number that one of its requests has had.
    pub last: u64,
    /// Results of its last requests, and, above [`Remembered::last`], those that are kept aside.
    pub results: BTreeMap<u64, R>,
}

/// A part of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablePage<R> {
    /// Of all clients that were forgotten, where the last request was executed.
    pub forgotten_until: Position,
    /// Clients, ascending.
    pub clients: Vec<Remembered<R>>,
}

/// The last results of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTable<R> {
    /// So many requests of a client are remembered.
    window: u64,
    /// So many clients are.
    clients_max: usize,
    clients: BTreeMap<ClientId, Remembered<R>>,
    /// By when they were served last.
    by_use: BTreeSet<(Position, ClientId)>,
    forgotten_until: Position,
}

impl<R> ClientTable<R> {
    /// A table that knows nobody.
    ///
    /// # Panics
    /// If it is to remember nothing.
    pub fn new(window: u64, clients_max: usize) -> Self {
        assert!(window > 0 && clients_max > 0, "a table that remembers nothing protects from nothing");
        ClientTable {
            window,
            clients_max,
            clients: BTreeMap::new(),
            by_use: BTreeSet::new(),
            forgotten_until: Position::START,
        }
    }

    /// Tells whether a request was executed.
    pub fn look_up(&self, request: Request) -> Known<'_, R> {
        let client = self.clients.get(&request.client);
        if let Some(result) = client.and_then(|client| client.results.get(&request.number)) {
            return Known::Executed(result);
        }
        let known_since = client.map_or(self.forgotten_until, |client| client.since);
        let is_below = client.is_some_and(|client| client.last.saturating_sub(request.number) >= self.window);
        if is_below || request.since < known_since { Known::TooOld } else { Known::New }
    }

    /// A request that was [`Known::New`] has been executed by the entry at a position, after all before.
    pub fn note(&mut self, request: Request, position: Position, result: R) {
        let window = self.window;
        let client = self.serve(request.client, position);
        client.results.insert(request.number, result);
        client.last = client.last.max(request.number);
        client.results = client.results.split_off(&client.last.saturating_sub(window - 1));
        self.forget();
    }

    /// The same, but the request has not come: somebody else has asked. Gives whether that is remembered: no more is kept
    /// aside of one client than its window holds.
    pub fn set_aside(&mut self, request: Request, position: Position, result: R) -> bool {
        let window = self.window;
        let aside = |client: &Remembered<R>| match client.last.checked_add(1) {
            Some(above) if request.number >= above => client.results.range(above..).count() as u64,
            _ => 0,
        };
        if self.clients.get(&request.client).is_some_and(|client| aside(client) >= window) {
            return false;
        }
        self.serve(request.client, position).results.insert(request.number, result);
        self.forget();
        true
    }

    /// The client that is served by the entry at a position.
    fn serve(&mut self, id: ClientId, position: Position) -> &mut Remembered<R> {
        let since = self.forgotten_until;
        let new = || Remembered { client: id, used: position, since, last: 0, results: BTreeMap::new() };
        let client = self.clients.entry(id).or_insert_with(new);
        self.by_use.remove(&(client.used, id));
        client.used = position;
        self.by_use.insert((position, id));
        client
    }

    fn forget(&mut self) {
        if self.clients.len() > self.clients_max {
            self.forget_one();
        }
    }

    fn forget_one(&mut self) {
        if let Some((used, client)) = self.by_use.pop_first() {
            self.clients.remove(&client);
            self.forgotten_until = self.forgotten_until.max(used);
        }
    }

    /// How many clients are remembered.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }
}

impl<R: Clone> ClientTable<R> {
    /// The state that is kept of so many clients, those that follow one; none if none follow.
    pub fn page(&self, after: Option<ClientId>, clients: usize) -> Option<TablePage<R>> {
        let follow = self.clients.iter().filter(|(id, _)| after.is_none_or(|after| **id > after));
        let clients: Vec<Remembered<R>> = follow.map(|(_, client)| client.clone()).take(clients).collect();
        (!clients.is_empty()).then_some(TablePage { forgotten_until: self.forgotten_until, clients })
    }

    /// Takes in a part of another table.
    pub fn take_page(&mut self, page: TablePage<R>) {
        self.forgotten_until = page.forgotten_until;
        for client in page.clients {
            self.by_use.insert((client.used, client.client));
            self.clients.insert(client.client, client);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const WINDOW: u64 = 4;
    const CLIENTS: usize = 3;

    fn request(client: u64, number: u64, since: u64) -> Request {
        Request { client: ClientId(client), number, since: Position(since) }
    }

    #[test]
    fn requests_within_the_window_come_in_any_order_and_are_executed_once() {
        let mut table = ClientTable::new(WINDOW, CLIENTS);
        for (position, number) in (1..).zip([3, 1, 4]) {
            assert_eq!(table.look_up(request(7, number, 0)), Known::New);
            table.note(request(7, number, 0), Position(position), number * 10);
        }
        assert_eq!(table.look_up(request(7, 3, 0)), Known::Executed(&30));
        assert_eq!(table.look_up(request(7, 2, 0)), Known::New);
        assert_eq!(table.look_up(request(7, 0, 0)), Known::TooOld);
        table.note(request(7, 5, 0), Position(4), 50);
        assert_eq!(table.look_up(request(7, 1, 0)), Known::TooOld, "it has been, and nobody knows any more");
        assert_eq!(table.look_up(request(7, 2, 0)), Known::New);
    }

    #[test]
    fn what_is_kept_aside_moves_no_window_and_is_bounded() {
        let mut table = ClientTable::new(WINDOW, CLIENTS);
        table.note(request(7, 1, 0), Position(1), 10);
        for number in [u64::MAX, 1_000, 1_001, 1_002] {
            assert!(table.set_aside(request(7, number, 0), Position(2), 0));
        }
        assert!(!table.set_aside(request(7, 1_003, 0), Position(3), 0), "as many as the window holds");
        assert_eq!(table.look_up(request(7, 2, 0)), Known::New);
        table.note(request(7, 2, 0), Position(4), 20);
        assert!(table.set_aside(request(7, 0, 0), Position(5), 0), "this one lies in the window");
        assert_eq!(table.look_up(request(7, 1_000, 0)), Known::Executed(&0), "it may still come");
        table.note(request(7, 1_004, 0), Position(6), 30);
        assert_eq!(table.look_up(request(7, 1_000, 0)), Known::TooOld);
        assert_eq!(table.look_up(request(7, 1_001, 0)), Known::Executed(&0));
        assert!(table.set_aside(request(7, 2_000, 0), Position(7), 0), "there is room again");
        // Of somebody who is not known the same.
        assert!(table.set_aside(request(8, u64::MAX, 0), Position(8), 0));
        assert_eq!(table.look_up(request(8, 1, 0)), Known::New);
    }

    #[test]
    fn who_is_forgotten_does_not_pass_for_a_new_client() {
        let mut table = ClientTable::new(WINDOW, CLIENTS);
        for client in 1..=3 {
            table.note(request(client, 1, 0), Position(client), client);
        }
        table.note(request(1, 2, 0), Position(4), 1);
        table.note(request(9, 1, 0), Position(5), 9);
        assert_eq!(table.clients(), 3);
        assert_eq!(table.look_up(request(1, 2, 0)), Known::Executed(&1), "it was served after others");
        assert_eq!(table.look_up(request(2, 1, 0)), Known::TooOld);
        assert_eq!(table.look_up(request(8, 1, 1)), Known::TooOld, "nobody can tell it from a forgotten one");
        assert_eq!(table.look_up(request(8, 1, 2)), Known::New);
        // A client that comes back is remembered from then on only.
        table.note(request(2, 2, 5), Position(6), 22);
        assert_eq!(table.look_up(request(2, 1, 0)), Known::TooOld);
        assert_eq!(table.look_up(request(2, 3, 3)), Known::New);
    }

    /// The acts of clients: they send something new, or something once more.
    #[derive(Clone, Debug)]
    enum Act {
        Send {
            client: u64,
            ahead: u64,
        },
        Again {
            which: usize,
        },
        /// Another replica is given the table.
        Copy {
            clients: usize,
        },
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            3 => (0..6_u64, 0..3_u64).prop_map(|(client, ahead)| Act::Send { client, ahead }),
            3 => any::<usize>().prop_map(|which| Act::Again { which }),
            1 => (1..4_usize).prop_map(|clients| Act::Copy { clients }),
        ]
    }

    proptest! {
        /// The model remembers everything that was ever executed.
        #[test]
        fn nothing_is_executed_twice_and_nothing_recent_is_refused(acts in prop::collection::vec(act(), 1..200)) {
            let mut table = ClientTable::new(WINDOW, CLIENTS);
            let mut executed: BTreeMap<(ClientId, u64), u64> = BTreeMap::new();
            let mut served: BTreeMap<ClientId, u64> = BTreeMap::new();
            let mut sent: Vec<Request> = Vec::new();
            let mut numbers = [0_u64; 6];
            let mut position = 0;
            for act in acts {
                let (request, is_first) = match act {
                    Act::Send { client, ahead } => {
                        let number = &mut numbers[client as usize];
                        *number += 1 + ahead;
                        let request = request(client, *number, position);
                        sent.push(request);
                        (request, true)
                    }
                    Act::Again { .. } if sent.is_empty() => continue,
                    Act::Again { which } => (sent[which % sent.len()], false),
                    Act::Copy { clients } => {
                        let mut copy = ClientTable::new(WINDOW, CLIENTS);
                        let mut after = None;
                        while let Some(page) = table.page(after, clients) {
                            after = page.clients.last().map(|client| client.client);
                            copy.take_page(page);
                        }
                        prop_assert_eq!(&copy, &table);
                        table = copy;
                        continue;
                    }
                };
                let known = executed.get(&(request.client, request.number)).copied();
                match table.look_up(request) {
                    Known::New => {
                        prop_assert_eq!(known, None, "{:?} is executed again", request);
                        position += 1;
                        executed.insert((request.client, request.number), position);
                        served.insert(request.client, position);
                        table.note(request, Position(position), position);
                    }
                    Known::Executed(result) => prop_assert_eq!(Some(*result), known),
                    Known::TooOld => {
                        prop_assert!(!is_first, "what is sent knowing the log as it is, is served");
                        let newest = executed.keys().filter(|(client, _)| *client == request.client);
                        let newest = newest.map(|(_, number)| *number).max().unwrap_or(0);
                        let later = served.values().filter(|served| **served > request.since.0).count();
                        prop_assert!(
                            newest >= request.number + WINDOW || later > CLIENTS,
                            "{:?} is refused without need", request
                        );
                    }
                }
                prop_assert!(table.clients() <= CLIENTS);
                let kept = table.clients.values().map(|client| client.results.len()).max();
                prop_assert!(kept.unwrap_or(0) <= WINDOW as usize);
            }
        }
    }
}
