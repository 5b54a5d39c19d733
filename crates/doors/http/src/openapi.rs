//! The routes as an OpenAPI document, made from the table that requests are dispatched by.

use serde_json::{Map, Value, json};

use crate::keys::LINES;
use crate::once::{IDEMPOTENCY_MARKER, takes_marker};
use crate::problem::{Committed, Kind, TYPE_PREFIX};
use crate::request::{DEADLINE, IDEMPOTENCY_KEY};
use crate::routes::{BodyKind, ROUTES, Route, Success};
use crate::sessions::SESSION;

/// The document.
pub(crate) fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let path = paths.entry(route.template).or_insert_with(|| json!({}));
        path[route.method.to_ascii_lowercase()] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Quorate",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Transactions over HTTP. Every error is a problem that says in `committed` whether anything can have happened.",
        },
        "paths": paths,
        // Where there are no users, none is asked for.
        "security": [{ "basic": [] }, { "token": [] }, {}],
        "components": {
            "schemas": schemas(),
            "responses": { "Problem": problem_response() },
            "parameters": parameters(),
            "securitySchemes": {
                "basic": { "type": "http", "scheme": "basic" },
                "token": { "type": "http", "scheme": "bearer", "bearerFormat": "quorate_ and 64 hexadecimal digits" },
            },
        },
    })
}

fn operation(route: &Route) -> Value {
    let named = route.template.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut parameters: Vec<Value> = named
        .map(|name| {
            let what = if name == "key" { "the bytes of the key, percent-encoded: a `/` is %2F" } else { "" };
            json!({ "name": name, "in": "path", "required": true, "description": what, "schema": { "type": "string" } })
        })
        .collect();
    parameters.extend(route.parameters.iter().map(|parameter| {
        json!({ "name": parameter.name, "in": "query", "description": parameter.what, "schema": { "type": parameter.kind } })
    }));
    parameters.push(json!({ "$ref": "#/components/parameters/Deadline" }));
    if route.is_remembered {
        parameters.push(json!({ "$ref": "#/components/parameters/IdempotencyKey" }));
    }
    if takes_marker(route.operation) {
        parameters.push(json!({ "$ref": "#/components/parameters/IdempotencyMarker" }));
    }
    if route.is_in_session() {
        parameters.push(json!({ "$ref": "#/components/parameters/Session" }));
    }
    let mut operation = json!({
        "operationId": route.id,
        "summary": route.summary,
        "parameters": parameters,
        "responses": { route.status.to_string(): success(route), "default": { "$ref": "#/components/responses/Problem" } },
    });
    if let Some(status) = route.status_of_repeat {
        let mut repeated = success(route);
        repeated["description"] = "it is so already".into();
        operation["responses"][status.to_string()] = repeated;
    }
    let content = match route.body {
        BodyKind::None => return operation,
        BodyKind::Bytes => {
            json!({ "application/octet-stream": {}, "text/plain": {}, "application/json": {} })
        }
        BodyKind::Module => json!({ "application/wasm": {} }),
        BodyKind::Json(name) => json!({ "application/json": { "schema": reference(name) } }),
    };
    operation["requestBody"] = json!({ "required": true, "content": content });
    operation
}

fn success(route: &Route) -> Value {
    let content = match route.success {
        Success::Empty => json!({}),
        Success::Bytes => json!({ "application/octet-stream": {}, "application/json": {} }),
        Success::Json(name) => json!({ "application/json": { "schema": reference(name) } }),
        Success::Events => json!({ "text/event-stream": { "schema": { "type": "string" } } }),
        Success::JsonOrLines(page, line) => {
            json!({ "application/json": { "schema": reference(page) }, LINES: { "schema": reference(line) } })
        }
    };
    let text = |what: &str| json!({ "description": what, "schema": { "type": "string" } });
    let mut headers = match (route.commits, route.success) {
        (true, _) => json!({
            "Quorate-Token": text("names the committed transaction, for /v1/outcomes"),
            "Quorate-Timestamp": text("the timestamp of the transaction"),
        }),
        (false, Success::Bytes) => {
            json!({
                "Quorate-Timestamp": text("the timestamp at which the key holds this"),
                "Quorate-Ttl-Ms": text("for how many milliseconds the key will hold it, if it expires"),
            })
        }
        (false, Success::JsonOrLines(..)) => json!({
            "Quorate-Timestamp": text("the timestamp of the snapshot"),
            "Quorate-Next": text("the address of the next page, with lines of JSON"),
        }),
        (false, _) => json!({}),
    };
    if route.is_in_session() {
        headers[SESSION.as_str()] = text("what the client has seen by then, if the request has this header");
    }
    json!({ "description": "done", "headers": headers, "content": content })
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn parameters() -> Value {
    json!({
        "Deadline": {
            "name": DEADLINE.as_str(), "in": "header", "description": "how long the request may take, in milliseconds",
            "schema": { "type": "integer", "minimum": 1 },
        },
        "IdempotencyKey": {
            "name": IDEMPOTENCY_KEY.as_str(), "in": "header",
            "description": "names the request: repeated at this node within ten minutes, it has the answer of the first",
            "schema": { "type": "string", "maxLength": 256 },
        },
        "IdempotencyMarker": {
            "name": IDEMPOTENCY_MARKER.as_str(), "in": "header",
            "description": "a key of the keyspace, percent-encoded, at which the first request leaves its answer in its transaction: repeated at any node within a day, the request \
                            has that answer, without a token and a timestamp",
            "schema": { "type": "string" },
        },
        "Session": {
            "name": SESSION.as_str(), "in": "header",
            "description": "what the client has seen, as the latest answer has told it, from any node; empty to begin. The request comes after that",
            "schema": { "type": "string" },
        },
    })
}

fn problem_response() -> Value {
    json!({ "description": "a problem", "content": { "application/problem+json": { "schema": reference("Problem") } } })
}

/// An object with these members, of which the first so many must be there; no others are taken or told.
fn object(required: usize, members: &[(&str, Value)]) -> Value {
    let names: Vec<&str> = members.iter().take(required).map(|(name, _)| *name).collect();
    let properties: Map<String, Value> =
        members.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({ "type": "object", "required": names, "properties": properties, "additionalProperties": false })
}

fn schemas() -> Value {
    let text = || json!({ "type": "string" });
    let whole = || json!({ "type": "integer" });
    let nullable = |schema: Value| json!({ "oneOf": [schema, { "type": "null" }] });
    let list = |schema: Value| json!({ "type": "array", "items": schema });
    let bytes = || reference("Bytes");
    // An object of one member, which says what it is.
    let tagged = |of: &[(&str, Value)]| {
        let one = |(name, schema): &(&str, Value)| object(1, &[(*name, schema.clone())]);
        json!({ "oneOf": of.iter().map(one).collect::<Vec<_>>() })
    };
    let key = || object(1, &[("key", bytes())]);
    let element = || object(2, &[("key", bytes()), ("element", bytes())]);
    let pair = || object(2, &[("key", bytes()), ("value", bytes())]);
    let committed = [("token", text()), ("timestamp", text())];
    let range = [("from", bytes()), ("to", bytes())];
    json!({
        "Bytes": { "oneOf": [text(), object(1, &[("base64", text())])], "description": "UTF-8 as a string, other bytes in base64" },
        "Problem": problem_schema(),
        "Entry": pair(),
        "Page": object(3, &[("entries", list(reference("Entry"))), ("next", nullable(text())), ("timestamp", text())]),
        "FoundPage": object(2, &[("entries", list(reference("Entry"))), ("next", nullable(text()))]),
        "FeedPage": object(4, &[("changes", list(reference("FeedChange"))), ("resolved", text()), ("cursor", text()), ("next", text())]),
        "FeedChange": {
            "type": "object", "required": ["timestamp", "writes"], "additionalProperties": false,
            "properties": {
                "timestamp": text(), "shard": whole(), "writes": list(reference("FeedWrite")), "additions": list(reference("FeedAddition")),
            },
        },
        "FeedAddition": { "oneOf": [
            object(3, &[("set", bytes()), ("element", bytes()), ("by", whole())]), object(2, &[("counter", bytes()), ("by", whole())]),
        ] },
        "FeedWrite": object(2, &[("key", bytes()), ("value", nullable(bytes()))]),
        "Batch": object(0, &[("conditions", list(reference("Condition"))), ("steps", list(reference("Step")))]),
        "Condition": tagged(&[
            ("expect", pair()), ("expect_absent", key()), ("expect_exists", key()),
            ("expect_at_least", object(2, &[("key", bytes()), ("number", whole())])),
        ]),
        "Step": tagged(&[
            ("read", key()), ("delete", key()), ("append", pair()),
            ("put", object(2, &[("key", bytes()), ("value", bytes()), ("ttl_ms", whole())])),
            ("increment", object(2, &[("key", bytes()), ("by", whole())])),
            ("scan", object(1, &[("limit", whole()), ("from", bytes()), ("to", bytes()), ("prefix", bytes())])),
        ]),
        "StepAnswer": { "oneOf": [
            object(1, &[("value", nullable(bytes()))]), object(1, &[("done", json!({ "type": "boolean" }))]), object(1, &[("number", whole())]),
            object(1, &[("length", whole())]), object(2, &[("entries", list(reference("Entry"))), ("next", nullable(bytes()))]),
        ] },
        "Applied": object(1, &[&[("answers", list(reference("StepAnswer")))], &committed[..]].concat()),
        "Traced": object(4, &[&[("answers", list(reference("StepAnswer")))], &committed[..], &[("trace", json!({ "type": "object" }))]].concat()),
        "Call": object(0, &[
            ("arguments", bytes()), ("version", whole()), ("keys", list(bytes())), ("ranges", list(object(0, &range))), ("at", list(bytes())),
            ("read_only", json!({ "type": "boolean" })),
        ]),
        "Answers": object(3, &[&[("answers", list(bytes()))], &committed[..]].concat()),
        "Changes": object(1, &[("changes", list(reference("Change")))]),
        "Change": tagged(&[
            ("counter_add", object(2, &[("key", bytes()), ("by", whole())])),
            ("set_add", element()), ("set_remove", element()), ("put", pair()), ("delete", key()),
        ]),
        "Committed": object(2, &committed),
        "Counter": object(1, &[("value", whole())]),
        "Count": object(1, &[("count", whole())]),
        "Elements": object(2, &[
            ("elements", list(object(2, &[("element", bytes()), ("count", whole())]))), ("next", nullable(text())),
        ]),
        "Procedure": object(6, &[
            ("name", text()), ("version", whole()), ("stage", text()), ("bytes", whole()), ("crc32", text()), ("deployed_at_us", whole()),
        ]),
        "Procedures": object(1, &[("procedures", list(reference("Procedure")))]),
        "Outcome": object(3, &[
            ("token", text()), ("outcome", json!({ "enum": ["committed", "aborted"] })), ("timestamp", nullable(text())),
        ]),
        "NewKeyspace": object(1, &[
            ("isolation", json!({ "enum": quorate::Isolation::ALL.map(|isolation| isolation.to_string()) })),
            ("durability", json!({ "enum": quorate::Durability::ALL.map(|durability| durability.to_string()) })),
            ("shards", whole()), ("replicas", whole()), ("sites", list(text())), ("clock_bound_ms", whole()), ("application", text()),
            ("retain_s", whole()), ("retain_bytes", whole()), ("expiring", json!({ "type": "boolean" })),
        ]),
        "Keyspace": object(6, &[
            ("name", text()), ("isolation", text()), ("durability", text()), ("shards", whole()), ("replicas", whole()),
            ("expiring", json!({ "type": "boolean" })),
        ]),
        "Keyspaces": object(1, &[("keyspaces", list(reference("Keyspace")))]),
        "OpenApi": { "type": "object" },
    })
}

fn problem_schema() -> Value {
    let types: Vec<String> =
        Kind::ALL.iter().map(|kind| format!("{TYPE_PREFIX}{}", kind.facts().0)).collect();
    json!({
        "type": "object",
        "required": ["type", "status", "title", "detail", "committed"],
        "properties": {
            "type": { "enum": types },
            "status": { "type": "integer" },
            "title": { "type": "string" },
            "detail": { "type": "string" },
            "committed": { "enum": Committed::ALL.map(Committed::name), "description": "whether what was asked for can have happened" },
            "token": { "type": "string", "description": "the transaction whose outcome /v1/outcomes tells" },
            "retry_after_ms": { "type": "integer" },
        },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde::de::DeserializeOwned;

    use super::*;
    use crate::batch::{BatchBody, KeyAlone, KeyLeast, KeyNumber, KeyValue, ScanStep, Written};
    use crate::keyspaces::NewKeyspace;
    use crate::objects::{Change, ChangesBody, CounterBy, SetElement};
    use crate::procedures::{CallBody, RangeBody};
    use crate::routes::find;

    #[test]
    fn the_document_and_the_routes_are_alike() {
        let document = document();
        let paths = document["paths"].as_object().unwrap();
        let mut described = BTreeSet::new();
        for (path, methods) in paths {
            for (method, operation) in methods.as_object().unwrap() {
                let found = find(&method.to_ascii_uppercase(), &path.replace(['{', '}'], "")).unwrap();
                assert_eq!(operation["operationId"], found.route.id);
                assert_eq!(operation["requestBody"].is_object(), found.route.body != BodyKind::None);
                assert!(operation["responses"][found.route.status.to_string()].is_object());
                described.insert(found.route.id);
            }
        }
        assert_eq!(described.len(), ROUTES.len());
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn walk(document: &Value, value: &Value) {
            match value {
                Value::Object(members) => {
                    if let Some(Value::String(reference)) = members.get("$ref") {
                        let pointer = reference.strip_prefix('#').unwrap();
                        assert!(document.pointer(pointer).is_some(), "{reference}");
                    }
                    members.values().for_each(|member| walk(document, member));
                }
                Value::Array(values) => values.iter().for_each(|value| walk(document, value)),
                _ => {}
            }
        }
        let document = document();
        walk(&document, &document);
    }

    /// The members that a type takes, as it tells them itself.
    fn members<T: DeserializeOwned>() -> BTreeSet<String> {
        let error = serde_json::from_str::<T>(r#"{"no such member": 0}"#).err().unwrap().to_string();
        let (_, expected) = error.split_once("expected ").unwrap();
        expected.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn schemas_have_the_members_that_are_read() {
        let schemas = schemas();
        let told = |schema: &Value| -> BTreeSet<String> {
            schema["properties"].as_object().unwrap().keys().cloned().collect()
        };
        let variants = |name: &str| -> Vec<(String, Value)> {
            let all = schemas[name]["oneOf"].as_array().unwrap().iter();
            let variant =
                |one: &Value| one["properties"].as_object().unwrap().clone().into_iter().next().unwrap();
            all.map(variant).collect()
        };
        assert_eq!(told(&schemas["Batch"]), members::<BatchBody>());
        assert_eq!(told(&schemas["Call"]), members::<CallBody>());
        assert_eq!(told(&schemas["Call"]["properties"]["ranges"]["items"]), members::<RangeBody>());
        assert_eq!(told(&schemas["NewKeyspace"]), members::<NewKeyspace>());
        assert_eq!(told(&schemas["Changes"]), members::<ChangesBody>());
        for (schema, read) in [
            ("Condition", members::<crate::batch::Condition>()),
            ("Step", members::<crate::batch::Step>()),
            ("Change", members::<Change>()),
        ] {
            let variants = variants(schema);
            assert_eq!(variants.iter().map(|(name, _)| name.clone()).collect::<BTreeSet<_>>(), read);
            for (name, told_schema) in variants {
                let read = match name.as_str() {
                    "increment" => members::<KeyNumber>(),
                    "scan" => members::<ScanStep>(),
                    "expect_at_least" => members::<KeyLeast>(),
                    "counter_add" => members::<CounterBy>(),
                    "set_add" | "set_remove" => members::<SetElement>(),
                    "put" if schema == "Step" => members::<Written>(),
                    "expect" | "append" | "put" => members::<KeyValue>(),
                    _ => members::<KeyAlone>(),
                };
                assert_eq!(told(&told_schema), read, "{name}");
            }
        }
    }
}
