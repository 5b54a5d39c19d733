//! Restoring a backup into a new keyspace.
//!
//! The keyspace is made under a name of its own, loaded, and read again; only then is it given the name that was asked for, by dropping it and bringing it
//! back under that. So a keyspace of that name is never half restored. It is a new one, whatever its name: tokens and cursors of the keyspace that was backed up
//! mean nothing in it.

use std::sync::Arc;
use std::time::Duration;

use quorate::{Database, DropOptions, Keyspace, UndropOptions};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use crate::archive::Archive;
use crate::cipher::Cipher;
use crate::create::Progress;
use crate::error::{Error, Result};
use crate::loader::Loader;
use crate::manifest::{File, Manifest};
use crate::segment::Content;
use crate::verify::{Segments, check_files};

/// Segments that are loaded at a time.
const SEGMENTS_AT_ONCE: usize = 4;

/// Blocks that wait to be written, for each segment.
const BLOCKS_WAITING: usize = 2;

/// How a backup is restored.
#[derive(Clone, Debug)]
pub struct RestoreOptions {
    /// The name of the new keyspace; by default that of the one that was backed up.
    pub name: Option<String>,
    /// Decrypts it.
    pub cipher: Option<Cipher>,
    /// How long to wait for the keyspace to serve, and to be read again.
    pub patience: Duration,
    /// Leaves out reading the keyspace again, and comparing it with the backup.
    pub unchecked: bool,
}

/// How a keyspace is named while it is loaded.
fn name_while_loading(name: &str) -> String {
    format!("{name}.restoring")
}

/// Restores a backup, and gives the new keyspace. `progress` is told how far it is.
///
/// # Errors
/// The backup is not as it was written, a keyspace of the name exists, or the cluster fails. No keyspace is left behind then.
pub async fn restore(
    db: &Database,
    archive: &Arc<dyn Archive>,
    folder: &str,
    manifest: &Manifest,
    options: &RestoreOptions,
    mut progress: impl FnMut(Progress),
) -> Result<Keyspace> {
    // All that can be found without changing anything comes first.
    let cipher = manifest.cipher(options.cipher.as_ref())?.cloned();
    check_files(&**archive, folder, manifest).await?;
    let new = manifest.keyspace.options()?;
    let name = options.name.as_ref().unwrap_or(&manifest.keyspace.name);
    let loading = name_while_loading(name);
    let known = db.list().await?;
    if known.iter().any(|known| known.name == *name) {
        return Err(Error::Unsuitable(format!(
            "there is a keyspace {name:?}: restore under another name, with --as, or drop that one first"
        )));
    }
    if known.iter().any(|known| known.name == loading) {
        return Err(Error::Unsuitable(format!(
            "{name:?} is being restored, or was and that was interrupted; if nobody restores it now, `quorate keyspace drop {loading} --delete-after 0s`, and \
             restore it again"
        )));
    }
    let keyspace = db.create_keyspace_with(&loading, new, Some(options.patience), |_| {}).await;
    let loaded = match keyspace {
        Err(error) => Err(error.into()),
        Ok(keyspace) => {
            match load(&keyspace, Segments::new(archive, folder, manifest), manifest, cipher, &mut progress)
                .await
            {
                Ok(()) if options.unchecked => Ok(keyspace),
                Ok(()) => compare(db, &loading, manifest, options.patience).await.map(|()| keyspace),
                Err(error) => Err(error),
            }
        }
    };
    match loaded {
        Ok(keyspace) => give_name(db, &loading, name, keyspace.definition().id.0).await,
        Err(error) => {
            remove(db, &loading).await?;
            Err(error)
        }
    }
}

/// Removes what a restoration has loaded that was stopped halfway.
///
/// # Errors
/// The cluster does not answer: then the keyspace is still there, under the name that it has while it is loaded.
pub async fn abandon(db: &Database, manifest: &Manifest, options: &RestoreOptions) -> Result<()> {
    let name = options.name.as_ref().unwrap_or(&manifest.keyspace.name);
    remove(db, &name_while_loading(name)).await
}

/// Removes what was loaded of a keyspace.
async fn remove(db: &Database, loading: &str) -> Result<()> {
    let is_there = db.list().await?.iter().any(|known| known.name == loading);
    if is_there {
        db.drop_keyspace_with(loading, DropOptions::at_once()).await?;
    }
    Ok(())
}

async fn give_name(db: &Database, loading: &str, name: &str, id: u32) -> Result<Keyspace> {
    db.drop_keyspace(loading).await?;
    let options = UndropOptions { id: Some(id), rename: Some(name.to_owned()) };
    match db.undrop_keyspace(loading, &options).await {
        Ok(_) => Ok(db.keyspace(name).await?),
        Err(error) => Err(Error::Unsuitable(format!(
            "the backup is restored, and cannot be given its name ({error}): `quorate keyspace undrop {loading} --as NAME` does that, within a day"
        ))),
    }
}

/// Writes all entries into a new keyspace.
async fn load(
    keyspace: &Keyspace,
    source: Segments,
    manifest: &Manifest,
    cipher: Option<Cipher>,
    progress: &mut impl FnMut(Progress),
) -> Result<()> {
    let permits = Arc::new(Semaphore::new(SEGMENTS_AT_ONCE));
    let mut segments: JoinSet<Result<()>> = JoinSet::new();
    let (tell, mut told) = mpsc::unbounded_channel();
    for file in manifest.files.clone() {
        let segment =
            Segment { keyspace: keyspace.clone(), source: source.clone(), file, cipher: cipher.clone() };
        let (permits, tell) = (Arc::clone(&permits), tell.clone());
        segments.spawn(async move {
            let _permit = permits.acquire_owned().await;
            segment.load(tell).await
        });
    }
    drop(tell);
    let mut all = Progress::default();
    loop {
        tokio::select! {
            joined = segments.join_next() => match joined {
                None => return Ok(()),
                Some(Ok(loaded)) => loaded?,
                Some(Err(error)) => {
                    return Err(Error::Unsuitable(format!("a segment is not loaded any more: {error}")));
                }
            },
            Some(more) = told.recv() => {
                let more: Progress = more;
                all.entries += more.entries;
                all.bytes += more.bytes;
                progress(all);
            }
        }
    }
}

/// A segment that is loaded.
struct Segment {
    keyspace: Keyspace,
    source: Segments,
    file: File,
    cipher: Option<Cipher>,
}

impl Segment {
    async fn load(self, tell: mpsc::UnboundedSender<Progress>) -> Result<()> {
        let mut loader = Loader::of_cut(self.keyspace.clone());
        let (sender, mut blocks) = mpsc::channel(BLOCKS_WAITING);
        let reader = tokio::task::spawn_blocking(move || {
            let Segment { source, file, cipher, .. } = self;
            source.read(&file, cipher.as_ref(), |entries| {
                let closed = || Error::Unsuitable("what was read is not wanted any more".to_owned());
                sender.blocking_send(entries).map_err(|_| closed())
            })
        });
        let (mut mark, mut before) = (0, Progress::default());
        while let Some(entries) = blocks.recv().await {
            for entry in entries {
                mark += 1;
                loader.add(entry, mark).await?;
            }
            let now = loader.committed();
            // Nobody may listen any more if another segment has failed.
            let _ = tell
                .send(Progress { entries: now.entries - before.entries, bytes: now.bytes - before.bytes });
            before = now;
        }
        loader.finish().await?;
        reader.await.map_err(|error| Error::Unsuitable(format!("a segment is not read any more: {error}")))?
    }
}

/// Reads the new keyspace, and compares it with the backup. It has as many shards, so that what each of them holds counts as often.
async fn compare(db: &Database, loading: &str, manifest: &Manifest, patience: Duration) -> Result<()> {
    let mut expected = Content::default();
    for file in &manifest.files {
        expected = expected.plus(file.expected()?);
    }
    let held = content_of(db, loading, patience).await?;
    match held == expected {
        true => Ok(()),
        false => Err(Error::Unsuitable(format!(
            "what was restored is not what the backup holds: it has {} entries, and the backup {}; nothing was kept of it, and this must not be: \
             please report it",
            held.entries, expected.entries
        ))),
    }
}

/// The content of a keyspace.
async fn content_of(db: &Database, keyspace: &str, patience: Duration) -> Result<Content> {
    let cut = db.cut(keyspace, patience).await?;
    let mut shards: JoinSet<quorate::Result<Content>> = JoinSet::new();
    for shard in cut.shards() {
        let mut reader = cut.reader(shard);
        shards.spawn(async move {
            let mut content = Content::default();
            while let Some(entries) = reader.next().await? {
                entries.iter().for_each(|entry| content.add(entry));
            }
            Ok(content)
        });
    }
    let mut all = Content::default();
    while let Some(read) = shards.join_next().await {
        let content =
            read.map_err(|error| Error::Unsuitable(format!("a shard is not read any more: {error}")))?;
        all = all.plus(content?);
    }
    Ok(all)
}
