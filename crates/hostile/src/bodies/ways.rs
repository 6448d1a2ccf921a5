//! Holds the short way of `/v1/check` beside the one through the router: what is asked by both gets
//! the same answer, however its body is framed and cut.

use axum::Router;
use axum::body::Body;
use http::{Request, Response};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::runtime::Runtime;
use tokio::task::yield_now;
use tollkeeper_policy::Policy;
use tower_service::Service;

/// The moment at which all is asked.
const NOW_US: u64 = 1_700_000_000_000_000;

/// How often the same is asked: the second answer tells what the first one did.
const ROUNDS: usize = 2;

/// What a connection holds on its way.
const ROOM: usize = 256 * 1024;

/// What belongs to a connection, and not to an answer.
const NOT_OF_THE_ANSWER: [&str; 3] = ["connection", "content-length", "date"];

/// How the other end learns where a body ends.
#[derive(Clone, Copy)]
enum Framing {
    Length,
    /// Each piece is a chunk.
    Chunks,
    /// A length, and no look at the body before somebody asks for it.
    Expected,
}

const FRAMINGS: [Framing; 3] = [Framing::Length, Framing::Chunks, Framing::Expected];

#[derive(Debug, PartialEq)]
struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    told: Value,
}

/// Asks by both ways, each on a store of its own.
pub(super) fn agree(runtime: &Runtime, policy: &Policy, pieces: &[&[u8]], choice: usize) {
    let (routes, door) = tollkeeper_server::both_ways(policy.clone(), NOW_US).unwrap();
    let framing = FRAMINGS[choice % FRAMINGS.len()];
    let sent: Vec<Vec<u8>> =
        (1..=ROUNDS).flat_map(|round| framed(pieces, framing, round == ROUNDS)).collect();
    let body = pieces.concat();
    runtime.block_on(async {
        let (ours, theirs) = duplex(ROOM);
        // The door looks after every piece, and so sees it before the next.
        let (answered, ()) = tokio::join!(biased; ask(ours, &sent), door(theirs));
        let past = replies(&answered);
        assert_eq!(past.len(), ROUNDS, "{}", String::from_utf8_lossy(&answered));
        for past in past {
            let through = through(&routes, &body).await;
            assert_eq!(past, through, "{}", String::from_utf8_lossy(&body));
        }
    });
}

/// The bytes of a request, in the pieces in which they are sent.
fn framed(pieces: &[&[u8]], framing: Framing, is_last: bool) -> Vec<Vec<u8>> {
    let length: usize = pieces.iter().map(|piece| piece.len()).sum();
    let said = match framing {
        Framing::Length => format!("content-length: {length}"),
        Framing::Chunks => "transfer-encoding: chunked".to_owned(),
        Framing::Expected => format!("content-length: {length}\r\nexpect: 100-continue"),
    };
    let then = if is_last { "close" } else { "keep-alive" };
    let head =
        format!("POST /v1/check HTTP/1.1\r\nhost: a\r\nconnection: {then}\r\n{said}\r\n\r\n");
    let piece = |piece: &&[u8]| match framing {
        // An empty chunk would be the last.
        Framing::Chunks if piece.is_empty() => Vec::new(),
        Framing::Chunks => [format!("{:x}\r\n", piece.len()).as_bytes(), *piece, b"\r\n"].concat(),
        Framing::Length | Framing::Expected => piece.to_vec(),
    };
    let mut sent: Vec<Vec<u8>> = pieces.iter().map(piece).collect();
    // What is whole comes with its head.
    if let Some(first) = sent.first_mut() {
        first.splice(..0, head.into_bytes());
    }
    if let (Framing::Chunks, Some(last)) = (framing, sent.last_mut()) {
        last.extend_from_slice(b"0\r\n\r\n");
    }
    sent
}

/// Sends one piece after the other, and returns all that was answered.
async fn ask(mut stream: DuplexStream, sent: &[Vec<u8>]) -> Vec<u8> {
    for piece in sent {
        stream.write_all(piece).await.unwrap();
        yield_now().await;
    }
    let mut answered = Vec::new();
    stream.read_to_end(&mut answered).await.unwrap();
    answered
}

/// The answers in what came back.
fn replies(mut left: &[u8]) -> Vec<Answer> {
    let mut replies = Vec::new();
    while !left.is_empty() {
        let end = left.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
        let head = std::str::from_utf8(&left[..end]).unwrap();
        left = &left[end + 4..];
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        if status == 100 {
            continue;
        }
        let headers: Vec<(&str, &str)> = lines.map(|line| line.split_once(": ").unwrap()).collect();
        let length = headers.iter().find(|(name, _)| *name == "content-length").unwrap().1;
        let (body, rest) = left.split_at(length.parse().unwrap());
        left = rest;
        replies.push(Answer::new(status, headers.into_iter(), body));
    }
    replies
}

async fn through(routes: &Router, body: &[u8]) -> Answer {
    let request = Request::post("/v1/check").body(Body::from(body.to_vec())).unwrap();
    let (head, body) = routes.clone().call(request).await.map(Response::into_parts).unwrap();
    let body = body.collect().await.unwrap().to_bytes();
    let headers = head.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap()));
    Answer::new(head.status.as_u16(), headers, &body)
}

impl Answer {
    fn new<'a>(
        status: u16,
        headers: impl Iterator<Item = (&'a str, &'a str)>,
        body: &[u8],
    ) -> Self {
        let mut headers: Vec<(String, String)> = headers
            .filter(|(name, _)| !NOT_OF_THE_ANSWER.contains(name))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        headers.sort();
        let mut told: Value = serde_json::from_slice(body).unwrap();
        // Who holds something has drawn a number for it: only its length is the same.
        if let Some(Value::String(permit)) = told.get("permit") {
            told["permit"] = permit.len().into();
        }
        Self { status, headers, told }
    }
}
