//! A server that speaks the protocol and lies.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tollkeeper_core::{Ran, RedisUrl, Store};
use tollkeeper_redis::Settings;

use super::kit::*;

/// Lets everybody in, and answers scripts with what it was told to.
pub(crate) struct Liar {
    port: u16,
    state: Arc<State>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    lie: watch::Sender<Vec<u8>>,
    accepted: watch::Sender<Vec<Instant>>,
    signed_in: watch::Sender<usize>,
    lied: watch::Sender<usize>,
    hang_ups: watch::Sender<()>,
}

impl Liar {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.accepted.send_modify(|accepted| accepted.push(Instant::now()));
                let (shared, mut hang_ups) = (Arc::clone(&shared), shared.hang_ups.subscribe());
                tokio::spawn(async move {
                    tokio::select! {
                        _ = hang_ups.changed() => {}
                        _ = serve(stream, &shared) => {}
                    }
                });
            }
        });
        Self { port, state, task }
    }

    pub(crate) fn url(&self) -> RedisUrl {
        url_of(self.port)
    }

    /// Ends every connection.
    pub(crate) fn hang_up(&self) {
        self.state.hang_ups.send_replace(());
    }

    pub(crate) async fn until_signed_in(&self, count: usize) {
        let mut signed_in = self.state.signed_in.subscribe();
        timeout(PATIENCE, signed_in.wait_for(|seen| *seen >= count)).await.unwrap().unwrap();
    }

    /// Waits for so many connections; when each of them came.
    pub(crate) async fn until_accepted(&self, count: usize) -> Vec<Instant> {
        let mut accepted = self.state.accepted.subscribe();
        let seen = timeout(PATIENCE, accepted.wait_for(|seen| seen.len() >= count)).await;
        seen.unwrap().unwrap().clone()
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: TcpStream, state: &State) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    while stream.read_buf(&mut bytes).await? > 0 {
        while let Some((name, rest)) = first_command(&bytes) {
            let reply = match &*name {
                "EVALSHA" | "EVAL" => {
                    state.lied.send_modify(|count| *count += 1);
                    state.lie.borrow().clone()
                }
                "INFO" => b"$0\r\n\r\n".to_vec(),
                "PING" => {
                    state.signed_in.send_modify(|count| *count += 1);
                    b"+PONG\r\n".to_vec()
                }
                _ => b"+OK\r\n".to_vec(),
            };
            bytes.drain(..bytes.len() - rest);
            stream.write_all(&reply).await?;
        }
    }
    Ok(())
}

/// The name of the first command that is complete, and how many bytes follow it.
fn first_command(bytes: &[u8]) -> Option<(String, usize)> {
    fn line(bytes: &[u8]) -> Option<(usize, &[u8])> {
        let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
        let number = std::str::from_utf8(&bytes[1..end]).unwrap().parse().unwrap();
        Some((number, &bytes[end + 2..]))
    }
    let (count, mut rest) = line(bytes)?;
    let mut name = None;
    for _ in 0..count {
        let (length, after) = line(rest)?;
        let arg = after.get(..length)?;
        rest = after.get(length + 2..)?;
        name.get_or_insert_with(|| String::from_utf8_lossy(arg).into_owned());
    }
    Some((name?, rest.len()))
}

#[tokio::test]
async fn whatever_a_script_seems_to_answer_is_an_error_and_no_more() {
    let liar = Liar::start().await;
    let settings = Settings { connections: 1, ..patient() };
    let store = store_on(&liar.url(), settings).await;
    let many = |number: &str, count: usize| {
        format!("*{count}\r\n{}", format!(":{number}\r\n").repeat(count)).into_bytes()
    };
    let mut lies = vec![
        b"+OK\r\n".to_vec(),
        b"$5\r\nhello\r\n".to_vec(),
        b"$-1\r\n".to_vec(),
        b"*-1\r\n".to_vec(),
        b"*0\r\n".to_vec(),
        b":1\r\n".to_vec(),
        b"*1\r\n*1\r\n*1\r\n:1\r\n".to_vec(),
        b"*2\r\n:1\r\n-NOSCRIPT in the midst\r\n".to_vec(),
        b"*2\r\n:1\r\n$-1\r\n".to_vec(),
        b"*2\r\n:1\r\n$3\r\nabc\r\n".to_vec(),
        b"*1\r\n$2\r\n\xff\xfe\r\n".to_vec(),
        b"%1\r\n+a\r\n:1\r\n".to_vec(),
        b"#t\r\n".to_vec(),
        b",1.5\r\n".to_vec(),
        b"(123456789012345678901234567890\r\n".to_vec(),
        b":9223372036854775808\r\n".to_vec(),
        b"what?\r\n".to_vec(),
        b"-\r\n".to_vec(),
        b"-ERR no idea\r\n".to_vec(),
    ];
    lies.extend((1..=12).map(|count| many("-1", count)));
    lies.extend((1..=12).map(|count| many("-9223372036854775808", count)));
    lies.extend((1..=12).map(|count| many("99999999999999999999999", count)));
    for lie in lies {
        until("it is open again", async || store.opened().await.ok()).await;
        liar.state.lie.send_replace(lie.clone());
        let shown = String::from_utf8_lossy(&lie).into_owned();
        match ask_soon(&store).await {
            Ok(answer) => panic!("{shown:?} was taken for {answer:?}"),
            Err(error) => assert_eq!(error.ran(), Ran::Perhaps, "{shown:?}: {error}"),
        }
    }
}

#[tokio::test]
async fn numbers_that_are_too_large_do_no_harm() {
    let liar = Liar::start().await;
    let store = store_on(&liar.url(), patient()).await;
    for number in [i64::MAX, 1 << 53, 1] {
        for count in 1..=12 {
            let numbers = format!(":{number}\r\n").repeat(count);
            liar.state.lie.send_replace(format!("*{count}\r\n{numbers}").into_bytes());
            // Taken or not, it comes back.
            let _ = ask_soon(&store).await;
        }
    }
}

#[tokio::test]
async fn a_server_that_forgets_every_script_at_once_did_not_run_it() {
    let liar = Liar::start().await;
    let store = store_on(&liar.url(), patient()).await;
    liar.state.lie.send_replace(b"-NOSCRIPT No matching script.\r\n".to_vec());
    let error = ask_soon(&store).await.unwrap_err();
    check_told(&error, Ran::No, &["127.0.0.1:", "NOSCRIPT", "forgotten"]);
}

#[tokio::test]
async fn half_an_answer_and_then_the_end() {
    let liar = Liar::start().await;
    let store = store_on(&liar.url(), Settings { connections: 1, ..patient() }).await;
    liar.state.lie.send_replace(b"*7\r\n:1\r\n:1\r\n".to_vec());
    let asked = ask(&store);
    let hangs_up = async {
        let mut lied = liar.state.lied.subscribe();
        lied.wait_for(|count| *count == 1).await.unwrap();
        liar.hang_up();
    };
    let (answer, ()) = tokio::join!(asked, hangs_up);
    check_told(&answer.unwrap_err(), Ran::Perhaps, &["lost the connection to 127.0.0.1:"]);
}
