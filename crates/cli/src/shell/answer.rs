//! Answers of statements, for people, for pipes, and for programs.

use std::time::Duration;

use quorate::{Isolation, Key, Outcome, Page, StepAnswer, Timestamp, Token, Value};
use serde_json::{Map, Value as Json, json};

use super::words::quoted;
use crate::output::help::fitted;
use crate::parse::to_duration;

/// For whom answers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A person: everything can be pasted back as a word.
    Quoted,
    /// A pipe: the same, but a value that is asked for alone is given as it is.
    Raw,
    /// A program: one JSON object a statement.
    Json,
}

/// The answer of a statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// The value of the one key that was asked for.
    Value(Option<Value>),
    /// How long the one key that was asked for will hold its value: none if it is absent, and no end if it stays.
    Ttl(Option<Option<Duration>>),
    /// The values of keys, and as of when, if that was chosen.
    Values { found: Vec<(Vec<u8>, Option<Value>)>, at: Option<Timestamp> },
    /// The keys of a range, and as of when, if that was chosen.
    Page { page: Page, at: Option<Timestamp> },
    /// The keys that an index has found, and whether there are more than were asked for.
    Found { entries: Vec<(Key, Value)>, is_more: bool },
    /// It is done, and there is nothing to say.
    Done,
    /// A number that a key holds now.
    Number(i64),
    /// How many bytes a value has now.
    Length(u64),
    /// A transaction has committed.
    Committed { timestamp: Timestamp, token: Token },
    /// The name of a transaction.
    Token(Token),
    /// The fate of a transaction.
    Outcome(Outcome),
    /// The keyspaces.
    Keyspaces(Vec<(String, Isolation)>),
    /// A keyspace, or its indexes: lines about it, and the same for programs.
    Described { lines: String, fields: Map<String, Json> },
    /// A sentence.
    Text(String),
}

/// The fields about a keyspace beside those of the answer: its name is that of the keyspace.
pub(crate) fn keyspace_fields(described: Json) -> Map<String, Json> {
    let Json::Object(mut fields) = described else { return Map::new() };
    if let Some(name) = fields.remove("name") {
        fields.insert("keyspace".to_owned(), name);
    }
    fields
}

/// The bytes of a text that explains a statement.
pub(crate) fn help(text: &str, form: Form) -> Vec<u8> {
    let text = if form == Form::Json { text.to_owned() } else { fitted(text) };
    Answer::Text(text).write("help", form)
}

/// A key that is left out was absent, or its value was over, when it was read.
fn at_least_a_millisecond(left: Duration) -> Duration {
    left.max(Duration::from_millis(1))
}

impl Answer {
    /// The bytes to write to standard output, with a line break at the end.
    pub(crate) fn write(&self, statement: &str, form: Form) -> Vec<u8> {
        let mut bytes = match (self, form) {
            (Answer::Value(Some(value)), Form::Raw) => value.to_vec(),
            (_, Form::Json) => {
                let mut object = Map::from_iter([("statement".to_owned(), Json::from(statement))]);
                object.extend(self.fields());
                Json::Object(object).to_string().into_bytes()
            }
            _ => self.show().into_bytes(),
        };
        bytes.push(b'\n');
        bytes
    }

    /// The words for a transaction that has committed, if this is the answer of its commit.
    pub(crate) fn commit(&self) -> Option<String> {
        match self {
            Answer::Committed { timestamp, .. } => Some(format!("committed at {timestamp}")),
            _ => None,
        }
    }

    /// For people.
    fn show(&self) -> String {
        match self {
            Answer::Value(value) => show_value(value.as_ref()),
            Answer::Ttl(None) => "(absent)".to_owned(),
            Answer::Ttl(Some(None)) => "stays".to_owned(),
            Answer::Ttl(Some(Some(left))) => to_duration(at_least_a_millisecond(*left)),
            Answer::Values { found, at } => {
                let line = |(key, value): &(Vec<u8>, Option<Value>)| {
                    format!("{}  {}", quoted(key), show_value(value.as_ref()))
                };
                let lines = found.iter().map(line).collect();
                with_moment(lines, *at)
            }
            Answer::Page { page, at } => with_moment(page_lines(page), *at),
            Answer::Found { entries, is_more } => {
                let page = Page { entries: entries.clone(), next: None };
                let mut lines = page_lines(&page);
                lines.extend(is_more.then(|| {
                    "… the limit is reached: there are more; ask with a greater --limit".to_owned()
                }));
                lines.join("\n")
            }
            Answer::Done => "ok".to_owned(),
            Answer::Number(number) => number.to_string(),
            Answer::Length(length) => format!("{length} bytes"),
            Answer::Committed { timestamp, token } => format!("committed at {timestamp}, token {token}"),
            Answer::Token(token) => token.to_string(),
            Answer::Outcome(Outcome::Committed(timestamp)) => format!("committed at {timestamp}"),
            Answer::Outcome(Outcome::Aborted) => "aborted".to_owned(),
            Answer::Keyspaces(keyspaces) if keyspaces.is_empty() => "there is no keyspace yet".to_owned(),
            Answer::Keyspaces(keyspaces) => {
                let line = |(name, isolation): &(String, Isolation)| format!("{name} ({isolation})");
                keyspaces.iter().map(line).collect::<Vec<_>>().join("\n")
            }
            Answer::Described { lines, .. } => lines.clone(),
            Answer::Text(text) => text.clone(),
        }
    }

    /// For programs.
    fn fields(&self) -> Map<String, Json> {
        let fields = match self {
            Answer::Value(value) => json!({ "value": json_of_value(value.as_ref()) }),
            Answer::Ttl(held) => {
                let left = held.flatten().map(|left| at_least_a_millisecond(left).as_millis() as u64);
                json!({ "present": held.is_some(), "ttl_ms": left })
            }
            Answer::Values { found, at } => {
                let entry = |(key, value): &(Vec<u8>, Option<Value>)| json!({ "key": json_of(key), "value": json_of_value(value.as_ref()) });
                timed(json!({ "values": found.iter().map(entry).collect::<Vec<_>>() }), *at)
            }
            Answer::Page { page, at } => {
                let entry = |(key, value): &(quorate::Key, Value)| json!({ "key": json_of(key), "value": json_of(value) });
                let entries: Vec<_> = page.entries.iter().map(entry).collect();
                timed(json!({ "values": entries, "next": page.next.as_ref().map(|next| json_of(next)) }), *at)
            }
            Answer::Found { entries, is_more } => {
                let entry =
                    |(key, value): &(Key, Value)| json!({ "key": json_of(key), "value": json_of(value) });
                json!({ "values": entries.iter().map(entry).collect::<Vec<_>>(), "more": is_more })
            }
            Answer::Done => json!({ "done": true }),
            Answer::Number(number) => json!({ "number": number }),
            Answer::Length(length) => json!({ "bytes": length }),
            Answer::Committed { timestamp, token } => {
                json!({ "timestamp": timestamp.to_string(), "token": token.to_string() })
            }
            Answer::Token(token) => json!({ "token": token.to_string() }),
            Answer::Outcome(Outcome::Committed(timestamp)) => {
                json!({ "outcome": "committed", "timestamp": timestamp.to_string() })
            }
            Answer::Outcome(Outcome::Aborted) => json!({ "outcome": "aborted" }),
            Answer::Keyspaces(keyspaces) => {
                let entry = |(name, isolation): &(String, Isolation)| json!({ "name": name, "isolation": isolation.to_string() });
                json!({ "keyspaces": keyspaces.iter().map(entry).collect::<Vec<_>>() })
            }
            Answer::Described { fields, .. } => Json::Object(fields.clone()),
            Answer::Text(text) => json!({ "text": text }),
        };
        match fields {
            Json::Object(fields) => fields,
            other => Map::from_iter([("value".to_owned(), other)]),
        }
    }
}

impl From<&StepAnswer> for Answer {
    fn from(answer: &StepAnswer) -> Self {
        match answer {
            StepAnswer::Value(value) => Answer::Value(value.clone()),
            StepAnswer::Done => Answer::Done,
            StepAnswer::Number(number) => Answer::Number(*number),
            StepAnswer::Length(length) => Answer::Length(*length),
            StepAnswer::Page(page) => Answer::Page { page: page.clone(), at: None },
        }
    }
}

fn show_value(value: Option<&Value>) -> String {
    value.map_or_else(|| "(absent)".to_owned(), |value| quoted(value))
}

fn with_moment(mut lines: Vec<String>, at: Option<Timestamp>) -> String {
    lines.extend(at.map(|at| format!("at {at}")));
    lines.join("\n")
}

fn page_lines(page: &Page) -> Vec<String> {
    let line = |(key, value): &(quorate::Key, Value)| format!("{}  {}", quoted(key), quoted(value));
    let mut lines: Vec<String> = page.entries.iter().map(line).collect();
    match &page.next {
        Some(next) => lines.push(format!("… the limit is reached: go on from {}", quoted(next))),
        None if lines.is_empty() => lines.push("(nothing)".to_owned()),
        None => {}
    }
    lines
}

fn timed(mut fields: Json, at: Option<Timestamp>) -> Json {
    if let Some(at) = at {
        fields["at"] = Json::from(at.to_string());
    }
    fields
}

fn json_of_value(value: Option<&Value>) -> Json {
    value.map_or(Json::Null, |value| json_of(value))
}

/// Text as a string, other bytes as an object with two hexadecimal digits for each.
fn json_of(bytes: &[u8]) -> Json {
    match std::str::from_utf8(bytes) {
        Ok(text) => Json::from(text),
        Err(_) => json!({ "hex": crate::parse::to_hex(bytes) }),
    }
}

#[cfg(test)]
mod tests {
    use quorate::ClientId;

    use super::*;

    const AT: Timestamp = Timestamp { micros: 7, client: ClientId(255) };

    fn text(answer: &Answer, form: Form) -> String {
        String::from_utf8(answer.write("get", form)).unwrap()
    }

    #[test]
    fn a_value_can_be_pasted_or_piped() {
        let document = Answer::Value(Some(Value::from_static(br#"{"a": 1}"#)));
        assert_eq!(text(&document, Form::Quoted), "'{\"a\": 1}'\n");
        assert_eq!(text(&document, Form::Raw), "{\"a\": 1}\n");
        assert_eq!(text(&document, Form::Json), "{\"statement\":\"get\",\"value\":\"{\\\"a\\\": 1}\"}\n");
        let bytes = Answer::Value(Some(Value::from_static(b"\x00\xff")));
        assert_eq!(text(&bytes, Form::Quoted), "\"\\x00\\xff\"\n");
        assert_eq!(bytes.write("get", Form::Raw), b"\x00\xff\n");
        assert_eq!(text(&bytes, Form::Json), "{\"statement\":\"get\",\"value\":{\"hex\":\"00ff\"}}\n");
        for form in [Form::Quoted, Form::Raw] {
            assert_eq!(text(&Answer::Value(None), form), "(absent)\n");
        }
    }

    #[test]
    fn keyspaces_and_help_are_fields_for_programs() {
        let fields = keyspace_fields(json!({ "name": "a", "isolation": "strict", "created": true }));
        let answer = Answer::Described { lines: "a: isolation strict\n  shard".to_owned(), fields };
        assert_eq!(text(&answer, Form::Raw), "a: isolation strict\n  shard\n");
        let expected = json!({ "statement": "get", "keyspace": "a", "isolation": "strict", "created": true });
        assert_eq!(serde_json::from_str::<Json>(&text(&answer, Form::Json)).unwrap(), expected);
        assert_eq!(help("begin\ncommit", Form::Raw), b"begin\ncommit\n");
        let told: Json = serde_json::from_slice(&help("begin\ncommit", Form::Json)).unwrap();
        assert_eq!(told, json!({ "statement": "help", "text": "begin\ncommit" }));
    }

    #[test]
    fn values_say_of_which_key_and_as_of_when() {
        let found = vec![(b"a".to_vec(), Some(Value::from("1"))), (b"b c".to_vec(), None)];
        let answer = Answer::Values { found, at: Some(AT) };
        assert_eq!(text(&answer, Form::Raw), "a  1\n'b c'  (absent)\nat 7@ff\n");
        let json: Json = serde_json::from_str(&text(&answer, Form::Json)).unwrap();
        let values = json!([{ "key": "a", "value": "1" }, { "key": "b c", "value": null }]);
        assert_eq!((&json["values"], &json["at"]), (&values, &json!("7@ff")));
    }

    #[test]
    fn pages_say_where_to_go_on() {
        let entry = |key: &'static str| (Key::from(key), Value::from("1"));
        let answer = |entries, next, at| Answer::Page { page: Page { entries, next }, at };
        assert_eq!(text(&answer(vec![entry("a"), entry("b")], None, None), Form::Raw), "a  1\nb  1\n");
        let cut = answer(vec![entry("a")], Some(Key::from("b c")), None);
        assert_eq!(text(&cut, Form::Quoted), "a  1\n… the limit is reached: go on from 'b c'\n");
        let json: Json = serde_json::from_str(&text(&cut, Form::Json)).unwrap();
        assert_eq!(json["next"], "b c");
        assert_eq!(text(&answer(vec![], None, None), Form::Raw), "(nothing)\n");
        assert_eq!(text(&answer(vec![], None, Some(AT)), Form::Raw), "(nothing)\nat 7@ff\n");
    }
}
