//! One connection to a door, and how a transaction ends there.

use std::time::Duration;

use bytes::BytesMut;
use redis_protocol::resp2::types::BytesFrame;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::transaction::{Form, Transaction};
use crate::redis::{Words, encode, read, words};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection that one client uses.
pub(super) struct Link {
    stream: TcpStream,
    input: BytesMut,
}

/// The end of a transaction as its client sees it.
#[derive(Debug, PartialEq)]
pub(super) enum End {
    /// It was carried out; the replies to all its commands.
    Done(Vec<BytesFrame>),
    /// It was surely not carried out, as another one was in the way.
    Conflict,
    /// It was surely not carried out, for this reason.
    Refused(String),
    /// It may have been carried out.
    Unknown,
    /// The connection has ended, and the transaction was surely not carried out.
    Lost,
    /// The connection has ended, and the transaction may have been carried out.
    LostUnknown,
    /// A reply that no door gives: nothing can be said about the transaction.
    Strange(String),
}

impl Link {
    /// Connects; none if no door is open at this address.
    pub(super) async fn open(address: &str) -> Option<Link> {
        let stream = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await.ok()?.ok()?;
        stream.set_nodelay(true).ok()?;
        Some(Link { stream, input: BytesMut::new() })
    }

    /// Sends commands together; none if the connection ends before all are answered.
    async fn ask(&mut self, commands: &[Words]) -> Option<Vec<BytesFrame>> {
        let mut output = BytesMut::new();
        commands.iter().try_for_each(|command| encode(&mut output, command)).ok()?;
        self.stream.write_all_buf(&mut output).await.ok()?;
        read(&mut self.stream, &mut self.input, commands.len()).await
    }

    /// Carries a transaction out.
    pub(super) async fn carry_out(&mut self, transaction: &Transaction) -> End {
        match transaction.form {
            Form::Alone => match self.ask(&transaction.all_commands()).await {
                Some(replies) => one_of(replies, Ok),
                None => End::LostUnknown,
            },
            Form::Script => match self.ask(&[transaction.script()]).await {
                Some(replies) => one_of(replies, elements),
                None => End::LostUnknown,
            },
            Form::Multi => self.execute(transaction.all_commands(), Vec::new()).await,
            Form::Watch => self.watch(transaction).await,
        }
    }

    async fn watch(&mut self, transaction: &Transaction) -> End {
        let mut watch = words(["WATCH"]);
        watch.extend(transaction.keys_read());
        // A transaction before may have watched keys, and ended before its EXEC.
        let mut commands = vec![words(["UNWATCH"]), watch];
        commands.extend(transaction.commands(false));
        let Some(mut replies) = self.ask(&commands).await else { return End::Lost };
        // Nothing has been written, so nothing but reads can be unknown.
        let refusal = replies.iter().find_map(|reply| match reply {
            BytesFrame::Error(text) => Some(text.to_string()),
            _ => None,
        });
        if let Some(refusal) = refusal {
            return match end_of(&refusal) {
                End::Unknown => End::Refused(refusal),
                end => end,
            };
        }
        self.execute(transaction.commands(true), replies.split_off(2)).await
    }

    /// `MULTI` … `EXEC`, whose replies come behind others.
    async fn execute(&mut self, commands: Vec<Words>, mut replies: Vec<BytesFrame>) -> End {
        let commands = [vec![words(["MULTI"])], commands, vec![words(["EXEC"])]].concat();
        let Some(mut answers) = self.ask(&commands).await else { return End::LostUnknown };
        match answers.pop() {
            Some(BytesFrame::Array(done)) => {
                replies.extend(done);
                End::Done(replies)
            }
            Some(BytesFrame::Null) => End::Conflict,
            Some(BytesFrame::Error(text)) => end_of(&text),
            other => End::Strange(format!("the reply to EXEC is {other:?}")),
        }
    }
}

/// The end of a transaction that is one command.
fn one_of(
    mut replies: Vec<BytesFrame>,
    done: impl FnOnce(Vec<BytesFrame>) -> Result<Vec<BytesFrame>, String>,
) -> End {
    if let [BytesFrame::Error(text)] = replies.as_slice() {
        return end_of(text);
    }
    match done(std::mem::take(&mut replies)) {
        Ok(replies) => End::Done(replies),
        Err(strange) => End::Strange(strange),
    }
}

/// The replies in the reply of a script.
fn elements(mut replies: Vec<BytesFrame>) -> Result<Vec<BytesFrame>, String> {
    match replies.pop() {
        Some(BytesFrame::Array(elements)) => Ok(elements),
        other => Err(format!("the reply of a script is {other:?}")),
    }
}

/// The end that an error tells of, as `docs/doors/redis.md` has it.
fn end_of(error: &str) -> End {
    let code = error.split(' ').next().unwrap_or_default();
    match code {
        "UNKNOWN" => End::Unknown,
        "TRYAGAIN" | "OVERLOADED" | "EXECABORT" => End::Refused(error.to_owned()),
        _ if error.contains("nothing was done") => End::Refused(error.to_owned()),
        _ => End::Strange(error.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_whether_anything_can_have_happened() {
        let refused = |text: &str| End::Refused(text.to_owned());
        for (error, end) in [
            ("UNKNOWN the command may have been carried out", End::Unknown),
            ("TRYAGAIN nothing was done", refused("TRYAGAIN nothing was done")),
            ("ERR nothing was done: closed", refused("ERR nothing was done: closed")),
            ("WRONGTYPE no", End::Strange("WRONGTYPE no".to_owned())),
        ] {
            assert_eq!(end_of(error), end);
        }
    }

    #[test]
    fn the_reply_of_a_script_holds_those_of_its_commands() {
        let one = BytesFrame::Integer(1);
        assert_eq!(
            one_of(vec![BytesFrame::Array(vec![one.clone()])], elements),
            End::Done(vec![one.clone()])
        );
        assert!(matches!(one_of(vec![one], elements), End::Strange(_)));
        assert_eq!(one_of(vec![BytesFrame::Error("UNKNOWN x".into())], elements), End::Unknown);
    }
}
