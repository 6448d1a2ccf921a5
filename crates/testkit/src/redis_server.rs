//! Owns [`RedisServer`]: a real redis-server or valkey-server on a port of its own, which can be
//! killed, stopped, restarted and asked, and which ends when the guard does.

mod fake_time;
mod launch;
mod log;

use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use self::fake_time::FakeTime;
pub use self::launch::Launch;
use self::log::Log;
use crate::folder::Folder;
use crate::port::Port;
use crate::resp::{Connection, Reply};

/// How long a server may take to start, on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a server says when it is ready, in whatever case.
const READY: &str = "ready to accept connections";
const LOADING: &str = "loading rdb produced by";
const SENTINEL_READY: &str = "sentinel id is";

/// Valkey reads the wall clock once in a millisecond, and counts on by its monotonic one.
const CLOCK_READ_EVERY: Duration = Duration::from_millis(2);

/// What keys begin with that are the testkit's own.
const OWN: &str = "testkit:";

/// Keys that one step of a scan asks for.
const SCAN_COUNT: &str = "500";

/// A running server, or one that was killed and can be restarted.
#[derive(Debug)]
pub struct RedisServer {
    launch: Launch,
    port: Port,
    folder: Folder,
    time: Option<FakeTime>,
    child: Child,
    log: Log,
    holds_others: AtomicBool,
}

impl RedisServer {
    /// Starts `program` on a free port of loopback, with nothing kept on disk and with further
    /// `args`. Returns when it takes connections. [`Launch`] knows more ways.
    pub fn start(program: impl AsRef<Path>, args: &[&str]) -> Result<Self, String> {
        Launch::new(program).args(args).start()
    }

    fn launch(mut launch: Launch) -> Result<Self, String> {
        let port = launch.port.take().map_or_else(Port::reserve, Ok)?;
        let folder = Folder::new()?;
        let time = launch.fakes_time.then(|| FakeTime::new(&folder)).transpose()?;
        if let Some(mind) = &launch.mind {
            folder.write(launch::MIND, mind)?;
        }
        let (child, log) = launch.spawn(port.number(), &folder, time.as_ref(), &[])?;
        let holds_others = AtomicBool::new(false);
        let server = Self { launch, port, folder, time, child, log, holds_others };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// The URL of the server, with its password if it has one.
    #[must_use]
    pub fn url(&self) -> String {
        let password = self.launch.password.as_ref();
        let login = password.map_or_else(String::new, |text| format!(":{}@", escaped(text)));
        self.url_of(&login)
    }

    /// The URL for a user.
    #[must_use]
    pub fn url_as(&self, user: &str, password: &str) -> String {
        self.url_of(&format!("{}:{}@", escaped(user), escaped(password)))
    }

    fn url_of(&self, login: &str) -> String {
        let scheme = if self.launch.has_tls { "rediss" } else { "redis" };
        format!("{scheme}://{login}127.0.0.1:{}", self.port())
    }

    /// The URL of the socket on disk, on which every server listens too.
    #[must_use]
    pub fn unix_url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    /// The socket on disk.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// The port, the same after each restart.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The port on which a node of a cluster hears from the others; 0 if it is none.
    #[must_use]
    pub fn bus_port(&self) -> u16 {
        self.launch.bus.as_ref().map_or(0, Port::number)
    }

    /// The server's process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the server as a power cut would, and waits until it is gone. A stopped one, too.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Kills the server if it runs and starts it again as before, with nothing in it. Returns when
    /// it takes connections.
    pub fn restart(&mut self) -> Result<(), String> {
        let _ = std::fs::remove_file(self.folder.path().join("dump.rdb"));
        self.respawn(&[])?;
        self.wait_until_ready()
    }

    /// Restarts the server with what it holds now.
    pub fn restart_keeping(&mut self) -> Result<(), String> {
        self.save_and_end()?;
        self.respawn(&[])?;
        self.wait_for(READY)
    }

    /// Restarts the server with so much to load that it answers nothing but `LOADING` for half a
    /// minute, or until [`finish_loading`](Self::finish_loading). What it held is kept.
    pub fn restart_loading(&mut self) -> Result<(), String> {
        let mut keeper = self.keeper()?;
        let fill = "for n = 1, 6000 do \
            redis.call('SET', 'testkit:filler:' .. n, string.rep('x', 1024), 'EX', 3600) end";
        // Events are handled once for each so many bytes of the file.
        keeper.call(&["CONFIG", "SET", "rdbcompression", "no"])?;
        keeper.call(&["EVAL", fill, "0"])?;
        self.save_and_end()?;
        let slow = ["--key-load-delay", "5000", "--loading-process-events-interval-bytes", "1024"];
        self.respawn(&slow)?;
        self.wait_for(LOADING)
    }

    /// Lets a server that loads come to an end. Returns when it takes commands.
    pub fn finish_loading(&self) -> Result<(), String> {
        self.command(&["CONFIG", "SET", "key-load-delay", "0"])?;
        self.wait_for(READY)
    }

    /// Freezes the server: it keeps its connections and answers nothing. Returns when it is frozen.
    pub fn stop(&self) -> Result<(), String> {
        let pid = Pid::from_child(&self.child);
        // Seen and left to be seen again: the child is std's to wait for.
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let status = kill_process(pid, Signal::STOP)
            .and_then(|()| waitid(WaitId::Pid(pid), stopped))
            .map_err(|error| format!("process {} cannot be stopped: {error}", self.pid()))?;
        match status.is_some_and(|status| status.stopped()) {
            true => Ok(()),
            false => Err(format!("process {} has ended", self.pid())),
        }
    }

    /// Lets a frozen server go on.
    pub fn cont(&self) -> Result<(), String> {
        kill_process(Pid::from_child(&self.child), Signal::CONT)
            .map_err(|error| format!("process {} cannot go on: {error}", self.pid()))
    }

    /// Moves the wall clock of a server that was launched with [`Launch::fake_time`] to `offset_us`
    /// from the real time. Returns when its next command goes by it.
    #[expect(clippy::disallowed_methods, reason = "it is the real server that must go on")]
    pub fn set_clock_offset_us(&self, offset_us: i64) -> Result<(), String> {
        let time = self.time.as_ref().ok_or("the server was not launched with fake time")?;
        time.set(&self.folder, offset_us)?;
        let mut keeper = self.keeper()?;
        let begun = Instant::now();
        while begun.elapsed() < CLOCK_READ_EVERY {
            keeper.call(&["PING"])?;
        }
        Ok(())
    }

    /// Sends one command over the socket on disk, as somebody who may do everything. A refusal is
    /// an error that begins with the server's code.
    pub fn command(&self, parts: &[&str]) -> Result<Reply, String> {
        self.keeper()?.call(parts)
    }

    /// A connection of its own, as somebody who may do everything.
    pub fn keeper(&self) -> Result<Connection, String> {
        let mut connection = Connection::unix(&self.socket())?;
        if self.launch.has_users {
            connection.call(&["AUTH", launch::KEEPER, "any"])?;
        } else if let Some(password) = &self.launch.password {
            connection.call(&["AUTH", password])?;
        }
        Ok(connection)
    }

    /// Says that the test writes keys itself that may stay.
    pub fn holds_others(&self) {
        self.holds_others.store(true, Ordering::Relaxed);
    }

    /// The keys that would stay for ever.
    pub fn keys_without_ttl(&self) -> Result<Vec<String>, String> {
        let mut keeper = self.keeper()?;
        let mut found = Vec::new();
        let mut cursor = "0".to_owned();
        loop {
            let page = keeper.call(&["SCAN", &cursor, "COUNT", SCAN_COUNT])?;
            let [next, keys] = page.list() else { return Err(format!("no page: {page}")) };
            let keys: Vec<String> = keys.list().iter().map(ToString::to_string).collect();
            let asked: Vec<[&str; 2]> = keys.iter().map(|key| ["PTTL", key.as_str()]).collect();
            let asked: Vec<&[&str]> = asked.iter().map(|parts| parts.as_slice()).collect();
            for (key, ttl) in keys.iter().zip(keeper.call_all(&asked)?) {
                if ttl? == Reply::Integer(-1) {
                    found.push(key.clone());
                }
            }
            cursor = next.to_string();
            if cursor == "0" {
                return Ok(found);
            }
        }
    }

    /// Ends the server with all that it has ever answered on disk: were it saved and then killed, what is
    /// written in between would be lost though its writer was told that it was done.
    fn save_and_end(&self) -> Result<(), String> {
        match self.command(&["SHUTDOWN", "SAVE"]) {
            Err(refusal) if refusal.starts_with("ERR") => Err(refusal),
            // It says nothing any more.
            _ => Ok(()),
        }
    }

    fn respawn(&mut self, further: &[&str]) -> Result<(), String> {
        self.kill();
        let port = self.port();
        (self.child, self.log) =
            self.launch.spawn(port, &self.folder, self.time.as_ref(), further)?;
        Ok(())
    }

    fn wait_until_ready(&self) -> Result<(), String> {
        self.wait_for(if self.launch.mind.is_some() { SENTINEL_READY } else { READY })
    }

    fn wait_for(&self, words: &str) -> Result<(), String> {
        self.log.wait_for(words, PATIENCE).map_err(|error| {
            format!("{} on port {}: {error}", self.launch.program.display(), self.port())
        })
    }
}

/// A text as it stands in a URL.
fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

impl Drop for RedisServer {
    /// Nothing that a test has made may stay for ever, whatever the test was about.
    fn drop(&mut self) {
        let is_asked = !std::thread::panicking() && !*self.holds_others.get_mut();
        // One that is dead or frozen has nothing to say.
        let mut kept =
            if is_asked { self.keys_without_ttl().unwrap_or_default() } else { Vec::new() };
        kept.retain(|key| !key.starts_with(OWN));
        self.kill();
        assert!(kept.is_empty(), "keys that stay for ever: {kept:?}");
    }
}
