//! One JSON line into a draft. Fields may come in any order; fields that the format does not define are
//! passed over.

use std::borrow::Cow;

use super::draft::{Draft, DraftAction, DraftOp, EventType, Names};
use super::scanner::Scanner;
use super::{Malformed, Site, Timestamp, VALUE_BOUND, Value};

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
    pub(crate) fn parse(
        &mut self,
        line: &[u8],
        names: &mut Names,
        draft: &mut Draft,
    ) -> Result<(), Malformed> {
        let line = std::str::from_utf8(line).map_err(|_| Malformed::NotUtf8)?;
        let mut scanner = Scanner::new(line);
        draft.clear();
        self.fields.seen.clear();
        scanner.expect(b'{', "an object")?;
        let mut first = true;
        while let Some(name) = scanner.next_field(&mut first)? {
            self.field(&name, &mut scanner, names, draft)?;
        }
        scanner.end()?;
        for name in ["index", "type", "process", "time"] {
            self.fields.require(name)?;
        }
        if draft.event != EventType::Lost {
            self.fields.require("value")?;
        }
        Ok(())
    }

    fn field(
        &mut self,
        name: &str,
        scanner: &mut Scanner<'_>,
        names: &mut Names,
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
                draft.session = Some(names.sessions.intern(&scanner.string("a session name")?));
            }
            "site" => {
                self.fields.add("site")?;
                draft.site = Some(Site(names.sites.intern(&scanner.string("a site name")?)));
            }
            "observed" => {
                self.fields.add("observed")?;
                draft.observed = scanner.boolean("true or false")?;
            }
            "ts" => {
                self.fields.add("ts")?;
                draft.ts = timestamp(scanner)?;
            }
            "value" => {
                self.fields.add("value")?;
                draft.has_value = true;
                operations(scanner, names, draft)?;
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

fn operations(scanner: &mut Scanner<'_>, names: &mut Names, draft: &mut Draft) -> Result<(), Malformed> {
    scanner.expect(b'[', "an array of operations")?;
    let mut first = true;
    while scanner.next_element(&mut first)? {
        let op = operation(scanner, names, draft)?;
        draft.ops.push(op);
    }
    Ok(())
}

fn operation(scanner: &mut Scanner<'_>, names: &mut Names, draft: &mut Draft) -> Result<DraftOp, Malformed> {
    scanner.expect(b'[', "an operation: [name, key, argument]")?;
    let name = scanner.string("the name of an operation")?;
    scanner.expect(b',', "a key and an argument")?;
    let key = match scanner.peek() {
        b'"' => names.keys.intern_text(&scanner.string("a key")?),
        _ => names.keys.intern_int(scanner.integer("a key: a string or an integer")?),
    };
    scanner.expect(b',', "an argument")?;
    let action = match &*name {
        "append" => DraftAction::Append(written(scanner)?),
        "w" => DraftAction::Write(written(scanner)?),
        "add" => DraftAction::Add(written(scanner)?),
        "rem" => DraftAction::Remove(written(scanner)?),
        "r" => read(scanner, draft)?,
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

fn read(scanner: &mut Scanner<'_>, draft: &mut Draft) -> Result<DraftAction, Malformed> {
    if scanner.null() {
        return Ok(DraftAction::ReadNull);
    }
    let mut first = true;
    if scanner.take(b'[') {
        let start = draft.values.len();
        scanner.integers(&mut draft.values, "an integer element")?;
        return Ok(DraftAction::ReadList { start, end: draft.values.len() });
    }
    if scanner.take(b'{') {
        let start = draft.counts.len();
        while let Some(element) = scanner.next_field(&mut first)? {
            let Ok(element) = element.parse::<Value>() else {
                return scanner.unexpected("an integer element before this count");
            };
            draft.counts.push((element, scanner.integer("an integer count")?));
        }
        return Ok(DraftAction::ReadSet { start, end: draft.counts.len() });
    }
    let value = scanner.integer("a read result: null, an integer, an array or an object of integers")?;
    Ok(DraftAction::ReadRegister(value))
}
