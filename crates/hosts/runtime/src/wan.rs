//! Emulated wide-area delay between sites, so that a laptop shows a cluster that spans continents.
//!
//! A [`Matrix`] names sites and the round trip between each pair. Each end delays its own batches by half of the
//! round trip, so that both directions together cost one. Within a site nothing is delayed. With the feature `delay-files`
//! a matrix can be read from a file.

#[cfg(feature = "delay-files")]
mod file;

use std::time::Duration;

/// The round trips between sites.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    name: String,
    sites: Vec<String>,
    /// Between site `i` and site `j` at `i * sites + j`; symmetric.
    round_trips: Vec<Duration>,
}

/// Why a matrix cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MatrixError {
    /// Neither a built-in matrix nor a readable file.
    #[error(
        "\"{name}\" is no built-in delay matrix (there are: {builtin}), and as a file it cannot be read: {source}"
    )]
    Unreadable {
        /// The name or path that was asked for.
        name: String,
        /// The built-in matrices.
        builtin: String,
        /// Why the file cannot be read.
        source: std::io::Error,
    },
    /// Not the TOML that is expected; the text names line and column.
    #[cfg(feature = "delay-files")]
    #[error("delay matrix: {0}")]
    Syntax(#[from] toml::de::Error),
    /// A link names a site that is not listed.
    #[error("delay matrix: a link names the site \"{0}\", which `sites` does not list")]
    UnknownSite(String),
    /// A pair of sites without a delay, or with two.
    #[error(
        "delay matrix: \"{from}\" and \"{to}\" need exactly one [[link]] between them, and there are {links}"
    )]
    Links {
        /// One site.
        from: String,
        /// The other.
        to: String,
        /// How many links there are.
        links: usize,
    },
    /// A delay that is no delay.
    #[error(
        "delay matrix: round_trip_ms between \"{from}\" and \"{to}\" must lie between 0 and 60000, not {given}"
    )]
    Delay {
        /// One site.
        from: String,
        /// The other.
        to: String,
        /// The delay that was written.
        given: f64,
    },
    /// A site of the cluster is missing from the matrix.
    #[error("delay matrix \"{matrix}\" does not know the site \"{site}\"; it knows: {known}")]
    MissingSite {
        /// The matrix.
        matrix: String,
        /// The missing site.
        site: String,
        /// The sites that it knows.
        known: String,
    },
}

/// Name, sites, and the round trips in milliseconds above the diagonal, row by row.
type Builtin = (&'static str, &'static [&'static str], &'static [f64]);

/// The matrices that need no file.
const BUILTIN: [Builtin; 3] = [
    // The TAPIR paper, section 7.1.
    ("tapir", &["us", "europe", "asia"], &[111.0, 166.5, 262.0]),
    // The Walter paper, section 8.1: Virginia, California, Ireland, Singapore.
    ("walter", &["va", "ca", "ie", "sg"], &[82.0, 87.0, 261.0, 153.0, 190.0, 277.0]),
    ("uniform-100ms", &["north", "east", "west"], &[100.0, 100.0, 100.0]),
];

impl Matrix {
    /// The names of the built-in matrices.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|(name, ..)| *name)
    }

    /// A built-in matrix.
    pub fn builtin(name: &str) -> Option<Matrix> {
        let (name, sites, upper) = BUILTIN.iter().find(|(builtin, ..)| *builtin == name)?;
        let mut round_trips = vec![Duration::ZERO; sites.len() * sites.len()];
        let mut upper = upper.iter();
        for from in 0..sites.len() {
            for to in from + 1..sites.len() {
                let round_trip = Duration::from_secs_f64(upper.next()? / 1_000.0);
                round_trips[from * sites.len() + to] = round_trip;
                round_trips[to * sites.len() + from] = round_trip;
            }
        }
        let sites = sites.iter().map(|site| (*site).to_owned()).collect();
        Some(Matrix { name: (*name).to_owned(), sites, round_trips })
    }

    /// The name of the matrix: a built-in one or the path of a file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of the sites.
    pub fn sites(&self) -> &[String] {
        &self.sites
    }

    /// The round trip between two sites; none if the matrix does not know one of them.
    pub fn round_trip(&self, from: &str, to: &str) -> Option<Duration> {
        let position = |site: &str| self.sites.iter().position(|known| known == site);
        Some(self.round_trips[position(from)? * self.sites.len() + position(to)?])
    }

    /// How long a message from one site to another is delayed; none if the matrix does not know one of them.
    pub fn one_way(&self, from: &str, to: &str) -> Option<Duration> {
        self.round_trip(from, to).map(|round_trip| round_trip / 2)
    }

    /// Checks that every one of these sites is in the matrix.
    ///
    /// # Errors
    /// One is not.
    pub fn require<'a>(&self, sites: impl IntoIterator<Item = &'a str>) -> Result<(), MatrixError> {
        match sites.into_iter().find(|site| !self.sites.iter().any(|known| known == site)) {
            None => Ok(()),
            Some(site) => Err(MatrixError::MissingSite {
                matrix: self.name.clone(),
                site: site.to_owned(),
                known: self.sites.join(", "),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_matrices_as_a_table() {
        let table = [
            ("tapir", "us", "europe", 111.0),
            ("tapir", "us", "asia", 166.5),
            ("tapir", "asia", "europe", 262.0),
            ("walter", "va", "ca", 82.0),
            ("walter", "va", "ie", 87.0),
            ("walter", "va", "sg", 261.0),
            ("walter", "ie", "ca", 153.0),
            ("walter", "ca", "sg", 190.0),
            ("walter", "sg", "ie", 277.0),
            ("uniform-100ms", "north", "west", 100.0),
            ("uniform-100ms", "west", "west", 0.0),
        ];
        for (name, from, to, millis) in table {
            let matrix = Matrix::builtin(name).unwrap();
            let expected = Duration::from_secs_f64(millis / 1_000.0);
            assert_eq!(matrix.round_trip(from, to), Some(expected), "{name}: {from} to {to}");
            assert_eq!(matrix.one_way(from, to), Some(expected / 2));
        }
    }
}
