//! Owns [`Call`]: a request as its bytes, from an address of loopback that the test chooses, so that
//! one machine can be many clients. Nothing is normalised on its way.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;
use socket2::{Domain, Socket, Type};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request over HTTP/1.1.
#[derive(Clone, Debug)]
pub struct Call {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    from: Ipv4Addr,
}

/// What was answered.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl Call {
    /// A request for `target`, which is sent as it stands.
    #[must_use]
    pub fn new(method: &str, target: &str) -> Self {
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            from: Ipv4Addr::LOCALHOST,
        }
    }

    /// A `GET` of `target`.
    #[must_use]
    pub fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// Comes from `127.0.0.last`.
    #[must_use]
    pub fn from(mut self, last: u8) -> Self {
        self.from = Ipv4Addr::new(127, 0, 0, last);
        self
    }

    /// Adds a header, the same one again if need be.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends a body, too.
    #[must_use]
    pub fn body(mut self, body: &[u8]) -> Self {
        self.body = body.to_vec();
        self
    }

    /// Sends it on a connection of its own and reads the answer.
    pub fn send(&self, to: SocketAddr) -> Result<Answer, String> {
        let stream = self.open(to)?;
        read_answer(&mut BufReader::new(stream), self.method == "HEAD")
            .map_err(|error| format!("{} {}: {error}", self.method, self.target))
    }

    /// Sends it, and leaves the answer and the connection to the caller.
    pub fn open(&self, to: SocketAddr) -> Result<TcpStream, String> {
        self.connect(to)
            .and_then(|mut stream| stream.write_all(&self.bytes()).map(|()| stream))
            .map_err(|error| format!("{to} from {}: {error}", self.from))
    }

    fn connect(&self, to: SocketAddr) -> std::io::Result<TcpStream> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::new(IpAddr::V4(self.from), 0).into())?;
        socket.connect(&to.into())?;
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    fn bytes(&self) -> Vec<u8> {
        let has = |name: &str| self.headers.iter().any(|(known, _)| known == name);
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        if !has("host") {
            head.push_str("host: localhost\r\n");
        }
        if !has("connection") {
            head.push_str("connection: close\r\n");
        }
        if !self.body.is_empty() {
            let _ = write!(head, "content-length: {}\r\n", self.body.len());
        }
        for (name, value) in &self.headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        head.push_str("\r\n");
        [head.as_bytes(), &self.body].concat()
    }
}

impl Answer {
    /// The first value of a header, whose name is in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// How often a header is there.
    #[must_use]
    pub fn count(&self, name: &str) -> usize {
        self.headers.iter().filter(|(known, _)| known == name).count()
    }

    /// The body as JSON; `null` if it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

/// Reads one answer, and nothing that follows it.
pub fn read_answer(reader: &mut impl BufRead, headers_only: bool) -> Result<Answer, String> {
    let head = read_head(reader).map_err(|error| error.to_string())?;
    let status = head.first().and_then(|line| line.split(' ').nth(1)?.parse().ok());
    let status = status.ok_or_else(|| format!("no answer but {head:?}"))?;
    let headers = read_headers(&head[1..]);
    let mut answer = Answer { status, headers, body: String::new() };
    if headers_only || status < 200 || matches!(status, 204 | 304) {
        return Ok(answer);
    }
    let body = match (answer.header("content-length"), answer.header("transfer-encoding")) {
        (_, Some("chunked")) => read_chunks(reader),
        (Some(length), _) => read_exactly(reader, length.parse().unwrap_or_default()),
        _ => {
            let mut body = Vec::new();
            reader.read_to_end(&mut body).map(|_| body)
        }
    };
    let body = body.map_err(|error| error.to_string())?;
    answer.body = String::from_utf8_lossy(&body).into_owned();
    Ok(answer)
}

/// The lines of a head, without its end.
pub(crate) fn read_head(reader: &mut impl BufRead) -> std::io::Result<Vec<String>> {
    let mut lines = Vec::new();
    loop {
        let mut line = Vec::new();
        reader.read_until(b'\n', &mut line)?;
        match line.trim_ascii_end() {
            b"" => return Ok(lines),
            text => lines.push(String::from_utf8_lossy(text).into_owned()),
        }
    }
}

/// Names in lower case, and values.
pub(crate) fn read_headers(lines: &[String]) -> Vec<(String, String)> {
    let pairs = lines.iter().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect()
}

pub(crate) fn read_exactly(reader: &mut impl Read, length: usize) -> std::io::Result<Vec<u8>> {
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(body)
}

pub(crate) fn read_chunks(reader: &mut impl BufRead) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut size = String::new();
        reader.read_line(&mut size)?;
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or_default();
        let chunk = read_exactly(reader, size + 2)?;
        if size == 0 {
            return Ok(body);
        }
        body.extend_from_slice(&chunk[..size]);
    }
}
