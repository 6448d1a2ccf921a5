//! Owns [`Patient`]: a connection whose other end must take what it asked for.
//!
//! Who sends a request and never reads the answer would else hold its place for ever: heads and
//! bodies have their time to arrive, and this is the same for the way back. It stands below TLS,
//! which takes an answer before anybody reads it, and then only flushes: what moves is seen here.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long the other end may take nothing while there is something for it.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);

/// A stream that breaks when nobody reads at its other end.
#[derive(Debug)]
pub(crate) struct Patient<S> {
    stream: S,
    /// While it takes nothing: when that is long enough.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, stalled: None }
    }

    /// What came of a write, a flush or a shutdown: one that got on begins the time anew.
    fn timed<T>(
        &mut self,
        context: &mut Context<'_>,
        done: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.stalled = None;
            return done;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(WRITE_PATIENCE)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.timed(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.timed(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_flush(context);
        self.timed(context, done)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_shutdown(context);
        self.timed(context, done)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::{Instant, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_left() {
        let (ours, _theirs) = duplex(16);
        let began = Instant::now();
        let broken = Patient::new(ours).write_all(&[0; 17]).await.unwrap_err();
        assert_eq!(broken.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed(), WRITE_PATIENCE);
    }

    /// A stream that takes whatever it is given, and never gets rid of it.
    struct Holding;

    impl AsyncWrite for Holding {
        fn poll_write(
            self: Pin<&mut Self>,
            _context: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    /// Only writes were timed: what was taken and never left was waited for without end.
    #[tokio::test(start_paused = true)]
    async fn what_is_taken_and_never_leaves_is_given_up_too() {
        let left = |broken: io::Result<()>, began: Instant| {
            assert_eq!(broken.unwrap_err().kind(), io::ErrorKind::TimedOut);
            assert_eq!(began.elapsed(), WRITE_PATIENCE);
        };
        let began = Instant::now();
        let mut ours = Patient::new(Holding);
        ours.write_all(&[0; 17]).await.unwrap();
        left(timeout(2 * WRITE_PATIENCE, ours.flush()).await.unwrap(), began);
        let began = Instant::now();
        let mut ours = Patient::new(Holding);
        left(timeout(2 * WRITE_PATIENCE, ours.shutdown()).await.unwrap(), began);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_slow_is_waited_for() {
        let (ours, mut theirs) = duplex(16);
        let mut ours = Patient::new(ours);
        let writing = tokio::spawn(async move { ours.write_all(&[0; 160]).await });
        let almost = WRITE_PATIENCE - Duration::from_millis(1);
        let mut taken = [0; 16];
        for _ in 0..10 {
            let idle = timeout(almost, std::future::pending::<()>()).await;
            assert!(idle.is_err());
            theirs.read_exact(&mut taken).await.unwrap();
        }
        writing.await.unwrap().unwrap();
    }
}
