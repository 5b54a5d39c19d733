//! Tips for words that are misspelt, which are never to delete something.

use clap::Error;
use clap::error::{ContextKind, ContextValue};

/// The commands and statements that delete, or give up what cannot be had again.
const DELETING: [&str; 9] =
    ["accept-loss", "declare-lost", "del", "delete", "drop", "forget", "remove", "remove-site", "rm"];

/// The error without tips that delete something, unless they begin as the word does that was typed: a word that only resembles such a command may have been
/// meant to be a harmless one.
pub(crate) fn harmless(mut error: Error) -> Error {
    let typed = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(typed)) => typed.clone(),
        _ => return error,
    };
    if let Some(ContextValue::Strings(mut tips)) = error.remove(ContextKind::SuggestedSubcommand) {
        let is_harmful = |tip: &String| DELETING.contains(&tip.as_str()) && !is_meant(&typed, tip);
        // The most similar ones come last. Those before a harmful one resemble the word even less.
        let kept = tips.iter().rposition(is_harmful).map_or(0, |last| last + 1);
        tips.drain(..kept);
        if !tips.is_empty() {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(tips));
        }
    }
    error
}

/// True if one of both begins with the other one.
fn is_meant(typed: &str, tip: &str) -> bool {
    tip.starts_with(typed) || typed.starts_with(tip)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, CommandFactory};

    #[test]
    fn a_command_that_deletes_is_no_tip_for_one_that_resembles_it() {
        let table = [
            (&["keyspace", "drpo"][..], None),
            (&["keyspace", "dropp"], Some("'drop'")),
            (&["keyspace", "dro"], Some("'drop'")),
            (&["keyspace", "lst"], Some("'list'")),
            (&["backup", "dlete"], None),
            (&["cluster", "statsu"], Some("'status'")),
            (&["cluster", "remove-sit"], Some("'remove-site'")),
            (&["cluster", "remve-site"], None),
        ];
        for (words, tip) in table {
            let words = [&["quorate"], words].concat();
            let error = harmless(crate::Arguments::command().try_get_matches_from(&words).unwrap_err());
            let told = error.render().to_string();
            assert!(told.contains(words[2]), "{told}");
            assert_eq!(told.contains("tip:"), tip.is_some(), "{told}");
            assert!(told.contains(tip.unwrap_or_default()), "{words:?}: {told}");
        }
    }

    #[test]
    fn commands_that_delete_are_there() {
        fn names(command: &Command) -> Vec<String> {
            let below = command.get_subcommands().flat_map(names);
            below.chain(command.get_all_aliases().chain([command.get_name()]).map(str::to_owned)).collect()
        }
        let mut all = names(&crate::Arguments::command());
        all.extend(names(&<crate::shell::Statement as CommandFactory>::command()));
        for deleting in DELETING {
            assert!(all.iter().any(|name| name == deleting), "{deleting}");
        }
    }
}
