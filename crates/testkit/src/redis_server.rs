//! A real redis-server (or valkey-server) on a free port, which ends when the guard does.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

/// A running server.
#[derive(Debug)]
pub struct RedisServer {
    child: Child,
    port: u16,
}

impl RedisServer {
    /// Starts `program` on a free port of loopback, with nothing on disk and with further `args`.
    /// Returns when it takes connections.
    pub fn start(program: &str, args: &[&str]) -> Result<Self, String> {
        // Between choosing a port and using it, somebody else may take it: then another is chosen.
        let mut last = String::new();
        for _ in 0..5 {
            match Self::try_start(program, args, free_port()?) {
                Ok(server) => return Ok(server),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn try_start(program: &str, args: &[&str], port: u16) -> Result<Self, String> {
        let mut child = Command::new(program)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no", "--logfile", ""])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{program} cannot be started: {error}"))?;
        let output = child.stdout.take().ok_or("the server has no output")?;
        let mut lines = BufReader::new(output).lines();
        let ready = lines
            .by_ref()
            .map_while(Result::ok)
            .any(|line| line.to_lowercase().contains("ready to accept connections"));
        let server = Self { child, port };
        if !ready {
            return Err(format!("{program} ended before it was ready on port {port}"));
        }
        // Somebody must read on, or the server would block when the pipe is full.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Ok(server)
    }

    /// The URL of the server.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The server's process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> Result<u16, String> {
    let bound = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    bound.map(|address| address.port()).map_err(|error| error.to_string())
}
