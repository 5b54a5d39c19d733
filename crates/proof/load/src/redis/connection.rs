//! Connections to a Redis that many clients share: the requests that wait are written at once and answered in order.

use bytes::BytesMut;
use redis_protocol::resp2::decode::decode_bytes_mut;
use redis_protocol::resp2::encode::extend_encode_borrowed;
use redis_protocol::resp2::types::{BorrowedFrame, BytesFrame};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedisError {
    /// Nobody answers there.
    #[error("no Redis answers at {address}: {reason}")]
    Unreachable {
        /// Where it was looked for.
        address: String,
        /// The words of the operating system or of the server.
        reason: String,
    },
    /// The connection has ended.
    #[error("the Redis has closed the connection")]
    Closed,
    /// It refuses a command.
    #[error("the Redis refuses a command: {0}")]
    Refused(String),
    /// It answers with something else than was asked for.
    #[error("the Redis answers with something unexpected: {0}")]
    Unexpected(String),
}

/// A command: its words.
pub(crate) type Words = Vec<Vec<u8>>;

/// Commands that are sent together, and where their answers go.
struct Pipeline {
    commands: Vec<Words>,
    answers: oneshot::Sender<Result<Vec<BytesFrame>, RedisError>>,
}

/// A connection. Clones share it.
#[derive(Clone)]
pub(super) struct Connection {
    pipelines: mpsc::UnboundedSender<Pipeline>,
}

impl Connection {
    /// Connects, and sees that a Redis answers.
    ///
    /// # Errors
    /// None does.
    pub(super) async fn open(address: &str) -> Result<Connection, RedisError> {
        let unreachable = |reason: String| RedisError::Unreachable { address: address.to_owned(), reason };
        let stream = TcpStream::connect(address).await.map_err(|error| unreachable(error.to_string()))?;
        stream.set_nodelay(true).map_err(|error| unreachable(error.to_string()))?;
        let (pipelines, waiting) = mpsc::unbounded_channel();
        tokio::spawn(serve(stream, waiting));
        let connection = Connection { pipelines };
        match connection
            .ask(vec![words(["PING"])])
            .await
            .map_err(|error| unreachable(error.to_string()))?
            .pop()
        {
            Some(BytesFrame::SimpleString(pong)) if pong.as_ref() == b"PONG" => Ok(connection),
            other => Err(unreachable(format!("it answers PING with {other:?}"))),
        }
    }

    /// Sends commands together, and waits for their answers.
    ///
    /// # Errors
    /// The connection ends, or a command is refused.
    pub(super) async fn ask(&self, commands: Vec<Words>) -> Result<Vec<BytesFrame>, RedisError> {
        let (answers, answered) = oneshot::channel();
        self.pipelines.send(Pipeline { commands, answers }).map_err(|_| RedisError::Closed)?;
        answered.await.map_err(|_| RedisError::Closed)?
    }
}

/// A command of these words.
pub(crate) fn words<const N: usize>(words: [&str; N]) -> Words {
    words.into_iter().map(|word| word.as_bytes().to_vec()).collect()
}

/// Writes all that waits, reads the answers, and so on until nobody asks any more or the connection ends.
async fn serve(mut stream: TcpStream, mut waiting: mpsc::UnboundedReceiver<Pipeline>) {
    let (mut output, mut input) = (BytesMut::new(), BytesMut::new());
    while let Some(first) = waiting.recv().await {
        let mut pipelines = vec![first];
        while let Ok(another) = waiting.try_recv() {
            pipelines.push(another);
        }
        let commands = pipelines.iter().flat_map(|pipeline| &pipeline.commands);
        if commands.into_iter().try_for_each(|command| encode(&mut output, command)).is_err() {
            return;
        }
        // If it ends, the clients that wait hear so as their answers are dropped.
        if stream.write_all_buf(&mut output).await.is_err() {
            return;
        }
        for pipeline in pipelines {
            let Some(answers) = read(&mut stream, &mut input, pipeline.commands.len()).await else { return };
            let refusal = answers.iter().find_map(|answer| match answer {
                BytesFrame::Error(refusal) => Some(RedisError::Refused(refusal.to_string())),
                _ => None,
            });
            // A client that has been stopped does not wait any more.
            let _ = pipeline.answers.send(refusal.map_or(Ok(answers), Err));
        }
    }
}

/// Writes a command behind others.
pub(crate) fn encode(output: &mut BytesMut, command: &Words) -> Result<(), RedisError> {
    let words: Vec<BorrowedFrame<'_>> = command.iter().map(|word| BorrowedFrame::BulkString(word)).collect();
    extend_encode_borrowed(output, &BorrowedFrame::Array(&words), false)
        .map(drop)
        .map_err(|error| RedisError::Unexpected(error.to_string()))
}

/// Reads so many answers; none if the connection ends before, or what is read is no answer.
pub(crate) async fn read(
    stream: &mut TcpStream,
    input: &mut BytesMut,
    count: usize,
) -> Option<Vec<BytesFrame>> {
    let mut answers = Vec::with_capacity(count);
    while answers.len() < count {
        match decode_bytes_mut(input).ok()? {
            Some((answer, ..)) => answers.push(answer),
            None if stream.read_buf(input).await.ok()? == 0 => return None,
            None => {}
        }
    }
    Some(answers)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// A server that answers each read with what it is told, once the read has ended like this.
    async fn scripted(script: Vec<(&'static str, &'static str)>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            for (asked, answer) in script {
                let mut read = Vec::new();
                while !read.ends_with(asked.as_bytes()) {
                    if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
                        return;
                    }
                }
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        address
    }

    const PING: (&str, &str) = ("*1\r\n$4\r\nPING\r\n", "+PONG\r\n");

    #[tokio::test]
    async fn commands_of_a_pipeline_are_answered_in_order() {
        let address = scripted(vec![PING, ("$1\r\nb\r\n", ":7\r\n*2\r\n$1\r\nx\r\n$-1\r\n")]).await;
        let connection = Connection::open(&address).await.unwrap();
        let answers = connection.ask(vec![words(["INCR", "a"]), words(["MGET", "a", "b"])]).await.unwrap();
        let array = BytesFrame::Array(vec![BytesFrame::BulkString("x".into()), BytesFrame::Null]);
        assert_eq!(answers, [BytesFrame::Integer(7), array]);
        assert_eq!(connection.ask(vec![words(["PING"])]).await, Err(RedisError::Closed));
    }

    #[tokio::test]
    async fn refusals_are_errors_and_silence_names_the_address() {
        let address = scripted(vec![PING, ("INCR\r\n", "-ERR wrong number of arguments\r\n")]).await;
        let connection = Connection::open(&address).await.unwrap();
        let refused = connection.ask(vec![words(["INCR"])]).await;
        assert!(matches!(refused, Err(RedisError::Refused(text)) if text.contains("wrong number")));
        let nobody = Connection::open("127.0.0.1:1").await.err().unwrap().to_string();
        assert!(nobody.contains("no Redis answers at 127.0.0.1:1"), "{nobody}");
        let other = scripted(vec![(PING.0, "+HELLO\r\n")]).await;
        assert!(matches!(Connection::open(&other).await, Err(RedisError::Unreachable { .. })));
    }
}
