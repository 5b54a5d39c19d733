//! `quorate completions` and `quorate man`: what shells and `man` know of the commands.

use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::exit::{Failure, Outcome, Verdict};

/// Print completions of commands and options for a shell.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate completions bash > ~/.local/share/bash-completion/completions/quorate
  quorate completions zsh > ~/.zfunc/_quorate                   with ~/.zfunc in fpath
  quorate completions fish > ~/.config/fish/completions/quorate.fish")]
pub(crate) struct CompletionsArguments {
    /// The shell.
    shell: Shell,
}

impl CompletionsArguments {
    pub(crate) fn run(self) -> Outcome {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut crate::Arguments::command(), "quorate", &mut text);
        crate::output::write(&text)?;
        Ok(Verdict::Good)
    }
}

/// Write a manual page for each command.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate man --dir ~/.local/share/man/man1 && man quorate-keyspace-create
  quorate man | man -l -                                         the page of `quorate` alone")]
pub(crate) struct ManArguments {
    /// The directory to write them to, one file a command; by default the page of `quorate` goes to standard output.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl ManArguments {
    pub(crate) fn run(self) -> Outcome {
        let command = crate::Arguments::command();
        match self.dir {
            None => {
                let mut text = Vec::new();
                clap_mangen::Man::new(command).render(&mut text).map_err(Failure::failed)?;
                crate::output::write(&text)?;
            }
            Some(directory) => {
                let failed = |error| Failure::failed(format!("{}: {error}", directory.display()));
                std::fs::create_dir_all(&directory).map_err(failed)?;
                clap_mangen::generate_to(command, &directory).map_err(failed)?;
            }
        }
        Ok(Verdict::Good)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_and_completions() {
        let directory = tempfile::tempdir().unwrap();
        let arguments = ManArguments { dir: Some(directory.path().join("man1")) };
        assert!(matches!(arguments.run(), Ok(Verdict::Good)));
        for page in ["quorate.1", "quorate-keyspace-create.1", "quorate-cluster-status.1"] {
            let text = std::fs::read_to_string(directory.path().join("man1").join(page)).unwrap();
            assert!(text.contains(".TH"), "{page}: {text}");
        }
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut crate::Arguments::command(), "quorate", &mut text);
            let text = String::from_utf8(text).unwrap();
            assert!(text.contains("keyspace") && text.contains("rolling"), "{shell}");
        }
    }
}
