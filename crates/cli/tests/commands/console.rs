//! The console in a real browser, on a cluster of processes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::browser::{Page, chromium};
use crate::servers::Servers;

/// The most that the page may weigh, in bytes.
const WEIGHT_MAX: f64 = 300.0 * 1024.0;

/// A node that was killed is shown as down within this time.
const NOTICED_WITHIN: Duration = Duration::from_secs(2);

/// One that stands still is, within this time: it is given a moment to answer.
const MISSED_WITHIN: Duration = Duration::from_secs(4);

const SITES: [&str; 3] = ["us", "europe", "asia"];

/// Writes to keyspaces over a door until it is dropped.
struct Load {
    goes_on: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Load {
    /// A client for each of these keyspaces.
    fn start(door: &str, keyspaces: &[&str]) -> Load {
        let goes_on = Arc::new(AtomicBool::new(true));
        let client = |keyspace: &&str| {
            let (door, keyspace, goes_on) = (door.to_owned(), (*keyspace).to_owned(), Arc::clone(&goes_on));
            std::thread::spawn(move || write_on(&door, &keyspace, &goes_on))
        };
        let threads = keyspaces.iter().map(client).collect();
        Load { goes_on, threads }
    }
}

fn write_on(door: &str, keyspace: &str, goes_on: &AtomicBool) {
    let mut stream = TcpStream::connect(door).unwrap();
    let mut answer = [0; 4096];
    for number in (0..).take_while(|_| goes_on.load(Ordering::Relaxed)) {
        let key = if number % 3 == 0 { "stock".to_owned() } else { format!("order-{}", number % 40) };
        let request = format!(
            "PUT /v1/keyspaces/{keyspace}/keys/{key} HTTP/1.1\r\nhost: {door}\r\ncontent-length: 4\r\n\r\npens"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let read = stream.read(&mut answer).unwrap();
        assert!(read > 0, "the door has closed the connection");
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.goes_on.store(false, Ordering::Relaxed);
        let ended: Vec<bool> = self.threads.drain(..).map(|thread| thread.join().is_ok()).collect();
        assert!(!ended.contains(&false) || std::thread::panicking(), "the load has failed");
    }
}

#[test]
fn a_page_shows_a_cluster_and_within_two_seconds_that_a_node_was_killed() {
    let Some(program) = chromium() else {
        eprintln!(
            "skipped: there is no /usr/bin/chromium; QUORATE_CHROMIUM names another browser of its kind"
        );
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let (mut servers, doors) = Servers::start_with_doors(directory.path(), &SITES);
    let created =
        servers.shell("keyspace create shop --isolation strict --shards 2; put stock 12; put pens 3");
    assert_eq!(created.code, 0, "{}", created.err);
    let created = servers.shell("keyspace create orders --isolation serializable");
    assert_eq!(created.code, 0, "{}", created.err);
    let load = Load::start(&doors[0], &["shop", "shop", "orders"]);

    let mut page = Page::open(&program);
    page.resize(1920, 1080);
    page.command("Page.navigate", json!({ "url": format!("http://{}/", doors[0]) }));
    page.until(
        "document.querySelectorAll('#nodes-table tr[data-up=true]').length === 3",
        Duration::from_secs(10),
    );
    the_figures_are_those_of_the_cluster(&mut page);
    the_page_fits(&mut page);
    the_keyboard_is_enough(&mut page);
    the_prompt_reads_and_writes_only_when_it_may(&mut page);
    shoot(&mut page, "light");
    drop(load);

    servers.signal(2, Signal::STOP);
    let noticed = page.until(&format!("{} === 'false'", is_up(2)), Duration::from_secs(10));
    assert!(noticed < MISSED_WITHIN, "a node that stands still was shown as down after {noticed:?}");
    servers.signal(2, Signal::CONT);
    page.until(&format!("{} === 'true'", is_up(2)), Duration::from_secs(10));
    servers.kill(2);
    let noticed = page.until(&format!("{} === 'false'", is_up(2)), Duration::from_secs(10));
    assert!(noticed < NOTICED_WITHIN, "a killed node was shown as down after {noticed:?}");
    page.until(
        "document.querySelector('#problems-list').innerText.includes('node 2 does not answer')",
        NOTICED_WITHIN,
    );
    let advice = page.evaluate("document.querySelector('#problems-list').innerText");
    assert!(advice.as_str().unwrap().contains("Do: "), "{advice}");
    assert_eq!(
        page.evaluate("document.querySelector('#state').innerText"),
        "▲ 1 of 3 nodes down, all shards served"
    );
    the_page_fits(&mut page);
    let dark = json!({ "features": [{ "name": "prefers-color-scheme", "value": "dark" }] });
    page.command("Emulation.setEmulatedMedia", dark);
    shoot(&mut page, "dark");
    nothing_was_complained_of(&page);
}

/// Whether a node is up, as the page shows it.
fn is_up(node: usize) -> String {
    format!("document.querySelector('#nodes-table tr[data-node=\"{node}\"]').dataset.up")
}

fn the_figures_are_those_of_the_cluster(page: &mut Page) {
    let number = "Number.parseFloat(document.querySelector('[data-keyspace=shop] .big').innerText)";
    page.until(&format!("{number} > 1"), Duration::from_secs(10));
    let text = page.evaluate("document.querySelector('[data-keyspace=shop]').innerText");
    let text = text.as_str().unwrap();
    assert!(text.contains("strict · sync") && text.contains("● served"), "{text}");
    page.until(
        "document.querySelector('[data-keyspace=shop] .hot').innerText.includes('stock')",
        Duration::from_secs(10),
    );
    let map = "document.querySelector('#map svg title').textContent";
    page.until(&format!("{map}.includes('us to europe')"), Duration::from_secs(10));
    let leads = page.evaluate("document.querySelectorAll('[data-keyspace=orders] .seat.leads').length");
    assert_eq!(leads, 1, "one replica of a serializable shard leads");
    let leads = page.evaluate("document.querySelectorAll('[data-keyspace=shop] .seat.leads').length");
    assert_eq!(leads, 0, "nobody leads a strict shard");
    assert_eq!(page.evaluate("document.querySelectorAll('[data-keyspace=shop] .shards tbody tr').length"), 2);
}

/// Nothing is wider than the page, on a phone or on a wall.
fn the_page_fits(page: &mut Page) {
    for (width, height) in [(360, 800), (1920, 1080)] {
        page.resize(width, height);
        let wide = page.evaluate(
            "[...document.querySelectorAll('body *')].filter((it) => it.getBoundingClientRect().right > innerWidth + 1 && \
             !it.closest('.scroll, .skip, .visually-hidden, thead')).map((it) => it.outerHTML.slice(0, 80)).join('\\n')",
        );
        let fits = page.evaluate("document.documentElement.scrollWidth <= innerWidth");
        assert_eq!(fits, true, "at {width} px these are too wide: {wide}");
        assert_eq!(wide, "", "at {width} px");
    }
}

/// Every control is reached with Tab, has a name, and shows that it has the focus.
fn the_keyboard_is_enough(page: &mut Page) {
    page.evaluate("document.activeElement.blur()");
    let mut reached = Vec::new();
    for _ in 0..40 {
        page.press("Tab");
        let at = page.evaluate(
            "(() => { const it = document.activeElement; const name = it.getAttribute('aria-label') ?? it.labels?.[0]?.innerText ?? it.innerText; \
             return [it === document.body ? 'BODY' : it.id || it.innerText || it.tagName, (name ?? '').trim() !== '', getComputedStyle(it).outlineStyle !== 'none']; })()",
        );
        let name = at[0].as_str().unwrap().to_owned();
        if name == "BODY" || reached.contains(&name) {
            break;
        }
        assert_eq!((&at[1], &at[2]), (&json!(true), &json!(true)), "{name}: a name, and a visible focus");
        reached.push(name);
    }
    for control in ["browse-keyspace", "browse-prefix", "may-write", "prompt-line", "prompt-trace"] {
        assert!(reached.iter().any(|name| name == control), "{control} is not among {reached:?}");
    }
    assert_eq!(reached[0], "Skip to the cluster");
}

fn the_prompt_reads_and_writes_only_when_it_may(page: &mut Page) {
    let log = "document.querySelector('#prompt-log').innerText";
    page.evaluate("document.querySelector('#browse-keyspace').value = 'shop'");
    let run = |page: &mut Page, line: &str, expected: &str| {
        page.evaluate("document.querySelector('#prompt-line').focus()");
        page.enter(line);
        page.press("Enter");
        page.until(&format!("{log}.includes({})", json!(expected)), Duration::from_secs(10));
    };
    run(page, "get pens missing", "3\n(absent)");
    run(page, "put pens 4", "this writes");
    run(page, "gte pens", "there is no statement “gte”");
    page.evaluate("document.querySelector('#may-write').click()");
    run(page, "put pens 'four of them'; get pens", "four of them");
    page.evaluate("document.querySelector('#prompt-line').focus()");
    page.enter("increment traced");
    page.evaluate("document.querySelector('#prompt-trace').click()");
    page.until("document.querySelector('#trace')?.textContent.includes('PREPARE')", Duration::from_secs(10));
    let votes = page.evaluate(
        "[...document.querySelectorAll('#trace text')].filter((it) => it.textContent === 'VOTE OK').length",
    );
    assert!(votes.as_u64().unwrap() >= 2, "{votes} votes are drawn");
    page.evaluate("document.querySelector('#browse-prefix').value = 'pen'; document.querySelector('#browse').requestSubmit()");
    page.until(
        "document.querySelector('#browse-result').innerText.includes('four of them')",
        Duration::from_secs(10),
    );
    page.evaluate(
        "document.querySelector('#browse-result button').click(); document.querySelector('#value-text').value = '5'; \
         [...document.querySelectorAll('#browse-value button')].find((it) => it.innerText === 'Save').click()",
    );
    page.until(
        "document.querySelector('#browse-value [role=status]').innerText === 'Save: done'",
        Duration::from_secs(10),
    );
    run(page, "get pens pens", "5\n5");
}

/// Pictures for the documentation, if they are wanted: QUORATE_SCREENSHOTS names the directory.
fn shoot(page: &mut Page, name: &str) {
    /// A minute, so that the charts are full.
    const CHART: Duration = Duration::from_secs(60);
    let Some(directory) = std::env::var_os("QUORATE_SCREENSHOTS").map(PathBuf::from) else { return };
    page.evaluate("document.activeElement.blur()");
    page.evaluate("scrollTo({ top: 0, behavior: 'instant' })");
    std::thread::sleep(if name == "light" { CHART } else { Duration::ZERO });
    for (width, height) in [(1440, 900), (360, 800)] {
        page.resize(width, height);
        std::thread::sleep(Duration::from_secs(1));
        std::fs::write(directory.join(format!("console-{name}-{width}.png")), page.screenshot()).unwrap();
    }
}

/// No error and no warning in the browser's log, and a light page.
fn nothing_was_complained_of(page: &Page) {
    let complaints = page
        .told("Log.entryAdded")
        .into_iter()
        .filter(|entry| matches!(entry["entry"]["level"].as_str(), Some("error" | "warning")));
    assert_eq!(complaints.count(), 0, "{:?}", page.told("Log.entryAdded"));
    assert!(page.told("Runtime.exceptionThrown").is_empty(), "{:?}", page.told("Runtime.exceptionThrown"));
    let spoken = page.told("Runtime.consoleAPICalled");
    assert!(spoken.is_empty(), "{spoken:?}");
    let files: Vec<&str> = page
        .told("Network.responseReceived")
        .into_iter()
        .filter(|told| !told["response"]["url"].as_str().unwrap().contains("/v1/"))
        .map(|told| told["requestId"].as_str().unwrap())
        .collect();
    assert!(files.len() > 5, "{files:?}");
    let finished = page.told("Network.loadingFinished").into_iter();
    let weight: f64 = finished
        .filter(|told| files.contains(&told["requestId"].as_str().unwrap()))
        .map(|told| told["encodedDataLength"].as_f64().unwrap())
        .sum();
    assert!(weight > 1_000.0 && weight < WEIGHT_MAX, "{weight} bytes");
}

#[test]
fn a_transaction_is_drawn_with_what_its_coordinator_has_sent_and_received() {
    let directory = tempfile::tempdir().unwrap();
    let servers = Servers::start(directory.path(), &SITES);
    let created = servers.shell("keyspace create accounts --isolation strict");
    assert_eq!(created.code, 0, "{}", created.err);
    let drawn = servers.run(&["trace", "accounts", "begin; put alice 100; get bob; commit"]);
    assert_eq!(drawn.code, 0, "{}", drawn.err);
    for expected in [
        "coordinator",
        "node 2, asia",
        "put alice 100",
        // Or READ-IN-TURN, if the machine is so busy that its own nodes seem to be far.
        "├── READ",
        "├── PREPARE ─",
        "◄── VOTE OK ─",
        "├── COMMIT ─",
        "committed at",
    ] {
        assert!(drawn.out.contains(expected), "{expected} is missing:\n{}", drawn.out);
    }
    let told = servers.run(&["trace", "accounts", "get alice", "--json"]).json();
    assert_eq!((&told["ok"], &told["answers"][0]["value"]), (&json!(true), &json!("100")), "{told}");
    let events = told["trace"]["events"].as_array().unwrap();
    assert_eq!((&events[0]["kind"], &events[0]["name"]), (&json!("noted"), &json!("get alice")));
    assert!(
        events.iter().any(|event| event["kind"] == "received" && event["participant"].is_number()),
        "{told}"
    );

    let open = servers.run(&["trace", "accounts", "begin; put alice 1"]);
    assert_eq!(open.code, 1);
    assert!(open.err.contains("left open"), "{}", open.err);
    let wrong = servers.run(&["trace", "accounts", "gte alice"]);
    assert_eq!(wrong.code, 2, "{}", wrong.err);
    let status = servers.run(&["cluster", "status", "--json"]).json();
    assert_eq!(status["nodes"][0]["peers"][0]["connected"], true, "{status}");
    let of_accounts = |shard: &&serde_json::Value| shard["keyspace"] == "accounts";
    let shard = status["shards"].as_array().unwrap().iter().find(of_accounts).unwrap();
    assert_eq!(shard["replicas"][0]["traffic"]["commits"], 1, "{shard}");
    let metrics = servers.metrics(0);
    assert!(
        metrics.contains("quorate_commit_seconds_count{keyspace=\"accounts\"")
            && metrics.contains("quorate_round_trip_seconds{node=\"1\"}"),
        "{metrics}"
    );
}
