//! The memory and disk that server processes take while they work, second by second.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use quorate_experiments::{Headline, Report, Row, svg};
use serde::Serialize;

use crate::exit::Failure;

/// Writes samples to a file, one JSON object a line.
#[derive(Debug)]
pub(crate) struct Samples {
    path: PathBuf,
    file: File,
    /// The ids of the processes.
    servers: Vec<u32>,
    /// The directory below which they write.
    directory: PathBuf,
    taken: Vec<Sample>,
}

#[derive(Clone, Debug, Serialize)]
struct Sample {
    second: u64,
    /// Transactions that had committed by then.
    committed: u64,
    /// The resident memory of each server.
    memory_bytes: Vec<u64>,
    /// The bytes of all servers on the disk.
    disk_bytes: u64,
}

impl Samples {
    /// Begins a file of samples of these processes, and of the directory that they write to.
    pub(crate) fn create(path: &Path, servers: Vec<u32>, directory: &Path) -> Result<Samples, Failure> {
        let file = File::create(path).map_err(|error| cannot("create", path, &error))?;
        Ok(Samples {
            path: path.to_owned(),
            file,
            servers,
            directory: directory.to_owned(),
            taken: Vec::new(),
        })
    }

    /// Adds a sample.
    pub(crate) fn take(&mut self, second: u64, committed: u64) -> Result<(), Failure> {
        let memory_bytes = self.servers.iter().map(|id| memory_bytes(*id)).collect::<Result<_, _>>()?;
        let disk_bytes =
            disk_bytes(&self.directory).map_err(|error| cannot("examine", &self.directory, &error))?;
        let sample = Sample { second, committed, memory_bytes, disk_bytes };
        let line = serde_json::to_string(&sample).map_err(Failure::failed)?;
        self.taken.push(sample);
        writeln!(self.file, "{line}").map_err(|error| cannot("write", &self.path, &error))
    }

    /// Draws the samples over the number of transactions.
    pub(crate) fn plot(&self, path: &Path) -> Result<(), Failure> {
        fs::write(path, svg::draw(&report(&self.taken))).map_err(|error| cannot("write", path, &error))
    }
}

/// So many points of a line can be told apart.
const POINTS_MAX: usize = 20;

/// Samples as a figure: of each of up to [`POINTS_MAX`] stretches of equal length the last one.
fn report(samples: &[Sample]) -> Report {
    let stretch = samples.len().div_ceil(POINTS_MAX).max(1);
    let mut rows = Vec::new();
    for sample in samples.iter().rev().step_by(stretch).rev() {
        let x = (sample.committed as f64 / 1e5).round() / 10.0;
        let mut row = |series: String, bytes: u64, unit| {
            let ours = (bytes as f64 / f64::from(1 << 20)).round();
            rows.push(Row::exact(series, x, unit, ours));
        };
        for (server, bytes) in sample.memory_bytes.iter().enumerate() {
            row(format!("server {}", server + 1), *bytes, "MiB of resident memory");
        }
        row("all servers".to_owned(), sample.disk_bytes, "MiB on disk");
    }
    let disk = samples.last().map_or(0, |sample| sample.disk_bytes);
    Report {
        name: "samples".into(),
        what: "What servers take, over millions of transactions".into(),
        headline: Headline {
            what: "on disk at the end".to_owned(),
            paper: None,
            paper_range: None,
            ours: Some(disk as f64 / f64::from(1 << 20)),
            unit: "MiB".into(),
        },
        x: Some("millions of transactions that have committed".into()),
        rows,
        bounds: Vec::new(),
        deviations: Vec::new(),
        seed: 0,
        quick: false,
    }
}

/// The resident memory of a process, as Linux tells it.
fn memory_bytes(process: u32) -> Result<u64, Failure> {
    let path = PathBuf::from(format!("/proc/{process}/status"));
    let status = fs::read_to_string(&path).map_err(|error| cannot("read", &path, &error))?;
    resident_bytes(&status).ok_or_else(|| Failure::failed(format!("{} does not say VmRSS", path.display())))
}

fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// The bytes of the files below a directory. One that goes away meanwhile counts as gone.
fn disk_bytes(directory: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        bytes += match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path())?,
            // Blocks are counted in 512 bytes, whatever the file system uses.
            Ok(metadata) => metadata.blocks() * 512,
            Err(error) if error.kind() == ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
    }
    Ok(bytes)
}

fn cannot(act: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("cannot {act} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_as_linux_writes_it() {
        assert_eq!(resident_bytes("Name:\tx\nVmRSS:\t  123 kB\nThreads:\t1\n"), Some(123 * 1024));
        assert_eq!(resident_bytes("Name:\tx\n"), None);
    }

    #[test]
    fn samples_of_this_process_are_lines_of_json() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("nested")).unwrap();
        fs::write(directory.path().join("nested/data"), vec![7; 100_000]).unwrap();
        let path = directory.path().join("samples.jsonl");
        let mut samples =
            Samples::create(&path, vec![std::process::id()], &directory.path().join("nested")).unwrap();
        samples.take(1, 5).unwrap();
        samples.take(2, 9).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((lines.len(), &lines[1]["second"], &lines[1]["committed"]), (2, &2.into(), &9.into()));
        assert!(lines[0]["memory_bytes"][0].as_u64().unwrap() > 100_000);
        assert!(lines[0]["disk_bytes"].as_u64().unwrap() >= 100_000);
    }

    #[test]
    fn a_plot_has_a_point_for_each_stretch_and_ends_with_the_last() {
        let sample = |second| Sample {
            second,
            committed: second * 100_000,
            memory_bytes: vec![1 << 20, 3 << 20],
            disk_bytes: second << 20,
        };
        let samples: Vec<Sample> = (1..=41).map(sample).collect();
        let rows = report(&samples).rows;
        let disk: Vec<(f64, f64)> =
            rows.iter().filter(|row| row.series == "all servers").map(|row| (row.x, row.ours)).collect();
        assert!(disk.len() <= POINTS_MAX && disk.is_sorted(), "{disk:?}");
        assert_eq!(disk.last(), Some(&(4.1, 41.0)));
        assert!(rows.iter().any(|row| row.series == "server 2" && row.ours == 3.0));
        assert!(report(&[]).rows.is_empty());
    }
}
