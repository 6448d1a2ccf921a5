//! Owns [`Awaited`]: a body that fails when nothing comes for too long.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use super::progress::Progress;

/// A body whose next part must come in time. The time runs only while somebody waits for it.
#[derive(Debug)]
pub(super) struct Awaited<B> {
    body: B,
    patience: Duration,
    progress: Progress,
    /// Made when it is first waited for, and used again.
    timer: Option<Pin<Box<Sleep>>>,
    waiting: bool,
}

/// Nothing came in time.
#[derive(Debug)]
pub(super) struct Silent;

impl fmt::Display for Silent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the next part of the body did not come in time")
    }
}

impl Error for Silent {}

impl<B> Awaited<B> {
    pub(super) fn new(body: B, patience: Duration, progress: Progress) -> Self {
        Self { body, patience, progress, timer: None, waiting: false }
    }
}

impl<B> Body for Awaited<B>
where
    B: Body + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Data = B::Data;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, Self::Error>>> {
        let this = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            this.waiting = false;
            this.progress.moved();
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let timer = this.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(this.patience)));
        if !this.waiting {
            this.waiting = true;
            timer.as_mut().reset(Instant::now() + this.patience);
        }
        timer.as_mut().poll(context).map(|()| Some(Err(Silent.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
