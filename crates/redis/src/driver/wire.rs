//! Owns [`Wire`]: a stream that takes no more than an answer can be, and that tells why it ended.

use std::fmt;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

/// Bytes that a server may send before its first answer is complete.
const MOST_AT_FIRST: usize = 1 << 20;

/// Bytes that it may send between two answers: as much as Redis takes for one text.
const MOST_BETWEEN: usize = 512 << 20;

/// Bytes that it may say unasked from one moment at which we have heard all of it to the next.
const MOST_UNHEARD: usize = 16 << 20;

/// Bytes both ways.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send {}
impl<S: AsyncRead + AsyncWrite + Send> Stream for S {}

/// A stream to a server. Nothing is read before something was written: a server that turns us away
/// as soon as we come would tell nobody why.
pub(super) struct Wire {
    stream: Pin<Box<dyn Stream>>,
    fate: Arc<Fate>,
    has_written: bool,
    reader: Option<Waker>,
}

/// What has become of a [`Wire`].
pub(super) struct Fate {
    /// Bytes that may still come before the next answer.
    left: AtomicUsize,
    why: OnceLock<String>,
    ended: Notify,
}

impl Fate {
    /// Why the stream has ended, if it has.
    pub(super) fn why(&self) -> Option<&str> {
        self.why.get().map(String::as_str)
    }

    /// Waits until it has ended. For one at a time.
    pub(super) async fn ended(&self) -> &str {
        loop {
            if let Some(why) = self.why() {
                return why;
            }
            self.ended.notified().await;
        }
    }

    /// An answer was complete.
    pub(super) fn answered(&self) {
        self.left.store(MOST_BETWEEN, Ordering::Relaxed);
    }

    /// All that was said unasked was heard.
    pub(super) fn heard(&self) {
        self.left.store(MOST_UNHEARD, Ordering::Relaxed);
    }

    /// The first reason stays.
    fn end(&self, why: impl Into<String>) {
        if self.why.set(why.into()).is_ok() {
            self.ended.notify_one();
        }
    }

    fn fail(&self, error: &io::Error) {
        match error.kind() {
            // TLS has a long text for it.
            ErrorKind::UnexpectedEof => self.end("the server closed the connection"),
            _ => self.end(error.to_string()),
        }
    }
}

impl fmt::Debug for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fate").field("why", &self.why()).finish_non_exhaustive()
    }
}

impl Wire {
    pub(super) fn new(stream: Box<dyn Stream>) -> (Self, Arc<Fate>) {
        let left = AtomicUsize::new(MOST_AT_FIRST);
        let fate = Arc::new(Fate { left, why: OnceLock::new(), ended: Notify::new() });
        let wire = Self {
            stream: stream.into(),
            fate: Arc::clone(&fate),
            has_written: false,
            reader: None,
        };
        (wire, fate)
    }

    fn written<T>(&self, result: io::Result<T>) -> Poll<io::Result<T>> {
        Poll::Ready(result.inspect_err(|error| self.fate.fail(error)))
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.has_written {
            self.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let read = ready!(self.stream.as_mut().poll_read(cx, buf));
        read.inspect_err(|error| self.fate.fail(error))?;
        let count = buf.filled().len() - before;
        if count == 0 {
            self.fate.end("the server closed the connection");
        }
        // Nobody else takes from it.
        let left = self.fate.left.load(Ordering::Relaxed).checked_sub(count);
        let Some(left) = left else {
            let error =
                io::Error::new(ErrorKind::ConnectionAborted, "more came than any answer is long");
            self.fate.fail(&error);
            return Poll::Ready(Err(error));
        };
        self.fate.left.store(left, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = ready!(self.stream.as_mut().poll_write(cx, bytes));
        self.has_written = true;
        self.reader.take().into_iter().for_each(Waker::wake);
        self.written(result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = ready!(self.stream.as_mut().poll_flush(cx));
        self.written(result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_shutdown(cx)
    }
}

impl Drop for Wire {
    /// Whoever read from it could make nothing of what came, or wants no more.
    fn drop(&mut self) {
        self.fate.end("the connection was closed");
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn what_came_before_we_spoke_is_heard_when_we_have() {
        let (mut server, near) = duplex(64);
        let (mut wire, fate) = Wire::new(Box::new(near));
        server.write_all(b"-ERR go away\r\n").await.unwrap();
        drop(server);
        let mut heard = [0; 64];
        assert!(wire.read(&mut heard).now_or_never().is_none());
        assert_eq!(fate.why(), None);
        assert!(wire.write_all(b"PING").await.is_err());
        assert_eq!(wire.read(&mut heard).await.unwrap(), 14);
        assert_eq!(fate.why(), Some("broken pipe"));
    }

    #[tokio::test]
    async fn the_end_is_told_with_its_first_reason() {
        let (server, near) = duplex(64);
        let (mut wire, fate) = Wire::new(Box::new(near));
        wire.write_all(b"PING").await.unwrap();
        assert!(fate.ended().now_or_never().is_none());
        drop(server);
        assert_eq!(wire.read(&mut [0; 64]).await.unwrap(), 0);
        drop(wire);
        assert_eq!(fate.ended().await, "the server closed the connection");

        let (_server, near) = duplex(64);
        let (wire, fate) = Wire::new(Box::new(near));
        drop(wire);
        assert_eq!(fate.ended().await, "the connection was closed");
    }

    #[tokio::test]
    async fn answers_renew_what_may_come() {
        let (mut server, near) = duplex(MOST_AT_FIRST);
        let (mut wire, fate) = Wire::new(Box::new(near));
        wire.write_all(b"PING").await.unwrap();
        let mut heard = vec![0; MOST_AT_FIRST];
        for _ in 0..3 {
            server.write_all(&heard).await.unwrap();
            wire.read_exact(&mut heard).await.unwrap();
            fate.answered();
        }
        fate.left.store(9, Ordering::Relaxed);
        server.write_all(b"0123456789").await.unwrap();
        assert_eq!(wire.read(&mut heard).await.unwrap_err().kind(), ErrorKind::ConnectionAborted);
        assert!(fate.why().unwrap().contains("more came"));
    }

    /// A server that had spoken for a megabyte, over weeks, was not heard any more.
    #[tokio::test]
    async fn what_is_heard_renews_what_may_be_said_unasked() {
        let (mut server, near) = duplex(MOST_UNHEARD);
        let (mut wire, fate) = Wire::new(Box::new(near));
        wire.write_all(b"SUBSCRIBE").await.unwrap();
        let mut heard = vec![0; MOST_UNHEARD];
        for _ in 0..3 {
            fate.heard();
            server.write_all(&heard).await.unwrap();
            wire.read_exact(&mut heard).await.unwrap();
        }
        // Who cannot be kept up with is not listened to.
        server.write_all(b"0").await.unwrap();
        assert_eq!(wire.read(&mut heard).await.unwrap_err().kind(), ErrorKind::ConnectionAborted);
    }
}
