//! Answers of object stores, by a server that always gives the same.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::archive::put;

const SECRET: &str = "a-secret-that-nobody-sees";

/// A server that answers requests with these, the last of them again and again. Gives its address, and how many requests there were.
fn answering(answers: Vec<(&'static str, &'static str)>) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let (mut request, mut part) = (Vec::new(), [0; 4096]);
            while !request.windows(4).any(|window| window == b"\r\n\r\n") {
                match stream.read(&mut part) {
                    Ok(length) if length > 0 => request.extend_from_slice(&part[..length]),
                    _ => break,
                }
            }
            let (status, body) = answers[count.fetch_add(1, Ordering::Relaxed).min(answers.len() - 1)];
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\nETag: \"x\"\r\n\r\n{body}",
                body.len()
            );
        }
    });
    (address, asked)
}

fn bucket(endpoint: &str, patience: Duration) -> Bucket {
    let variables = [
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_ACCESS_KEY_ID", "somebody"),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
        ("AWS_TIMEOUT", "5 seconds"),
        ("PATH", "/bin"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Bucket::open_with("s3", "bucket/backups", patience, &variables).unwrap()
}

#[tokio::test]
async fn errors_say_what_to_do_and_never_show_credentials() {
    let refused = TcpListener::bind("127.0.0.1:0").unwrap();
    let nowhere = format!("http://{}", refused.local_addr().unwrap());
    drop(refused);
    let cases = [
        ("404 Not Found", "<Error><Code>NoSuchBucket</Code></Error>", "there is no such bucket: create it"),
        ("403 Forbidden", "<Error><Code>AccessDenied</Code></Error>", "access is denied"),
        ("403 Forbidden", "<Error><Code>InvalidAccessKeyId</Code></Error>", "look at AWS_ACCESS_KEY_ID"),
        ("403 Forbidden", "<Error><Code>SignatureDoesNotMatch</Code></Error>", "AWS_SECRET_ACCESS_KEY"),
        ("507 Insufficient Storage", "<Error><Code>XMinioStorageFull</Code></Error>", "the store is full"),
        ("500 Internal Server Error", "", "for as long as the patience lasts"),
    ];
    let mut archives: Vec<(Bucket, &str)> = cases
        .into_iter()
        .map(|(status, body, expected)| {
            (bucket(&answering(vec![(status, body)]).0, Duration::ZERO), expected)
        })
        .collect();
    archives.push((bucket(&nowhere, Duration::ZERO), "cannot be reached"));
    for (archive, expected) in archives {
        let written = put(&archive, "a/b", Bytes::from_static(b"x")).await.unwrap_err();
        let errors = [
            written,
            archive.folders().await.unwrap_err(),
            archive.list("a").await.unwrap_err(),
            archive.read("a/b", 0, 10).await.unwrap_err(),
            archive.delete("a/b").await.unwrap_err(),
        ];
        for error in errors {
            let text = format!("{error} {error:?} {archive:?}");
            assert!(text.contains(expected), "{expected}: {text}");
            assert!(text.contains("s3://bucket/backups"), "{text}");
            assert!(!text.contains(SECRET), "{text}");
        }
    }
}

#[tokio::test]
async fn an_object_that_is_not_there_is_no_error() {
    let missing = [("404 Not Found", "<Error><Code>NoSuchKey</Code></Error>")];
    let archive = bucket(&answering(missing.to_vec()).0, Duration::ZERO);
    assert_eq!(archive.read("a/b", 0, 10).await.unwrap(), None);
    archive.delete("a/b").await.unwrap();
}

#[tokio::test]
async fn a_store_that_is_busy_is_asked_again_while_the_patience_lasts() {
    let busy = ("503 Slow Down", "<Error><Code>SlowDown</Code></Error>");
    let (address, asked) = answering(vec![busy, busy, ("200 OK", "")]);
    put(&bucket(&address, Duration::from_secs(60)), "a/b", Bytes::from_static(b"x")).await.unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 3);
    let (address, asked) = answering(vec![busy]);
    let began = std::time::Instant::now();
    let archive = bucket(&address, Duration::from_millis(700));
    assert!(put(&archive, "a/b", Bytes::from_static(b"x")).await.is_err());
    assert!(asked.load(Ordering::Relaxed) >= 2 && began.elapsed() < Duration::from_secs(30));
}

#[test]
fn stores_are_found_by_their_scheme_and_say_what_they_miss() {
    let open = |scheme: &str, variables: &[(&str, &str)]| {
        let variables: Vec<(String, String)> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Bucket::open_with(scheme, "bucket/x", Duration::ZERO, &variables)
    };
    assert_eq!(open("s3", &[]).unwrap().kind, Kind::S3);
    assert_eq!(open("gs", &[]).unwrap().kind, Kind::Google);
    let azure = [("AZURE_STORAGE_ACCOUNT_NAME", "me"), ("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")];
    assert_eq!(open("az", &azure).unwrap().kind, Kind::Azure);
    let missing = open("az", &[]).unwrap_err().to_string();
    assert!(missing.contains("AZURE_STORAGE_ACCOUNT_NAME"), "{missing}");
    let missing = open("gs", &[("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/key.json")]).unwrap_err();
    assert!(missing.to_string().contains("GOOGLE_APPLICATION_CREDENTIALS"), "{missing}");
}

#[test]
fn a_text_loses_what_may_be_a_signature() {
    let text = "GET https://a.example/b?sig=secret&x=1 failed: why?";
    assert_eq!(without_queries(text), "GET https://a.example/b failed: why?");
    assert_eq!(without_queries("(http://a/?t=1) \"https://b?c\"  d"), "(http://a/) \"https://b\" d");
}
