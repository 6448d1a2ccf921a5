//! Owns [`Connection`]: commands for a Redis server, one after the other, with a bound on every
//! wait. It speaks just enough of the protocol to look after a server, and shares nothing with the
//! client under test.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long a server may take for one answer.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Longer texts and lists are no answer to an admin's question.
const MAX_LENGTH: usize = 64 << 20;
const MAX_DEPTH: usize = 8;

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing of that name.
    Nil,
    /// A whole number.
    Integer(i64),
    /// A status or a text.
    Text(String),
    /// Several answers.
    List(Vec<Reply>),
}

impl Reply {
    /// The number, also where it is written as text.
    #[must_use]
    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            Self::Text(text) => text.parse().ok(),
            Self::Nil | Self::List(_) => None,
        }
    }

    /// The parts of a list; none of anything else.
    #[must_use]
    pub fn list(&self) -> &[Reply] {
        match self {
            Self::List(parts) => parts,
            _ => &[],
        }
    }
}

/// As `redis-cli` writes it: a list takes one line for each part.
impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => Ok(()),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
            Self::List(parts) => {
                for (nth, part) in parts.iter().enumerate() {
                    let between = if nth == 0 { "" } else { "\n" };
                    write!(f, "{between}{part}")?;
                }
                Ok(())
            }
        }
    }
}

trait Stream: Read + Write + Send {}
impl<S: Read + Write + Send> Stream for S {}

/// A connection to a server.
pub struct Connection(BufReader<Box<dyn Stream>>);

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connection")
    }
}

impl Connection {
    /// Connects to a port of loopback.
    pub fn tcp(port: u16) -> Result<Self, String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let connect = || {
            let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            stream.set_nodelay(true)?;
            Ok(Self(BufReader::new(Box::new(stream))))
        };
        connect().map_err(|error: std::io::Error| format!("{address}: {error}"))
    }

    /// Connects to a socket on disk.
    pub fn unix(path: &Path) -> Result<Self, String> {
        let connect = || {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(Self(BufReader::new(Box::new(stream))))
        };
        connect().map_err(|error: std::io::Error| format!("{}: {error}", path.display()))
    }

    /// Sends one command and waits for its answer. What the server refuses is an error that begins
    /// with the server's code.
    pub fn call(&mut self, parts: &[&str]) -> Result<Reply, String> {
        self.call_all(&[parts])?.pop().unwrap_or_else(|| Err("no answer came".to_owned()))
    }

    /// Sends several commands at once; one answer or refusal for each, in order.
    pub fn call_all(&mut self, commands: &[&[&str]]) -> Result<Vec<Result<Reply, String>>, String> {
        let mut bytes = Vec::new();
        for parts in commands {
            bytes.extend(format!("*{}\r\n", parts.len()).bytes());
            for part in *parts {
                bytes.extend(format!("${}\r\n{part}\r\n", part.len()).bytes());
            }
        }
        let sent = self.0.get_mut().write_all(&bytes).and_then(|()| self.0.get_mut().flush());
        sent.map_err(|error| format!("not sent: {error}"))?;
        commands.iter().map(|_| self.read(MAX_DEPTH)).collect()
    }

    /// Waits for what the server says unasked.
    pub fn hear(&mut self) -> Result<Reply, String> {
        self.read(MAX_DEPTH)?
    }

    /// The outer error is a broken connection, the inner one the server's.
    fn read(&mut self, depth: usize) -> Result<Result<Reply, String>, String> {
        let line = self.read_line()?;
        let (kind, rest) = line.split_at_checked(1).ok_or("an empty line came")?;
        Ok(Ok(match kind {
            "+" => Reply::Text(rest.to_owned()),
            "-" => return Ok(Err(rest.to_owned())),
            ":" => Reply::Integer(rest.parse().map_err(|_| format!("no number: {line}"))?),
            "$" => match length(rest)? {
                Some(length) => Reply::Text(self.read_text(length)?),
                None => Reply::Nil,
            },
            "*" => match length(rest)? {
                Some(_) if depth == 0 => return Err("lists too deep".to_owned()),
                Some(length) => {
                    let part = |_| match self.read(depth - 1)? {
                        Ok(part) => Ok(part),
                        Err(refusal) => Ok(Reply::Text(refusal)),
                    };
                    Reply::List((0..length).map(part).collect::<Result<_, String>>()?)
                }
                None => Reply::Nil,
            },
            _ => return Err(format!("no answer: {line}")),
        }))
    }

    fn read_line(&mut self) -> Result<String, String> {
        let mut line = Vec::new();
        let read = self.0.by_ref().take(MAX_LENGTH as u64).read_until(b'\n', &mut line);
        read.map_err(|error| format!("no answer: {error}"))?;
        match line.strip_suffix(b"\r\n") {
            Some(line) => Ok(String::from_utf8_lossy(line).into_owned()),
            None => Err("the server closed the connection".to_owned()),
        }
    }

    fn read_text(&mut self, length: usize) -> Result<String, String> {
        let mut bytes = vec![0; length + 2];
        self.0.read_exact(&mut bytes).map_err(|error| format!("half an answer: {error}"))?;
        bytes.truncate(length);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// A length on the wire; -1 says that there is nothing.
fn length(text: &str) -> Result<Option<usize>, String> {
    match text.parse::<i64>() {
        Ok(-1) => Ok(None),
        Ok(length) => match usize::try_from(length) {
            Ok(length) if length <= MAX_LENGTH => Ok(Some(length)),
            _ => Err(format!("a length of {length}")),
        },
        Err(_) => Err(format!("no length: {text}")),
    }
}
