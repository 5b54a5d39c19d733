//! Packages of a release: an archive for any Linux of this processor, and a package of Debian where `dpkg-deb` is.
//!
//! Both hold the binary, a manual page for each command, completions, and what is in `packaging`: the unit of systemd, alert rules, a dashboard. They are
//! written to `package` in the target directory, beside a file with their checksums. The same sources and compiler make the same bytes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::build::Quorate;
use crate::shell;

/// A shell, and where its completions belong.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/quorate"),
    ("zsh", "share/zsh/vendor-completions/_quorate"),
    ("fish", "share/fish/vendor_completions.d/quorate.fish"),
];

/// A file of the repository, and where it belongs.
const FILES: [(&str, &str); 7] = [
    ("LICENSE", "share/doc/quorate/copyright"),
    ("README.md", "share/doc/quorate/README.md"),
    ("CHANGELOG.md", "share/doc/quorate/CHANGELOG.md"),
    ("packaging/prometheus/alerts.yml", "share/doc/quorate/examples/alerts.yml"),
    ("packaging/prometheus/alerts-test.yml", "share/doc/quorate/examples/alerts-test.yml"),
    ("packaging/grafana/dashboard.json", "share/doc/quorate/examples/dashboard.json"),
    ("packaging/systemd/quorate.service", "lib/systemd/system/quorate.service"),
];

/// Builds the release and packs it.
pub(crate) fn run(root: &Path) -> ExitCode {
    match package(root) {
        Ok(made) => {
            made.iter().for_each(|path| println!("{}", path.display()));
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn package(root: &Path) -> Result<Vec<PathBuf>, String> {
    let quorate = Quorate::released(root)?;
    let (version, _) = quorate.output(&["--version"])?;
    let version = version.split_whitespace().last().ok_or("quorate --version says nothing")?.to_owned();
    let folder = quorate.folder().join("package");
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let name = format!("quorate-{version}-{}-{}", std::env::consts::OS, std::env::consts::ARCH);
    let tree = folder.join(&name);
    fill(root, &quorate, &tree)?;
    let archive = folder.join(format!("{name}.tar.gz"));
    pack(&folder, &name, &archive)?;
    let mut made = vec![archive];
    made.extend(debian(root, &version, &tree, &folder)?);
    made.push(checksums(&folder, &made)?);
    Ok(made)
}

/// Lays out what both packages hold.
fn fill(root: &Path, quorate: &Quorate, tree: &Path) -> Result<(), String> {
    copy(quorate.path(), &tree.join("bin/quorate"))?;
    for (from, to) in FILES {
        copy(&root.join(from), &tree.join(to))?;
    }
    for (shell, to) in COMPLETIONS {
        write(&tree.join(to), &said(quorate, &["completions", shell])?)?;
    }
    write(
        &tree.join("share/doc/quorate/examples/node.toml"),
        &said(quorate, &["server", "--print-config"])?,
    )?;
    let pages = tree.join("share/man/man1");
    fs::create_dir_all(&pages).map_err(|error| format!("{}: {error}", pages.display()))?;
    said(quorate, &["man", "--dir", &pages.to_string_lossy()])?;
    Ok(())
}

/// The standard output of the binary; it has to succeed.
fn said(quorate: &Quorate, arguments: &[&str]) -> Result<String, String> {
    let (text, success) = quorate.output(arguments)?;
    if success { Ok(text) } else { Err(format!("quorate {} failed", arguments.join(" "))) }
}

/// An archive that depends on nothing but what it holds.
fn pack(folder: &Path, name: &str, archive: &Path) -> Result<(), String> {
    let mut tar = Command::new("tar");
    tar.args([
        "--sort=name",
        "--mtime=@0",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--mode=u+rw,go+r,go-w",
    ])
    .args(["--use-compress-program", "gzip -n -9", "-C"])
    .arg(folder)
    .arg("-cf")
    .arg(archive)
    .arg(name);
    shell::run(tar)
}

/// The package of Debian; none where there is no `dpkg-deb`.
fn debian(root: &Path, version: &str, tree: &Path, folder: &Path) -> Result<Option<PathBuf>, String> {
    let Some(architecture) = asked("dpkg", &["--print-architecture"]) else {
        eprintln!("there is no dpkg here: no package of Debian is made");
        return Ok(None);
    };
    let glibc = asked("getconf", &["GNU_LIBC_VERSION"])
        .ok_or("getconf does not tell the version of the C library")?;
    let glibc = glibc.split_whitespace().last().unwrap_or_default().to_owned();
    let made = folder.join("debian");
    copy_tree(tree, &made.join("usr"))?;
    let control = fs::read_to_string(root.join("packaging/debian/control"))
        .map_err(|error| format!("packaging/debian/control: {error}"))?;
    let control = control
        .replace("{version}", version)
        .replace("{architecture}", &architecture)
        .replace("{glibc}", &glibc);
    write(&made.join("DEBIAN/control"), &control)?;
    for script in ["postinst", "prerm", "postrm"] {
        copy(&root.join("packaging/debian").join(script), &made.join("DEBIAN").join(script))?;
    }
    let package = folder.join(format!("quorate_{version}_{architecture}.deb"));
    let mut build = Command::new("dpkg-deb");
    build.env("SOURCE_DATE_EPOCH", "0").args(["--root-owner-group", "--build"]).arg(&made).arg(&package);
    build.stdout(Stdio::null());
    shell::run(build)?;
    fs::remove_dir_all(&made).map_err(|error| format!("{}: {error}", made.display()))?;
    Ok(Some(package))
}

/// A file with the SHA-256 of each package.
fn checksums(folder: &Path, made: &[PathBuf]) -> Result<PathBuf, String> {
    let names = made.iter().filter_map(|path| path.file_name());
    let mut sum = Command::new("sha256sum");
    sum.args(names).current_dir(folder);
    let (text, success) = shell::output(sum)?;
    let to = folder.join("SHA256SUMS");
    if success { write(&to, &text).map(|()| to) } else { Err("sha256sum failed".to_owned()) }
}

/// The output of a program, without the end of its line; none if there is no such program, or it fails.
fn asked(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn write(to: &Path, text: &str) -> Result<(), String> {
    make_parent(to)?;
    fs::write(to, text).map_err(|error| format!("{}: {error}", to.display()))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    make_parent(to)?;
    fs::copy(from, to).map(drop).map_err(|error| format!("{} to {}: {error}", from.display(), to.display()))
}

fn copy_tree(from: &Path, to: &Path) -> Result<(), String> {
    make_parent(to)?;
    let mut copy = Command::new("cp");
    copy.arg("-a").arg(from).arg(to);
    shell::run(copy)
}

fn make_parent(of: &Path) -> Result<(), String> {
    let Some(parent) = of.parent() else { return Ok(()) };
    fs::create_dir_all(parent).map_err(|error| format!("{}: {error}", parent.display()))
}
