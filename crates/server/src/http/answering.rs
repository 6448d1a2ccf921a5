//! Owns [`Answering`]: an answer under way, and [`Reply`], its body.
//!
//! A check whose body came with its head, on a store that decides at once, is answered in the turn
//! in which it was read: for it nothing is put on the heap that would only be waited with.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, Incoming, SizeHint};
use tollkeeper_tower::check_waiting;

use super::body::MAX_BODY;
use super::check::{self, Asked};
use super::encode;
use super::problem::Problem;
use crate::wire::AppEngine;

/// What has to be waited for.
type Later = Pin<Box<dyn Future<Output = Response> + Send>>;

/// What the first look at a body found.
type First = Poll<Option<Result<Frame<Bytes>, hyper::Error>>>;

/// An answer under way.
pub(crate) enum Answering {
    /// To a check, of which nobody has looked at the body yet.
    Check { engine: Arc<AppEngine>, body: Option<Incoming> },
    /// To anything else.
    Later(Later),
}

impl Answering {
    pub(super) fn check(engine: Arc<AppEngine>, body: Incoming) -> Self {
        Self::Check { engine, body: Some(body) }
    }

    pub(super) fn routed<F>(routing: F) -> Self
    where
        F: Future<Output = Result<Response, Infallible>> + Send + 'static,
    {
        Self::Later(Box::pin(async move { routing.await.unwrap_or_else(|never| match never {}) }))
    }
}

impl Future for Answering {
    type Output = Result<hyper::Response<Reply>, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Self::Check { engine, body } = this {
            // It is looked at once.
            let Some(body) = body.take() else { return Poll::Pending };
            match answer(engine, body, context) {
                Ok(answer) => return Poll::Ready(Ok(answer)),
                Err(later) => *this = Self::Later(later),
            }
        }
        match this {
            Self::Later(later) => {
                later.as_mut().poll(context).map(|answer| Ok(answer.map(Reply::Any)))
            }
            Self::Check { .. } => Poll::Pending,
        }
    }
}

/// Answers a check at once, or says what has to be waited for.
fn answer(
    engine: &Arc<AppEngine>,
    mut body: Incoming,
    context: &mut Context<'_>,
) -> Result<hyper::Response<Reply>, Later> {
    let first = Pin::new(&mut body).poll_frame(context);
    let usual = whole(&first, &body).and_then(|text| Asked::usual(text));
    let Some(asked) = usual else {
        let (engine, body) = (Arc::clone(engine), Begun { first, rest: body });
        return Err(Box::pin(async move { check::answer(&engine, body).await }));
    };
    match engine.check_at_once(asked.ask()) {
        Ok(Ok(verdict)) => Ok(encode::told(&verdict).map(Reply::whole)),
        Ok(Err(error)) => Ok(Problem::from(error).into_response().map(Reply::Any)),
        Err(undecided) => {
            let engine = Arc::clone(engine);
            Err(Box::pin(async move {
                let verdict = check_waiting(&engine, undecided).await;
                let told = verdict.map(|verdict| encode::answer(&verdict));
                told.unwrap_or_else(|error| Problem::from(error).into_response())
            }))
        }
    }
}

/// The body, if it is all there.
fn whole<'f>(first: &'f First, rest: &Incoming) -> Option<&'f Bytes> {
    let Poll::Ready(Some(Ok(frame))) = first else { return None };
    frame.data_ref().filter(|data| data.len() <= MAX_BODY && rest.is_end_stream())
}

/// A body that was looked at before.
struct Begun {
    /// What was found then, until it is asked for.
    first: First,
    rest: Incoming,
}

impl HttpBody for Begun {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match std::mem::replace(&mut self.first, Poll::Pending) {
            Poll::Pending => Pin::new(&mut self.rest).poll_frame(context),
            found => found,
        }
    }

    fn size_hint(&self) -> SizeHint {
        let Poll::Ready(Some(Ok(frame))) = &self.first else { return self.rest.size_hint() };
        longer(&self.rest.size_hint(), frame.data_ref().map_or(0, |data| data.len() as u64))
    }
}

/// The size of what is so many bytes longer.
fn longer(rest: &SizeHint, by: u64) -> SizeHint {
    let mut hint = SizeHint::new();
    // The upper end goes first: the lower one must not be above it.
    if let Some(upper) = rest.upper() {
        hint.set_upper(upper.saturating_add(by));
    }
    hint.set_lower(rest.lower().saturating_add(by));
    hint
}

/// The body of an answer.
pub(crate) enum Reply {
    /// One text, until it is sent.
    Whole(Option<Bytes>),
    /// Whatever a route answers.
    Any(Body),
}

impl Reply {
    fn whole(text: Bytes) -> Self {
        Self::Whole(Some(text))
    }
}

impl HttpBody for Reply {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match self.get_mut() {
            Self::Whole(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Self::Any(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(text) => text.is_none(),
            Self::Any(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(text) => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
            Self::Any(body) => body.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A body of which all had been looked at was longer than it could be, and the connection broke.
    #[test]
    fn what_was_looked_at_counts_at_both_ends() {
        let bounded = longer(&SizeHint::with_exact(0), 37);
        assert_eq!((bounded.lower(), bounded.upper()), (37, Some(37)));
        let open = longer(&SizeHint::new(), 5);
        assert_eq!((open.lower(), open.upper()), (5, None));
        let most = longer(&SizeHint::with_exact(u64::MAX), 1);
        assert_eq!(most.exact(), Some(u64::MAX));
    }
}
