//! Manifests: what belongs to a backup, as JSON that a person can read.
//!
//! A manifest is written last, once every file is whole: a folder without one is no backup. Its own checksum is that of the manifest with an empty
//! checksum, as compact JSON with the fields in their order. If the backup is encrypted, the manifest has a seal as well, which cannot be made without
//! the key: the HMAC of the manifest with neither seal nor checksum.
//!
//! From format 2 on a manifest names chunks of segments, its own and those of folders that it leans on.

use std::time::Duration;

use quorate::topology::{Keyspace as Definition, Speculation, Timestamping};
use quorate::{Isolation, KeyspaceOptions, Retention};
use quorate_core::verify::Checksum;
use serde::{Deserialize, Serialize};

use crate::cipher::{ALGORITHM, Cipher, from_hex, to_hex};
use crate::error::{Error, Result};
use crate::segment::{Content, FORMAT_OF_BLOCKS, Place, Used};

/// The format of manifests that is written, and the greatest that is known here.
pub const FORMAT: u32 = 2;

/// The contents of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The format of manifest and segments.
    pub quorate_backup: u32,
    /// The version of the program that has taken it.
    pub program: String,
    /// A random number, as hexadecimal digits: all segments have it.
    pub id: String,
    /// The keyspace.
    pub keyspace: KeyspaceManifest,
    /// The instant, in microseconds since 1970 by the clocks of the cluster.
    pub instant_us: u64,
    /// The same for people.
    pub instant: String,
    /// How it is encrypted; none if it is not.
    pub encryption: Option<Encryption>,
    /// How many entries there are.
    pub entries: u64,
    /// How many bytes their keys and values have.
    pub bytes: u64,
    /// The folders beside it that hold segments of which it uses chunks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leans_on: Vec<Leaned>,
    /// The files.
    pub files: Vec<File>,
    /// The checksum of all of this.
    pub checksum: String,
}

/// A folder that a backup leans on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leaned {
    /// Its name.
    pub folder: String,
    /// The random number of the backup that it is of, as hexadecimal digits.
    pub id: String,
}

/// The keyspace that was backed up, as far as a new one is made like it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyspaceManifest {
    /// Its name.
    pub name: String,
    /// Its number in its cluster.
    pub id: u32,
    /// The isolation of its transactions.
    pub isolation: String,
    /// The durability of its acknowledged writes.
    pub durability: String,
    /// Into how many shards its keys are divided.
    pub shards: u32,
    /// How many replicas each shard has.
    pub replicas: u32,
    /// How far clocks are apart at most.
    pub clock_bound_us: Option<u64>,
    /// How transactions speculate.
    pub speculation: Option<SpeculationManifest>,
    /// How timestamps are chosen.
    pub timestamping: Option<TimestampingManifest>,
    /// The application whose procedures can be called.
    pub application: Option<String>,
    /// How much replicas retain for consumers of changes. Backups of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<RetentionManifest>,
    /// True if its values have envelopes, and may expire. Backups of earlier versions do not say.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expiring: bool,
}

/// How much replicas retain for consumers of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionManifest {
    time_us: u64,
    bytes: u64,
}

/// How transactions speculate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpeculationManifest {
    variant: String,
    orders_sessions: bool,
    chain_max: Option<u8>,
    untuned: bool,
    decisions: String,
    grants: String,
}

/// How timestamps are chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimestampingManifest {
    order: String,
    retry_ahead_us: u64,
}

/// How a backup is encrypted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Encryption {
    /// The algorithm.
    pub algorithm: String,
    /// Tells the key from others.
    pub key_check: String,
    /// The seal of the manifest, from format 2 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<String>,
}

/// A segment of a backup, or of one that it leans on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Its name.
    pub name: String,
    /// The folder that it lies in, if that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The shard of which it is a segment.
    pub shard: u32,
    /// Which of its segments, from zero.
    pub number: u32,
    /// Its length.
    pub bytes: u64,
    /// The positions of the chunks that belong to this backup, from format 2 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunks: Option<String>,
    /// How many bytes these chunks take in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_bytes: Option<u64>,
    /// How many entries it holds, in these chunks.
    pub entries: u64,
    /// How many bytes their keys and values have.
    pub content_bytes: u64,
    /// The sum of their hashes.
    pub content: String,
}

impl KeyspaceManifest {
    /// The manifest of a keyspace as it stands in the catalogue.
    pub fn of(definition: &Definition) -> Self {
        let speculation = definition.speculation.map(|speculation| SpeculationManifest {
            variant: speculation.variant.name().to_owned(),
            orders_sessions: speculation.orders_sessions,
            chain_max: speculation.chain_max,
            untuned: speculation.untuned,
            decisions: speculation.decisions.name().to_owned(),
            grants: speculation.grants.name().to_owned(),
        });
        let timestamping = definition.timestamping.map(|timestamping| TimestampingManifest {
            order: timestamping.order.name().to_owned(),
            retry_ahead_us: micros(timestamping.retry_ahead),
        });
        KeyspaceManifest {
            name: definition.name.clone(),
            id: definition.id.0,
            isolation: definition.isolation.name().to_owned(),
            durability: definition.durability.name().to_owned(),
            shards: definition.shards.len() as u32,
            replicas: definition.shards.first().map_or(0, |shard| shard.replicas.len()) as u32,
            clock_bound_us: definition.clock_bound.map(micros),
            speculation,
            timestamping,
            application: definition.application.clone(),
            retention: definition.retention.map(|retention| RetentionManifest {
                time_us: micros(retention.time),
                bytes: retention.bytes,
            }),
            expiring: definition.expiring,
        }
    }

    /// How a keyspace is created like it. Where its replicas are the cluster chooses: it need not be the one that was backed up.
    ///
    /// # Errors
    /// It has something that this version does not know.
    pub fn options(&self) -> Result<KeyspaceOptions> {
        let isolation: Isolation = parse("isolation", &self.isolation)?;
        let speculation = match &self.speculation {
            None => None,
            Some(speculation) => Some(Speculation {
                variant: parse("variant", &speculation.variant)?,
                orders_sessions: speculation.orders_sessions,
                chain_max: speculation.chain_max,
                untuned: speculation.untuned,
                decisions: parse("decisions", &speculation.decisions)?,
                grants: parse("grants", &speculation.grants)?,
            }),
        };
        let timestamping = match &self.timestamping {
            None => None,
            Some(timestamping) => Some(Timestamping {
                order: parse("order", &timestamping.order)?,
                retry_ahead: Duration::from_micros(timestamping.retry_ahead_us),
            }),
        };
        Ok(KeyspaceOptions {
            isolation,
            durability: parse("durability", &self.durability)?,
            // A site has all keys: how many there are is the cluster's.
            shards: if isolation.stands_in_sites() { 1 } else { self.shards as usize },
            replicas: None,
            sites: Vec::new(),
            clock_bound: self.clock_bound_us.map(Duration::from_micros),
            comparison: None,
            speculation,
            timestamping,
            application: self.application.clone(),
            retention: self.retention.map(|retention| Retention {
                time: Duration::from_micros(retention.time_us),
                bytes: retention.bytes,
            }),
            expiring: self.expiring,
        })
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn parse<T: std::str::FromStr>(what: &str, text: &str) -> Result<T> {
    text.parse().map_err(|_| Error::ManifestDamaged {
        reason: format!("this version of quorate knows no {what} {text:?}"),
    })
}

/// A checksum as manifests have it.
pub(crate) fn checksum_text(checksum: Checksum) -> String {
    checksum.to_string()
}

impl File {
    /// The chunks that belong to the backup; none if it is a segment of format 1.
    ///
    /// # Errors
    /// They are no positions.
    pub fn used(&self) -> Result<Option<Used>> {
        match &self.chunks {
            None => Ok(None),
            Some(text) => Used::parse(text).map(Some).ok_or_else(|| Error::ManifestDamaged {
                reason: format!("the chunks of {} are no positions", self.name),
            }),
        }
    }

    /// The content that it should have.
    ///
    /// # Errors
    /// Its checksum is none.
    pub fn expected(&self) -> Result<Content> {
        let bytes = from_hex(&self.content).and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
        let bytes = bytes.ok_or_else(|| Error::ManifestDamaged {
            reason: format!("the checksum of {} is no checksum", self.name),
        })?;
        let (high, low) = bytes.split_at(8);
        let number = |half: &[u8]| half.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let sum = Checksum { low: number(low), high: number(high) };
        Ok(Content { entries: self.entries, bytes: self.content_bytes, sum })
    }
}

impl Manifest {
    /// As JSON, with its checksum, and sealed if it is encrypted.
    ///
    /// # Errors
    /// It cannot be written as JSON.
    pub fn to_json(&self, cipher: Option<&Cipher>) -> Result<String> {
        let mut manifest = self.clone();
        if let Some(cipher) = cipher {
            let seal = manifest.own_seal(cipher)?;
            manifest.encryption = manifest.encryption.map(|known| Encryption { seal: Some(seal), ..known });
        }
        manifest.checksum = manifest.own_checksum()?;
        let text = serde_json::to_string_pretty(&manifest);
        text.map(|text| text + "\n").map_err(|error| Error::Unsuitable(format!("no manifest: {error}")))
    }

    fn own_checksum(&self) -> Result<String> {
        let bare = Manifest { checksum: String::new(), ..self.clone() };
        Ok(checksum_text(Checksum::of(&[compact(&bare)?.as_bytes()])))
    }

    fn own_seal(&self, cipher: &Cipher) -> Result<String> {
        let encryption = self.encryption.clone().map(|known| Encryption { seal: None, ..known });
        let bare = Manifest { checksum: String::new(), encryption, ..self.clone() };
        Ok(cipher.seal_of(b"seals of manifests", compact(&bare)?.as_bytes()))
    }

    /// Reads a manifest, and checks it.
    ///
    /// # Errors
    /// It is none, one of a later format, or not as it was written.
    pub fn from_json(text: &str) -> Result<Self> {
        /// The one field of which all formats have the same understanding.
        #[derive(Deserialize)]
        struct Format {
            quorate_backup: Option<u32>,
        }
        let damaged = |error: serde_json::Error| Error::ManifestDamaged {
            reason: match error.is_eof() {
                true => "it ends early".to_owned(),
                false => error.to_string(),
            },
        };
        let format: Format = serde_json::from_str(text).map_err(damaged)?;
        match format.quorate_backup {
            None => {
                return Err(Error::ManifestDamaged {
                    reason: "it does not say \"quorate_backup\": is it the manifest of something else?"
                        .to_owned(),
                });
            }
            Some(found) if found > FORMAT => return Err(Error::NewerFormat { found, known: FORMAT }),
            Some(_) => {}
        }
        let manifest: Manifest = serde_json::from_str(text).map_err(damaged)?;
        if manifest.own_checksum()? != manifest.checksum {
            return Err(Error::ManifestDamaged { reason: "its checksum does not fit".to_owned() });
        }
        manifest.validate()?;
        Ok(manifest)
    }

    /// Names of files stay in their folders, and each segment is there once.
    fn validate(&self) -> Result<()> {
        let damaged = |reason: String| Err(Error::ManifestDamaged { reason });
        if self.backup().is_none() {
            return damaged(format!("{:?} is no number of a backup", self.id));
        }
        for Leaned { folder, id } in &self.leans_on {
            if !is_folder_name(folder) || number_of(id).is_none() {
                return damaged(format!("{folder:?} is not how a folder of a backup is named"));
            }
        }
        match self.has_chunks() {
            true => self.validate_chunks(),
            false => self.validate_blocks(),
        }
    }

    /// The segments of format 1: all of them are its own, and none is missing.
    fn validate_blocks(&self) -> Result<()> {
        let damaged = |reason: String| Err(Error::ManifestDamaged { reason });
        let mut next = std::collections::BTreeMap::new();
        for file in &self.files {
            if file.name != segment_name(file.shard, file.number) {
                return damaged(format!("{:?} is not how a segment is named", file.name));
            }
            if file.from.is_some() || file.chunks.is_some() {
                return damaged(format!("{} has what no segment of format 1 has", file.name));
            }
            let expected = next.entry(file.shard).or_insert(0);
            if *expected != file.number {
                return damaged(format!("segment {expected} of shard {} is missing", file.shard));
            }
            *expected += 1;
            file.expected()?;
        }
        Ok(())
    }

    /// The segments of format 2: each is named once, with its chunks, and lies in a folder that is named as well.
    fn validate_chunks(&self) -> Result<()> {
        let damaged = |reason: String| Err(Error::ManifestDamaged { reason });
        let mut seen = std::collections::BTreeSet::new();
        for file in &self.files {
            if file.name != segment_name(file.shard, file.number) {
                return damaged(format!("{:?} is not how a segment is named", file.name));
            }
            if let Some(from) = &file.from
                && self.leans_on.iter().all(|leaned| leaned.folder != *from)
            {
                return damaged(format!("{} lies in {from:?}, which the backup does not lean on", file.name));
            }
            if !seen.insert((&file.from, &file.name)) {
                return damaged(format!("{} is named twice", file.name));
            }
            if file.used()?.is_none() {
                return damaged(format!("{} has no chunks", file.name));
            }
            file.expected()?;
        }
        Ok(())
    }

    /// True if the backup is one of chunks.
    pub fn has_chunks(&self) -> bool {
        self.quorate_backup > u32::from(FORMAT_OF_BLOCKS)
    }

    /// How many bytes the files have that are its own.
    pub fn own_bytes(&self) -> u64 {
        self.files.iter().filter(|file| file.from.is_none()).map(|file| file.bytes).sum()
    }

    /// How many bytes the chunks have that it uses of a folder that it leans on.
    pub fn bytes_of(&self, folder: &str) -> u64 {
        let of_it = self.files.iter().filter(|file| file.from.as_deref() == Some(folder));
        of_it.filter_map(|file| file.chunk_bytes).sum()
    }

    /// The number of the backup, as segments have it.
    pub fn backup(&self) -> Option<[u8; 16]> {
        number_of(&self.id)
    }

    /// Where a file belongs.
    pub fn place(&self, file: &File) -> Place {
        let id = match &file.from {
            None => Some(&self.id),
            Some(from) => self.leans_on.iter().find(|leaned| leaned.folder == *from).map(|leaned| &leaned.id),
        };
        let backup = id.and_then(|id| number_of(id)).unwrap_or_default();
        Place { backup, shard: file.shard, number: file.number }
    }

    /// The cipher that its segments are read with.
    ///
    /// # Errors
    /// A key is needed, or another one.
    pub fn cipher<'a>(&self, cipher: Option<&'a Cipher>) -> Result<Option<&'a Cipher>> {
        match (&self.encryption, cipher) {
            (None, _) => Ok(None),
            (Some(_), None) => Err(Error::KeyNeeded),
            (Some(encryption), Some(_)) if encryption.algorithm != ALGORITHM => Err(Error::ManifestDamaged {
                reason: format!("this version of quorate knows no {:?}", encryption.algorithm),
            }),
            (Some(encryption), Some(cipher)) => {
                if cipher.check()? != encryption.key_check {
                    return Err(Error::WrongKey);
                }
                if self.has_chunks() && encryption.seal != Some(self.own_seal(cipher)?) {
                    return Err(Error::ManifestDamaged { reason: "its seal does not fit".to_owned() });
                }
                Ok(Some(cipher))
            }
        }
    }

    /// A new number.
    pub(crate) fn name_id(backup: [u8; 16]) -> String {
        to_hex(&backup)
    }
}

/// A number of a backup, from hexadecimal digits.
pub(crate) fn number_of(id: &str) -> Option<[u8; 16]> {
    from_hex(id)?.try_into().ok()
}

/// True if a folder of an archive may have this name: it leads nowhere else.
pub(crate) fn is_folder_name(name: &str) -> bool {
    !name.is_empty() && !matches!(name, "." | "..") && !name.contains(['/', '\\', '\0'])
}

fn compact(manifest: &Manifest) -> Result<String> {
    serde_json::to_string(manifest)
        .map_err(|error| Error::Unsuitable(format!("the manifest cannot be written: {error}")))
}

/// How a segment is named.
pub fn segment_name(shard: u32, number: u32) -> String {
    format!("shard-{shard}-{number:05}.segment")
}

/// The shard and the number of a segment of this name; none if it is no such name.
pub(crate) fn segment_of(name: &str) -> Option<(u32, u32)> {
    let (shard, number) = name.strip_prefix("shard-")?.strip_suffix(".segment")?.split_once('-')?;
    let (shard, number) = (shard.parse().ok()?, number.parse().ok()?);
    (segment_name(shard, number) == name).then_some((shard, number))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A manifest of two segments that are nowhere.
    pub(crate) fn manifest() -> Manifest {
        let file = |number| File {
            name: segment_name(4, number),
            from: None,
            shard: 4,
            number,
            bytes: 100,
            chunks: Some("0-1".to_owned()),
            chunk_bytes: Some(60),
            entries: 2,
            content_bytes: 10,
            content: "00112233445566778899aabbccddeeff".to_owned(),
        };
        Manifest {
            quorate_backup: FORMAT,
            program: "0.1.0".to_owned(),
            id: "07".repeat(16),
            keyspace: KeyspaceManifest {
                name: "accounts".to_owned(),
                id: 9,
                isolation: "snapshot".to_owned(),
                durability: "sync".to_owned(),
                shards: 2,
                replicas: 3,
                clock_bound_us: None,
                speculation: Some(SpeculationManifest {
                    variant: "str-external".to_owned(),
                    orders_sessions: true,
                    chain_max: Some(3),
                    untuned: false,
                    decisions: "site".to_owned(),
                    grants: "all".to_owned(),
                }),
                timestamping: None,
                application: None,
                retention: None,
                expiring: false,
            },
            instant_us: 1,
            instant: crate::rfc3339(1),
            encryption: None,
            entries: 4,
            bytes: 20,
            leans_on: vec![Leaned { folder: "accounts-1".to_owned(), id: "08".repeat(16) }],
            files: vec![file(0), File { from: Some("accounts-1".to_owned()), ..file(1) }],
            checksum: String::new(),
        }
    }

    fn reason(text: &str) -> String {
        match Manifest::from_json(text) {
            Err(Error::ManifestDamaged { reason }) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written_and_gives_the_options_of_the_keyspace() {
        let text = manifest().to_json(None).unwrap();
        let read = Manifest::from_json(&text).unwrap();
        assert_eq!(Manifest { checksum: String::new(), ..read.clone() }, manifest());
        let options = read.keyspace.options().unwrap();
        assert_eq!((options.isolation, options.shards), (Isolation::Snapshot, 2));
        let speculation = options.speculation.unwrap();
        assert_eq!((speculation.chain_max, speculation.orders_sessions), (Some(3), true));
        assert_eq!(read.files[0].expected().unwrap().sum.to_string(), read.files[0].content);
    }

    #[test]
    fn a_manifest_that_ends_early_anywhere_is_refused() {
        let text = manifest().to_json(None).unwrap();
        for length in 0..text.trim_end().len() {
            assert_eq!(reason(&text[..length]), "it ends early", "{length}");
        }
    }

    #[test]
    fn a_manifest_with_any_byte_changed_is_refused() {
        let text = manifest().to_json(None).unwrap();
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = if bytes[at] == b'5' { b'6' } else { b'5' };
            let changed = String::from_utf8(bytes).unwrap();
            assert!(Manifest::from_json(&changed).is_err(), "byte {at}: {changed}");
        }
    }

    #[test]
    fn a_manifest_of_a_later_format_or_of_something_else_is_told() {
        let later = r#"{"quorate_backup": 3, "unheard of": []}"#;
        assert!(matches!(Manifest::from_json(later), Err(Error::NewerFormat { found: 3, known: 2 })));
        assert!(reason(r#"{"files": []}"#).contains("something else"));
        assert!(reason("no json").contains("expected"));
    }

    #[test]
    fn a_manifest_that_names_files_elsewhere_or_chunks_that_cannot_be_is_refused() {
        let with = |change: fn(&mut Manifest)| {
            let mut manifest = manifest();
            change(&mut manifest);
            reason(&manifest.to_json(None).unwrap())
        };
        assert!(with(|manifest| manifest.files[0].name = "../secret".to_owned()).contains("is not how"));
        assert!(with(|manifest| manifest.id = "7".to_owned()).contains("is no number"));
        assert!(with(|manifest| manifest.files[1].content = "x".to_owned()).contains("is no checksum"));
        assert!(with(|manifest| manifest.files[1].from = Some("b".to_owned())).contains("does not lean on"));
        assert!(with(|manifest| manifest.files[1] = manifest.files[0].clone()).contains("is named twice"));
        assert!(with(|manifest| manifest.files[0].chunks = None).contains("has no chunks"));
        for chunks in ["", "1-0", "3,2", "0-1,2", "0-65536", "x", "-1", "+1"] {
            let mut manifest = manifest();
            manifest.files[0].chunks = Some(chunks.to_owned());
            assert!(reason(&manifest.to_json(None).unwrap()).contains("are no positions"), "{chunks}");
        }
        for folder in ["", "..", "a/b", "/a"] {
            let mut manifest = manifest();
            folder.clone_into(&mut manifest.leans_on[0].folder);
            assert!(reason(&manifest.to_json(None).unwrap()).contains("is not how a folder"), "{folder}");
        }
    }

    #[test]
    fn a_manifest_of_format_1_lacks_no_segment_and_leans_on_nothing() {
        let with = |change: fn(&mut Manifest)| {
            let mut manifest = manifest();
            (manifest.quorate_backup, manifest.leans_on) = (1, Vec::new());
            for file in &mut manifest.files {
                (file.from, file.chunks, file.chunk_bytes) = (None, None, None);
            }
            change(&mut manifest);
            Manifest::from_json(&manifest.to_json(None).unwrap()).map_err(|error| error.to_string())
        };
        assert!(!with(|_| {}).unwrap().has_chunks());
        let refused = |change| with(change).unwrap_err();
        assert!(
            refused(|manifest| drop(manifest.files.remove(0))).contains("segment 0 of shard 4 is missing")
        );
        assert!(refused(|manifest| manifest.files.swap(0, 1)).contains("is missing"));
        assert!(refused(|manifest| manifest.files[0].chunks = Some("0".to_owned())).contains("format 1"));
    }

    #[test]
    fn names_of_segments_are_read_as_they_are_written() {
        assert_eq!(segment_of(&segment_name(3, 12)), Some((3, 12)));
        for name in
            ["manifest.json", "shard-3-12.segment", "shard-3-00012.segment.part", "shard-x-00012.segment"]
        {
            assert_eq!(segment_of(name), None, "{name}");
        }
    }

    #[test]
    fn a_key_is_asked_for_and_checked_before_anything_is_read_and_so_is_the_seal() {
        let (right, wrong) = (Cipher::new([1; 32]), Cipher::new([2; 32]));
        let mut manifest = manifest();
        assert!(manifest.cipher(Some(&right)).unwrap().is_none(), "nothing is encrypted");
        let key_check = right.check().unwrap();
        manifest.encryption = Some(Encryption { algorithm: ALGORITHM.to_owned(), key_check, seal: None });
        let sealed = Manifest::from_json(&manifest.to_json(Some(&right)).unwrap()).unwrap();
        assert!(sealed.cipher(Some(&right)).unwrap().is_some());
        assert!(matches!(sealed.cipher(Some(&wrong)), Err(Error::WrongKey)));
        assert!(matches!(sealed.cipher(None), Err(Error::KeyNeeded)));
        // A manifest that somebody has changed without the key, with a checksum that fits.
        let mut forged = sealed;
        forged.files.pop();
        let forged = Manifest::from_json(&forged.to_json(None).unwrap()).unwrap();
        let refused = forged.cipher(Some(&right)).unwrap_err().to_string();
        assert!(refused.contains("its seal does not fit"), "{refused}");
        assert!(manifest.cipher(Some(&right)).is_err(), "a seal that is missing is none");
    }
}
