//! A client that subscribes, and what it is sent without having asked for each of it.
//!
//! In version 2 of the protocol a subscriber may do little else, because its messages look like replies. In version 3 they do not.

use bytes::Bytes;
use quorate_gateway::{Ended, Right, Scope};
use quorate_redis_commands::{Reply, check, find, unknown_command};

use super::{Client, OUTPUT_BYTES_MAX, Replies, State};
use crate::blocking;
use crate::channels::{Kind, Message, Subscriber};
use crate::codec::{Part, Version, write_push};
use crate::databases::Databases;
use crate::local;
use crate::local::clients::Peer;
use crate::permission::{Wanted, literal_head};

/// Subscribing to something, or not any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    kind: Kind,
    begins: bool,
}

/// The change that a command makes; none if it makes none.
pub(super) fn change_of(name: &str) -> Option<Change> {
    let (kind, begins) = match name {
        "subscribe" => (Kind::Channel, true),
        "psubscribe" => (Kind::Pattern, true),
        "ssubscribe" => (Kind::Shard, true),
        "unsubscribe" => (Kind::Channel, false),
        "punsubscribe" => (Kind::Pattern, false),
        "sunsubscribe" => (Kind::Shard, false),
        _ => return None,
    };
    Some(Change { kind, begins })
}

/// The word that a confirmation begins with.
fn confirmed(change: Change) -> &'static [u8] {
    match (change.kind, change.begins) {
        (Kind::Channel, true) => b"subscribe",
        (Kind::Pattern, true) => b"psubscribe",
        (Kind::Shard, true) => b"ssubscribe",
        (Kind::Channel, false) => b"unsubscribe",
        (Kind::Pattern, false) => b"punsubscribe",
        (Kind::Shard, false) => b"sunsubscribe",
    }
}

impl State {
    /// True if the client may do little but subscribe.
    pub(crate) fn is_restricted(&self) -> bool {
        self.version == Version::Two && self.subscriber.is_some()
    }

    /// The reason why a restricted client may not give this command, if it may not.
    pub(super) fn refusal(&self, words: &[Bytes]) -> Option<Reply> {
        if !self.is_restricted() {
            return None;
        }
        let name = if let Some(command) = find(&words[0]).filter(|command| !command.is_internal()) {
            match check(&command, words) {
                Ok(()) => command.name.to_owned(),
                Err(reply) => return Some(reply),
            }
        } else if let Some(waits) = blocking::find(&words[0]) {
            match waits.check(words) {
                Ok(()) => waits.name.to_owned(),
                Err(reply) => return Some(reply),
            }
        } else if let Some(local) = local::find(&words[0]) {
            match local.check(words) {
                Ok(()) if change_of(local.name).is_some() => return None,
                Ok(()) if ["ping", "quit", "reset"].contains(&local.name) => return None,
                Ok(()) => local.full_name(words),
                Err(reply) => return Some(reply),
            }
        } else {
            return Some(unknown_command(words));
        };
        Some(Reply::error(format!(
            "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
        )))
    }
}

/// Ends when a message waits for the client; never if it subscribes to nothing.
pub(super) async fn message(subscriber: Option<&Subscriber>) {
    match subscriber {
        Some(subscriber) => subscriber.mailbox().rung().await,
        None => std::future::pending().await,
    }
}

/// Ends when the connection has to, whatever the client takes.
async fn cut_off(subscriber: Option<&Subscriber>, peer: &Peer) -> Ended {
    let is_behind = async {
        match subscriber {
            Some(subscriber) => subscriber.mailbox().is_cut().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = is_behind => Ended::Behind,
        () = peer.killed() => Ended::Killed,
    }
}

impl<D: Databases> Client<'_, D> {
    /// Subscribes, or does so no more: each name is confirmed by itself, whether or not the client wants replies.
    pub(super) async fn change_subscriptions(
        &mut self,
        change: Change,
        names: &[Bytes],
    ) -> Result<(), Ended> {
        if self.state.multi.is_some() {
            let text = "ERR unsupported: to subscribe in a transaction, whose commands have one reply each";
            return self.refuse(Reply::error(text)).await;
        }
        if self.state.replies == Replies::Skip {
            self.state.replies = Replies::On;
        }
        if change.begins {
            self.subscribe(change, names);
            return Ok(());
        }
        let names = match &self.state.subscriber {
            Some(subscriber) if names.is_empty() => subscriber.names(change.kind),
            _ => names.to_vec(),
        };
        if names.is_empty() {
            self.confirm(change, None, self.state.subscriber.as_ref().map_or(0, |of| of.told(change.kind)));
        }
        for name in &names {
            if let Some(subscriber) = &mut self.state.subscriber {
                subscriber.unsubscribe(change.kind, name);
            }
            // Its last messages come before the confirmation.
            while self.write_messages()? {
                self.send().await?;
            }
            let told = self.state.subscriber.as_ref().map_or(0, |subscriber| subscriber.told(change.kind));
            self.confirm(change, Some(name), told);
        }
        self.state.subscriber.take_if(|subscriber| subscriber.is_empty());
        Ok(())
    }

    fn subscribe(&mut self, change: Change, names: &[Bytes]) {
        for name in names {
            let channels = match change.kind {
                Kind::Pattern => Scope::Prefix(literal_head(name)),
                Kind::Channel | Kind::Shard => Scope::Key(name),
            };
            if let Err(failure) = self.databases.require(Right::Subscribe { channels }, Wanted::Channel) {
                return self.reply(&failure.reply());
            }
        }
        let channels = &self.facts.channels;
        let subscriber = self.state.subscriber.get_or_insert_with(|| Subscriber::new(channels));
        match subscriber.subscribe(change.kind, names) {
            Ok(told) => {
                for (name, told) in names.iter().zip(told) {
                    self.confirm(change, Some(name), told);
                }
            }
            Err(reply) => self.reply(&reply),
        }
        self.state.subscriber.take_if(|subscriber| subscriber.is_empty());
    }

    fn confirm(&mut self, change: Change, name: Option<&Bytes>, told: usize) {
        let name = name.map_or(Part::Null, |name| Part::Bytes(name));
        let parts = [Part::Bytes(confirmed(change)), name, Part::Number(told as i64)];
        write_push(&mut self.connection.output, &parts, self.state.version);
    }

    /// Writes messages that wait for the client, as many as are sent together; true if that is not all.
    pub(super) fn write_messages(&mut self) -> Result<bool, Ended> {
        let Some(subscriber) = &self.state.subscriber else { return Ok(false) };
        let (output, version) = (&mut self.connection.output, self.state.version);
        while output.len() < OUTPUT_BYTES_MAX {
            let Some(delivery) = subscriber.mailbox().take()? else { return Ok(false) };
            let Message { channel, content, is_shard } = &delivery.kept.message;
            // The right, or the login, may have been taken away since.
            let channels = Scope::Key(channel);
            if self.databases.require(Right::Subscribe { channels }, Wanted::Channel).is_err() {
                return Err(Ended::Denied);
            }
            let (channel, content) = (Part::Bytes(channel), Part::Bytes(content));
            match &delivery.pattern {
                Some(pattern) => {
                    let parts = [Part::Bytes(b"pmessage"), Part::Bytes(pattern), channel, content];
                    write_push(output, &parts, version);
                }
                None => {
                    let kind: &[u8] = if *is_shard { b"smessage" } else { b"message" };
                    write_push(output, &[Part::Bytes(kind), channel, content], version);
                }
            }
        }
        Ok(true)
    }

    /// Sends what has been written. A subscriber that takes it more slowly than messages come is cut off.
    pub(super) async fn send(&mut self) -> Result<(), Ended> {
        let State { subscriber, peer, .. } = &self.state;
        tokio::select! {
            biased;
            sent = self.connection.send() => sent,
            ended = cut_off(subscriber.as_ref(), peer) => Err(ended),
        }
    }

    /// Waits for more of what the client sends, and sends it messages meanwhile; false if it sends no more.
    pub(super) async fn receive(&mut self, kept: usize) -> Result<bool, Ended> {
        loop {
            self.write_messages()?;
            self.send().await?;
            self.state.tell(&self.connection);
            let queued = self.state.multi.as_ref().map_or(0, |multi| multi.bytes);
            let State { subscriber, peer, .. } = &self.state;
            let subscriber = subscriber.as_ref();
            self.connection.set_aside(kept, queued + subscriber.map_or(0, Subscriber::bytes));
            tokio::select! {
                received = self.connection.receive() => return received,
                () = peer.killed() => return Err(Ended::Killed),
                () = message(subscriber) => {}
            }
        }
    }

    /// Publishes a message: to the other doors, and to the subscribers of this one, whose number is the reply.
    pub(super) async fn publish(&mut self, message: Message) -> Reply {
        let content = message.encode(self.facts.channels.origin());
        let right = Right::Publish { channel: &message.channel };
        if let Err(failure) = self.databases.require(right, Wanted::Channel) {
            return failure.reply();
        }
        if let Err(failure) = self.databases.announce(content).await {
            return failure.reply();
        }
        let count = self.facts.channels.deliver(message);
        Reply::count(count)
    }
}
