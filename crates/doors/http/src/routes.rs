//! The routes: one table, from which requests are dispatched and the OpenAPI document is made.

use crate::problem::{Kind, Problem};
use crate::text::percent_decode;

/// The operation that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    GetKey,
    PutKey,
    DeleteKey,
    ScanKeys,
    FindKeys,
    ApplyBatch,
    TraceBatch,
    ChangeObjects,
    FollowChanges,
    GetCounter,
    GetElements,
    GetCount,
    CallProcedure,
    DeployProcedure,
    RemoveProcedure,
    ListProcedures,
    GetOutcome,
    ListKeyspaces,
    CreateKeyspace,
    DescribeKeyspace,
    DropKeyspace,
    Listen,
    OpenApi,
}

/// A parameter in the query of an address.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// The JSON type that describes it.
    pub(crate) kind: &'static str,
}

/// The kinds of body that a request may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyKind {
    /// There is none.
    None,
    /// Bytes, or any JSON.
    Bytes,
    /// A module of WebAssembly.
    Module,
    /// JSON of this schema.
    Json(&'static str),
}

/// The answer if nothing goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Success {
    /// No body.
    Empty,
    /// Bytes.
    Bytes,
    /// JSON of this schema.
    Json(&'static str),
    /// JSON of the first schema, or a line of JSON of the second one for each entry.
    JsonOrLines(&'static str, &'static str),
    /// Server-sent events without an end.
    Events,
}

/// A route.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) operation: Operation,
    pub(crate) method: &'static str,
    /// The address, with the names of what stands for itself in braces.
    pub(crate) template: &'static str,
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) parameters: &'static [Parameter],
    pub(crate) body: BodyKind,
    pub(crate) status: u16,
    /// The status if what was asked for is so already, where that is another one.
    pub(crate) status_of_repeat: Option<u16>,
    pub(crate) success: Success,
    /// True if an `Idempotency-Key` is remembered.
    pub(crate) is_remembered: bool,
    /// True if the answer names a committed transaction.
    pub(crate) commits: bool,
}

impl Route {
    /// True if it is about the data of a keyspace, so that a session of its client goes on.
    pub(crate) fn is_in_session(&self) -> bool {
        match self.operation {
            Operation::GetKey
            | Operation::PutKey
            | Operation::DeleteKey
            | Operation::ScanKeys
            | Operation::FindKeys
            | Operation::ApplyBatch
            | Operation::ChangeObjects
            | Operation::GetCounter
            | Operation::GetElements
            | Operation::GetCount
            | Operation::CallProcedure => true,
            // A trace has a session of its own.
            Operation::TraceBatch
            | Operation::DeployProcedure
            | Operation::RemoveProcedure
            | Operation::ListProcedures
            | Operation::FollowChanges
            | Operation::GetOutcome
            | Operation::ListKeyspaces
            | Operation::CreateKeyspace
            | Operation::DescribeKeyspace
            | Operation::DropKeyspace
            | Operation::Listen
            | Operation::OpenApi => false,
        }
    }
}

const AT: Parameter = Parameter {
    name: "at",
    what: "read as of this timestamp, which an earlier answer has told; some ten seconds back at most",
    kind: "string",
};

const TTL_MS: Parameter = Parameter {
    name: "ttl_ms",
    what: "for how many milliseconds the key is to hold the value, in a keyspace that was created as expiring; by default it stays",
    kind: "integer",
};

/// The parameters of a scan.
const SCAN: &[Parameter] = &[
    Parameter { name: "from", what: "the first key, included; by default the first of all", kind: "string" },
    Parameter {
        name: "to",
        what: "the last key, excluded; by default after the last of all",
        kind: "string",
    },
    Parameter {
        name: "prefix",
        what: "only keys that begin with this; not together with from and to",
        kind: "string",
    },
    Parameter { name: "after", what: "only keys after this one", kind: "string" },
    Parameter { name: "limit", what: "how many keys, from 1 to 10000; by default 100", kind: "integer" },
    AT,
];

/// The parameters of a search by an index.
const FIND: &[Parameter] = &[
    Parameter {
        name: "value",
        what: "the value by which keys are found: a scalar in JSON, or a text; not together with from and to",
        kind: "string",
    },
    Parameter {
        name: "from",
        what: "the first value, included; by default the first of all",
        kind: "string",
    },
    Parameter {
        name: "to",
        what: "the last value, excluded; by default after the last of all",
        kind: "string",
    },
    Parameter { name: "after", what: "where an earlier page has ended, as its next says", kind: "string" },
    Parameter { name: "limit", what: "how many keys, from 1 to 10000; by default 100", kind: "integer" },
];

/// How many elements of a set, and from which on.
const ELEMENTS: &[Parameter] = &[
    Parameter {
        name: "from",
        what: "the first element, included; by default the first of all",
        kind: "string",
    },
    Parameter { name: "limit", what: "how many elements, from 1 to 10000; by default 100", kind: "integer" },
];

/// From where on changes are told, and of which keys.
const CHANGES: &[Parameter] = &[
    Parameter {
        name: "from",
        what: "the cursor of an earlier page; without it the answer only says where to begin",
        kind: "string",
    },
    Parameter {
        name: "key",
        what: "only this key; a cursor is of use for the same keys alone",
        kind: "string",
    },
    Parameter { name: "prefix", what: "only keys that begin with this", kind: "string" },
];

const VERSION: Parameter = Parameter {
    name: "version",
    what: "the version; when it is deployed by default the next one, or the latest if that has the same code",
    kind: "integer",
};

const CONDITIONS: &str =
    "`If-None-Match: *` writes only where the key is absent, `If-Match: *` only where it is there";

/// A route without parameters, which commits nothing.
const USUAL: Route = Route {
    operation: Operation::OpenApi,
    method: "GET",
    template: "/v1/openapi.json",
    id: "getOpenApi",
    summary: "This document",
    parameters: &[],
    body: BodyKind::None,
    status: 200,
    status_of_repeat: None,
    success: Success::Json("OpenApi"),
    is_remembered: false,
    commits: false,
};

/// Every route.
pub(crate) const ROUTES: &[Route] = &[
    Route {
        operation: Operation::GetKey,
        template: "/v1/keyspaces/{keyspace}/keys/{key}",
        id: "getKey",
        summary: "The value of a key: its bytes, or with `Accept: application/json` the JSON that it is",
        parameters: &[AT],
        success: Success::Bytes,
        ..USUAL
    },
    Route {
        operation: Operation::PutKey,
        method: "PUT",
        template: "/v1/keyspaces/{keyspace}/keys/{key}",
        id: "putKey",
        summary: CONDITIONS,
        parameters: &[TTL_MS],
        body: BodyKind::Bytes,
        status: 204,
        success: Success::Empty,
        is_remembered: true,
        commits: true,
        ..USUAL
    },
    Route {
        operation: Operation::DeleteKey,
        method: "DELETE",
        template: "/v1/keyspaces/{keyspace}/keys/{key}",
        id: "deleteKey",
        summary: "Deletes a key, whether or not it is there; `If-Match: *` only where it is",
        status: 204,
        success: Success::Empty,
        is_remembered: true,
        commits: true,
        ..USUAL
    },
    Route {
        operation: Operation::ScanKeys,
        template: "/v1/keyspaces/{keyspace}/keys",
        id: "scanKeys",
        summary: "A page of keys and values in order; pages that follow `next` are one snapshot",
        parameters: SCAN,
        success: Success::JsonOrLines("Page", "Entry"),
        ..USUAL
    },
    Route {
        operation: Operation::FindKeys,
        template: "/v1/keyspaces/{keyspace}/indexes/{index}",
        id: "findKeys",
        summary: "A page of the keys that an index finds by a value, or by values from and to, with what they hold",
        parameters: FIND,
        success: Success::Json("FoundPage"),
        ..USUAL
    },
    Route {
        operation: Operation::ApplyBatch,
        method: "POST",
        template: "/v1/keyspaces/{keyspace}/batch",
        id: "applyBatch",
        summary: "Steps in their order as one transaction, if all conditions hold; else nothing",
        body: BodyKind::Json("Batch"),
        success: Success::Json("Applied"),
        is_remembered: true,
        commits: true,
        ..USUAL
    },
    Route {
        operation: Operation::TraceBatch,
        method: "POST",
        template: "/v1/keyspaces/{keyspace}/trace",
        id: "traceBatch",
        summary: "A batch, and what its coordinator has said and heard; one at a time",
        body: BodyKind::Json("Batch"),
        success: Success::Json("Traced"),
        commits: true,
        ..USUAL
    },
    Route {
        operation: Operation::ChangeObjects,
        method: "POST",
        template: "/v1/keyspaces/{keyspace}/changes",
        id: "changeObjects",
        summary: "Changes of counters, counting sets and keys of a parallel-snapshot keyspace as one transaction",
        body: BodyKind::Json("Changes"),
        success: Success::Json("Committed"),
        is_remembered: true,
        commits: true,
        ..USUAL
    },
    Route {
        operation: Operation::FollowChanges,
        template: "/v1/keyspaces/{keyspace}/changes",
        id: "followChanges",
        summary: "What has committed behind a cursor, each write once: waits for it until the deadline of the request; as server-sent events, without an end, where these are accepted",
        parameters: CHANGES,
        success: Success::Json("FeedPage"),
        ..USUAL
    },
    Route {
        operation: Operation::GetCounter,
        template: "/v1/keyspaces/{keyspace}/counters/{key}",
        id: "getCounter",
        summary: "The value of a counter; zero if it was never changed",
        success: Success::Json("Counter"),
        ..USUAL
    },
    Route {
        operation: Operation::GetElements,
        template: "/v1/keyspaces/{keyspace}/sets/{key}",
        id: "getElements",
        summary: "A page of the elements of a counting set whose count is not zero, in order",
        parameters: ELEMENTS,
        success: Success::Json("Elements"),
        ..USUAL
    },
    Route {
        operation: Operation::GetCount,
        template: "/v1/keyspaces/{keyspace}/sets/{key}/elements/{element}",
        id: "getCount",
        summary: "The count of an element of a counting set; zero if it was never added",
        success: Success::Json("Count"),
        ..USUAL
    },
    Route {
        operation: Operation::ListProcedures,
        template: "/v1/keyspaces/{keyspace}/procedures",
        id: "listProcedures",
        summary: "The versions of procedures that a serializable keyspace has or had",
        success: Success::Json("Procedures"),
        ..USUAL
    },
    Route {
        operation: Operation::DeployProcedure,
        method: "PUT",
        template: "/v1/keyspaces/{keyspace}/procedures/{procedure}",
        id: "deployProcedure",
        summary: "Deploys a module of WebAssembly at all shards; to deploy the same again does no harm",
        parameters: &[VERSION],
        body: BodyKind::Module,
        success: Success::Json("Procedure"),
        ..USUAL
    },
    Route {
        operation: Operation::RemoveProcedure,
        method: "DELETE",
        template: "/v1/keyspaces/{keyspace}/procedures/{procedure}",
        id: "removeProcedure",
        summary: "Removes the version that is named; its number is not used again",
        parameters: &[VERSION],
        status: 204,
        success: Success::Empty,
        ..USUAL
    },
    Route {
        operation: Operation::CallProcedure,
        method: "POST",
        template: "/v1/keyspaces/{keyspace}/procedures/{procedure}/call",
        id: "callProcedure",
        summary: "Calls a procedure of a serializable keyspace at the shards of its keys",
        body: BodyKind::Json("Call"),
        success: Success::Json("Answers"),
        is_remembered: true,
        commits: true,
        ..USUAL
    },
    Route {
        operation: Operation::GetOutcome,
        template: "/v1/outcomes/{token}",
        id: "getOutcome",
        summary: "What became of a transaction; an answer never changes",
        success: Success::Json("Outcome"),
        ..USUAL
    },
    Route {
        operation: Operation::ListKeyspaces,
        template: "/v1/keyspaces",
        id: "listKeyspaces",
        summary: "Every keyspace, by name",
        success: Success::Json("Keyspaces"),
        ..USUAL
    },
    Route {
        operation: Operation::CreateKeyspace,
        method: "PUT",
        template: "/v1/keyspaces/{keyspace}",
        id: "createKeyspace",
        summary: "Creates a keyspace unless there is one with the same options, and waits until it serves",
        body: BodyKind::Json("NewKeyspace"),
        status: 201,
        status_of_repeat: Some(200),
        success: Success::Json("Keyspace"),
        ..USUAL
    },
    Route {
        operation: Operation::DescribeKeyspace,
        template: "/v1/keyspaces/{keyspace}",
        id: "describeKeyspace",
        summary: "What a keyspace is like",
        success: Success::Json("Keyspace"),
        ..USUAL
    },
    Route {
        operation: Operation::DropKeyspace,
        method: "DELETE",
        template: "/v1/keyspaces/{keyspace}",
        id: "dropKeyspace",
        summary: "Drops a keyspace; for a day `quorate keyspace undrop` brings it back",
        status: 204,
        success: Success::Empty,
        ..USUAL
    },
    Route {
        operation: Operation::Listen,
        template: "/v1/events",
        id: "listen",
        summary: "How the cluster is, twice a second, as the console shows it: events named `snapshot` with one JSON object each",
        success: Success::Events,
        ..USUAL
    },
    USUAL,
];

/// A request that has found its route.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) route: &'static Route,
    /// The parts of the address for the names in braces, in their order.
    pub(crate) captured: Vec<Vec<u8>>,
}

/// Finds the route of a request.
///
/// # Errors
/// No address is like this one, it has no such method, or its percent encoding is wrong.
pub(crate) fn find(method: &str, path: &str) -> Result<Found, Problem> {
    // An answer to HEAD is that to GET without its body.
    let method = if method == "HEAD" { "GET" } else { method };
    let mut allowed = Vec::new();
    for route in ROUTES {
        let Some(captured) = captures(route.template, path) else { continue };
        if route.method != method {
            allowed.push(route.method);
            continue;
        }
        let decoded = captured.into_iter().map(percent_decode).collect::<Option<Vec<_>>>();
        let captured = decoded.ok_or_else(|| {
            Problem::new(Kind::BadRequest, "a `%` in the address is not followed by two hexadecimal digits")
        })?;
        return Ok(Found { route, captured });
    }
    if allowed.is_empty() {
        return Err(Problem::new(
            Kind::NotFound,
            "there is no such address: /v1/openapi.json tells which there are; a `/` within a key is written %2F",
        ));
    }
    if allowed.contains(&"GET") {
        allowed.push("HEAD");
    }
    Err(Problem::method(allowed.join(", ")))
}

/// The parts of a path for the names in braces of a template; none if it is not like it.
fn captures<'a>(template: &str, path: &'a str) -> Option<Vec<&'a str>> {
    let (mut parts, mut found) = (path.split('/'), Vec::new());
    for name in template.split('/') {
        let part = parts.next()?;
        if name.starts_with('{') {
            found.push(part);
        } else if name != part {
            return None;
        }
    }
    parts.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_found_by_its_own_address() {
        for route in ROUTES {
            let path = route.template.replace(['{', '}'], "%41");
            let found = find(route.method, &path).unwrap();
            assert_eq!(found.route.operation, route.operation, "{path}");
            assert!(found.captured.iter().all(|captured| captured.starts_with(b"A")), "{path}");
            let of_operation = ROUTES.iter().filter(|other| other.operation == route.operation);
            assert_eq!(of_operation.count(), 1);
        }
    }

    #[test]
    fn methods_that_an_address_lacks_are_told_with_those_that_it_has() {
        for route in ROUTES {
            let problem = find("PATCH", route.template).unwrap_err();
            let allowed = problem.into_answer().headers_of(hyper::header::ALLOW)[0].to_owned();
            let of_address = ROUTES.iter().filter(|other| other.template == route.template);
            let mut methods: Vec<&str> = of_address.map(|other| other.method).collect();
            if methods.contains(&"GET") {
                methods.push("HEAD");
            }
            let mut told: Vec<&str> = allowed.split(", ").collect();
            methods.sort_unstable();
            told.sort_unstable();
            assert_eq!(told, methods, "{}", route.template);
        }
    }

    #[test]
    fn addresses_as_a_table() {
        for (path, kind) in [
            ("/v1", Kind::NotFound),
            ("/v1/keyspaces/", Kind::MethodNotAllowed),
            ("/v1/keyspaces/a/keys/b/c", Kind::NotFound),
            ("/v1/keyspaces/a/keys/%zz", Kind::BadRequest),
            ("//v1/keyspaces", Kind::NotFound),
            ("*", Kind::NotFound),
        ] {
            let method = if kind == Kind::MethodNotAllowed { "POST" } else { "GET" };
            assert_eq!(find(method, path).unwrap_err().kind, kind, "{path}");
        }
        let found = find("HEAD", "/v1/keyspaces/a/keys/b%2Fc%00+").unwrap();
        assert_eq!(found.captured, [b"a".to_vec(), b"b/c\0+".to_vec()]);
    }
}
