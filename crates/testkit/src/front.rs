//! Owns [`Front`]: a real nginx, Caddy or Traefik in front of an app, on a port of its own, in a
//! folder of its own, without a daemon and without an admin port. It ends when the guard does.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::call::Call;
use crate::folder::Folder;
use crate::moment::until;
use crate::peers;
use crate::port::Port;

/// How long a proxy may take to start, on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(30);

/// What it is asked until it answers 200, from 127.0.0.1.
const PROBE: &str = "/ready";

/// Lines of the log that an error tells.
const TOLD_LINES: usize = 8;

/// Which proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// nginx, which asks with `auth_request`.
    Nginx,
    /// Caddy, which asks with `forward_auth`.
    Caddy,
    /// Traefik, which asks with its middleware `ForwardAuth`.
    Traefik,
}

/// A running proxy.
#[derive(Debug)]
pub struct Front {
    kind: Kind,
    child: Child,
    folder: Folder,
    port: Port,
}

impl Front {
    /// Starts a proxy. `configure` gets where it is to listen and writes its configuration. Returns
    /// when the app behind it answers a `GET` of `/ready` through it.
    pub fn start(kind: Kind, configure: impl Fn(SocketAddr) -> String) -> Result<Self, String> {
        let (folder, port) = (Folder::new()?, Port::reserve()?);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.number()));
        let child = kind.spawn(&folder, &configure(address), address)?;
        let mut front = Self { kind, child, folder, port };
        front.wait().map_err(|error| format!("{kind:?}: {error}; {}", front.log()))?;
        Ok(front)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port.number()))
    }

    /// The last lines that it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        let text = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(TOLD_LINES).collect();
        format!("its last lines, latest first: {lines:#?}")
    }

    fn wait(&mut self) -> Result<(), String> {
        let address = self.address();
        let mut last = String::new();
        let done = until(PATIENCE, || {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(Err(format!("ended with {status}")));
            }
            match Call::get(PROBE).send(address) {
                Ok(answer) if answer.status == 200 => return Some(Ok(())),
                Ok(answer) => last = format!("answered {}: {}", answer.status, answer.body),
                Err(error) => last = error,
            }
            None
        });
        done.unwrap_or_else(|| Err(format!("is not ready: {last}")))
    }
}

impl Kind {
    fn program(self) -> Result<PathBuf, String> {
        match self {
            Self::Nginx => peers::nginx(),
            Self::Caddy => peers::caddy(),
            Self::Traefik => peers::traefik(),
        }
    }

    fn spawn(self, folder: &Folder, config: &str, at: SocketAddr) -> Result<Child, String> {
        let program = self.program()?;
        let mut command = Command::new(&program);
        match self {
            Self::Nginx => {
                let config = folder.write("nginx.conf", config)?;
                command.arg("-p").arg(folder.path()).arg("-c").arg(config);
                command.args(["-g", "daemon off; error_log stderr notice;"]);
            }
            Self::Caddy => {
                let config = folder.write("Caddyfile", config)?;
                command.args(["run", "--adapter", "caddyfile", "--config"]).arg(config);
            }
            Self::Traefik => {
                // By the name of `traefik.yaml` it would be taken for its other configuration.
                let config = folder.write("dynamic.yaml", config)?;
                command
                    .args(["--global.checkNewVersion=false", "--global.sendAnonymousUsage=false"]);
                command.arg(format!("--entryPoints.web.address={at}"));
                command.arg(format!("--providers.file.filename={}", config.display()));
            }
        }
        let told = |error: std::io::Error| format!("{} cannot start: {error}", program.display());
        let log = File::create(folder.path().join("log")).map_err(told)?;
        command
            .current_dir(folder.path())
            // Caddy keeps its state under these.
            .env("HOME", folder.path())
            .env("XDG_CONFIG_HOME", folder.path())
            .env("XDG_DATA_HOME", folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(told)?)
            .stderr(log)
            .spawn()
            .map_err(told)
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        if self.kind == Kind::Nginx {
            // A master that is asked to end takes its workers along; one that is killed leaves them.
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
            if until(PATIENCE, || self.child.try_wait().ok().flatten()).is_some() {
                return;
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
