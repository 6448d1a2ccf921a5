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
use tollkeeper_engine::{Brief, Encounter, EngineError, Judgement, Undecided, Verdict};
use tollkeeper_policy::Meeting;
use tower_service::Service;

use crate::body::Body;
use crate::future::ResponseFuture;
use crate::held::InFlight;
use crate::identity::{Identified, Identity};
use crate::layer::Shared;
use crate::refusal::Refusal;
use crate::request::HttpRequest;
use crate::slow;
use crate::told::{Telling, Told};

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

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        // Only where the app is asked is the request taken apart.
        match self.shared.identify.is_some() {
            true => self.identify(request),
            false => self.limit(request, &Identity::unknown()),
        }
    }
}

impl<T, S, L> RateLimit<T, S, L> {
    /// Limits a request by what the app knows of it, too.
    #[inline(never)]
    fn identify<Q, B>(
        &mut self,
        request: Request<Q>,
    ) -> ResponseFuture<T::Future, B, T::Error, S, L>
    where
        T: Service<Request<Q>, Response = Response<B>> + Clone + Send + 'static,
        T::Future: Send,
        S: Store + fmt::Debug + 'static,
        L: Store + fmt::Debug + 'static,
        Q: Send + 'static,
        B: Send + 'static,
    {
        let (parts, body) = request.into_parts();
        let identify = self.shared.identify.as_ref();
        let identity = identify.map_or_else(Identity::unknown, |identify| identify(&parts));
        self.limit(Request::from_parts(parts, body), &identity)
    }

    /// Always inline: else the request is copied once more, and so is what becomes of it.
    #[inline(always)]
    fn limit<Q, B>(
        &mut self,
        request: Request<Q>,
        identity: &Identity,
    ) -> ResponseFuture<T::Future, B, T::Error, S, L>
    where
        T: Service<Request<Q>, Response = Response<B>> + Clone + Send + 'static,
        T::Future: Send,
        S: Store + fmt::Debug + 'static,
        L: Store + fmt::Debug + 'static,
        Q: Send + 'static,
        B: Send + 'static,
    {
        match judge(&self.shared, &request, identity) {
            Judged::Goes(told) => ResponseFuture::told(self.inner.call(request), told),
            Judged::Whole(judged) => self.follow(request, judged),
            Judged::Undecided(undecided) => {
                let (shared, inner) = (Arc::clone(&self.shared), self.take_ready());
                ResponseFuture::slow(slow::judge(shared, inner, request, undecided))
            }
        }
    }

    /// Does what a judgement says. Apart from the short way, which would carry its size along.
    #[inline(never)]
    fn follow<Q, B>(
        &mut self,
        mut request: Request<Q>,
        judged: Result<Judgement, EngineError>,
    ) -> ResponseFuture<T::Future, B, T::Error, S, L>
    where
        T: Service<Request<Q>, Response = Response<B>> + Clone + Send + 'static,
        T::Future: Send,
        S: Store + fmt::Debug + 'static,
        L: Store + fmt::Debug + 'static,
        Q: Send + 'static,
        B: Send + 'static,
    {
        let shared = &self.shared;
        let verdict = match admitted(judged) {
            Ok(Some(verdict)) => verdict,
            Ok(None) => return ResponseFuture::free(self.inner.call(request)),
            Err(stopped) => {
                return ResponseFuture::answered(stopped.answer(shared, request.headers()));
            }
        };
        if verdict.decision().delay_us > 0 {
            let (shared, inner) = (Arc::clone(shared), self.take_ready());
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

/// What a request is told.
enum Judged {
    /// It goes, and nothing is left but to tell this.
    Goes(Told),
    Whole(Result<Judgement, EngineError>),
    /// The store has to be waited for.
    Undecided(Undecided),
}

#[inline]
fn judge<S: Store, L: Store, Q>(
    shared: &Shared<S, L>,
    request: &Request<Q>,
    identity: &Identity,
) -> Judged {
    let engine = &shared.engine;
    engine.with_policy(|policy| {
        let request = HttpRequest::of(request, policy.client_ip());
        let mut meeting = Meeting::default();
        policy.meet_into(&Identified { request, identity }, &mut meeting);
        let Some(telling) = Telling::by(policy.headers()) else {
            let encounter = Encounter::new(Arc::clone(policy), meeting);
            return match engine.judge_at_once(encounter) {
                Ok(judged) => Judged::Whole(judged),
                Err(undecided) => Judged::Undecided(undecided),
            };
        };
        match engine.judge_briefly(policy, &mut meeting) {
            Brief::Goes { decision, cost } => Judged::Goes(telling.tell(&decision, cost)),
            Brief::Judged(judged) => Judged::Whole(judged),
            Brief::Undecided(undecided) => Judged::Undecided(undecided),
        }
    })
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
