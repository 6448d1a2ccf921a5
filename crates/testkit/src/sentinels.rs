//! Owns [`Sentinels`]: a master, two replicas and three sentinels that watch them, which end when
//! the guard does.

use std::path::Path;
use std::time::Duration;

use crate::moment::until;
use crate::port::Port;
use crate::redis_server::{Launch, RedisServer};
use crate::resp::Connection;
use crate::together::all;

/// How long anything may take that must come.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a master may be silent before a sentinel takes it to be down.
const DOWN_AFTER_MS: u64 = 700;

/// What the sentinels call the master.
pub const MASTER: &str = "mymaster";

/// How many servers, and how many sentinels.
const COUNT: usize = 3;

/// A master, its replicas and their sentinels.
#[derive(Debug)]
pub struct Sentinels {
    /// The servers, of which the first is the master at first.
    pub servers: Vec<RedisServer>,
    /// The sentinels.
    pub sentinels: Vec<RedisServer>,
    password: String,
    sentinel_password: String,
}

impl Sentinels {
    /// Starts all of them, on free ports of loopback. Returns when they know each other.
    pub fn start(program: impl AsRef<Path>) -> Result<Self, String> {
        Self::with_passwords(program, "", "")
    }

    /// The same with a password of the servers and one of the sentinels; an empty one is none.
    pub fn with_passwords(
        program: impl AsRef<Path>,
        password: &str,
        sentinel_password: &str,
    ) -> Result<Self, String> {
        let program = program.as_ref();
        let ports = (0..COUNT).map(|_| Port::reserve()).collect::<Result<Vec<_>, _>>()?;
        let numbers: Vec<u16> = ports.iter().map(Port::number).collect();
        let master = numbers[0].to_string();
        let launches = ports.into_iter().enumerate().map(|(nth, port)| {
            let launch = Launch::new(program).on(port).args(&["--repl-diskless-sync-delay", "0"]);
            let launch = match password {
                "" => launch,
                password => launch.password(password).args(&["--masterauth", password]),
            };
            match nth {
                0 => launch,
                _ => launch.args(&["--replicaof", "127.0.0.1", &master]),
            }
        });
        let servers = all(launches.map(|launch| move || launch.start()))?;
        let sentinels = sentinels(program, &numbers, password, sentinel_password)?;
        let set = Self {
            servers,
            sentinels,
            password: password.to_owned(),
            sentinel_password: sentinel_password.to_owned(),
        };
        set.wait_until_ready()?;
        Ok(set)
    }

    /// The URL that names the sentinels and the master.
    #[must_use]
    pub fn url(&self) -> String {
        let login = match self.password.as_str() {
            "" => String::new(),
            password => format!(":{password}@"),
        };
        let query = match self.sentinel_password.as_str() {
            "" => String::new(),
            password => format!("?sentinel_password={password}"),
        };
        let hosts: Vec<String> = self
            .sentinels
            .iter()
            .map(|sentinel| format!("127.0.0.1:{}", sentinel.port()))
            .collect();
        format!("redis+sentinel://{login}{}/{MASTER}{query}", hosts.join(","))
    }

    /// Which of the servers the sentinel of that number calls the master.
    pub fn master_of(&self, sentinel: usize) -> Result<usize, String> {
        let mut connection = Connection::tcp(self.sentinels[sentinel].port())?;
        if !self.sentinel_password.is_empty() {
            connection.call(&["AUTH", &self.sentinel_password])?;
        }
        let place = connection.call(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER])?;
        let port = place.list().get(1).and_then(|port| port.integer()).ok_or("no master")?;
        let found = self.servers.iter().position(|server| i64::from(server.port()) == port);
        found.ok_or_else(|| format!("a stranger on port {port} is the master"))
    }

    /// Waits until all sentinels that answer call a server the master that is not `old`, and that
    /// server takes writes.
    pub fn wait_for_another(&self, old: usize) -> Result<usize, String> {
        let found = until(PATIENCE, || {
            let said: Vec<usize> = (0..COUNT).filter_map(|nth| self.master_of(nth).ok()).collect();
            let new = *said.first().filter(|new| **new != old)?;
            let takes_writes =
                || self.servers[new].command(&["ROLE"]).ok()?.list().first().cloned();
            let is_one = said.iter().all(|other| *other == new);
            (is_one && takes_writes()?.to_string() == "master").then_some(new)
        });
        found.ok_or_else(|| format!("no other master than {old} within {PATIENCE:?}"))
    }

    fn wait_until_ready(&self) -> Result<(), String> {
        let is_linked = |server: &RedisServer| {
            let info = server.command(&["INFO", "replication"]).ok();
            info.is_some_and(|info| info.to_string().contains("master_link_status:up"))
        };
        let is_ready = || {
            let watched = (0..COUNT).all(|nth| self.master_of(nth) == Ok(0));
            (watched && self.servers[1..].iter().all(is_linked)).then_some(())
        };
        until(PATIENCE, is_ready).ok_or_else(|| format!("no sentinels within {PATIENCE:?}"))
    }
}

/// Starts the sentinels. They are told of each other and of the replicas, since finding them takes
/// them ten seconds.
fn sentinels(
    program: &Path,
    servers: &[u16],
    password: &str,
    own_password: &str,
) -> Result<Vec<RedisServer>, String> {
    let ports = (0..COUNT).map(|_| Port::reserve()).collect::<Result<Vec<_>, _>>()?;
    let numbers: Vec<u16> = ports.iter().map(Port::number).collect();
    let launches = ports.into_iter().enumerate().map(|(nth, port)| {
        let mut lines = vec![
            format!("sentinel myid {}", id(nth)),
            format!("sentinel monitor {MASTER} 127.0.0.1 {} 2", servers[0]),
            format!("sentinel down-after-milliseconds {MASTER} {DOWN_AFTER_MS}"),
            format!("sentinel failover-timeout {MASTER} 6000"),
        ];
        if !password.is_empty() {
            lines.push(format!("sentinel auth-pass {MASTER} {password}"));
        }
        let known = |port: &u16| format!("sentinel known-replica {MASTER} 127.0.0.1 {port}");
        lines.extend(servers[1..].iter().map(known));
        for (other, port) in numbers.iter().enumerate().filter(|(other, _)| *other != nth) {
            let id = id(other);
            lines.push(format!("sentinel known-sentinel {MASTER} 127.0.0.1 {port} {id}"));
        }
        let launch = Launch::new(program).on(port).sentinel(&(lines.join("\n") + "\n"));
        match own_password {
            "" => launch,
            password => launch.password(password),
        }
    });
    all(launches.map(|launch| move || launch.start()))
}

/// Who a sentinel is: forty hex digits.
fn id(nth: usize) -> String {
    format!("{:040x}", nth + 1)
}
