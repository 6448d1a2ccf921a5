//! Owns [`Launch`]: how a server is to be started, again and again.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::RedisServer;
use super::fake_time::FakeTime;
use super::log::Log;
use crate::folder::Folder;
use crate::port::Port;
use crate::tls::Tls;

/// Who looks after a server that has users.
pub(super) const KEEPER: &str = "testkit";

/// What the file of a sentinel is called.
pub(super) const MIND: &str = "sentinel.conf";

/// What a server is started with.
#[derive(Debug)]
pub struct Launch {
    pub(super) program: OsString,
    args: Vec<String>,
    pub(super) port: Option<Port>,
    /// Where nodes of a cluster talk to each other.
    pub(super) bus: Option<Port>,
    /// A file that a sentinel keeps its mind in.
    pub(super) mind: Option<String>,
    pub(super) password: Option<String>,
    pub(super) has_users: bool,
    pub(super) has_tls: bool,
    pub(super) fakes_time: bool,
}

impl Launch {
    /// A server of `program` on a free port of loopback, with nothing kept on disk.
    #[must_use]
    pub fn new(program: impl AsRef<Path>) -> Self {
        Self {
            program: program.as_ref().into(),
            args: Vec::new(),
            port: None,
            bus: None,
            mind: None,
            password: None,
            has_users: false,
            has_tls: false,
            fakes_time: false,
        }
    }

    /// Adds arguments, such as `--maxmemory 2mb` in two.
    #[must_use]
    pub fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }

    /// Listens on a port that was reserved before.
    #[must_use]
    pub fn on(mut self, port: Port) -> Self {
        self.port = Some(port);
        self
    }

    /// Asks everybody for this password.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.args(&["--requirepass", password])
    }

    /// Adds a user who may do what `rules` say, such as `~rl:* +@all -@dangerous`.
    #[must_use]
    pub fn user(mut self, name: &str, password: &str, rules: &str) -> Self {
        self.has_users = true;
        let password = format!(">{password}");
        let rules: Vec<&str> = rules.split_whitespace().collect();
        self.args(&[&["--user", name, "on", &password], rules.as_slice()].concat())
    }

    /// Speaks TLS on its port, and nothing else.
    #[must_use]
    pub fn tls(mut self, tls: &Tls) -> Self {
        self.has_tls = true;
        let text = |path: &Path| path.display().to_string();
        self.args(&["--tls-auth-clients", "optional"])
            .args(&["--tls-cert-file", &text(tls.certificate())])
            .args(&["--tls-key-file", &text(tls.key())])
            .args(&["--tls-ca-cert-file", &text(tls.ca())])
    }

    /// Makes it a node of a cluster that has no other yet.
    pub fn cluster(mut self) -> Result<Self, String> {
        // By itself it would take the port ten thousand above, which others get by chance.
        let bus = Port::reserve()?;
        let number = bus.number().to_string();
        self.bus = Some(bus);
        Ok(self.args(&["--cluster-enabled", "yes", "--cluster-port", &number]))
    }

    /// Makes it a sentinel that begins with these settings, a line for each.
    #[must_use]
    pub fn sentinel(mut self, settings: &str) -> Self {
        self.mind = Some(settings.to_owned());
        self
    }

    /// Lets the test move the server's wall clock.
    #[must_use]
    pub fn fake_time(mut self) -> Self {
        self.fakes_time = true;
        self
    }

    /// Starts the server. Returns when it takes connections.
    pub fn start(self) -> Result<RedisServer, String> {
        RedisServer::launch(self)
    }

    /// Starts the process. It has said nothing yet.
    pub(super) fn spawn(
        &self,
        port: u16,
        folder: &Folder,
        time: Option<&FakeTime>,
        further: &[&str],
    ) -> Result<(Child, Log), String> {
        let mut command = Command::new(&self.program);
        if let Some(time) = time {
            time.apply(&mut command);
        }
        if self.mind.is_some() {
            command.arg(folder.path().join(MIND)).arg("--sentinel");
        }
        let port = port.to_string();
        match self.has_tls {
            true => command.args(["--port", "0", "--tls-port", &port]),
            false => command.args(["--port", &port]),
        };
        if self.has_users {
            command.args(["--user", KEEPER, "on", "nopass", "~*", "&*", "+@all"]);
        }
        let mut child = command
            .args(["--bind", "127.0.0.1", "--unixsocket", "socket", "--dir"])
            .arg(folder.path())
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no", "--logfile", ""])
            .args(&self.args)
            .args(further)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{} cannot be started: {error}", self.program.display()))?;
        let log = child.stdout.take().map(Log::of).ok_or("the server has no output")?;
        Ok((child, log))
    }
}
