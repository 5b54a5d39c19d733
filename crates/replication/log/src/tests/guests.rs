//! A participant without a part of the log: what its machine asks for is asked for, and nothing else is said to it.

use std::convert::Infallible;
use std::time::Duration;

use quorate_core::machine::{Context, Effect, Input, InputOf, Machine, Outbox, OutboxOf};
use quorate_core::{Address, ClientId, ClockTime, Epoch, Instant, Random};

use super::members::list::{Ask, List};
use crate::member::MessageOf;
use crate::{Guest, Message, Part};

/// A machine that does with everything what it is told to.
struct Puppet;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pull {
    Send,
    SendAtOnce,
    SetTimer,
    CancelTimer,
    Ignore,
}

const OTHER: Address = Address::Client(ClientId(3));

impl Machine for Puppet {
    type Message = Ask;
    type Timer = u8;
    type Record = Infallible;
    type Command = Pull;
    /// The input that it was given.
    type Event = String;
    type Config = ();

    fn restore((): (), _: impl IntoIterator<Item = Infallible>) -> Self {
        Puppet
    }

    fn epoch(&self, _: Address) -> Epoch {
        Epoch(5)
    }

    fn step(&mut self, _: &mut Context<'_>, input: InputOf<Self>, outbox: &mut OutboxOf<Self>) {
        match input {
            Input::Command(Pull::Send) => outbox.send(OTHER, Ask::Append(1)),
            Input::Command(Pull::SendAtOnce) => outbox.send_unordered(OTHER, Ask::Append(2)),
            Input::Command(Pull::SetTimer) => outbox.set_timer(3, Duration::from_secs(4)),
            Input::Command(Pull::CancelTimer) => outbox.cancel_timer(3),
            Input::Command(Pull::Ignore) => outbox.ignored("a reason"),
            other => outbox.emit(format!("{other:?}")),
        }
    }
}

type Puppeteer = Guest<Puppet, List>;

type Asked = Effect<MessageOf<List>, u8, Infallible, String>;

/// The requests of a guest, and its reasons for dropping messages.
fn steps(input: InputOf<Puppeteer>) -> (Vec<Asked>, Vec<&'static str>) {
    let mut guest = Puppeteer::restore((), []);
    let mut outbox: OutboxOf<Puppeteer> = Outbox::new();
    let clock = ClockTime::from_micros(1);
    let mut random = Random::new(1);
    guest.step(&mut Context { now: Instant::START, clock, random: &mut random }, input, &mut outbox);
    let ignored = outbox.take_ignored().into_iter().collect();
    (outbox.drain().collect(), ignored)
}

#[test]
fn what_the_machine_of_a_guest_asks_for_is_asked_for() {
    let table = [
        (Pull::Send, Effect::Send { to: OTHER, message: Part::Own(Ask::Append(1)) }),
        (Pull::SendAtOnce, Effect::SendUnordered { to: OTHER, message: Part::Own(Ask::Append(2)) }),
        (Pull::SetTimer, Effect::SetTimer { timer: 3, after: Duration::from_secs(4) }),
        (Pull::CancelTimer, Effect::CancelTimer(3)),
    ];
    for (pull, effect) in table {
        assert_eq!(steps(Input::Command(pull)), (vec![effect], vec![]));
    }
    assert_eq!(steps(Input::Command(Pull::Ignore)), (vec![], vec!["a reason"]));
    assert_eq!(Puppeteer::restore((), []).epoch(OTHER), Epoch(5));
}

#[test]
fn the_machine_of_a_guest_is_given_what_is_for_it() {
    let given = |input| steps(input).0.len();
    assert_eq!(given(Input::Start), 1);
    assert_eq!(given(Input::Timer(1)), 1);
    let message = Part::Own(Ask::Append(7));
    assert_eq!(given(Input::Message { from: OTHER, epoch: Epoch(5), message }), 1);
    let message = Part::Log(Message::EpochStarted);
    let (effects, ignored) = steps(Input::Message { from: OTHER, epoch: Epoch(5), message });
    assert_eq!((effects, ignored.len()), (vec![], 1), "replicas of a log have nothing to say to it");
}
