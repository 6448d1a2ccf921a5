//! Owns [`RateLimit`]: a service, and who may come to it.
//!
//! A request that is decided at once goes on at once: nothing is put on the heap for the way, and
//! the service is not copied. Only one that has to wait, for a store, for its turn or for what it
//! gives back, takes the [slow way](crate::slow).

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderMap, Request, Response, header};
use tollkeeper_core::Store;
use tollkeeper_engine::{Encounter, EngineError, Judgement, Verdict};
use tower_service::Service;

use crate::body::Body;
use crate::future::ResponseFuture;
use crate::held::InFlight;
use crate::identity::{Identified, Identity};
use crate::layer::Shared;
use crate::refusal::Refusal;
use crate::request::HttpRequest;
use crate::slow;

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
    type Future = ResponseFuture<T::Future, B, T::Error, S, L>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), T::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Q>) -> Self::Future {
        let shared = &self.shared;
        let mut identity = Identity::unknown();
        // Only where the app is asked is the request taken apart.
        if let Some(identify) = &shared.identify {
            let (parts, body) = request.into_parts();
            identity = identify(&parts);
            request = Request::from_parts(parts, body);
        }
        let encounter = meet(shared, &request, &identity);
        let verdict = match shared.engine.judge_at_once(encounter) {
            Ok(judged) => match admitted(judged) {
                Ok(verdict) => verdict,
                Err(stopped) => {
                    return ResponseFuture::answered(stopped.answer(shared, request.headers()));
                }
            },
            Err(undecided) => {
                let shared = Arc::clone(shared);
                let inner = self.take_ready();
                return ResponseFuture::slow(slow::judge(shared, inner, request, undecided));
            }
        };
        let Some(verdict) = verdict else {
            return ResponseFuture::free(self.inner.call(request));
        };
        if verdict.decision().delay_us > 0 {
            let shared = Arc::clone(shared);
            let inner = self.take_ready();
            return ResponseFuture::slow(Box::pin(slow::go(shared, inner, request, verdict)));
        }
        let held = hold(shared, &verdict, &mut request);
        ResponseFuture::limited(self.inner.call(request), verdict, held, Arc::clone(&self.shared))
    }
}

impl<T: Clone, S, L> RateLimit<T, S, L> {
    /// The service that was made ready, for a call that comes later; its copy is for the next.
    fn take_ready(&mut self) -> T {
        let copy = self.inner.clone();
        std::mem::replace(&mut self.inner, copy)
    }
}

/// Takes the permit that a request was given, and lets its handler have a part in it.
pub(crate) fn hold<S, L, Q>(
    shared: &Shared<S, L>,
    verdict: &Verdict,
    request: &mut Request<Q>,
) -> Option<InFlight>
where
    S: Store + fmt::Debug + 'static,
    L: Store + fmt::Debug + 'static,
{
    let held = InFlight::of(&shared.engine, verdict)?;
    request.extensions_mut().insert(held.clone());
    Some(held)
}

/// A request that may not go.
pub(crate) enum Stopped {
    Denied(Verdict),
    Crowded(Verdict),
    Missing { rule: String, part: String },
    Unable(String),
}

fn meet<S: Store, L: Store, Q>(
    shared: &Shared<S, L>,
    request: &Request<Q>,
    identity: &Identity,
) -> Encounter {
    let policy = shared.engine.policy();
    let request = HttpRequest::of(request, policy.client_ip());
    let meeting = policy.meet(&Identified { request, identity });
    Encounter::new(policy, meeting)
}

/// What admits a request: nothing at all where no rule applies to it.
pub(crate) fn admitted(judged: Result<Judgement, EngineError>) -> Result<Option<Verdict>, Stopped> {
    match judged {
        Ok(Judgement::Decided(verdict)) if verdict.allowed() => Ok(Some(verdict)),
        Ok(Judgement::Decided(verdict)) => Err(Stopped::Denied(verdict)),
        Ok(Judgement::Missing { rule, part }) => Err(Stopped::Missing { rule, part }),
        Ok(_) => Ok(None),
        Err(error) => Err(Stopped::Unable(error.to_string())),
    }
}

impl Stopped {
    pub(crate) fn answer<S, L, B>(
        &self,
        shared: &Shared<S, L>,
        headers: &HeaderMap,
    ) -> Response<Body<B>> {
        let refusal = match self {
            Self::Denied(verdict) => Refusal::Denied(verdict),
            Self::Crowded(verdict) => Refusal::Crowded(verdict),
            Self::Missing { rule, part } => Refusal::Missing { rule, part },
            Self::Unable(why) => Refusal::Unable(why),
        };
        let response = match &shared.respond {
            Some(respond) => {
                let mut response = respond(&refusal);
                refusal.write(response.headers_mut());
                response
            }
            None => {
                let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
                refusal.response(accept)
            }
        };
        response.map(Body::refusal)
    }
}
