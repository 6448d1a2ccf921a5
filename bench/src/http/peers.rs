//! The servers of others, where they can be had.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tollkeeper_testkit::folder::Folder;
use tollkeeper_testkit::moment::until;
use tollkeeper_testkit::peers;
use tollkeeper_testkit::port::Port;

use super::servers::{ANSWER, Process};

/// What is installed, and where.
const THROTTLECRAB: &str = "throttlecrab-server";
const VERSION: &str = "0.4.40";

/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(30);

/// throttlecrab's server with its HTTP door, built from its package if it is not there yet.
pub(super) fn throttlecrab() -> Result<Process, String> {
    let program = installed()?;
    let port = Port::reserve()?;
    let mut command = Command::new(program);
    command.args(["--http", "--http-host", "127.0.0.1", "--log-level", "error", "--http-port"]);
    command.arg(port.number().to_string());
    started(command, port, None)
}

fn installed() -> Result<PathBuf, String> {
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/peers");
    let folder = peers.join(format!("{THROTTLECRAB}-{VERSION}"));
    let program = folder.join("bin").join(THROTTLECRAB);
    if program.is_file() {
        return Ok(program);
    }
    // Its build goes on without it, and fails minutes later.
    let protoc = Command::new("protoc").arg("--version").stdout(Stdio::null()).status();
    if !protoc.is_ok_and(|status| status.success()) {
        return Err("its build needs protoc; install protobuf-compiler and try again".to_owned());
    }
    eprintln!("installing {THROTTLECRAB} {VERSION}, which takes some minutes");
    let installing = Command::new("cargo")
        .args(["install", THROTTLECRAB, "--locked", "--quiet", "--version", VERSION, "--root"])
        .arg(&folder)
        .env_remove("CARGO_TARGET_DIR")
        .stdout(Stdio::null())
        .status();
    match installing {
        Ok(status) if status.success() && program.is_file() => Ok(program),
        Ok(status) => Err(format!("cargo install failed: {status}")),
        Err(error) => Err(format!("cargo cannot be run: {error}")),
    }
}

/// nginx that gives a file to whoever its `limit_req` lets through, in one process.
pub(super) fn nginx() -> Result<Process, String> {
    let program = peers::nginx()?;
    let (folder, port) = (Folder::new()?, Port::reserve()?);
    folder.write("check", ANSWER)?;
    let (root, number) = (folder.path().display(), port.number());
    let config = format!(
        "master_process off; daemon off; pid {root}/pid; error_log stderr error;
         events {{ worker_connections 1024; }}
         http {{
             access_log off; keepalive_requests 1000000000; open_file_cache max=10;
             default_type application/json;
             limit_req_zone $arg_key zone=keys:10m rate=1000000r/s;
             server {{
                 listen 127.0.0.1:{number}; root {root};
                 location / {{ limit_req zone=keys burst=100000 nodelay; }}
             }}
         }}"
    );
    let config = folder.write("nginx.conf", config)?;
    let mut command = Command::new(program);
    command.arg("-p").arg(folder.path()).arg("-c").arg(config).stderr(Stdio::null());
    started(command, port, Some(folder))
}

/// The server of a command, once it can be reached.
fn started(mut command: Command, port: Port, folder: Option<Folder>) -> Result<Process, String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.number()));
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let child = child.map_err(|error| format!("it cannot be started: {error}"))?;
    let process = Process::of_peer(child, address, port, folder);
    let reached = until(PATIENCE, || TcpStream::connect(address).ok());
    reached.map(|_| process).ok_or_else(|| "it did not start".to_owned())
}
