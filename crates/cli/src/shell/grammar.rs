//! The words that may follow the words of a statement, as clap knows them: for hints and for completion.

use clap::builder::PossibleValue;
use clap::{Arg, ArgAction, Command, CommandFactory};

use super::statement::Statement;
use super::words::Word;

/// All statements.
#[derive(Debug)]
pub(crate) struct Grammar {
    root: Command,
}

/// The place behind some words of a statement.
#[derive(Clone, Debug)]
pub(crate) struct Place<'a> {
    /// The statement, or the part of the grammar that has its actions.
    command: &'a Command,
    /// The option whose value comes next.
    awaiting: Option<&'a Arg>,
    /// The arguments that are there, with their values; an option alone has none yet.
    given: Vec<(&'a Arg, Option<&'a [u8]>)>,
}

impl Grammar {
    pub(crate) fn new() -> Self {
        let mut root = Statement::command();
        root.build();
        Grammar { root }
    }

    /// The place behind these words of a statement; none if no statement begins so.
    pub(crate) fn behind<'a>(&'a self, words: &'a [Word]) -> Option<Place<'a>> {
        let mut place = Place { command: &self.root, awaiting: None, given: Vec::new() };
        for (number, word) in words.iter().enumerate() {
            // The first word may begin with a backslash.
            let word = if number == 0 { word.strip_prefix(b"\\").unwrap_or(word) } else { word };
            place.pass(word)?;
        }
        Some(place)
    }
}

impl<'a> Place<'a> {
    /// Goes behind a word; none if it cannot stand here.
    fn pass(&mut self, word: &'a [u8]) -> Option<()> {
        let text = str::from_utf8(word).unwrap_or_default();
        if self.command.has_subcommands() {
            self.command = self.command.find_subcommand(text)?;
            return Some(());
        }
        if let Some(option) = self.awaiting.take() {
            self.given.push((option, Some(word)));
            return Some(());
        }
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let mut options = self.command.get_arguments().filter(|argument| !argument.is_positional());
        if let Some(option) = options.find(|option| long(option).is_some_and(|long| long == name)) {
            self.awaiting = Some(option).filter(|option| takes_value(option) && value.is_none());
            if self.awaiting.is_none() {
                self.given.push((option, value.map(str::as_bytes)));
            }
            return Some(());
        }
        let positional = self.positional()?;
        if word.starts_with(b"-") && word.len() > 1 && !positional.is_allow_hyphen_values_set() {
            return None;
        }
        self.given.push((positional, Some(word)));
        Some(())
    }

    /// The actions that may come next, or all statements; none behind the name of a statement without actions.
    pub(crate) fn actions(&self) -> impl Iterator<Item = &'a Command> + use<'a> {
        self.command.get_subcommands().filter(|action| !action.is_hide_set())
    }

    /// The statement or the action that is given.
    pub(crate) fn name(&self) -> &'a str {
        self.command.get_name()
    }

    /// The argument that comes next if it is no option.
    pub(crate) fn next(&self) -> Option<&'a Arg> {
        self.awaiting.or_else(|| self.positional())
    }

    /// True if the next word is the value of an option.
    pub(crate) fn is_in_option(&self) -> bool {
        self.awaiting.is_some()
    }

    /// The value that is given to an argument of this value name.
    pub(crate) fn value_of(&self, name: &str) -> Option<&'a [u8]> {
        self.given.iter().find(|(argument, _)| value_name(argument) == name).and_then(|(_, value)| *value)
    }

    /// The options that may still be given.
    pub(crate) fn options(&self) -> impl Iterator<Item = &'a Arg> {
        let is_open =
            |option: &&Arg| !option.is_positional() && !option.is_hide_set() && self.is_open(option);
        self.command.get_arguments().filter(is_open)
    }

    /// All that is still wanted, as it is written in usages; empty if nothing is.
    pub(crate) fn wanted(&self) -> String {
        /// More actions are left to completion.
        const ACTIONS_MAX: usize = 8;
        /// If there are more optional ones, the first two are enough.
        const OPTIONS_MAX: usize = 3;
        let actions: Vec<_> = self.actions().map(Command::get_name).filter(|name| *name != "help").collect();
        if !actions.is_empty() {
            return if actions.len() <= ACTIONS_MAX { actions.join("|") } else { String::new() };
        }
        let positionals = self.command.get_positionals().filter(|positional| self.is_open(positional));
        let (required, optional): (Vec<_>, Vec<_>) =
            self.options().partition(|option| option.is_required_set());
        let shown = match optional.len() {
            // First the value that is awaited.
            _ if self.is_in_option() => 0,
            all if all > OPTIONS_MAX => 2,
            all => all,
        };
        let is_shortened = shown < optional.len() && !self.is_in_option();
        let arguments = positionals.chain(required).chain(optional.into_iter().take(shown));
        let parts =
            self.awaiting.map(value).into_iter().chain(arguments.map(|argument| self.usage(argument)));
        parts.chain(is_shortened.then(|| "…".to_owned())).collect::<Vec<_>>().join(" ")
    }

    fn usage(&self, argument: &Arg) -> String {
        let written = match argument.get_long() {
            Some(_) => option(argument),
            None if is_repeated(argument) => format!("{}…", value(argument)),
            None => value(argument),
        };
        if argument.is_required_set() && !self.is_given(argument) { written } else { format!("[{written}]") }
    }

    /// The next argument without a name.
    fn positional(&self) -> Option<&'a Arg> {
        self.command.get_positionals().find(|positional| self.is_open(positional))
    }

    fn is_given(&self, argument: &Arg) -> bool {
        let given = self.given.iter().map(|(given, _)| *given).chain(self.awaiting);
        given.into_iter().any(|given| given.get_id() == argument.get_id())
    }

    /// True if an argument may be given, or given again.
    fn is_open(&self, argument: &Arg) -> bool {
        let given = self.given.iter().map(|(given, _)| *given).chain(self.awaiting);
        let conflicts = |one: &Arg, other: &Arg| {
            self.command.get_arg_conflicts_with(one).iter().any(|known| known.get_id() == other.get_id())
        };
        let is_excluded =
            given.into_iter().any(|given| conflicts(given, argument) || conflicts(argument, given));
        !is_excluded && (!self.is_given(argument) || argument.is_positional() && is_repeated(argument))
    }
}

/// An option as it is written, with its hyphens.
pub(crate) fn long(option: &Arg) -> Option<String> {
    option.get_long().map(|name| format!("--{name}"))
}

/// The same with the name of its value.
pub(crate) fn option(option: &Arg) -> String {
    let name = long(option).unwrap_or_default();
    if takes_value(option) { format!("{name} {}", value_name(option)) } else { name }
}

/// The name of the value of an argument.
pub(crate) fn value_name(argument: &Arg) -> &str {
    argument.get_value_names().and_then(<[_]>::first).map_or(argument.get_id().as_str(), |name| name.as_str())
}

/// The values that an argument may have, if they can be listed.
pub(crate) fn choices(argument: &Arg) -> Vec<String> {
    let possible = if takes_value(argument) { argument.get_possible_values() } else { Vec::new() };
    possible.iter().map(PossibleValue::get_name).map(str::to_owned).collect()
}

/// A value as it is written in usages: what it may be, or its name.
fn value(argument: &Arg) -> String {
    let choices = choices(argument);
    if choices.is_empty() { value_name(argument).to_owned() } else { choices.join("|") }
}

fn takes_value(argument: &Arg) -> bool {
    argument.get_action().takes_values()
}

fn is_repeated(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Append)
}
