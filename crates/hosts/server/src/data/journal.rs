//! How the journal of the logs in a data directory is opened.

use std::path::{Path, PathBuf};

use quorate_core::ReplicaId;
use quorate_storage::{Journal, JournalId, LogError, Replayed, Whereabouts};
use serde::{Deserialize, Serialize};

use super::{
    DataDirectory, DataError, FORMAT_WITH_JOURNAL, FORMAT_WITH_JOURNALS, IdentityFile, exists, read,
    remove_all, write_durably,
};

/// Which journal belongs to a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JournalText {
    /// With sixteen digits: not every reader of the format takes all numbers of 64 bits.
    incarnation: String,
    /// How often it was opened.
    opened: u64,
}

impl JournalText {
    fn of(JournalId { incarnation, opened }: JournalId) -> Self {
        JournalText { incarnation: format!("{incarnation:016x}"), opened }
    }

    fn id(&self, file: &Path) -> Result<JournalId, DataError> {
        let incarnation = u64::from_str_radix(&self.incarnation, 16).map_err(|error| DataError::Damaged {
            path: file.to_owned(),
            reason: format!("{:?} is no number of sixteen digits: {error}", self.incarnation),
        })?;
        Ok(JournalId { incarnation, opened: self.opened })
    }
}

/// The directory of the journal of this number.
fn name(number: usize) -> String {
    match number {
        0 => "journal".to_owned(),
        _ => format!("journal-{number}"),
    }
}

impl IdentityFile {
    /// The journal of this number, if one belongs here.
    fn journal(&self, number: usize) -> Option<&JournalText> {
        match number.checked_sub(1) {
            None => self.journal.as_ref(),
            Some(further) => self.further_journals.get(further),
        }
    }

    /// Names the journal of this number, which is known or the next one.
    fn with_journal(mut self, number: usize, text: JournalText) -> Self {
        let Some(further) = number.checked_sub(1) else {
            let format = self.format.max(FORMAT_WITH_JOURNAL);
            return IdentityFile { format, journal: Some(text), ..self };
        };
        self.format = self.format.max(FORMAT_WITH_JOURNALS);
        match self.further_journals.get_mut(further) {
            Some(known) => *known = text,
            None => self.further_journals.push(text),
        }
        self
    }
}

impl DataDirectory {
    /// Opens the journals of the logs here, one for each of so many event loops and those that were used in earlier lives. That lets the logs hold all that they had
    /// counted as durable, whichever journal has it. To be called before the first of them is opened. A directory of an earlier version gets a journal, and is not read by that version again.
    ///
    /// # Errors
    /// There should be one, and it cannot be used.
    pub(crate) fn open_journals(&self, event_loops: u16) -> Result<Vec<Journal>, DataError> {
        let known: IdentityFile = read(&self.path().join("identity.toml"))?;
        let journals = usize::from(event_loops.max(1)).max(1 + known.further_journals.len());
        // One after the other: only the last that is named may be new.
        (0..journals).map(|number| self.open_journal(number)).collect()
    }

    /// Opens the journal of this number.
    fn open_journal(&self, number: usize) -> Result<Journal, DataError> {
        let identity = self.path().join("identity.toml");
        let known: IdentityFile = read(&identity)?;
        let directory = self.path().join(name(number));
        let opened = match known.journal(number) {
            Some(text) => {
                let id = text.id(&identity)?;
                let place = |replica| self.log_for_journal(replica);
                Journal::open(&directory, known.cluster, id, place).map(|(journal, replayed)| {
                    tell(&replayed);
                    journal
                })
            }
            None => self.create_journal(&directory, known.cluster)?,
        };
        let journal = match opened {
            Err(error) if error.is_loss() && self.needs_no_journal()? => {
                tracing::warn!(%error, "a new journal takes the place of one that cannot be used: there are no logs here");
                if exists(&directory)? {
                    self.set_aside(&directory)?;
                }
                Journal::create(&directory, known.cluster)
            }
            opened => opened,
        };
        let journal = journal
            .map_err(|source: LogError| DataError::Journal { path: self.path().to_owned(), source })?;
        let text = JournalText::of(journal.id());
        if known.journal(number) != Some(&text) {
            write_durably(&identity, &known.with_journal(number, text))?;
        }
        Ok(journal)
    }

    /// Creates a journal for a directory whose identity names none. A journal in its place was created before a crash, and holds nothing.
    fn create_journal(&self, directory: &Path, cluster: u64) -> Result<Result<Journal, LogError>, DataError> {
        match Journal::is_needed(directory, cluster) {
            Ok(false) => {}
            Ok(true) => return Err(DataError::UnnamedJournal { path: directory.to_owned() }),
            Err(error) => return Ok(Err(error)),
        }
        remove_all(directory)?;
        Ok(Journal::create(directory, cluster))
    }

    /// True if no log here can lack anything: no replica keeps one, or an operator has given all replicas up.
    fn needs_no_journal(&self) -> Result<bool, DataError> {
        let directories = self.replica_directories()?;
        if self.gives_up_missing && directories.is_empty() {
            return Ok(true);
        }
        for directory in directories {
            if exists(&directory.join("log"))? {
                return Ok(false);
            }
        }
        // Replicas that cannot be read may keep logs.
        let replicas = self.replicas().unwrap_or_default();
        Ok(!replicas.is_empty() && replicas.iter().all(|placement| !placement.keeps_log()))
    }

    /// Where a replica has its log, if this node has it, or misses it.
    pub(super) fn log_for_journal(&self, replica: ReplicaId) -> Whereabouts<PathBuf> {
        let directory = self.replica_directory(replica);
        let log = directory.join("log");
        match (self.has_given_up(replica), self.mark(&directory.join("replica.toml"))) {
            (Ok(true), _) => Whereabouts::GivenUp,
            // A replica that cannot be looked for is missed.
            (_, Ok(_)) => Whereabouts::Here(log),
            // The log of this node may be elsewhere. The replica is refused, even if a log stands there.
            (_, Err(_)) => Whereabouts::Hidden(log),
        }
    }

    /// True if a replica was removed, because its keyspace was dropped or its group has gone on without it. An inventory that names no replica at all says
    /// nothing of one: it may be away itself.
    fn has_given_up(&self, replica: ReplicaId) -> Result<bool, DataError> {
        let is_here = exists(&self.replica_directory(replica))? || exists(&self.entry(replica))?;
        Ok(!is_here && !self.inventory_entries()?.is_empty())
    }
}

/// The steps that an operator can take if a journal cannot be used. Replicas are given up only if it is lost.
pub(super) fn advice(path: &Path, error: &LogError) -> String {
    if !error.is_loss() {
        return error.remedy().to_owned();
    }
    format!(
        "Any replica here may lack what only the journal held. If it can be brought back, bring it back; if it is lost for good, move {} and \
         {} away, and start the node once with --rejoin, so that its replicas learn everything from their groups (at most f nodes of 2f + 1 \
         at a time)",
        path.join("journal").display(),
        path.join("replicas").display()
    )
}

fn tell(&Replayed { writes, let_go, kept }: &Replayed) {
    if writes + let_go + kept > 0 {
        tracing::info!(writes, let_go, kept, "logs were given what the journal held for them");
    }
}
