//! The transaction of a client, from `MULTI` to `EXEC`, and what it watches.

use bytes::Bytes;
use quorate_gateway::Place;
use quorate_redis_commands::{MARK, Mark, Reply, find};

use super::Client;
use crate::blocking::Wait;
use crate::channels::Message;
use crate::databases::Databases;
use crate::local::Local;
use crate::plan::{Asked, Watched};
use crate::scripts::Item;

/// The most that the commands of one `MULTI` may take, in bytes: more is more than a transaction.
const MULTI_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The cost of each queued word beside its bytes.
const WORD_BYTES: usize = 32;

/// A transaction while its commands are told.
#[derive(Debug, Default)]
pub(super) struct Multi {
    queued: Vec<Queued>,
    /// One of its commands makes no sense.
    pub(super) is_aborted: bool,
    /// The cost of the words of its commands, in bytes.
    pub(super) bytes: usize,
    /// Its place among the open transactions of its user, as long as it is open.
    _place: Option<Place>,
}

impl Multi {
    /// How many commands are queued.
    pub(super) fn len(&self) -> usize {
        self.queued.len()
    }

    /// True if no command is queued.
    pub(super) fn is_empty(&self) -> bool {
        self.queued.is_empty()
    }
}

#[derive(Debug)]
pub(super) enum Queued {
    Keys(Asked),
    Local(Local, Vec<Bytes>),
    /// A command that waits elsewhere, or what is wrong with it.
    Waits(Result<Wait, Reply>, Vec<Bytes>),
}

impl Queued {
    fn is_script(&self) -> bool {
        matches!(self, Queued::Local(local, _) if local.is_script())
    }

    fn publishes(&self) -> bool {
        matches!(self, Queued::Local(local, _) if local.publishes())
    }
}

impl<D: Databases> Client<'_, D> {
    pub(super) fn queue(&mut self, queued: Queued) {
        let Some(multi) = &mut self.state.multi else { return };
        let words = match &queued {
            Queued::Keys(asked) => &asked.words,
            Queued::Local(_, words) | Queued::Waits(_, words) => words,
        };
        multi.bytes += words.iter().map(|word| word.len() + WORD_BYTES).sum::<usize>();
        if multi.bytes > MULTI_BYTES_MAX {
            multi.is_aborted = true;
            multi.queued = Vec::new();
            let text =
                format!("ERR a transaction may not have more than {MULTI_BYTES_MAX} bytes of commands");
            return self.reply(&Reply::error(text));
        }
        if !multi.is_aborted {
            multi.queued.push(queued);
        }
        self.reply(&Reply::Simple("QUEUED".into()));
    }

    pub(super) fn begin(&mut self) {
        if self.state.multi.is_some() {
            return self.reply(&Reply::error("ERR MULTI calls can not be nested"));
        }
        match self.databases.open_transaction() {
            Ok(place) => self.state.multi = Some(Multi { _place: place, ..Multi::default() }),
            Err(failure) => return self.reply(&failure.reply()),
        }
        self.reply(&Reply::OK);
    }

    pub(super) fn discard(&mut self) {
        if self.state.multi.take().is_none() {
            return self.reply(&Reply::error("ERR DISCARD without MULTI"));
        }
        self.state.watched.clear();
        self.reply(&Reply::OK);
    }

    pub(super) async fn watch(&mut self, keys: &[Bytes]) {
        if self.state.multi.is_some() {
            return self.reply(&Reply::error("ERR WATCH inside MULTI is not allowed"));
        }
        let Some(command) = find(MARK.as_bytes()) else { return self.reply(&Reply::Null) };
        let words =
            std::iter::once(Bytes::from_static(MARK.as_bytes())).chain(keys.iter().cloned()).collect();
        let number = self.state.number;
        let mut executor = self.executor(number);
        let replies = executor.run_some(&[Asked { command, words }]).await;
        self.seed = executor.seed;
        match replies.into_iter().next() {
            Some(Reply::Array(marks)) => {
                for (key, mark) in keys.iter().zip(marks) {
                    let mark = if let Reply::Integer(mark) = mark { mark as Mark } else { 0 };
                    let is_known =
                        self.state.watched.iter().any(|(of, (known, _))| *of == number && known == key);
                    // The first watch of a key counts: it may have changed since.
                    if !is_known {
                        let key = Bytes::copy_from_slice(key);
                        self.state.watched.push((number, (key, mark)));
                    }
                }
                self.reply(&Reply::OK);
            }
            Some(error) => self.reply(&error),
            None => self.reply(&Reply::Null),
        }
    }

    pub(super) async fn execute(&mut self) {
        let Some(multi) = self.state.multi.take() else {
            return self.reply(&Reply::error("ERR EXEC without MULTI"));
        };
        let watched = std::mem::take(&mut self.state.watched);
        if multi.is_aborted {
            let text = "EXECABORT Transaction discarded because of previous errors.";
            return self.reply(&Reply::error(text));
        }
        let number = self.state.number;
        if watched.iter().any(|(of, _)| *of != number) {
            let text = "ERR unsupported: what is watched and what is changed lie in different databases";
            return self.reply(&Reply::error(text));
        }
        let watched: Vec<Watched> = watched.into_iter().map(|(_, watched)| watched).collect();
        let has_scripts = multi.queued.iter().any(Queued::is_script);
        let done = if has_scripts {
            let items = multi.queued.iter().filter_map(|queued| self.item(queued)).collect();
            self.run_scripts(items, watched).await
        } else {
            let asked: Vec<Asked> = multi.queued.iter().filter_map(asked).collect();
            self.facts.count(asked.len());
            let mut executor = self.executor(number);
            let done = executor.run_atomically(&asked, &watched).await;
            self.seed = executor.seed;
            self.facts.bells.ring(number, &asked);
            done
        };
        let mut done = match done {
            Ok(Some(replies)) => replies.into_iter(),
            Ok(None) => return self.reply(&Reply::NullArray),
            Err(failure) => return self.reply(&failure.reply()),
        };
        let mut replies = Vec::with_capacity(multi.queued.len());
        for queued in multi.queued {
            replies.push(match queued {
                queued if queued.is_script() || has_scripts && queued.publishes() => {
                    done.next().unwrap_or(Reply::Null)
                }
                Queued::Keys(_) => done.next().unwrap_or(Reply::Null),
                Queued::Waits(Ok(wait), _) => wait.reply_at_once(done.next().unwrap_or(Reply::Null)),
                Queued::Waits(Err(reply), _) => reply,
                // The commands behind it have been carried out already, in the database that there was.
                Queued::Local(local, words) if local.name == "select" => match self.select(&words[1]) {
                    Reply::Simple(_) if self.state.number != number => {
                        self.state.number = number;
                        Reply::error("ERR unsupported: another database in a transaction")
                    }
                    reply => reply,
                },
                Queued::Local(local, words) => self.local_reply(local, &words).await.unwrap_or(Reply::Null),
            });
        }
        self.reply(&Reply::Array(replies));
    }

    /// The part of a transaction with scripts that has been queued; none if it touches no key.
    fn item(&self, queued: &Queued) -> Option<Item> {
        match queued {
            Queued::Keys(asked) => Some(Item::command(&asked.words)),
            Queued::Waits(Ok(wait), _) => Some(Item::command(&wait.asked.words)),
            Queued::Local(local, words) if local.is_script() => {
                Some(self.facts.scripts.called(local.name, words))
            }
            // In its place among what scripts publish.
            Queued::Local(local, words) if local.publishes() => {
                let message = Message::new(&words[1], &words[2], local.name == "spublish");
                Some(message.map_or_else(Item::Reply, Item::Publish))
            }
            Queued::Local(..) | Queued::Waits(Err(_), _) => None,
        }
    }
}

fn asked(queued: &Queued) -> Option<Asked> {
    match queued {
        Queued::Keys(asked) => Some(asked.clone()),
        Queued::Waits(Ok(wait), _) => Some(wait.asked.clone()),
        Queued::Local(..) | Queued::Waits(Err(_), _) => None,
    }
}
