//! Owns [`Client`]: somebody well-behaved, who keeps a connection, sends one request after the
//! other, and looks at each answer and at how long it took.

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::kit::{Reply, read_reply, request};

/// How long an answer may take before the test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Client {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { reader: BufReader::new(stream.try_clone().unwrap()), stream }
    }

    pub(crate) fn post(&mut self, path: &str, body: &str) -> Reply {
        self.stream.write_all(&request("POST", path, &[], body.as_bytes())).unwrap();
        read_reply(&mut self.reader)
    }
}

/// The time now, for what really takes time.
#[expect(clippy::disallowed_methods, reason = "a real service is timed, with a bound")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Looks until something holds.
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "it is not so: {what}");
    }
}

/// What a [`Regular`] can use up, which it does not live to do.
pub(crate) const LIMIT: u64 = 4_000_000_000;

/// A policy under which a [`Regular`] is told exactly what is left.
pub(crate) fn policy(limit: u64) -> String {
    format!("rules: {{ api: {{ fixed_window: {{ max_requests: {limit}, window_size: 300d }} }} }}")
}

/// A client that counts along: each answer must be the one that follows the last.
pub(crate) struct Regular {
    address: SocketAddr,
    key: &'static str,
    expected: u64,
}

impl Regular {
    pub(crate) fn new(address: SocketAddr, key: &'static str, limit: u64) -> Self {
        Self { address, key, expected: limit }
    }

    /// Sends so many requests, ten on each connection, and returns how long each took, the
    /// connecting included, in order of their length.
    pub(crate) fn asks(&mut self, times: usize) -> Vec<Duration> {
        let mut took = Vec::new();
        while took.len() < times {
            let mut begun = now();
            let mut client = Client::connect(self.address);
            for _ in 0..10 {
                self.ask(&mut client);
                took.push(begun.elapsed());
                begun = now();
            }
        }
        took.sort_unstable();
        took
    }

    fn ask(&mut self, client: &mut Client) {
        let reply = client.post("/v1/check", &format!(r#"{{"rule":"api","key":"{}"}}"#, self.key));
        self.expected -= 1;
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(reply.json()["remaining"], self.expected);
    }
}

/// Of sorted times, the one that 99 in 100 are within.
pub(crate) fn p99(took: &[Duration]) -> Duration {
    took[took.len() * 99 / 100]
}
