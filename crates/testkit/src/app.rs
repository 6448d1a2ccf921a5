//! Owns [`App`]: what stands behind a proxy. It tells in its answer what it has got, and keeps it.
//!
//! `/status/403` is answered with that status. A request to upgrade is granted, and what follows it
//! is sent back.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde_json::{Value, json};

use crate::call::{read_chunks, read_exactly, read_head, read_headers};

/// A running app. Its connections end with their clients.
#[derive(Debug)]
pub struct App {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// A request that has come to an app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its method.
    pub method: String,
    /// What stood between method and version.
    pub target: String,
    /// Its headers, the names in lower case.
    pub headers: Vec<(String, String)>,
    /// How long its body was.
    pub body_bytes: usize,
}

impl App {
    /// Starts an app on a free port of loopback.
    pub fn start() -> Result<Self, String> {
        let told = |error: std::io::Error| format!("the app cannot listen: {error}");
        let listener = TcpListener::bind("127.0.0.1:0").map_err(told)?;
        let address = listener.local_addr().map_err(told)?;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let seen = Arc::clone(&shared);
                // Whatever ends a connection ends it alone.
                thread::spawn(move || drop(serve(&stream, &seen)));
            }
        });
        Ok(Self { address, seen })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has got since it was last asked.
    #[must_use]
    pub fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut lock(&self.seen))
    }
}

impl Seen {
    /// The first value of a header, whose name is in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn json(&self) -> Value {
        json!({
            "method": self.method,
            "target": self.target,
            "headers": self.headers,
            "body_bytes": self.body_bytes,
        })
    }

    fn status(&self) -> u16 {
        let wanted = self.target.strip_prefix("/status/");
        wanted.and_then(|status| status.parse().ok()).unwrap_or(200)
    }
}

fn lock(seen: &Mutex<Vec<Seen>>) -> MutexGuard<'_, Vec<Seen>> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers what comes on one connection, until it ends.
fn serve(mut stream: &TcpStream, seen: &Mutex<Vec<Seen>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let head = read_head(&mut reader)?;
        let Some(line) = head.first() else { return Ok(()) };
        let mut words = line.split(' ').map(str::to_owned);
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut got = Seen { method, target, headers: read_headers(&head[1..]), body_bytes: 0 };
        let length = got.header("content-length").and_then(|length| length.parse().ok());
        got.body_bytes = match got.header("transfer-encoding") {
            Some("chunked") => read_chunks(&mut reader)?.len(),
            _ => read_exactly(&mut reader, length.unwrap_or_default())?.len(),
        };
        lock(seen).push(got.clone());
        if got.header("upgrade").is_some() {
            stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\n")?;
            stream.write_all(b"connection: upgrade\r\nupgrade: websocket\r\n\r\n")?;
            return echo(&mut reader, stream);
        }
        let (status, body) = (got.status(), got.json().to_string());
        let head = format!("HTTP/1.1 {status} Told\r\ncontent-length: {}\r\n", body.len());
        let body = if got.method == "HEAD" { "" } else { &body };
        stream.write_all(format!("{head}x-app: here\r\n\r\n{body}").as_bytes())?;
    }
}

fn echo(reader: &mut impl Read, mut stream: &TcpStream) -> std::io::Result<()> {
    let mut buffer = [0; 1024];
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(()),
            length => stream.write_all(&buffer[..length])?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{Call, read_answer};

    #[test]
    fn it_tells_what_it_has_got_and_keeps_it() {
        let app = App::start().unwrap();
        let call =
            Call::new("POST", "//a%20b?c").header("x-a", "1").header("x-a", "").body(b"four");
        let answer = call.from(7).send(app.address()).unwrap();
        assert_eq!((answer.status, answer.header("x-app")), (200, Some("here")));
        let told = answer.json();
        assert_eq!((&told["method"], &told["target"]), (&"POST".into(), &"//a%20b?c".into()));
        assert_eq!((&told["body_bytes"], &told["headers"][3]), (&4.into(), &json!(["x-a", "1"])));
        let chunked = Call::get("/status/403").header("transfer-encoding", "chunked");
        let mut stream = chunked.open(app.address()).unwrap();
        stream.write_all(b"3\r\none\r\n0\r\n\r\n").unwrap();
        let answer = read_answer(&mut BufReader::new(stream), false).unwrap();
        assert_eq!((answer.status, &answer.json()["body_bytes"]), (403, &3.into()));
        let head = Call::new("HEAD", "/").send(app.address()).unwrap();
        assert_eq!((head.status, head.body.as_str()), (200, ""));
        let seen: Vec<String> = app.take().into_iter().map(|seen| seen.method).collect();
        assert_eq!(seen, ["POST", "GET", "HEAD"]);
        assert_eq!(app.take(), []);
    }
}
