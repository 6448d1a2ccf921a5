//! Many connections, each with one request under way at a time.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tollkeeper_testkit::dice::Dice;

pub(super) struct Load {
    runtime: Runtime,
    connections: Vec<std::sync::Arc<Mutex<Connection>>>,
}

/// What is asked of a server.
#[derive(Clone, Copy)]
pub(super) enum Ask {
    /// A check by the name of a rule.
    Check,
    /// What throttlecrab calls a check: it comes with its limit.
    Throttle,
    /// A file, by whoever stands in the query.
    Get,
}

impl Ask {
    /// The request for the nth key.
    fn request(self, nth: u64) -> String {
        let (path, body) = match self {
            Self::Check => ("/v1/check", format!("{{\"rule\":\"api\",\"key\":\"user-{nth}\"}}")),
            Self::Throttle => (
                "/throttle",
                format!(
                    "{{\"key\":\"user-{nth}\",\"max_burst\":1000000,\"count_per_period\":1000000,\"period\":1}}"
                ),
            ),
            Self::Get => {
                return format!("GET /check?key=user-{nth} HTTP/1.1\r\nhost: localhost\r\n\r\n");
            }
        };
        let bytes = body.len();
        format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {bytes}\r\n\r\n{body}"
        )
    }
}

struct Connection {
    stream: TcpStream,
    ask: Ask,
    dice: Dice,
    keys: u64,
}

impl Load {
    pub(super) fn connect(address: SocketAddr, ask: Ask, connections: u64, keys: u64) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let connections = runtime.block_on(async {
            let mut all = Vec::new();
            for seed in 0..connections {
                let stream = TcpStream::connect(address).await.unwrap();
                stream.set_nodelay(true).unwrap();
                let connection = Connection { stream, ask, dice: Dice::new(seed + 1), keys };
                all.push(std::sync::Arc::new(Mutex::new(connection)));
            }
            all
        });
        Self { runtime, connections }
    }

    /// Sends so many requests, over all connections together; returns what each waited.
    pub(super) fn run(&self, requests: u64) -> Vec<Duration> {
        let each = requests / self.connections.len() as u64;
        self.runtime.block_on(async {
            let mut callers = JoinSet::new();
            for connection in &self.connections {
                let connection = std::sync::Arc::clone(connection);
                callers.spawn(async move { connection.lock().await.ask(each).await });
            }
            callers.join_all().await.into_iter().flatten().collect()
        })
    }
}

impl Connection {
    async fn ask(&mut self, times: u64) -> Vec<Duration> {
        let mut waits = Vec::new();
        let mut buffer = vec![0; 4096];
        for _ in 0..times {
            let request = self.ask.request(self.dice.below(self.keys));
            let begun = Instant::now();
            self.stream.write_all(request.as_bytes()).await.unwrap();
            self.read_answer(&mut buffer).await;
            waits.push(begun.elapsed());
        }
        waits
    }

    /// One answer comes in one piece, or in a few.
    async fn read_answer(&mut self, buffer: &mut [u8]) {
        let mut filled = 0;
        loop {
            let read = self.stream.read(&mut buffer[filled..]).await.unwrap();
            assert!(read > 0, "the server hung up");
            filled += read;
            let text = std::str::from_utf8(&buffer[..filled]).unwrap();
            assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let mut fields = head.lines().filter_map(|line| line.split_once(": "));
            let length = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
            if body.len() >= length.unwrap().1.parse().unwrap() {
                return;
            }
        }
    }
}
