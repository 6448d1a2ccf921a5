//! Owns [`ResponseFuture`]: an answer under way.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::Response;
use pin_project_lite::pin_project;
use tollkeeper_core::Store;
use tollkeeper_engine::Verdict;

use crate::body::Body;
use crate::headers::{MOST_OF_A_STYLE, write};
use crate::held::InFlight;
use crate::layer::Shared;
use crate::slow::{self, Slow};
use crate::told::Told;

pin_project! {
    /// The answer of a service that is protected.
    pub struct ResponseFuture<F, B, E, S, L> {
        #[pin]
        state: State<F, B, E, S, L>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, B, E, S, L> {
        // The request never went: this is why.
        Answered { response: Option<Response<Body<B>>> },
        // It is at the app, and no rule applies to it.
        Free { #[pin] going: F },
        // It is at the app, and all that is left of its verdict are numbers.
        Told { #[pin] going: F, told: Told },
        // It is at the app, by this verdict.
        Limited { #[pin] going: F, after: Option<After<S, L>> },
        // Something has to be waited for.
        Waiting { slow: Slow<B, E> },
    }
}

/// What is left to do once the app has answered.
pub(crate) struct After<S, L> {
    pub(crate) shared: Arc<Shared<S, L>>,
    pub(crate) verdict: Verdict,
    pub(crate) held: Option<InFlight>,
}

impl<S, L> After<S, L> {
    /// The answer with what the verdict adds to it.
    pub(crate) fn finish<B>(self, mut response: Response<B>) -> Response<Body<B>> {
        let Self { verdict, held, .. } = self;
        write(response.headers_mut(), verdict.policy().headers(), &verdict);
        response.map(|body| Body::of_app(body, held))
    }
}

impl<F, B, E, S, L> ResponseFuture<F, B, E, S, L> {
    pub(crate) fn answered(response: Response<Body<B>>) -> Self {
        Self { state: State::Answered { response: Some(response) } }
    }

    pub(crate) fn free(going: F) -> Self {
        Self { state: State::Free { going } }
    }

    #[inline]
    pub(crate) fn told(going: F, told: Told) -> Self {
        Self { state: State::Told { going, told } }
    }

    pub(crate) fn limited(
        going: F,
        verdict: Verdict,
        held: Option<InFlight>,
        shared: Arc<Shared<S, L>>,
    ) -> Self {
        let after = Some(After { shared, verdict, held });
        Self { state: State::Limited { going, after } }
    }

    pub(crate) fn slow(slow: Slow<B, E>) -> Self {
        Self { state: State::Waiting { slow } }
    }
}

impl<F, B, E, S, L> Future for ResponseFuture<F, B, E, S, L>
where
    F: Future<Output = Result<Response<B>, E>>,
    S: Store + fmt::Debug + 'static,
    L: Store + fmt::Debug + 'static,
    B: Send + 'static,
{
    type Output = Result<Response<Body<B>>, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let next = match self.as_mut().project().state.project() {
            StateProj::Answered { response } => {
                return response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response)));
            }
            StateProj::Free { going } => {
                let answered = ready!(going.poll(context));
                return Poll::Ready(answered.map(|it| it.map(|body| Body::of_app(body, None))));
            }
            StateProj::Told { going, told } => {
                let mut response = ready!(going.poll(context))?;
                response.headers_mut().reserve(MOST_OF_A_STYLE);
                told.write(response.headers_mut());
                return Poll::Ready(Ok(response.map(|body| Body::of_app(body, None))));
            }
            StateProj::Limited { going, after } => {
                let response = ready!(going.poll(context))?;
                let Some(after) = after.take() else { return Poll::Pending };
                if !after.verdict.refunds_on(response.status().as_u16()) {
                    return Poll::Ready(Ok(after.finish(response)));
                }
                slow::refund(after, response)
            }
            StateProj::Waiting { slow } => return slow.as_mut().poll(context),
        };
        self.as_mut().project().state.set(State::Waiting { slow: next });
        self.poll(context)
    }
}

impl<F, B, E, S, L> fmt::Debug for ResponseFuture<F, B, E, S, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
