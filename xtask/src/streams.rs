//! Each name of a stream of a seed stands in one place: two that share a name draw the same numbers, and then one choice decides
//! another of which nobody thinks.

use std::collections::BTreeMap;

use crate::source::File;

/// The calls that begin the name of a stream.
const CALLS: [&str; 3] = ["stream(\"", "stream(seed, \"", "stream(self.scenario.seed, \""];

/// The names so far, each with its place.
#[derive(Default)]
pub(crate) struct Streams {
    places: BTreeMap<String, String>,
}

impl Streams {
    /// The names in this file that stand somewhere else, too. Its tests may name what they like.
    pub(crate) fn complaints(&mut self, file: &File) -> Vec<String> {
        let tests = file.text.lines().position(|line| line.starts_with("#[cfg(test)]"));
        let mut complaints = Vec::new();
        for (index, line) in file.text.lines().enumerate().take(tests.unwrap_or(usize::MAX)) {
            for name in names(line) {
                match self.places.get(name) {
                    Some(place) => complaints.push(format!(
                        "{}: the stream \"{name}\" stands at {place}, too: take another name",
                        file.at(index)
                    )),
                    None => {
                        self.places.insert(name.to_owned(), file.at(index));
                    }
                }
            }
        }
        complaints
    }
}

fn names(line: &str) -> impl Iterator<Item = &str> {
    let after = |call: &&str| line.split(*call).skip(1).collect::<Vec<_>>();
    CALLS.iter().flat_map(after).filter_map(|rest| rest.split('"').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> File {
        File { path: "x.rs".into(), text: text.to_owned() }
    }

    #[test]
    fn a_name_stands_once() {
        let mut streams = Streams::default();
        assert!(
            streams.complaints(&file("let a = (stream(\"a\"), Random::stream(seed, \"b\"));")).is_empty()
        );
        let complaints = streams.complaints(&file("fn f() {\n    Random::stream(seed, \"a\")\n}"));
        assert_eq!(complaints, ["x.rs:2: the stream \"a\" stands at x.rs:1, too: take another name"]);
        assert!(streams.complaints(&file("#[cfg(test)]\nmod tests { stream(\"a\") }")).is_empty());
    }
}
