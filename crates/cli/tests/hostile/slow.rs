//! People who send a byte at a time, people who never read, and a flood of nonsense, all at once.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{interval, timeout};

use crate::alone;
use crate::client::{LIMIT, Regular, now, p99, policy, until};
use crate::flood::Flood;
use crate::kit::Service;
use crate::process::raise_open_files;

const SLOW_HEADS: usize = 500;
const SLOW_BODIES: usize = 500;
const NON_READERS: usize = 10;
const FLOODERS: usize = 2;

/// What the service waits for a head, a body, and for somebody to take an answer.
const HEAD_PATIENCE: Duration = Duration::from_secs(5);
const BODY_PATIENCE: Duration = Duration::from_secs(10);
const WRITE_PATIENCE: Duration = Duration::from_secs(10);

/// What a connection can make the service hold: a head, a single call's body, and the answer to a
/// full batch.
const CONNECTION_BYTES: usize = 32 * 1024 + 64 * 1024;
const ANSWER_BYTES: usize = 1024 * 1024;

const HEAD: &[u8] = b"POST /v1/check HTTP/1.1\r\nhost: localhost\r\nx-long: ";

/// What was told, and after how long.
type Ended = (String, Duration);

/// Sends `first` at once and then a byte at a time, for as long as the service listens.
async fn drip(address: SocketAddr, first: &'static [u8]) -> Ended {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let begun = now();
    stream.write_all(first).await.unwrap();
    let (mut reader, mut writer) = stream.split();
    let sending = async {
        let mut pace = interval(Duration::from_millis(100));
        loop {
            pace.tick().await;
            if writer.write_all(b"a").await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    let mut told = Vec::new();
    tokio::select! {
        // A connection that is cut off is an end, too.
        _ = reader.read_to_end(&mut told) => {}
        () = sending => {}
    }
    (String::from_utf8_lossy(&told).into_owned(), begun.elapsed())
}

/// Asks for large answers, one after the other, and reads none of them.
async fn never_read(address: SocketAddr) -> Duration {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&address.into()).unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut stream = TcpStream::from_std(socket.into()).unwrap();
    let body = format!("{{\"checks\":[{}0]}}", "0,".repeat(999));
    let head = format!("content-length: {}\r\n\r\n", body.len());
    let ask = format!("POST /v1/check/batch HTTP/1.1\r\nhost: localhost\r\n{head}{body}");
    let begun = now();
    loop {
        if let Err(error) = stream.write_all(ask.as_bytes()).await {
            let kind = error.kind();
            assert!(matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error}");
            return begun.elapsed();
        }
    }
}

/// All of them, until the service has sent the last one away.
async fn crowd(address: SocketAddr) -> (Vec<Ended>, Vec<Ended>, Vec<Duration>) {
    let body = b"POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: 60000\r\n\r\n{\"key\":\"";
    let heads: Vec<_> = (0..SLOW_HEADS).map(|_| tokio::spawn(drip(address, HEAD))).collect();
    let bodies: Vec<_> = (0..SLOW_BODIES).map(|_| tokio::spawn(drip(address, body))).collect();
    let readers: Vec<_> = (0..NON_READERS).map(|_| tokio::spawn(never_read(address))).collect();
    let (mut a, mut b, mut c) = (Vec::new(), Vec::new(), Vec::new());
    for head in heads {
        a.push(head.await.unwrap());
    }
    for body in bodies {
        b.push(body.await.unwrap());
    }
    for reader in readers {
        c.push(reader.await.unwrap());
    }
    (a, b, c)
}

#[test]
fn the_slow_and_the_broken_are_sent_away_and_nobody_else_notices() {
    let _alone = alone();
    raise_open_files();
    let service = Service::start("slow", &policy(LIMIT));
    let address = service.address;
    let mut regular = Regular::new(address, "regular", LIMIT);
    let quiet = regular.asks(500);
    let (files, (memory, _), log) = (service.open_files(), service.memory(), service.log());

    let crowd = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { timeout(6 * BODY_PATIENCE, crowd(address)).await }).unwrap()
    });
    let flood = Flood::begin(address, FLOODERS);
    let mut among = Vec::new();
    while !crowd.is_finished() {
        among.extend(regular.asks(100));
    }
    let sent = flood.end();
    let (heads, bodies, readers) = crowd.join().unwrap();
    among.sort_unstable();

    // All answers were right, or `asks` had failed; and they came in time.
    let most = *among.last().unwrap();
    let (alone_p99, among_p99) = (p99(&quiet), p99(&among));
    let bound = 50 * alone_p99 + HEAD_PATIENCE / 50;
    assert!(sent > 100 && among.len() > 500, "{sent} bad requests, {} good ones", among.len());
    assert!(among_p99 <= bound, "{alone_p99:?} alone, {among_p99:?} among them");
    assert!(most < HEAD_PATIENCE, "nobody waits until others are sent away: {most:?}");

    // The slow are sent away when their time is up, whatever they do to seem alive.
    for (told, after) in heads {
        assert!(told.is_empty() || told.starts_with("HTTP/1.1 408"), "{told}");
        assert!(after < 2 * HEAD_PATIENCE, "a head took {after:?}");
    }
    for (told, after) in bodies {
        assert!(told.starts_with("HTTP/1.1 408"), "{told:?}");
        assert!(after < 2 * BODY_PATIENCE, "a body took {after:?}");
    }
    for after in readers {
        assert!(after < 3 * WRITE_PATIENCE, "who does not read was kept for {after:?}");
    }

    // What they could make the service hold is bounded, and given back.
    let connections = SLOW_HEADS + SLOW_BODIES + NON_READERS + FLOODERS + 1;
    let most_bytes = memory + connections * CONNECTION_BYTES + NON_READERS * ANSWER_BYTES;
    let (_, peak) = service.memory();
    assert!(peak <= most_bytes, "{memory} bytes, then {peak}; at most {most_bytes}");
    until("its files are closed", || service.open_files() <= files);
    assert_eq!(service.log(), log, "none of it is worth a word");
    let after_p99 = p99(&regular.asks(500));
    assert!(after_p99 <= bound, "{alone_p99:?} before, {after_p99:?} after");
}
