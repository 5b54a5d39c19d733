//! The surroundings of machines in a world: the two sides of its fabric, that of servers and that of clients.

use std::time::Duration;

use quorate_core::{Address, ClockTime, Instant, Machine};

use super::disk::Crash;
use super::host::{About, HostEvent, Surroundings};
use super::steps::{Moment, Party};
use super::{Envelope, Event, Fabric, Happening, Protocol, first_word, kind};

/// The surroundings of a server.
pub(super) struct ServerSide<'a, P: Protocol, A>(pub(super) &'a mut Fabric<P, A>);

/// The surroundings of a client.
pub(super) struct ClientSide<'a, P: Protocol, A>(pub(super) &'a mut Fabric<P, A>);

/// How a step, a record and the end of a machine are witnessed.
type Witnesses<P, A, M> = (
    fn(&mut Fabric<P, A>, Address, usize, &M),
    fn(&mut Fabric<P, A>, Address, &<M as Machine>::Record),
    fn(&mut Fabric<P, A>, Address),
);

macro_rules! surroundings {
    ($side:ident, $machine:ident, $event:ident, $kind:expr, $witness:expr, $unheard:expr) => {
        impl<P: Protocol, A> Surroundings<P::$machine> for $side<'_, P, A> {
            fn now(&self, node: usize) -> Instant {
                self.0.paces[node].local(self.0.now)
            }

            fn lasting(&self, node: usize, after: Duration) -> Duration {
                self.0.paces[node].lasting(self.0.now, after)
            }

            fn clock(&self, node: usize) -> ClockTime {
                self.0.clock(node)
            }

            fn transmit(&mut self, node: usize, envelope: Envelope<P::Message>) {
                self.0.transmit(node, envelope);
            }

            fn emitted(&mut self, host: usize, event: <P::$machine as Machine>::Event) {
                self.0.trace.event(self.0.now, $kind, host as u64, 0);
                self.0.trace.line(self.0.now, || format!("{} {host} ⇒ {event:?}", stringify!($event)));
                self.0.happenings.push_back(Happening::$event(host, event));
            }

            fn unheard(&mut self, host: usize, event: <P::$machine as Machine>::Event) {
                let unheard: fn(usize, <P::$machine as Machine>::Event) -> Option<Happening<P, A>> = $unheard;
                self.0.happenings.extend(unheard(host, event));
            }

            fn schedule(&mut self, after: Duration, event: HostEvent<<P::$machine as Machine>::Timer>) {
                self.0.queue.push(self.0.now + after, Event::$event(event));
            }

            fn appended(&mut self, node: usize, bytes: usize) {
                self.0.appended(node, bytes);
            }

            fn sync_time(&mut self, node: usize, bytes: usize) -> Duration {
                self.0.sync_time(node, bytes)
            }

            fn stopped(&mut self, host: usize, why: &str) {
                self.0.trace.event(self.0.now, kind::STOPPED, host as u64, 0);
                self.0.trace.line(self.0.now, || format!("{} {host} ends: {why}", stringify!($event)));
                self.0.happenings.push_back(Happening::Stopped(host));
            }

            fn stepped(&mut self, address: Address, node: usize, machine: &P::$machine) {
                let (step, _, _): Witnesses<P, A, P::$machine> = $witness;
                step(self.0, address, node, machine);
            }

            fn kept(&mut self, address: Address, record: &<P::$machine as Machine>::Record) {
                let (_, keep, _): Witnesses<P, A, P::$machine> = $witness;
                keep(self.0, address, record);
            }

            fn lost(&mut self, address: Address) {
                let (_, _, lose): Witnesses<P, A, P::$machine> = $witness;
                lose(self.0, address);
            }

            fn ignored(&mut self, host: usize, reason: &'static str) {
                self.0
                    .trace
                    .line(self.0.now, || format!("✗ {} {host} ignores it: {reason}", stringify!($event)));
            }

            fn reach(&mut self, host: usize, moment: Moment, about: About<'_, P::$machine>) -> Option<Crash> {
                let describe = || match about {
                    About::Message(message) => (P::name(message), P::coordinates(message)),
                    About::Record(record) => (first_word(record), false),
                    About::Disk => (String::new(), false),
                };
                self.0.steps.as_mut()?.reach(self.0.now, Party::$event(host), moment, describe)
            }

            fn crashed(&mut self, host: usize, crash: Crash) {
                self.0.trace.event(self.0.now, kind::CRASHED, $kind << 32 | host as u64, crash as u64);
                self.0.trace.line(self.0.now, || format!("{} {host} crashes: {crash:?}", stringify!($event)));
                self.0.happenings.push_back(Happening::Crashed(Party::$event(host), crash));
            }
        }
    };
}

surroundings!(
    ServerSide,
    Server,
    Server,
    kind::SERVER_EMITTED,
    (Fabric::witness_step, Fabric::witness_record, Fabric::witness_loss),
    |server, event| Some(Happening::Unheard(server, event))
);
// The acts of clients prove nothing: they may lie.
surroundings!(
    ClientSide,
    Client,
    Client,
    kind::CLIENT_EMITTED,
    (|_, _, _, _| {}, |_, _, _| {}, |_, _| {}),
    |_, _| None
);
