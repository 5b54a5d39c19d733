//! One JSON line into a draft. Fields may come in any order; fields that the format does not define are
//! passed over.

use std::borrow::Cow;
use std::ops::Range;

use super::draft::{Batch, Content, Draft, DraftAction, DraftOp, EventType, position};
use super::scanner::Scanner;
use super::{Malformed, Site, SnapshotVector, Timestamp, VALUE_BOUND, Value};

/// Which of the fields a line had, to refuse repeated and missing ones.
#[derive(Default)]
struct Fields {
    seen: Vec<&'static str>,
}

impl Fields {
    fn add(&mut self, name: &'static str) -> Result<(), Malformed> {
        if self.seen.contains(&name) {
            return Err(Malformed::RepeatedField(name));
        }
        self.seen.push(name);
        Ok(())
    }

    fn require(&self, name: &'static str) -> Result<(), Malformed> {
        if self.seen.contains(&name) { Ok(()) } else { Err(Malformed::MissingField(name)) }
    }
}

/// Parses lines; it keeps its buffers between them.
#[derive(Default)]
pub(crate) struct LineParser {
    fields: Fields,
}

impl LineParser {
    /// Adds the event of a line to a batch.
    pub(crate) fn parse(&mut self, line: &[u8], batch: &mut Batch) -> Result<(), Malformed> {
        let line = std::str::from_utf8(line).map_err(|_| Malformed::NotUtf8)?;
        let mut scanner = Scanner::new(line);
        let mut draft = Draft::new();
        self.fields.seen.clear();
        scanner.expect(b'{', "an object")?;
        let mut first = true;
        while let Some(name) = scanner.next_field(&mut first)? {
            self.field(&name, &mut scanner, &mut batch.content, &mut draft)?;
        }
        scanner.end()?;
        for name in ["index", "type", "process", "time"] {
            self.fields.require(name)?;
        }
        if draft.event != EventType::Lost {
            self.fields.require("value")?;
        }
        batch.drafts.push(draft);
        Ok(())
    }

    fn field(
        &mut self,
        name: &str,
        scanner: &mut Scanner<'_>,
        content: &mut Content,
        draft: &mut Draft,
    ) -> Result<(), Malformed> {
        match name {
            "index" => {
                self.fields.add("index")?;
                draft.index = scanner.integer("an integer index")?;
            }
            "type" => {
                self.fields.add("type")?;
                let name = scanner.string("an event type")?;
                draft.event =
                    EventType::parse(&name).ok_or_else(|| Malformed::UnknownType(name.into_owned()))?;
            }
            "process" => {
                self.fields.add("process")?;
                draft.process = scanner.integer("an integer process")?;
            }
            "f" => {
                self.fields.add("f")?;
                let function = scanner.string("a function name")?;
                if function != "txn" {
                    return Err(Malformed::UnknownFunction(function.into_owned()));
                }
            }
            "time" => {
                self.fields.add("time")?;
                draft.time = scanner.integer("an integer time in nanoseconds")?;
            }
            "session" => {
                self.fields.add("session")?;
                draft.session = Some(content.names.sessions.intern(&scanner.string("a session name")?));
            }
            "site" => {
                self.fields.add("site")?;
                draft.site = Some(Site(content.names.sites.intern(&scanner.string("a site name")?)));
            }
            "observed" => {
                self.fields.add("observed")?;
                draft.observed = scanner.boolean("true or false")?;
            }
            "elsewhere" => {
                self.fields.add("elsewhere")?;
                draft.elsewhere = scanner.boolean("true or false")?;
            }
            "ts" => {
                self.fields.add("ts")?;
                draft.ts = timestamp(scanner)?;
            }
            "rs" => {
                self.fields.add("rs")?;
                let rs = timestamp(scanner)?;
                draft.facts.get_or_insert_default().rs = rs;
            }
            "lc" => {
                self.fields.add("lc")?;
                let lc = timestamp(scanner)?;
                draft.facts.get_or_insert_default().lc = lc;
            }
            "fc" => {
                self.fields.add("fc")?;
                let fc = timestamp(scanner)?;
                draft.facts.get_or_insert_default().fc = fc;
            }
            "vts" => {
                self.fields.add("vts")?;
                let vts = snapshot_vector(scanner, content)?;
                draft.facts.get_or_insert_default().vts = vts;
            }
            "site_seq" => {
                self.fields.add("site_seq")?;
                let site_seq = site_seq(scanner)?;
                draft.facts.get_or_insert_default().site_seq = site_seq;
            }
            "value" => {
                self.fields.add("value")?;
                draft.has_value = true;
                draft.ops = operations(scanner, content)?;
            }
            _ => scanner.skip_value(0)?,
        }
        Ok(())
    }
}

fn timestamp(scanner: &mut Scanner<'_>) -> Result<Option<Timestamp>, Malformed> {
    const EXPECTED: &str = "a timestamp: an integer or a pair of integers";
    if scanner.null() {
        return Ok(None);
    }
    if !scanner.take(b'[') {
        return Ok(Some(Timestamp { time: scanner.integer(EXPECTED)?, client: 0 }));
    }
    let time = scanner.integer(EXPECTED)?;
    scanner.expect(b',', EXPECTED)?;
    let client = scanner.integer(EXPECTED)?;
    scanner.expect(b']', EXPECTED)?;
    Ok(Some(Timestamp { time, client }))
}

fn snapshot_vector(
    scanner: &mut Scanner<'_>,
    content: &mut Content,
) -> Result<Option<SnapshotVector>, Malformed> {
    if scanner.null() {
        return Ok(None);
    }
    scanner.expect(b'{', "a snapshot vector: an object from sites to integers")?;
    let (mut vector, mut first) = (SnapshotVector::new(), true);
    while let Some(name) = scanner.next_field(&mut first)? {
        let site = Site(content.names.sites.intern(&name));
        if vector.iter().any(|&(other, _)| other == site) {
            return Err(Malformed::RepeatedSite(name.into_owned()));
        }
        vector.push((site, natural(scanner, "an integer from 0 on")?));
    }
    Ok(Some(vector))
}

fn site_seq(scanner: &mut Scanner<'_>) -> Result<Option<u64>, Malformed> {
    const EXPECTED: &str = "an integer from 1 on";
    if scanner.null() {
        return Ok(None);
    }
    match natural(scanner, EXPECTED)? {
        0 => scanner.unexpected(EXPECTED),
        site_seq => Ok(Some(site_seq)),
    }
}

fn natural(scanner: &mut Scanner<'_>, expected: &'static str) -> Result<u64, Malformed> {
    match u64::try_from(scanner.integer(expected)?) {
        Ok(natural) => Ok(natural),
        Err(_) => scanner.unexpected(expected),
    }
}

fn operations(scanner: &mut Scanner<'_>, content: &mut Content) -> Result<Range<u32>, Malformed> {
    let start = position(content.ops.len())?;
    scanner.expect(b'[', "an array of operations")?;
    let mut first = true;
    while scanner.next_element(&mut first)? {
        let op = operation(scanner, content)?;
        content.ops.push(op);
    }
    Ok(start..position(content.ops.len())?)
}

fn operation(scanner: &mut Scanner<'_>, content: &mut Content) -> Result<DraftOp, Malformed> {
    scanner.expect(b'[', "an operation: [name, key, argument]")?;
    let name = scanner.string("the name of an operation")?;
    scanner.expect(b',', "a key and an argument")?;
    let key = match scanner.peek() {
        b'"' => content.names.keys.intern_text(&scanner.string("a key")?),
        _ => content.names.keys.intern_int(scanner.integer("a key: a string or an integer")?),
    };
    scanner.expect(b',', "an argument")?;
    let action = match &*name {
        "append" => DraftAction::Append(written(scanner)?),
        "w" => DraftAction::Write(written(scanner)?),
        "add" => DraftAction::Add(element(scanner, content)?),
        "rem" => DraftAction::Remove(element(scanner, content)?),
        "r" => read(scanner, content)?,
        _ => return Err(Malformed::UnknownOperation(Cow::into_owned(name))),
    };
    scanner.expect(b']', "the end of the operation")?;
    Ok(DraftOp { key, action })
}

fn written(scanner: &mut Scanner<'_>) -> Result<Value, Malformed> {
    let value = scanner.integer("an integer value")?;
    if value.unsigned_abs() >= VALUE_BOUND.unsigned_abs() {
        return Err(Malformed::ValueTooLarge(value));
    }
    Ok(value)
}

/// An element of a counting set: a number or text.
fn element(scanner: &mut Scanner<'_>, content: &mut Content) -> Result<Value, Malformed> {
    match scanner.peek() {
        b'"' => Ok(content.names.elements.element(&scanner.string("an element")?)),
        _ => written(scanner),
    }
}

fn read(scanner: &mut Scanner<'_>, content: &mut Content) -> Result<DraftAction, Malformed> {
    if scanner.null() {
        return Ok(DraftAction::ReadNull);
    }
    let mut first = true;
    if scanner.take(b'[') {
        let start = position(content.values.len())?;
        scanner.integers(&mut content.values, "an integer element")?;
        return Ok(DraftAction::ReadList { start, end: position(content.values.len())? });
    }
    if scanner.take(b'{') {
        let start = position(content.counts.len())?;
        while let Some(element) = scanner.next_field(&mut first)? {
            let element = content.names.elements.element(&element);
            content.counts.push((element, scanner.integer("an integer count")?));
        }
        return Ok(DraftAction::ReadSet { start, end: position(content.counts.len())? });
    }
    let value = scanner.integer("a read result: null, an integer, an array or an object of integers")?;
    Ok(DraftAction::ReadRegister(value))
}
