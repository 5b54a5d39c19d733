//! The lives of this node and of its peers, durably: `lives.toml`, `peers.toml`, `fenced.toml`.

use std::time::{SystemTime, UNIX_EPOCH};

use quorate_core::NodeId;
use quorate_core::lives::{Incarnation, Life, Lives, Remembered};
use serde::{Deserialize, Serialize};

use super::{DataDirectory, DataError, FORMAT, exists, read, write_durably};

#[derive(Serialize, Deserialize)]
struct LivesFile {
    format: u32,
    /// How often the node was started.
    number: u64,
    /// The tags of the last lives, the latest first.
    tags: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct PeersFile {
    format: u32,
    #[serde(default)]
    nodes: Vec<PeerFile>,
}

#[derive(Serialize, Deserialize)]
struct PeerFile {
    node: u16,
    incarnation: String,
    life: u64,
    tag: String,
    #[serde(default)]
    former: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct FencedFile {
    format: u32,
    reason: String,
    unix_seconds: u64,
}

impl DataDirectory {
    /// Begins the next life, with a tag that was drawn at random. It is durable when this returns.
    ///
    /// # Errors
    /// It cannot be made durable, or the lives before cannot be read.
    pub(crate) fn begin_life(&self, tag: u64) -> Result<Life, DataError> {
        let path = self.path().join("lives.toml");
        let damaged = |reason| DataError::Damaged { path: path.clone(), reason };
        let life = if exists(&path)? {
            let LivesFile { number, tags, .. } = read(&path)?;
            let tags = tags.iter().map(|tag| number_of(tag)).collect::<Result<_, _>>().map_err(damaged)?;
            let last = Life { incarnation: self.incarnation, replaces: self.replaced, number, tags };
            if !last.is_sound() {
                return Err(damaged(format!("{number} lives with {} tags", last.tags.len())));
            }
            last.next(tag).map_err(|source| DataError::Lives { path: path.clone(), source })?
        } else {
            // Its peers know if there were others.
            Life::first(self.incarnation, self.replaced, tag)
        };
        let tags = life.tags.iter().map(|tag| text_of(*tag)).collect();
        write_durably(&path, &LivesFile { format: FORMAT, number: life.number, tags })?;
        Ok(life)
    }

    /// The lives of all nodes, as far as they were noted.
    pub(crate) fn peers(&self) -> Result<Lives, DataError> {
        let path = self.path().join("peers.toml");
        if !exists(&path)? {
            return Ok(Lives::default());
        }
        let damaged = |reason| DataError::Damaged { path: path.clone(), reason };
        let file: PeersFile = read(&path)?;
        let known = file.nodes.iter().map(PeerFile::restore).collect::<Result<Vec<_>, _>>();
        Ok(Lives::new(known.map_err(damaged)?))
    }

    /// Notes the lives of all nodes.
    pub(crate) fn note_peers(&self, lives: &Lives) -> Result<(), DataError> {
        let nodes = lives.iter().map(|(node, remembered)| PeerFile::new(node, remembered)).collect();
        write_durably(&self.path().join("peers.toml"), &PeersFile { format: FORMAT, nodes })
    }

    /// Notes that this directory must not be used any more.
    pub(crate) fn fence(&self, reason: &str) -> Result<(), DataError> {
        let unix_seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let file = FencedFile { format: FORMAT, reason: reason.to_owned(), unix_seconds };
        write_durably(&self.path().join("fenced.toml"), &file)
    }

    pub(super) fn refuse_if_fenced(&self) -> Result<(), DataError> {
        let path = self.path().join("fenced.toml");
        if !exists(&path)? {
            return Ok(());
        }
        let FencedFile { reason, .. } = read(&path)?;
        Err(DataError::Fenced { path: self.path().to_owned(), reason })
    }
}

impl PeerFile {
    fn new(node: NodeId, remembered: &Remembered) -> Self {
        PeerFile {
            node: node.0,
            incarnation: remembered.incarnation.to_string(),
            life: remembered.number,
            tag: text_of(remembered.tag),
            former: remembered.former.iter().map(Incarnation::to_string).collect(),
        }
    }

    fn restore(&self) -> Result<(NodeId, Remembered), String> {
        let former = self.former.iter().map(|former| number_of(former).map(Incarnation));
        let remembered = Remembered {
            incarnation: Incarnation(number_of(&self.incarnation)?),
            number: self.life,
            tag: number_of(&self.tag)?,
            former: former.collect::<Result<_, _>>()?,
        };
        Ok((NodeId(self.node), remembered))
    }
}

/// Random numbers are written with sixteen digits: not every reader of the format takes all numbers of 64 bits.
fn text_of(number: u64) -> String {
    format!("{number:016x}")
}

fn number_of(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 16).map_err(|error| format!("{text:?} is no number of sixteen digits: {error}"))
}
