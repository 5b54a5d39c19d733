//! A delay matrix as a file.
//!
//! ```toml
//! sites = ["us", "europe", "asia"]
//!
//! [[link]]
//! between = ["us", "europe"]
//! round_trip_ms = 111.0
//! # … one entry for every pair of sites
//! ```

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::{Matrix, MatrixError};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    sites: Vec<String>,
    #[serde(default)]
    link: Vec<FileLink>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileLink {
    between: [String; 2],
    round_trip_ms: f64,
}

impl Matrix {
    /// The built-in matrix of this name, else the one in the file of this name.
    ///
    /// # Errors
    /// There is neither, or the file is not a matrix.
    pub fn load(name: &str) -> Result<Matrix, MatrixError> {
        if let Some(matrix) = Matrix::builtin(name) {
            return Ok(matrix);
        }
        let text = std::fs::read_to_string(Path::new(name)).map_err(|source| MatrixError::Unreadable {
            name: name.to_owned(),
            builtin: Matrix::builtin_names().collect::<Vec<_>>().join(", "),
            source,
        })?;
        Matrix::parse(name, &text)
    }

    /// Reads a matrix from TOML text; `name` is what errors call it.
    ///
    /// # Errors
    /// The text is not a matrix.
    pub fn parse(name: &str, text: &str) -> Result<Matrix, MatrixError> {
        let File { sites, link: links } = toml::from_str(text)?;
        let position = |site: &String| {
            sites.iter().position(|known| known == site).ok_or_else(|| MatrixError::UnknownSite(site.clone()))
        };
        let mut round_trips: Vec<Vec<Duration>> = vec![Vec::new(); sites.len() * sites.len()];
        for FileLink { between: [from, to], round_trip_ms } in &links {
            if !(0.0..=60_000.0).contains(round_trip_ms) {
                let (from, to) = (from.clone(), to.clone());
                return Err(MatrixError::Delay { from, to, given: *round_trip_ms });
            }
            let (i, j) = (position(from)?, position(to)?);
            let round_trip = Duration::from_secs_f64(round_trip_ms / 1_000.0);
            round_trips[i * sites.len() + j].push(round_trip);
            round_trips[j * sites.len() + i].push(round_trip);
        }
        let mut flat = Vec::with_capacity(round_trips.len());
        for (at, given) in round_trips.into_iter().enumerate() {
            let (from, to) = (at / sites.len(), at % sites.len());
            match given[..] {
                [] if from == to => flat.push(Duration::ZERO),
                [round_trip] if from != to => flat.push(round_trip),
                _ => {
                    let (from, to) = (sites[from].clone(), sites[to].clone());
                    return Err(MatrixError::Links { from, to, links: given.len() });
                }
            }
        }
        Ok(Matrix { name: name.to_owned(), sites, round_trips: flat })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_and_is_symmetric() {
        let text = "sites = [\"a\", \"b\"]\n[[link]]\nbetween = [\"b\", \"a\"]\nround_trip_ms = 5\n";
        let matrix = Matrix::parse("test", text).unwrap();
        assert_eq!(matrix.round_trip("a", "b"), Some(Duration::from_millis(5)));
        assert_eq!(matrix.round_trip("b", "a"), Some(Duration::from_millis(5)));
        assert_eq!(matrix.round_trip("a", "c"), None);
        assert!(matrix.require(["a", "b"]).is_ok());
        let error = matrix.require(["a", "c"]).unwrap_err().to_string();
        assert!(error.contains("\"c\"") && error.contains("a, b"), "{error}");
    }

    #[test]
    fn mistakes_in_a_file_are_named() {
        let link =
            |between: &str, delay: &str| format!("[[link]]\nbetween = {between}\nround_trip_ms = {delay}\n");
        let table = [
            ("sites = [\"a\", \"b\"]\n".to_owned(), "exactly one [[link]]"),
            (format!("sites = [\"a\", \"b\"]\n{0}{0}", link("[\"a\", \"b\"]", "1")), "there are 2"),
            (format!("sites = [\"a\"]\n{}", link("[\"a\", \"a\"]", "1")), "exactly one"),
            (format!("sites = [\"a\"]\n{}", link("[\"a\", \"x\"]", "1")), "\"x\""),
            (format!("sites = [\"a\", \"b\"]\n{}", link("[\"a\", \"b\"]", "-1")), "not -1"),
            ("sites = [\"a\"]\nspeed = 3\n".to_owned(), "line 2"),
        ];
        for (text, expected) in table {
            let error = Matrix::parse("test", &text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}\n{error}");
        }
        let error = Matrix::load("no-such-matrix").unwrap_err().to_string();
        assert!(error.contains("tapir, walter, uniform-100ms"), "{error}");
    }
}
