//! `quorate shell`: talks to a cluster, line by line or in one go.

use std::io::IsTerminal;

use clap::Args;
use reedline::{DefaultPrompt, DefaultPromptSegment, Reedline, Signal};

use super::ConnectArguments;
use crate::exit::{Failure, Outcome, Verdict};
use crate::runtime::block_on;
use crate::shell::{Parsed, Reply, Session, SplitError, Statement, split};

/// Talk to a cluster: transactions, keyspaces, outcomes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate shell                                     interactive, on the node at 127.0.0.1:7400
  quorate shell -e 'keyspace create accounts --isolation strict; put alice 100; get alice'
  quorate shell -k accounts -e 'begin; put alice 60; put bob 40; commit'
  quorate shell --connect 10.0.0.1:7400,10.0.0.2:7400 < statements.txt

Statements: begin, get K, put K V, delete K, increment K [N], append K V, scan FROM TO [--limit N], commit, abort,
token, outcome TOKEN, use NAME, keyspace create NAME --isolation I [--shards N] [--sites a,b,c], keyspace list|show|drop, help, exit.
A statement outside begin and commit is a transaction of its own.")]
pub(crate) struct ShellArguments {
    #[command(flatten)]
    connect: ConnectArguments,
    /// Run these statements, with `;` between them, and leave; exit code 1 if one fails.
    #[arg(short = 'e', long, value_name = "COMMANDS")]
    execute: Option<String>,
    /// The keyspace to use; not needed if there is only one.
    #[arg(short, long, value_name = "NAME")]
    keyspace: Option<String>,
}

impl ShellArguments {
    pub(crate) fn run(self) -> Outcome {
        block_on(async {
            let mut session = Session::new(self.connect.open().await?);
            if let Some(name) = &self.keyspace {
                session.choose(name).await?;
            }
            let outcome = match &self.execute {
                Some(text) => run_text(&mut session, text).await,
                None if std::io::stdin().is_terminal() => run_interactively(&mut session).await,
                None => match std::io::read_to_string(std::io::stdin()) {
                    Ok(text) => run_text(&mut session, &text).await,
                    Err(error) => Err(Failure::failed(format!("cannot read standard input: {error}"))),
                },
            };
            session.close().await;
            outcome
        })
    }
}

/// Runs statements until one fails.
async fn run_text(session: &mut Session, text: &str) -> Outcome {
    let statements = split(text).map_err(Failure::failed)?;
    for words in statements {
        match Statement::parse(&words) {
            Parsed::Help(text) => println!("{text}"),
            Parsed::Mistake(mistake) => return Err(Failure::failed(mistake)),
            Parsed::Statement(statement) => {
                match session.execute(statement).await.map_err(Failure::failed)? {
                    Reply::Text(text) => println!("{text}"),
                    Reply::Exit => return Ok(Verdict::Good),
                }
            }
        }
    }
    Ok(Verdict::Good)
}

/// Runs statements as they are typed; a failure is shown, and the shell goes on.
async fn run_interactively(session: &mut Session) -> Outcome {
    println!("`help` lists the statements, `exit` or Ctrl-D leaves.");
    let mut editor = Some(Reedline::create());
    let mut pending = String::new();
    loop {
        let Some(mut lines) = editor.take() else { return Ok(Verdict::Good) };
        let prompt = if pending.is_empty() { session.prompt() } else { "…".to_owned() };
        // The editor waits for keys on a thread of its own, so that connections stay alive meanwhile.
        let read = tokio::task::spawn_blocking(move || {
            let prompt = DefaultPrompt::new(DefaultPromptSegment::Basic(prompt), DefaultPromptSegment::Empty);
            let signal = lines.read_line(&prompt);
            (lines, signal)
        });
        let (lines, signal) = read.await.map_err(Failure::failed)?;
        editor = Some(lines);
        match signal.map_err(Failure::failed)? {
            Signal::Success(line) => {
                pending.push_str(&line);
                pending.push('\n');
            }
            Signal::CtrlC => {
                pending.clear();
                continue;
            }
            _ => return Ok(Verdict::Good),
        }
        match split(&pending) {
            Err(SplitError::OpenQuote(_)) => {}
            Err(error) => {
                pending.clear();
                eprintln!("error: {error}");
            }
            Ok(statements) => {
                pending.clear();
                if run_typed(session, statements).await == Reply::Exit {
                    return Ok(Verdict::Good);
                }
            }
        }
    }
}

/// Runs the statements of one line; the first that fails ends the line.
async fn run_typed(session: &mut Session, statements: Vec<Vec<String>>) -> Reply {
    for words in statements {
        let result = match Statement::parse(&words) {
            Parsed::Help(text) => Ok(Reply::Text(text)),
            Parsed::Mistake(mistake) => Err(mistake),
            Parsed::Statement(statement) => {
                session.execute(statement).await.map_err(|error| error.to_string())
            }
        };
        match result {
            Ok(Reply::Text(text)) => println!("{text}"),
            Ok(Reply::Exit) => return Reply::Exit,
            Err(error) => {
                eprintln!("error: {error}");
                break;
            }
        }
    }
    Reply::Text(String::new())
}
