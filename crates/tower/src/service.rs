//! Owns [`RateLimit`]: a service, and who may come to it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::request::Parts;
use http::{Request, Response};
use tollkeeper_core::Store;
use tollkeeper_engine::{Encounter, Judgement, Verdict};
use tollkeeper_policy::HeaderStyle;
use tower_service::Service;

use crate::body::Body;
use crate::headers::write;
use crate::held::{InFlight, Waiting};
use crate::identity::{Identified, Identity};
use crate::layer::{Shared, peer, route};
use crate::refusal::Refusal;
use crate::request::HttpRequest;

/// A service that is protected.
pub struct RateLimit<T, S, L = S> {
    pub(crate) inner: T,
    pub(crate) shared: Arc<Shared<S, L>>,
}

impl<T: Clone, S, L> Clone for RateLimit<T, S, L> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<T: fmt::Debug, S, L> fmt::Debug for RateLimit<T, S, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit").field("inner", &self.inner).finish_non_exhaustive()
    }
}

type Answering<B, E> = Pin<Box<dyn Future<Output = Result<Response<Body<B>>, E>> + Send>>;

impl<T, S, L, Q, B> Service<Request<Q>> for RateLimit<T, S, L>
where
    T: Service<Request<Q>, Response = Response<B>> + Clone + Send + 'static,
    T::Future: Send,
    S: Store + fmt::Debug + 'static,
    L: Store + fmt::Debug + 'static,
    Q: Send + 'static,
    B: Send + 'static,
{
    type Response = Response<Body<B>>;
    type Error = T::Error;
    type Future = Answering<B, T::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), T::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        // The one that was made ready goes; its copy is for the next.
        let copy = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, copy);
        let shared = Arc::clone(&self.shared);
        let (mut parts, body) = request.into_parts();
        let encounter = meet(&shared, &parts);
        let styles: Vec<HeaderStyle> = encounter.policy().headers().to_vec();
        Box::pin(async move {
            let admitted = match admit(&shared, encounter).await {
                Ok(admitted) => admitted,
                Err(stopped) => return Ok(stopped.answer(&shared, &parts, &styles)),
            };
            if let Some(Admitted { held: Some(held), .. }) = &admitted {
                parts.extensions.insert(held.clone());
            }
            let answered = inner.call(Request::from_parts(parts, body)).await;
            let Some(Admitted { verdict, held }) = admitted else {
                return Ok(answered?.map(|body| Body::of_app(body, None)));
            };
            let mut response = answered?;
            // What cannot be given back is a request counted too many, and no reason to fail.
            let _ = shared.engine.refund_on(&verdict, response.status().as_u16()).await;
            write(response.headers_mut(), &styles, &verdict);
            Ok(response.map(|body| Body::of_app(body, held)))
        })
    }
}

/// A request that may go, and what it holds.
struct Admitted {
    verdict: Box<Verdict>,
    held: Option<InFlight>,
}

/// A request that may not.
enum Stopped {
    Denied(Box<Verdict>),
    Crowded(Box<Verdict>),
    Missing { rule: String, part: String },
    Unable(String),
}

fn meet<S: Store, L: Store>(shared: &Shared<S, L>, parts: &Parts) -> Encounter {
    let policy = shared.engine.policy();
    let request = HttpRequest::new(
        &parts.method,
        &parts.uri,
        &parts.headers,
        peer(parts),
        policy.client_ip(),
    );
    let request = match route(parts) {
        Some(route) => request.routed(route),
        None => request,
    };
    let identity =
        shared.identify.as_ref().map_or_else(Identity::unknown, |identify| identify(parts));
    shared.engine.meet(&Identified { request, identity: &identity })
}

/// Decides, and waits where a leaking bucket says so.
async fn admit<S, L>(
    shared: &Arc<Shared<S, L>>,
    encounter: Encounter,
) -> Result<Option<Admitted>, Stopped>
where
    S: Store + fmt::Debug + 'static,
    L: Store + fmt::Debug + 'static,
{
    let engine = &shared.engine;
    let verdict = match engine.judge(encounter).await {
        Ok(Judgement::Decided(verdict)) => verdict,
        Ok(Judgement::Missing { rule, part }) => return Err(Stopped::Missing { rule, part }),
        Ok(_) => return Ok(None),
        Err(error) => return Err(Stopped::Unable(error.to_string())),
    };
    if !verdict.allowed() {
        return Err(Stopped::Denied(verdict));
    }
    let held = InFlight::of(engine, &verdict);
    let delay_us = verdict.decision().delay_us;
    if delay_us == 0 {
        return Ok(Some(Admitted { verdict, held }));
    }
    let Ok(_place) = shared.waiting.try_acquire() else {
        let _ = engine.undo(&verdict).await;
        return Err(Stopped::Crowded(verdict));
    };
    // Whoever gives up here gives back.
    let waiting = Waiting { engine: Arc::clone(engine), verdict: Some(verdict) };
    tokio::time::sleep(Duration::from_micros(delay_us)).await;
    Ok(waiting.goes().map(|verdict| Admitted { verdict, held }))
}

impl Stopped {
    fn answer<S, L, B>(
        &self,
        shared: &Shared<S, L>,
        parts: &Parts,
        styles: &[HeaderStyle],
    ) -> Response<Body<B>> {
        let refusal = match self {
            Self::Denied(verdict) => Refusal::Denied(verdict),
            Self::Crowded(verdict) => Refusal::Crowded(verdict),
            Self::Missing { rule, part } => Refusal::Missing { rule, part },
            Self::Unable(why) => Refusal::Unable(why),
        };
        let mut response = match &shared.respond {
            Some(respond) => respond(&refusal),
            None => refusal.response(&parts.headers),
        };
        if let Self::Denied(verdict) | Self::Crowded(verdict) = self {
            write(response.headers_mut(), styles, verdict);
        }
        response.map(Body::refusal)
    }
}
