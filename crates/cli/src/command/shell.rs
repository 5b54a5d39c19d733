//! `quorate shell`: talks to a cluster, line by line or in one go.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use reedline::{
    ColumnarMenu, DefaultPrompt, DefaultPromptSegment, Emacs, FileBackedHistory, KeyCode, KeyModifiers,
    MenuBuilder, Reedline, ReedlineEvent, ReedlineMenu, Signal, default_emacs_keybindings,
};
use tokio::runtime::Handle;

use super::ConnectArguments;
use crate::exit::{Failure, Outcome, Verdict};
use crate::output::{micros, write};
use crate::runtime::block_on;
use crate::shell::{
    Completion, Form, Grammar, Hints, Parsed, Reply, Session, Setting, SplitError, Statement, Word, help,
    split,
};

/// How many lines are remembered from one shell to the next.
const HISTORY_LINES: usize = 10_000;

/// The end of a transaction that was not ended.
const DROPPED: &str = "a transaction was open, and is dropped: nothing of it was committed";

/// The menu of suggestions.
const SUGGESTIONS: &str = "suggestions";

/// Talk to a cluster: transactions, keyspaces, outcomes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate shell                                     interactive, on the node at 127.0.0.1:7400
  quorate shell -e 'keyspace create accounts --isolation strict; put alice 100; get alice'
  quorate shell -k accounts -e 'begin; put alice 60; put bob 40; commit'
  quorate shell -k documents -e 'get invoice-7' | jq .total
  quorate shell -k accounts --json -e 'scan' | jq -r '.values[].key'
  quorate shell --connect 10.0.0.1:7400,10.0.0.2:7400 < statements.txt

Statements: begin, get K, put K V, delete K, increment K [N], decrement K [N], append K V, scan [FROM [TO]] [--limit N], commit, abort,
read, read-at, read-stale, read-now, scan-at, scan-stale, scan-now, ttl K, find INDEX V, token, outcome TOKEN, use NAME,
keyspace create NAME --isolation I [--shards N] [--sites a,b,c] [--if-absent], keyspace list|show|drop|undrop|index, help, exit; at a
terminal timing, json and watch [1s]. A statement outside begin and commit is a transaction of its own.

Every answer can be pasted back; a value that is asked for alone goes to a pipe as it is. The shell remembers lines in
$XDG_STATE_HOME/quorate/history.")]
pub(crate) struct ShellArguments {
    #[command(flatten)]
    connect: ConnectArguments,
    /// Run these statements, with `;` between them, and leave; exit code 1 if one fails, or if a transaction is left open.
    #[arg(short = 'e', long, value_name = "COMMANDS")]
    execute: Option<String>,
    /// The keyspace to use; not needed if there is only one.
    #[arg(short, long, value_name = "NAME")]
    keyspace: Option<String>,
    /// Answer with one JSON object a statement.
    #[arg(long)]
    json: bool,
}

impl ShellArguments {
    pub(crate) fn run(self) -> Outcome {
        block_on(async {
            let mut session = Session::new(self.connect.open().await?);
            if let Some(name) = &self.keyspace {
                session.choose(name).await?;
            }
            let is_terminal = std::io::stdout().is_terminal();
            let form = match self.json {
                true => Form::Json,
                false if is_terminal => Form::Quoted,
                false => Form::Raw,
            };
            let is_interactive = self.execute.is_none() && std::io::stdin().is_terminal();
            let outcome = match &self.execute {
                Some(text) => run_text(&mut session, text, form).await,
                None if is_interactive => Typed::new(form).run(&mut session).await,
                None => match std::io::read_to_string(std::io::stdin()) {
                    Ok(text) => run_text(&mut session, &text, form).await,
                    Err(error) => Err(Failure::failed(format!("cannot read standard input: {error}"))),
                },
            };
            let was_open = session.close().await;
            match outcome {
                outcome if !was_open => outcome,
                Ok(_) => Err(Failure::failed(DROPPED)),
                Err(Failure::Failed(message)) => Err(Failure::Failed(format!("{message}\n{DROPPED}"))),
                Err(Failure::Usage(message)) => Err(Failure::Usage(format!("{message}\n{DROPPED}"))),
            }
        })
    }
}

/// Runs statements until one fails.
async fn run_text(session: &mut Session, text: &str, form: Form) -> Outcome {
    let statements = split(text).map_err(Failure::failed)?;
    for words in statements {
        match Statement::parse(&words) {
            Parsed::Help(text) => write(&help(&text, form))?,
            Parsed::Mistake(mistake) => return Err(Failure::failed(mistake)),
            Parsed::Statement(statement) => {
                let name = statement.name();
                match session.execute(statement).await.map_err(Failure::failed)? {
                    Reply::Answer(answer) => write(&answer.write(name, form))?,
                    Reply::Exit => return Ok(Verdict::Good),
                }
            }
        }
    }
    Ok(Verdict::Good)
}

/// The file of the lines that were typed before; none if there is no home.
fn history_file() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))?;
    Some(state.join("quorate/history"))
}

/// An editor of lines that knows earlier ones.
fn editor() -> Reedline {
    let mut keys = default_emacs_keybindings();
    let complete =
        ReedlineEvent::UntilFound(vec![ReedlineEvent::Menu(SUGGESTIONS.to_owned()), ReedlineEvent::MenuNext]);
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, complete);
    let menu = ColumnarMenu::default().with_name(SUGGESTIONS);
    let editor = Reedline::create()
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
        .with_edit_mode(Box::new(Emacs::new(keys)));
    let Some(file) = history_file() else { return editor };
    match FileBackedHistory::with_file(HISTORY_LINES, file.clone()) {
        Ok(history) => editor.with_history(Box::new(history)),
        Err(error) => {
            errln!("lines are not remembered: {}: {error}", file.display());
            editor
        }
    }
}

/// How the statements of a line have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// All are carried out.
    Done,
    /// One has failed, or was stopped; the others were not begun.
    Early,
    /// The person leaves.
    Leaving,
}

/// A shell at a terminal.
struct Typed {
    form: Form,
    /// How answers are shown where JSON is not wanted.
    plain: Form,
    shows_timing: bool,
    /// The statements of the last line that had any but settings.
    last: Vec<Vec<Word>>,
}

impl Typed {
    fn new(form: Form) -> Self {
        let plain = if form == Form::Json { Form::Quoted } else { form };
        Typed { form, plain, shows_timing: false, last: Vec::new() }
    }

    /// Runs statements as they are typed; a failure is shown, and the shell goes on.
    async fn run(mut self, session: &mut Session) -> Outcome {
        outln!(
            "`help` lists the statements, Tab completes, Ctrl-C stops a statement, `exit` or Ctrl-D leaves."
        );
        let mut editor = Some(editor());
        let mut pending = String::new();
        let grammar = Arc::new(Grammar::new());
        loop {
            let Some(lines) = editor.take() else { return Ok(Verdict::Good) };
            let prompt = if pending.is_empty() { session.prompt() } else { "…".to_owned() };
            let hints = Hints::new(Arc::clone(&grammar), pending.clone());
            let (vocabulary, grammar) = (session.vocabulary(), Arc::clone(&grammar));
            let completion = Completion::new(vocabulary, grammar, pending.clone(), Handle::current());
            let mut lines = lines.with_completer(Box::new(completion)).with_hinter(Box::new(hints));
            // The editor waits for keys on a thread of its own, so that connections stay alive meanwhile.
            let read = tokio::task::spawn_blocking(move || {
                let prompt =
                    DefaultPrompt::new(DefaultPromptSegment::Basic(prompt), DefaultPromptSegment::Empty);
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
                    errln!("error: {error}");
                }
                Ok(statements) => {
                    pending.clear();
                    if self.carry_out(session, statements).await? == Ended::Leaving {
                        return Ok(Verdict::Good);
                    }
                }
            }
        }
    }

    /// Runs the statements of one line; the first that fails ends the line.
    async fn carry_out(&mut self, session: &mut Session, line: Vec<Vec<Word>>) -> Result<Ended, Failure> {
        let mut is_remembered = false;
        for words in &line {
            let statement = match Statement::parse(words) {
                Parsed::Help(text) => {
                    write(&help(&text, self.form))?;
                    continue;
                }
                Parsed::Mistake(mistake) => {
                    errln!("error: {mistake}");
                    return Ok(Ended::Early);
                }
                Parsed::Statement(statement) => statement,
            };
            match statement {
                Statement::Timing { setting } => {
                    self.shows_timing = is_on(setting, self.shows_timing);
                    outln!("timing is {}", if self.shows_timing { "on" } else { "off" });
                }
                Statement::Json { setting } => {
                    let json = is_on(setting, self.form == Form::Json);
                    self.form = if json { Form::Json } else { self.plain };
                }
                Statement::Watch { every } => self.watch(session, every).await?,
                statement => {
                    if !is_remembered {
                        self.last = line.clone();
                        is_remembered = true;
                    }
                    match self.one(session, statement).await? {
                        Ended::Done => {}
                        ended => return Ok(ended),
                    }
                }
            }
        }
        Ok(Ended::Done)
    }

    /// Runs one statement, which Ctrl-C stops.
    async fn one(&self, session: &mut Session, statement: Statement) -> Result<Ended, Failure> {
        let (name, begun) = (statement.name(), Instant::now());
        let result = tokio::select! {
            result = session.execute(statement) => Some(result),
            interrupted = tokio::signal::ctrl_c() => {
                interrupted.map_err(Failure::failed)?;
                None
            }
        };
        let ended = match result {
            None => {
                errln!("{}", session.interrupted(name));
                Ended::Early
            }
            Some(Ok(Reply::Exit)) => return Ok(Ended::Leaving),
            Some(Ok(Reply::Answer(answer))) => {
                write(&answer.write(name, self.form))?;
                Ended::Done
            }
            Some(Err(error)) => {
                errln!("error: {error}");
                Ended::Early
            }
        };
        if self.shows_timing {
            let elapsed = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
            errln!("{}", micros(elapsed));
        }
        Ok(ended)
    }

    /// Repeats the last line until Ctrl-C, or until a statement fails.
    async fn watch(&self, session: &mut Session, every: Duration) -> Result<(), Failure> {
        if self.last.is_empty() {
            errln!("error: there is no line yet to repeat");
            return Ok(());
        }
        outln!("every {}, Ctrl-C ends it", crate::parse::to_duration(every));
        loop {
            for words in &self.last {
                // Settings change nothing when they are repeated.
                let statement = match Statement::parse(words) {
                    Parsed::Statement(
                        Statement::Timing { .. } | Statement::Json { .. } | Statement::Watch { .. },
                    )
                    | Parsed::Help(_)
                    | Parsed::Mistake(_) => continue,
                    Parsed::Statement(statement) => statement,
                };
                if self.one(session, statement).await? != Ended::Done {
                    return Ok(());
                }
            }
            tokio::select! {
                () = tokio::time::sleep(every) => {}
                interrupted = tokio::signal::ctrl_c() => {
                    return interrupted.map_err(Failure::failed);
                }
            }
        }
    }
}

fn is_on(setting: Option<Setting>, before: bool) -> bool {
    setting.map_or(!before, |setting| setting == Setting::On)
}
