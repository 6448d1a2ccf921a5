//! Something listens that is not Redis.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tollkeeper_core::{Ran, RedisUrl, Store, StoreError};
use tollkeeper_redis::{RedisStore, Settings};

use super::kit::*;

/// Treats every connection alike, until dropped.
struct Stranger {
    port: u16,
    task: JoinHandle<()>,
}

impl Stranger {
    async fn start<F>(treat: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = std::io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(treat(stream));
            }
        });
        Self { port, task }
    }

    /// Answers whatever comes first, and hears no more.
    async fn answers(bytes: &'static [u8]) -> Self {
        Self::start(move |mut stream| async move {
            let _ = stream.read(&mut [0; 1024]).await?;
            stream.write_all(bytes).await?;
            // The client is to end it.
            while stream.read(&mut [0; 1024]).await? > 0 {}
            Ok(())
        })
        .await
    }

    fn url(&self) -> RedisUrl {
        url_as(self.port, Some(USER), Some(PASSWORD))
    }

    /// What is told of it; the store goes on trying and does not fall over.
    async fn refusal(&self, settings: Settings) -> StoreError {
        let store = RedisStore::open(&self.url(), settings).unwrap();
        let error = store.opened().await.unwrap_err();
        check_told(&error, Ran::No, &[&format!("cannot use 127.0.0.1:{}: ", self.port)]);
        assert_eq!(ask_soon(&store).await.unwrap_err().ran(), Ran::No);
        error
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tokio::test]
async fn one_that_speaks_something_else() {
    for said in [
        b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n".as_slice(),
        b"220 mail.example.com ESMTP\r\n",
        b"\x15\x03\x01\x00\x02\x02\x46",
        b"\x00\xff\xfe\x80\r\n\r\n",
        b":not a number\r\n",
        b"+\xff\xfe\r\n",
        b"*2\r\n:1\r\n?\r\n",
        b"=-1\r\n",
        b"!3\r\nabc\r\n",
        b"|9223372036854775807\r\n+a\r\n",
        b"%-3\r\n+a\r\n",
    ] {
        let stranger = Stranger::answers(said).await;
        let settings = Settings { connect_patience: Duration::from_millis(200), ..patient() };
        let error = stranger.refusal(settings).await.to_string();
        let shown = String::from_utf8_lossy(said).into_owned();
        let known = ["does not answer as Redis does", "no answer within 200ms", "abc"];
        assert!(known.iter().any(|words| error.contains(words)), "{shown:?}: {error}");
    }
    let stranger = Stranger::answers(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    let error = stranger.refusal(patient()).await;
    check_told(&error, Ran::No, &["does not answer as Redis does"]);
}

#[tokio::test]
async fn one_that_hangs_up_at_once() {
    let stranger = Stranger::start(async |_stream| Ok(())).await;
    let error = stranger.refusal(patient()).await.to_string();
    assert!(error.contains("closed") || error.contains("reset"), "{error}");
}

#[tokio::test]
async fn one_that_never_stops_talking_is_left_after_so_many_bytes() {
    for begin in ["+", "$9223372036854775807\r\n", "*9223372036854775807\r\n:1\r\n"] {
        let stranger = Stranger::start(move |mut stream| async move {
            let _ = stream.read(&mut [0; 1024]).await?;
            stream.write_all(begin.as_bytes()).await?;
            let part =
                if begin.starts_with('*') { b":1\r\n".repeat(16384) } else { vec![b'a'; 65536] };
            loop {
                stream.write_all(&part).await?;
            }
        });
        // Long before the patience of this ends.
        let error = stranger.await.refusal(patient()).await;
        check_told(&error, Ran::No, &["more came than any answer is long"]);
    }
}

#[tokio::test]
async fn lists_in_lists_without_end() {
    let stranger = Stranger::start(|mut stream| async move {
        let _ = stream.read(&mut [0; 1024]).await?;
        loop {
            stream.write_all(&b"*1\r\n".repeat(1000)).await?;
        }
    });
    let error = stranger.await.refusal(patient()).await;
    check_told(&error, Ran::No, &["does not answer as Redis does"]);
}
