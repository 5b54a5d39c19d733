//! A browser that tests drive: Debian's chromium, by the DevTools protocol over a WebSocket.
//!
//! The client of WebSockets is written here: it speaks to a browser on this machine alone, and a hundred lines are less to look after than a library with its own.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long a command may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// Where the browser is, if there is one.
pub(crate) fn chromium() -> Option<PathBuf> {
    let told = std::env::var_os("QUORATE_CHROMIUM").map(PathBuf::from);
    let path = told.unwrap_or_else(|| PathBuf::from("/usr/bin/chromium"));
    path.exists().then_some(path)
}

/// A WebSocket, from its client's side.
struct Socket {
    stream: BufReader<TcpStream>,
}

impl Socket {
    fn connect(address: &str, path: &str) -> Socket {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: cXVvcmF0ZSBjb25zb2xlIQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        .unwrap();
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        assert!(line.contains(" 101 "), "{line}");
        while line.trim() != "" {
            line.clear();
            stream.read_line(&mut line).unwrap();
        }
        Socket { stream }
    }

    /// Sends a text in one frame; the mask that clients have to name is zero.
    fn send(&mut self, text: &str) {
        let mut frame = vec![0x81];
        match text.len() {
            length @ 0..126 => frame.push(0x80 | length as u8),
            length @ 126..0x1_0000 => {
                frame.push(0x80 | 126);
                frame.extend((length as u16).to_be_bytes());
            }
            length => {
                frame.push(0x80 | 127);
                frame.extend((length as u64).to_be_bytes());
            }
        }
        frame.extend([0; 4]);
        frame.extend(text.as_bytes());
        self.stream.get_mut().write_all(&frame).unwrap();
    }

    /// The next text; none if none has come by then.
    fn receive(&mut self, deadline: Instant) -> Option<String> {
        let mut text = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            self.stream.get_ref().set_read_timeout(Some(left)).unwrap();
            // A frame that has begun arrives: it is the beginning that may be missing.
            if self.stream.fill_buf().ok()?.is_empty() {
                panic!("the browser has closed the connection");
            }
            self.stream.get_ref().set_read_timeout(Some(PATIENCE)).unwrap();
            let mut head = [0; 2];
            self.stream.read_exact(&mut head).unwrap();
            let length = match head[1] & 0x7f {
                126 => u64::from(u16::from_be_bytes(self.bytes())),
                127 => u64::from_be_bytes(self.bytes()),
                length => u64::from(length),
            };
            let mut payload = vec![0; length as usize];
            self.stream.read_exact(&mut payload).unwrap();
            // Only texts, and what continues them, matter here.
            if matches!(head[0] & 0x0f, 0 | 1) {
                text.extend(payload);
                if head[0] & 0x80 != 0 {
                    return Some(String::from_utf8(text).unwrap());
                }
            }
        }
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }
}

/// The bytes of a text in base64.
fn decode(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u32> = text.bytes().filter(|byte| *byte != b'=').map(digit).collect();
    let bytes = |group: &[u32]| {
        let bits = group.iter().enumerate().map(|(at, digit)| digit << (18 - 6 * at)).sum::<u32>();
        bits.to_be_bytes()[1..group.len()].to_vec()
    };
    digits.chunks(4).flat_map(bytes).collect()
}

/// A page in a browser of its own.
pub(crate) struct Page {
    process: Child,
    socket: Socket,
    session: String,
    asked: u64,
    /// The events that the browser has told.
    events: VecDeque<Value>,
    _profile: tempfile::TempDir,
}

impl Page {
    /// Starts a browser with an empty page.
    pub(crate) fn open(program: &Path) -> Page {
        let profile = tempfile::tempdir().unwrap();
        let mut process = Command::new(program)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"])
            .args([
                "--no-first-run",
                "--disable-background-networking",
                "--disable-extensions",
                "--hide-scrollbars",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let errors = BufReader::new(process.stderr.take().unwrap());
        let (told, heard) = std::sync::mpsc::channel();
        // Reads to the end, so that the browser never waits for a reader.
        std::thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                if let Some((_, address)) = line.split_once("DevTools listening on ws://") {
                    // Nobody listens if the test has failed meanwhile.
                    let _ = told.send(address.to_owned());
                }
            }
        });
        let address = heard.recv_timeout(Duration::from_secs(30)).expect("the browser starts");
        let (host, path) = address.split_once('/').unwrap();
        let socket = Socket::connect(host, &format!("/{path}"));
        let session = String::new();
        let mut page =
            Page { process, socket, session, asked: 0, events: VecDeque::new(), _profile: profile };
        let target = page.command("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        page.session =
            page.command("Target.attachToTarget", attach)["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Log", "Runtime", "Network"] {
            page.command(&format!("{domain}.enable"), json!({}));
        }
        page
    }

    /// Gives a command, and its result.
    pub(crate) fn command(&mut self, method: &str, parameters: Value) -> Value {
        self.asked += 1;
        let mut command = json!({ "id": self.asked, "method": method, "params": parameters });
        if !self.session.is_empty() {
            command["sessionId"] = json!(self.session);
        }
        self.socket.send(&command.to_string());
        let deadline = Instant::now() + PATIENCE;
        loop {
            let text = self.socket.receive(deadline).unwrap_or_else(|| panic!("{method} is not answered"));
            let told: Value = serde_json::from_str(&text).unwrap();
            if told["id"] == self.asked {
                assert!(told["error"].is_null(), "{method}: {}", told["error"]);
                return told["result"].clone();
            }
            self.events.push_back(told);
        }
    }

    /// The value of an expression in the page.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let told = self.command("Runtime.evaluate", asked);
        assert!(told["exceptionDetails"].is_null(), "{expression}: {told}");
        told["result"]["value"].clone()
    }

    /// Waits until an expression is true, and says how long that took.
    pub(crate) fn until(&mut self, expression: &str, patience: Duration) -> Duration {
        let begun = Instant::now();
        while self.evaluate(expression) != true {
            if begun.elapsed() > patience {
                let text = self.evaluate("document.body.innerText");
                panic!("not within {patience:?}: {expression}\n{}", text.as_str().unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        begun.elapsed()
    }

    /// Gives the page a size.
    pub(crate) fn resize(&mut self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.command("Emulation.setDeviceMetricsOverride", size);
    }

    /// Presses a key.
    pub(crate) fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let code = if key == "Tab" { 9 } else { 13 };
            let text = if key == "Enter" && kind == "keyDown" { "\r" } else { "" };
            let event =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
            self.command("Input.dispatchKeyEvent", event);
        }
    }

    /// Types a text where the focus is.
    pub(crate) fn enter(&mut self, text: &str) {
        self.command("Input.insertText", json!({ "text": text }));
    }

    /// A picture of what fits into the window, as PNG.
    pub(crate) fn screenshot(&mut self) -> Vec<u8> {
        let shot = json!({ "format": "png", "optimizeForSpeed": false });
        decode(self.command("Page.captureScreenshot", shot)["data"].as_str().unwrap())
    }

    /// The events of a kind that the browser has told so far.
    pub(crate) fn told(&self, method: &str) -> Vec<&Value> {
        self.events.iter().filter(|event| event["method"] == method).map(|event| &event["params"]).collect()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
