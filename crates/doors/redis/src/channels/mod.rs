//! The channels of a door: who subscribes, and who hears what is published.
//!
//! ```text
//!   PUBLISH ─► Databases::announce ─► the other doors of the cluster ─► their `hear` ─┐
//!      └────────────────────► Channels::deliver ◄─────────────────────────────────────┘
//!                                  └─► a mailbox for each subscriber ─► its connection
//! ```
//!
//! Messages are heard at most once, and stored nowhere (ADR 0063). Publishing never waits for a subscriber:
//! one that takes its messages more slowly than they come is cut off.
//!
//! | file | role |
//! |---|---|
//! | `message` | a message, and its bytes between doors |
//! | `mailbox` | the messages that wait for one subscriber |
//! | `subscriber` | what one client subscribes to |

mod mailbox;
mod message;
mod subscriber;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use quorate_gateway::Session;
use quorate_redis_commands::{Reply, matches};

use crate::local::is_word;
use mailbox::Delivery;
pub(crate) use mailbox::Mailbox;
use message::Kept;
pub(crate) use message::Message;
pub(crate) use subscriber::Subscriber;

/// So many bytes of messages may wait in all mailboxes of a door together. Beyond that the subscriber for which most waits is cut off.
const HELD_BYTES_MAX: usize = 128 * 1024 * 1024;

/// So many different patterns may be subscribed to at a door: each message is matched against all of them.
const PATTERNS_MAX: usize = 10_000;

/// The channel of one message is matched against patterns for so many steps at most, by an estimate from above. Patterns beyond that do not match: they hold up
/// everybody else at the door.
const MATCHING_STEPS_MAX: usize = 20_000_000;

/// A single pattern is given up after so many steps, wherever patterns are matched.
const PATTERN_STEPS_MAX: usize = 100_000;

/// The topic of the announcements of doors to each other.
pub(crate) const TOPIC: &str = "redis";

/// The kinds of subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// To a channel.
    Channel,
    /// To all channels whose names match a pattern.
    Pattern,
    /// To a shard channel.
    Shard,
}

/// Subscribers by their numbers.
type Subscribers = BTreeMap<u64, Arc<Mailbox>>;

/// Subscribers by what they subscribe to.
#[derive(Debug, Default)]
struct Subscriptions {
    channels: BTreeMap<Bytes, Subscribers>,
    patterns: BTreeMap<Bytes, Subscribers>,
    shards: BTreeMap<Bytes, Subscribers>,
}

impl Subscriptions {
    fn of(&self, kind: Kind) -> &BTreeMap<Bytes, Subscribers> {
        match kind {
            Kind::Channel => &self.channels,
            Kind::Pattern => &self.patterns,
            Kind::Shard => &self.shards,
        }
    }

    fn of_mut(&mut self, kind: Kind) -> &mut BTreeMap<Bytes, Subscribers> {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Pattern => &mut self.patterns,
            Kind::Shard => &mut self.shards,
        }
    }

    /// The mailboxes that a message is for, each with the pattern that its channel matches, if that is why.
    fn receivers<'a>(
        &'a self,
        message: &'a Message,
    ) -> impl Iterator<Item = (Option<&'a Bytes>, &'a Arc<Mailbox>)> {
        let direct = if message.is_shard { &self.shards } else { &self.channels };
        let direct = direct.get(&message.channel).into_iter().flatten().map(|(_, mailbox)| (None, mailbox));
        let mut left = MATCHING_STEPS_MAX;
        let mut is_matched = move |pattern: &Bytes| {
            let (channel, is_shard) = (&message.channel, message.is_shard);
            if is_shard || !begins_alike(pattern, channel) {
                return false;
            }
            let steps = pattern.len() * (channel.len() + 1);
            match left.checked_sub(steps.min(PATTERN_STEPS_MAX)) {
                Some(rest) => {
                    left = rest;
                    matches(pattern, channel)
                }
                None => false,
            }
        };
        let matching = self.patterns.iter().filter(move |(pattern, _)| is_matched(pattern));
        let matched = matching.flat_map(|(pattern, subscribers)| {
            subscribers.values().map(move |mailbox| (Some(pattern), mailbox))
        });
        direct.chain(matched)
    }
}

/// The channels of a door.
#[derive(Debug)]
pub(crate) struct Channels {
    /// Tells this door from others.
    origin: u64,
    subscriptions: Mutex<Subscriptions>,
    next_subscriber: AtomicU64,
    /// The bytes that all mailboxes hold, each message counted once.
    held: Arc<AtomicUsize>,
}

impl Default for Channels {
    fn default() -> Self {
        // Two doors that both had none would pass over what the other one tells.
        let origin = getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()));
        Channels {
            origin,
            subscriptions: Mutex::default(),
            next_subscriber: AtomicU64::new(0),
            held: Arc::new(AtomicUsize::new(0)),
        }
    }
}

impl Channels {
    fn lock(&self) -> MutexGuard<'_, Subscriptions> {
        // Nothing panics while it is held.
        self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of this door, by which it knows its own messages.
    pub(crate) fn origin(&self) -> u64 {
        self.origin
    }

    /// Gives a message to the subscribers at this door, and tells how many receive it: one with several subscriptions that match, several times.
    pub(crate) fn deliver(&self, message: Message) -> usize {
        let kept = Arc::new(Kept::new(message, &self.held));
        let subscriptions = self.lock();
        let mut count = 0;
        for (pattern, mailbox) in subscriptions.receivers(&kept.message) {
            mailbox.push(Delivery { pattern: pattern.cloned(), kept: Arc::clone(&kept) });
            count += 1;
        }
        if self.held.load(Ordering::Relaxed) > HELD_BYTES_MAX {
            cut_fullest(&subscriptions);
        }
        count
    }

    /// How many would receive a message that was published now.
    pub(crate) fn receivers(&self, message: &Message) -> usize {
        self.lock().receivers(message).count()
    }

    /// How many channels, patterns and shard channels are subscribed to.
    pub(crate) fn counts(&self) -> [usize; 3] {
        let subscriptions = self.lock();
        [Kind::Channel, Kind::Pattern, Kind::Shard].map(|kind| subscriptions.of(kind).len())
    }

    /// `PUBSUB`.
    pub(crate) fn ask(&self, words: &[Bytes]) -> Reply {
        let subscriptions = self.lock();
        let named = |kind: Kind, pattern: Option<&Bytes>| {
            let names = subscriptions.of(kind).keys();
            let wanted = names.filter(|name| pattern.is_none_or(|pattern| matches(pattern, name)));
            Reply::Array(wanted.map(Reply::bulk).collect())
        };
        let counted = |kind: Kind| {
            let of = |name: &Bytes| subscriptions.of(kind).get(name).map_or(0, BTreeMap::len);
            Reply::Array(
                words[2..].iter().flat_map(|name| [Reply::bulk(name), Reply::count(of(name))]).collect(),
            )
        };
        let is = |name: &str| is_word(&words[1], name);
        match &words[2..] {
            [] | [_] if is("CHANNELS") => named(Kind::Channel, words.get(2)),
            [] | [_] if is("SHARDCHANNELS") => named(Kind::Shard, words.get(2)),
            _ if is("NUMSUB") => counted(Kind::Channel),
            _ if is("SHARDNUMSUB") => counted(Kind::Shard),
            [] if is("NUMPAT") => Reply::count(subscriptions.patterns.len()),
            _ => {
                let subcommand = String::from_utf8_lossy(&words[1]);
                let text = format!(
                    "ERR unknown subcommand or wrong number of arguments for '{subcommand}'. Try PUBSUB HELP."
                );
                Reply::error(text)
            }
        }
    }
}

/// True if a channel begins with the bytes that a pattern begins with, as far as these stand for themselves: most patterns are told from most channels by that.
fn begins_alike(pattern: &[u8], channel: &[u8]) -> bool {
    let literal = pattern.iter().position(|byte| b"*?[\\".contains(byte)).unwrap_or(pattern.len());
    channel.starts_with(&pattern[..literal])
}

/// Cuts off the subscriber for which most waits.
fn cut_fullest(subscriptions: &Subscriptions) {
    let kinds = [Kind::Channel, Kind::Pattern, Kind::Shard];
    let mailboxes = kinds.iter().flat_map(|kind| subscriptions.of(*kind).values().flat_map(BTreeMap::values));
    if let Some(fullest) = mailboxes.max_by_key(|mailbox| mailbox.bytes()) {
        fullest.cut();
    }
}

/// Hears the other doors of the cluster, as long as the door is open.
pub(crate) async fn hear(session: &Session, channels: &Channels) {
    /// How long to wait before the cluster is tried again.
    const PAUSE: Duration = Duration::from_millis(250);
    let mut announcements = loop {
        let heard = match session.database().await {
            Ok(database) => database.announcements(TOPIC),
            Err(error) => Err(error),
        };
        match heard {
            Ok(announcements) => break announcements,
            Err(error) => tracing::debug!(%error, "other doors are not heard yet"),
        }
        tokio::time::sleep(PAUSE).await;
    };
    /// Others have their turn after so many messages.
    const TURN: usize = 32;
    let mut lost = 0;
    for heard in 1_usize.. {
        if heard % TURN == 0 {
            tokio::task::yield_now().await;
        }
        let announcement = announcements.next().await;
        match Message::decode(&announcement.content) {
            Some((origin, _)) if origin == channels.origin() => {}
            Some((_, message)) => {
                channels.deliver(message);
            }
            None => {
                tracing::debug!(from = %announcement.from, "a door tells of a message that makes no sense here");
            }
        }
        if announcements.lost() > lost {
            lost = announcements.lost();
            tracing::warn!(lost, "other doors publish faster than this one delivers");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscriber(channels: &Arc<Channels>, kind: Kind, name: &'static str) -> Subscriber {
        let mut subscriber = Subscriber::new(channels);
        subscriber.subscribe(kind, &[Bytes::from_static(name.as_bytes())]).unwrap();
        subscriber
    }

    fn publish(channels: &Channels, channel: &str, content: &[u8], is_shard: bool) -> usize {
        channels.deliver(Message::new(channel.as_bytes(), content, is_shard).unwrap())
    }

    #[test]
    fn a_message_reaches_those_whose_subscriptions_match() {
        let channels = Arc::new(Channels::default());
        let news = subscriber(&channels, Kind::Channel, "news");
        let all = subscriber(&channels, Kind::Pattern, "n*");
        let shard = subscriber(&channels, Kind::Shard, "news");
        assert_eq!(publish(&channels, "news", b"1", false), 2);
        assert_eq!(publish(&channels, "nothing", b"2", false), 1);
        assert_eq!(publish(&channels, "news", b"3", true), 1);
        let contents = |subscriber: &Subscriber| {
            let next = || subscriber.mailbox().take().unwrap();
            std::iter::from_fn(next).map(|next| next.kept.message.content.clone()).collect::<Vec<_>>()
        };
        assert_eq!(contents(&news), ["1"]);
        assert_eq!(contents(&all), ["1", "2"]);
        assert_eq!(contents(&shard), ["3"]);
        drop((news, all, shard));
        assert_eq!(publish(&channels, "news", b"4", false), 0);
        assert_eq!(channels.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn no_pattern_is_passed_over_that_matches() {
        for (pattern, channel, is_alike) in [
            ("news", "news", true),
            ("news.*", "news.a", true),
            ("news.*", "new", false),
            ("n?ws", "nxws", true),
            ("n[e]ws", "news", true),
            ("n\\ews", "news", true),
            ("*", "", true),
            ("old.*", "news.a", false),
        ] {
            assert_eq!(begins_alike(pattern.as_bytes(), channel.as_bytes()), is_alike, "{pattern}");
            assert!(is_alike || !matches(pattern.as_bytes(), channel.as_bytes()), "{pattern}");
        }
    }

    #[test]
    fn patterns_that_take_long_hold_nobody_up() {
        let channels = Arc::new(Channels::default());
        let mut hostile = Subscriber::new(&channels);
        let slow = |number: usize| Bytes::from(format!("*{}b{number}", "a".repeat(500)));
        hostile.subscribe(Kind::Pattern, &(0..PATTERNS_MAX).map(slow).collect::<Vec<_>>()).unwrap();
        let begun = std::time::Instant::now();
        assert_eq!(publish(&channels, &"a".repeat(60_000), b"m", false), 0);
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }

    #[test]
    fn all_mailboxes_together_hold_no_more_than_they_may() {
        let channels = Arc::new(Channels::default());
        let lazy: Vec<Subscriber> = (0..8).map(|_| subscriber(&channels, Kind::Channel, "c")).collect();
        let busy = subscriber(&channels, Kind::Channel, "c");
        let content = vec![b'm'; 900_000];
        for _ in 0..40 {
            publish(&channels, "c", &content, false);
            assert!(matches!(busy.mailbox().take(), Ok(Some(_))), "the others disturb nobody");
        }
        assert!(channels.held.load(Ordering::Relaxed) <= HELD_BYTES_MAX);
        assert!(lazy.iter().all(|lazy| lazy.mailbox().take().is_err()), "each has had too much");
    }

    #[test]
    fn patterns_of_a_door_are_bounded() {
        let channels = Arc::new(Channels::default());
        let mut greedy = Subscriber::new(&channels);
        let names = |from: usize, to: usize| -> Vec<Bytes> {
            (from..to).map(|number| Bytes::from(format!("p{number}*"))).collect()
        };
        greedy.subscribe(Kind::Pattern, &names(0, PATTERNS_MAX)).unwrap();
        assert!(greedy.subscribe(Kind::Pattern, &names(PATTERNS_MAX, PATTERNS_MAX + 1)).is_err());
        let mut other = Subscriber::new(&channels);
        other.subscribe(Kind::Pattern, &names(0, 1)).unwrap();
        assert!(other.subscribe(Kind::Pattern, &names(PATTERNS_MAX, PATTERNS_MAX + 1)).is_err());
        drop(greedy);
        other.subscribe(Kind::Pattern, &names(PATTERNS_MAX, PATTERNS_MAX + 1)).unwrap();
    }
}
