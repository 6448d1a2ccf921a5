//! The gateway before an app that keeps what it is sent, over sockets.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tollkeeper_policy::Policy;

use crate::Server;

/// How long a test waits for what should come.
const PATIENCE: Duration = Duration::from_secs(30);

/// A gateway, until it is dropped, and the heads that its app was sent.
struct Gateway {
    address: std::net::SocketAddr,
    heads: UnboundedReceiver<String>,
    _stop: oneshot::Sender<()>,
}

impl Gateway {
    /// One before an app that agrees to every protocol that it is asked for.
    async fn start(rules: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let app = listener.local_addr().unwrap();
        let (told, heads) = unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, told.clone()));
            }
        });
        let policy = format!(
            "listen: {{ gateway: \"127.0.0.1:0\" }}\nupstream: http://{app}\nrules: {rules}"
        );
        let server = Server::bind(Policy::parse(&policy, &|_| None).unwrap()).await.unwrap();
        let address = server.addresses().unwrap().gateway.unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(server.run(async {
            let _ = stopped.await;
        }));
        Self { address, heads, _stop: stop }
    }

    /// What is answered to a request, up to the end of its head.
    async fn send(&self, head: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        head_of(&mut stream).await
    }

    /// What the app was sent last.
    async fn told(&mut self) -> String {
        timeout(PATIENCE, self.heads.recv()).await.unwrap().unwrap().to_ascii_lowercase()
    }
}

async fn answer(mut stream: TcpStream, told: UnboundedSender<String>) {
    let head = head_of(&mut stream).await;
    let lower = head.to_ascii_lowercase();
    let upgrade = lower.lines().find_map(|line| line.strip_prefix("upgrade: "));
    let answer = match upgrade {
        Some(protocol) => format!(
            "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: {protocol}\r\n\r\n"
        ),
        None => "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned(),
    };
    let _ = told.send(head);
    let _ = stream.write_all(answer.as_bytes()).await;
    // A tunnel stays open until its client goes.
    let _ = stream.read(&mut [0]).await;
}

async fn head_of(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let reading = async {
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => break,
            }
        }
    };
    timeout(PATIENCE, reading).await.unwrap();
    String::from_utf8(head).unwrap()
}

/// After the app's 101 everything that came on the connection was passed on, and nothing counted.
#[tokio::test]
async fn http_2_is_no_way_around_the_limits() {
    let mut gateway = Gateway::start("{ r: { limit: 1000/s } }").await;
    let h2c = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\n\
               Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n";
    let unnamed = h2c.replace("Connection: Upgrade, HTTP2-Settings", "Connection: Upgrade");
    for head in [h2c, &unnamed] {
        let answered = gateway.send(head).await;
        assert!(answered.starts_with("HTTP/1.1 200 OK\r\n"), "{answered}");
        let told = gateway.told().await;
        for taken in ["h2c", "\r\nupgrade", "\r\nconnection", "http2-settings"] {
            assert!(!told.contains(taken), "`{taken}` in\n{told}");
        }
    }
    let both = h2c.replace("Upgrade: h2c", "Upgrade: h2c, WebSocket");
    for head in [h2c.replace("h2c", "websocket"), both] {
        let answered = gateway.send(&head).await;
        assert!(answered.starts_with("HTTP/1.1 101 "), "{answered}");
        assert!(answered.contains("upgrade: websocket\r\n"), "{answered}");
        let told = gateway.told().await;
        assert!(told.contains("upgrade: websocket\r\n") && !told.contains("h2"), "{told}");
    }
}

/// The rules went by the first, and the app was sent both.
#[tokio::test]
async fn a_request_to_two_hosts_is_refused() {
    let rules = "{ a: { match: { host: a.test }, limit: 1000/s } }";
    let mut gateway = Gateway::start(rules).await;
    for target in ["/", "http://a.test/"] {
        let head = format!("GET {target} HTTP/1.1\r\nHost: b.test\r\nX: y\r\nhost: a.test\r\n\r\n");
        let answered = gateway.send(&head).await;
        assert!(answered.starts_with("HTTP/1.1 400 "), "{answered}");
        assert!(answered.contains("application/problem+json"), "{answered}");
    }
    // The first that the app hears of is another request.
    let answered = gateway.send("GET /one HTTP/1.1\r\nHost: a.test\r\n\r\n").await;
    assert!(answered.starts_with("HTTP/1.1 200 "), "{answered}");
    let told = gateway.told().await;
    assert!(told.starts_with("get /one ") && told.contains("host: a.test\r\n"), "{told}");
}
