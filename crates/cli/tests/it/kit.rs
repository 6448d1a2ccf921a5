//! What these tests share: the binary, a running service, and a plain HTTP client.

use std::fmt::Write as _;
use std::fs::{DirEntry, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tollkeeper_testkit::moment;

/// How long anything may take that is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Asks again and again, until it is so.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let so = moment::until(PATIENCE, || is_so().then_some(()));
    assert!(so.is_some(), "not within {PATIENCE:?}: {what}");
}

/// The file that the documentation shows first.
pub(crate) const POLICY: &str = "\
rules:
  global:
    algorithm: token_bucket
    token_bucket:           { capacity: 10, refill_rate: 5 }      # a bare number is per second
    leaking_bucket:         { queue_capacity: 10, leak_rate: 5 }
    fixed_window:           { max_requests: 10, window_size: 60 } # a bare number is seconds
    sliding_window_log:     { max_requests: 10, window_size: 60 }
    sliding_window_counter: { max_requests: 10, window_size: 60 }
    gcra:                   { burst: 10, rate: 5/s }
    concurrency:            { max_in_flight: 10, lease: 30s }
";

/// That file with another algorithm.
pub(crate) fn policy_of(algorithm: &str) -> String {
    POLICY.replace("algorithm: token_bucket", &format!("algorithm: {algorithm}"))
}

/// The binary.
pub(crate) fn tollkeeper() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollkeeper"));
    command.stdin(Stdio::null());
    // What the environment of the tests says is not said to the service.
    for name in ["TOLLKEEPER_LOG", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SDK_DISABLED"] {
        command.env_remove(name);
    }
    command
}

/// Runs the binary to its end.
pub(crate) fn run(args: &[&str], folder: &Folder) -> Output {
    tollkeeper().args(args).current_dir(&folder.path).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A folder that goes when the test does.
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
}

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self { path }
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        std::fs::write(self.path.join(name), content).unwrap();
        self
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// A running service, on a port of its own.
pub(crate) struct Service {
    child: Child,
    pub(crate) address: SocketAddr,
    /// Where admin calls are answered, if that is elsewhere.
    pub(crate) admin: Option<SocketAddr>,
    /// Where the gateway listens, if there is one.
    pub(crate) gateway: Option<SocketAddr>,
    pub(crate) folder: Folder,
}

impl Service {
    pub(crate) fn start(name: &str, policy: &str) -> Self {
        Self::start_with(name, policy, &[])
    }

    pub(crate) fn start_with(name: &str, policy: &str, args: &[&str]) -> Self {
        Self::start_by(tollkeeper(), name, policy, args)
    }

    /// Starts it in a folder that has other files, too.
    pub(crate) fn start_beside(
        name: &str,
        policy: &str,
        files: &[(&str, Vec<u8>)],
        args: &[&str],
    ) -> Self {
        let folder = Folder::new(name);
        for (name, content) in files {
            folder.write(name, content);
        }
        Self::start_in(folder, tollkeeper(), Some(policy), args)
    }

    /// Starts it by a command to which its arguments are added.
    pub(crate) fn start_by(command: Command, name: &str, policy: &str, args: &[&str]) -> Self {
        Self::start_in(Folder::new(name), command, Some(policy), args)
    }

    /// Starts it with further variables in its environment, and perhaps without a file.
    pub(crate) fn launch(
        name: &str,
        policy: Option<&str>,
        args: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let mut command = tollkeeper();
        command.envs(variables.iter().copied());
        Self::start_in(Folder::new(name), command, policy, args)
    }

    fn start_in(folder: Folder, mut command: Command, policy: Option<&str>, args: &[&str]) -> Self {
        if let Some(policy) = policy {
            folder.write("tollkeeper.yaml", policy);
        }
        let mut child = command
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(args)
            .current_dir(&folder.path)
            .stdout(Stdio::piped())
            .stderr(File::create(folder.path.join("log")).unwrap())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let told: Vec<String> = lines.take_while(|line| !line.starts_with("  stop ")).collect();
        let address = |door: &str| -> Option<SocketAddr> {
            let place = told.iter().find_map(|line| line.trim().strip_prefix(door))?;
            let (_scheme, address) = place.split(' ').find_map(|word| word.split_once("://"))?;
            Some(address.parse().unwrap())
        };
        let (http, admin, gateway) =
            (address("http ").unwrap(), address("admin "), address("proxy "));
        Self { child, address: http, admin, gateway, folder }
    }

    /// What it has said on standard error.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path.join("log")).unwrap()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as a power cut would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.wait();
    }

    /// Freezes it: it keeps its connections and answers nothing. Returns when all of it is frozen.
    pub(crate) fn freeze(&self) {
        let pid = self.pid().to_string();
        assert!(Command::new("kill").args(["-STOP", &pid]).status().unwrap().success());
        let is_frozen = |thread: std::io::Result<DirEntry>| {
            let status = std::fs::read_to_string(thread.unwrap().path().join("status"));
            // One that has just ended does nothing either.
            status.map_or(true, |status| status.contains("State:\tT"))
        };
        let threads = || std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        until("all of it is frozen", || threads().all(is_frozen));
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Reply {
        send_to(self.address, &request(method, path, headers, body))
    }

    pub(crate) fn get_at(address: SocketAddr, path: &str) -> Reply {
        send_to(address, &request("GET", path, &[], b""))
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], b"")
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Reply {
        self.send("POST", path, &[], body.as_bytes())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn send_to(address: SocketAddr, bytes: &[u8]) -> Reply {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(bytes).unwrap();
    read_reply(&mut BufReader::new(stream))
}

/// The bytes of a request.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\ncontent-length: {}\r\n", body.len());
    if !headers.iter().any(|(name, _)| *name == "host") {
        head.push_str("host: localhost\r\n");
    }
    for (name, value) in headers {
        write!(head, "{name}: {value}\r\n").unwrap();
    }
    head.push_str("\r\n");
    [head.as_bytes(), body].concat()
}

/// What a service answered.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }
}

/// Reads one answer and leaves what follows.
pub(crate) fn read_reply(reader: &mut impl BufRead) -> Reply {
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    let status = head[0].split(' ').nth(1).unwrap().parse().unwrap();
    let headers: Vec<(String, String)> = head[1..]
        .iter()
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let mut reply = Reply { status, headers, body: String::new() };
    let length = reply.header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    reply.body = text(&body);
    reply
}
