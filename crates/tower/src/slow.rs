//! The way of a request that has to be waited with: until a store has decided, until its turn has
//! come, or until it is given back.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use tollkeeper_core::Store;
use tollkeeper_engine::{Judgement, Undecided, Verdict};
use tower_service::Service;

use crate::body::Body;
use crate::future::After;
use crate::held::{Waiting, check_waiting};
use crate::layer::Shared;
use crate::service::{Stopped, admitted, hold};

/// An answer that is waited for.
pub(crate) type Slow<B, E> = Pin<Box<dyn Future<Output = Result<Response<Body<B>>, E>> + Send>>;

/// Waits for the store, and then goes.
pub(crate) fn judge<T, S, L, Q, B>(
    shared: Arc<Shared<S, L>>,
    inner: T,
    request: Request<Q>,
    undecided: Undecided,
) -> Slow<B, T::Error>
where
    T: Service<Request<Q>, Response = Response<B>> + Send + 'static,
    T::Future: Send,
    S: Store + fmt::Debug + 'static,
    L: Store + fmt::Debug + 'static,
    Q: Send + 'static,
    B: Send + 'static,
{
    Box::pin(async move {
        let judged = check_waiting(&shared.engine, undecided).await.map(Judgement::Decided);
        match admitted(judged) {
            Ok(Some(verdict)) => go(shared, inner, request, verdict).await,
            Ok(None) => {
                let mut inner = inner;
                Ok(inner.call(request).await?.map(|body| Body::of_app(body, None)))
            }
            Err(stopped) => Ok(stopped.answer(&shared, request.headers())),
        }
    })
}

/// Gives back what the answer says should not have counted.
pub(crate) fn refund<S, L, B, E>(after: After<S, L>, response: Response<B>) -> Slow<B, E>
where
    S: Store + fmt::Debug + 'static,
    L: Store + fmt::Debug + 'static,
    B: Send + 'static,
{
    Box::pin(async move {
        // What cannot be given back is a request counted too many, and no reason to fail.
        let _ = after.shared.engine.refund_on(&after.verdict, response.status().as_u16()).await;
        Ok(after.finish(response))
    })
}

/// Waits until its turn has come, and then goes. What it was given comes back also if nobody ever
/// begins to wait.
pub(crate) fn go<T, S, L, Q, B>(
    shared: Arc<Shared<S, L>>,
    mut inner: T,
    mut request: Request<Q>,
    verdict: Verdict,
) -> impl Future<Output = Result<Response<Body<B>>, T::Error>> + Send
where
    T: Service<Request<Q>, Response = Response<B>> + Send + 'static,
    T::Future: Send,
    S: Store + fmt::Debug + 'static,
    L: Store + fmt::Debug + 'static,
    Q: Send + 'static,
    B: Send + 'static,
{
    let held = hold(&shared, &verdict, &mut request);
    let delay_us = verdict.decision().delay_us;
    let waiting = (delay_us > 0).then(|| Waiting::new(&shared.engine, &verdict));
    async move {
        if let Some(waiting) = waiting {
            let Ok(_place) = shared.waiting.try_acquire() else {
                // Dropped, it gives back.
                drop(waiting);
                return Ok(Stopped::Crowded(verdict).answer(&shared, request.headers()));
            };
            tokio::time::sleep(Duration::from_micros(delay_us)).await;
            waiting.goes();
        }
        let response = inner.call(request).await?;
        let after = After { shared, verdict, held };
        match after.verdict.refunds_on(response.status().as_u16()) {
            true => refund(after, response).await,
            false => Ok(after.finish(response)),
        }
    }
}
