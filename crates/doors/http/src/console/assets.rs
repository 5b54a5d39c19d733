//! The files of the page. They are parts of the program: a node needs no folder and no network for them.

use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};

use crate::answer::Answer;

/// The page runs its own code and speaks to its own door, and nothing else; no other page may show it in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// A file.
#[derive(Debug)]
struct Asset {
    path: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
}

/// Declares files of the folder `console`, which are found under their names.
macro_rules! assets {
    ($($name:literal: $content_type:expr;)*) => {
        &[$(Asset {
            path: concat!("/console/", $name),
            content_type: $content_type,
            bytes: include_bytes!(concat!("../../console/", $name)),
        },)*]
    };
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

const ASSETS: &[Asset] = assets! {
    "index.html": HTML;
    "style.css": CSS;
    "icon.svg": "image/svg+xml";
    "main.js": SCRIPT;
    "dom.js": SCRIPT;
    "format.js": SCRIPT;
    "map.js": SCRIPT;
    "nodes.js": SCRIPT;
    "keyspaces.js": SCRIPT;
    "problems.js": SCRIPT;
    "browser.js": SCRIPT;
    "prompt.js": SCRIPT;
    "statement.js": SCRIPT;
    "door.js": SCRIPT;
    "trace.js": SCRIPT;
};

/// The addresses of the page itself.
const PAGE: [&str; 3] = ["/", "/console", "/console/"];

/// The file that a request is for, if it is for one.
pub(crate) fn find(head: &Parts) -> Option<Answer> {
    if !matches!(head.method, Method::GET | Method::HEAD) {
        return None;
    }
    let path = if PAGE.contains(&head.uri.path()) { ASSETS[0].path } else { head.uri.path() };
    ASSETS.iter().find(|asset| asset.path == path).map(Asset::answer)
}

impl Asset {
    fn answer(&self) -> Answer {
        Answer::new(StatusCode::OK, self.bytes.into())
            .header(CONTENT_TYPE, HeaderValue::from_static(self.content_type))
            .header(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY))
            .header(REFERRER_POLICY, HeaderValue::from_static("no-referrer"))
            // The files of another version of the node are not to be mixed with these.
            .header(CACHE_CONTROL, HeaderValue::from_static("no-store"))
            .header(
                HeaderName::from_static("cross-origin-opener-policy"),
                HeaderValue::from_static("same-origin"),
            )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most that the page may weigh, in bytes.
    const WEIGHT_MAX: usize = 300 * 1024;

    fn text(asset: &Asset) -> &str {
        std::str::from_utf8(asset.bytes).unwrap()
    }

    #[test]
    fn the_page_is_light() {
        let weight: usize = ASSETS.iter().map(|asset| asset.bytes.len()).sum();
        assert!(weight < WEIGHT_MAX, "{weight}");
    }

    #[test]
    fn the_page_has_no_code_in_line_and_names_no_other_host() {
        for asset in ASSETS {
            let text = text(asset);
            assert!(!text.replace("http://www.w3.org/2000/svg", "").contains("://"), "{}", asset.path);
        }
        let page = text(&ASSETS[0]);
        for forbidden in ["style=", "onclick", "onload", "javascript:", "<style"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        assert!(page.split("<script").skip(1).all(|script| script.starts_with(" type=\"module\" src=")));
    }

    #[test]
    fn every_file_that_a_file_names_is_there() {
        for asset in ASSETS {
            let named = text(asset).split(['"', '\'']).filter(|word| {
                word.starts_with("/console/") || (word.starts_with("./") && word.ends_with(".js"))
            });
            for name in named {
                let path = name.replace("./", "/console/");
                assert!(ASSETS.iter().any(|known| known.path == path), "{} names {name}", asset.path);
            }
        }
    }
}
