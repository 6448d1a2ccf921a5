//! Requests that are no requests, as many as go.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::client::PATIENCE;

/// What is sent, and the statuses that it is told; none if the connection may just end.
type Bad = (Vec<u8>, &'static [u16]);

fn bad() -> Vec<Bad> {
    let post = |head: &str, body: &[u8]| {
        let head = format!("POST /v1/check HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{head}\r\n");
        [head.as_bytes(), body].concat()
    };
    let sized = |body: &[u8]| post(&format!("content-length: {}\r\n", body.len()), body);
    let many_headers = "x: y\r\n".repeat(200);
    let good = b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";
    let line = |text: &str| format!("{text}\r\nhost: a\r\nconnection: close\r\n\r\n").into_bytes();
    vec![
        // Broken HTTP.
        (b"\0\0\0\0\r\n\r\n".to_vec(), &[400]),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec(), &[400]),
        (b"this is not HTTP\r\n\r\n".to_vec(), &[400]),
        (line("GET / HTTP/9.9"), &[400]),
        (line("GET /healthz HTTP/1.1\r\nno colon"), &[400]),
        (post("content-length: -1\r\n", b"{}"), &[400]),
        (post("content-length: 2\r\ncontent-length: 3\r\n", b"{}"), &[400]),
        (post("transfer-encoding: chunked\r\n", b"zz\r\n{}\r\n0\r\n\r\n"), &[400]),
        // Huge heads: one long line, many lines. Who still sends may miss the answer.
        (format!("GET / HTTP/1.1\r\nx: {}", "a".repeat(200_000)).into_bytes(), &[]),
        (format!("GET / HTTP/1.1\r\n{many_headers}\r\n").into_bytes(), &[431]),
        (line(&format!("GET /{} HTTP/1.1", "a".repeat(20_000))), &[404]),
        // Huge bodies: sent, and announced.
        (sized(&vec![b' '; 200_000]), &[413]),
        (post("content-length: 1000000000000000\r\n", b"{}"), &[413]),
        // Bodies that are no check.
        (sized(b"{\"key\":"), &[400]),
        (sized(&b"[".repeat(60_000)), &[400]),
        (sized(b"{\"rule\":\"api\",\"key\":\"x\",\"cost\":-1}"), &[400]),
        (sized(b"\xff\xfe\xfd"), &[400]),
        // Wrong methods and places.
        (line("DELETE /v1/check HTTP/1.1"), &[405]),
        (line("OPTIONS * HTTP/1.1"), &[404]),
        (line("GET /nowhere HTTP/1.1"), &[404]),
        // Garbage behind a good request.
        ([good.as_slice(), good, b"\r\n\0garbage\r\n\r\n"].concat(), &[200, 200, 400]),
    ]
}

/// Somebody who sends bad requests, one connection each, until told to stop.
pub(crate) struct Flood {
    stop: Arc<AtomicBool>,
    senders: Vec<JoinHandle<usize>>,
}

impl Flood {
    pub(crate) fn begin(address: SocketAddr, senders: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let sender = |_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let mut sent = 0;
                for (bytes, expected) in bad().iter().cycle() {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let told = send(address, bytes);
                    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]);
                    assert!(told == *expected || expected.is_empty(), "{shown:?}: {told:?}");
                    sent += 1;
                }
                sent
            })
        };
        let senders = (0..senders).map(sender).collect();
        Self { stop, senders }
    }

    /// How many were sent.
    pub(crate) fn end(self) -> usize {
        self.stop.store(true, Ordering::SeqCst);
        self.senders.into_iter().map(|sender| sender.join().unwrap()).sum()
    }
}

/// The statuses of all that is answered until the connection ends.
fn send(address: SocketAddr, bytes: &[u8]) -> Vec<u16> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // Who is cut off while sending hears of it here, and has perhaps been told why.
    let _ = stream.write_all(bytes);
    let mut told = Vec::new();
    let _ = stream.read_to_end(&mut told);
    let told = String::from_utf8_lossy(&told);
    let heads = told.split("HTTP/1.1 ").skip(1);
    heads.map(|head| head[..3].parse().unwrap()).collect()
}
