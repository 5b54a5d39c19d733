//! `quorate trace`: one transaction as a sequence diagram of what its coordinator and the replicas have said.

use std::time::Instant;

use clap::Args;
use quorate::Database;
use quorate::wan::Matrix;
use quorate_http::trace::Sequence;
use serde_json::json;

use super::ConnectArguments;
use crate::exit::{Failure, Outcome, Verdict};
use crate::output::{print_json, sequence, terminal_columns};
use crate::runtime::block_on;
use crate::shell::{Form, Parsed, Reply, Session, Statement, quoted, split};

/// Show how one transaction travels: which replica was asked what, and voted what, when.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate trace accounts 'put alice 100'            one write: a round trip to the replicas, and what they vote
  quorate trace accounts 'begin; get alice; put alice 60; put bob 40; commit'
  quorate trace orders 'increment stock -1'         a serializable keyspace: one request to the leader
  quorate trace accounts 'put alice 1' --site us --wan tapir     on a cluster of `quorate dev --wan tapir`
  quorate trace accounts 'get alice' --json | jq '.trace.events[] | [.at_seconds, .kind, .name]'

Statements are those of `quorate shell`; they are carried out. Times count from the first statement, by the clock of this machine: when
its coordinator has sent a message, and when it has received one. Exit code 1 if a statement fails; the diagram shows how it came to that.")]
pub(crate) struct TraceArguments {
    /// The keyspace.
    keyspace: String,
    /// The statement, or several with `;` between them.
    #[arg(value_name = "STATEMENT")]
    statements: String,
    #[command(flatten)]
    connect: ConnectArguments,
    /// Where the coordinator stands: its site's replicas are asked first.
    #[arg(long, value_name = "NAME")]
    site: Option<String>,
    /// Emulate the delays of the matrix that the servers emulate; the coordinator then stands at --site.
    #[arg(long, value_name = "MATRIX", requires = "site")]
    wan: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// How the statements went.
struct Ran {
    answers: Vec<Vec<u8>>,
    outcome: Result<String, String>,
}

impl TraceArguments {
    pub(crate) fn run(self) -> Outcome {
        let statements = parse(&self.statements)?;
        let delays = self.wan.as_deref().map(Matrix::load).transpose().map_err(Failure::usage)?;
        let options = quorate::Options { site: self.site.clone(), delays, ..self.connect.options()? };
        block_on(async {
            let db = quorate::connect_with(self.connect.connect.as_str(), options).await?;
            self.trace(&db, statements).await
        })
    }

    async fn trace(&self, db: &Database, statements: Vec<(String, Statement)>) -> Outcome {
        let mut session = Session::new(db.clone());
        session.choose(&self.keyspace).await?;
        let definition = db.keyspace(&self.keyspace).await?.definition();
        let Some(trace) = db.trace() else {
            return Err(Failure::failed("a new connection is traced already"));
        };
        let begun = Instant::now();
        let form = if self.json { Form::Json } else { Form::Quoted };
        let mut ran = Ran { answers: Vec::new(), outcome: Ok("done".to_owned()) };
        for (text, statement) in statements {
            trace.note(text);
            let name = statement.name();
            match session.execute(statement).await {
                Ok(Reply::Answer(answer)) => {
                    if let Some(committed) = answer.commit() {
                        ran.outcome = Ok(committed);
                    }
                    ran.answers.push(answer.write(name, form));
                }
                Ok(Reply::Exit) => break,
                Err(error) => {
                    ran.outcome = Err(error.to_string());
                    break;
                }
            }
        }
        let took_seconds = begun.elapsed().as_secs_f64();
        let moments = trace.finish().await;
        let was_open = session.close().await;
        if was_open && ran.outcome.is_ok() {
            ran.outcome =
                Err("the transaction was left open, and is dropped: end it with commit or abort".to_owned());
        }
        let words = ran.outcome.clone().unwrap_or_else(|error| error);
        let sequence =
            Sequence::new(&definition, &db.topology(), self.site.as_deref(), &moments, words, took_seconds);
        self.print(&ran, &sequence)?;
        match ran.outcome {
            Ok(_) => Ok(Verdict::Good),
            Err(error) => Err(Failure::failed(error)),
        }
    }

    fn print(&self, ran: &Ran, sequence: &Sequence) -> Result<(), Failure> {
        if self.json {
            let read = |answer: &Vec<u8>| serde_json::from_slice(answer).map_err(Failure::failed);
            let answers: Vec<serde_json::Value> = ran.answers.iter().map(read).collect::<Result<_, _>>()?;
            return print_json(&json!({ "ok": ran.outcome.is_ok(), "answers": answers, "trace": sequence }));
        }
        for answer in &ran.answers {
            crate::output::write(answer)?;
        }
        outln!("\n{}", sequence::draw(sequence, ran.outcome.is_err(), terminal_columns()));
        Ok(())
    }
}

/// Statements, each as it is shown.
fn parse(text: &str) -> Result<Vec<(String, Statement)>, Failure> {
    let mut statements = Vec::new();
    for words in split(text).map_err(Failure::usage)? {
        match Statement::parse(&words) {
            Parsed::Statement(
                Statement::Use { .. }
                | Statement::Keyspace { .. }
                | Statement::Timing { .. }
                | Statement::Json { .. }
                | Statement::Watch { .. },
            ) => return Err(Failure::usage("only statements about keys and transactions can be traced")),
            Parsed::Statement(statement) => {
                let shown: Vec<String> = words.iter().map(|word| quoted(word)).collect();
                statements.push((shown.join(" "), statement));
            }
            Parsed::Help(text) | Parsed::Mistake(text) => return Err(Failure::usage(text)),
        }
    }
    if statements.is_empty() {
        return Err(Failure::usage("there is no statement to trace"));
    }
    Ok(statements)
}
