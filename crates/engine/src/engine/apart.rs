//! Requests that one step does not decide. Their limits lie in several parts of the store, each behind
//! the guard of its server; or a part gave no answer, and what this process has leave for it decides
//! by that, the rest by the choices of its own rules.

use std::sync::atomic::{AtomicBool, Ordering};

use tollkeeper_core::{
    Alone, Amended, Amendment, Answer, Change, Part, Ran, Request, Store, StoreError,
};

use super::amend::{which, whole};
use super::{Engine, Ready, Safety};
use crate::error::EngineError;
use crate::failure::Asked;
use crate::guard::Deadline;
use crate::handle::{Handle, OwnedTarget};
use crate::met::{Met, MetLimit};
use crate::parts::{
    Desk, Piece, Plain, Said, Saids, Which, agree, amendments_of, decide, merge, request_of,
};
use crate::verdict::Decided;

impl<S: Store, L: Store> Engine<S, L> {
    /// Decides on a store that cannot fail.
    pub(super) async fn decide_apart(
        &self,
        request: &Request<'_>,
        pieces: &[Piece],
    ) -> Result<Decided, EngineError> {
        let desk = Plain { store: &self.store, request };
        let said = decide(&desk, request, pieces).await?;
        Ok(Decided { apart: true, ..decided(request, &said) })
    }

    /// Decides on one that can. `deadline` is that of all parts, and of what is given back.
    pub(super) async fn decide_apart_guarded(
        &self,
        safety: &Safety<L>,
        ready: &Ready,
        request: &Request<'_>,
        pieces: &[Piece],
        deadline: Deadline,
    ) -> Result<Decided, EngineError> {
        let lost = AtomicBool::new(false);
        let desk = Guarded { engine: self, safety, ready, request, deadline, lost };
        let said = decide(&desk, request, pieces).await?;
        for said in said.iter().filter(|said| !said.fell) {
            safety.fallback.learn(desk.asked(said.piece), &said.answer).await;
        }
        let lost = desk.lost.load(Ordering::Relaxed);
        let decided = Decided { apart: true, lost, ..decided(request, &said) };
        if decided.fell.is_none() {
            let most_us = ready.met.denied_cache_us();
            let sent_us = deadline.began_us();
            safety.denied.learn(request.checks(), &decided.answer, sent_us, most_us, None);
        }
        Ok(decided)
    }

    /// Decides what lies in a part that gave no answer. Whether or not it ran there, it is not asked
    /// again: it could be charged twice.
    pub(super) async fn decide_without(
        &self,
        safety: &Safety<L>,
        ready: &Ready,
        request: &Request<'_>,
        part: Part,
        deadline: Deadline,
    ) -> Result<Decided, EngineError> {
        let lost = AtomicBool::new(false);
        let desk = Guarded { engine: self, safety, ready, request, deadline, lost };
        let piece = Piece { part, which: Which::first(request.checks().len()) };
        let said = vec![desk.without(piece).await];
        Ok(decided(request, &agree(&desk, request, said).await?))
    }

    /// Amends what a handle names of which some is held in this process alone.
    pub(super) async fn amend_handle_apart(
        &self,
        handle: &Handle,
        met: &Met,
        change: Change,
    ) -> Result<Amended, EngineError> {
        let OwnedTarget::Rules(rules) = &handle.target else {
            return self.amend(met, |_| change).await;
        };
        let is_local = |met: &MetLimit<'_>| {
            rules.iter().any(|rule| rule.local && rule.name == met.rule && rule.key == met.key)
        };
        let here = Asked::of(&self.store, met, None, which(met, is_local));
        let there = which(met, |met| !is_local(met));
        let here = match &self.safety {
            Some(safety) => safety.fallback.amend(here, |_| change).await,
            None => Vec::new(),
        };
        let there = self.amend_only(met, there, |_| change).await?;
        whole(here.into_iter().chain([Ok(there)]))
    }
}

fn decided(request: &Request<'_>, said: &[Said<'_>]) -> Decided {
    let (answer, fell) = merge(request.checks().len(), said);
    Decided { fell, ..Decided::by_store(answer) }
}

/// Asks the store through its guards, and decides without it what that does not answer.
struct Guarded<'a, 'r, S, L> {
    engine: &'a Engine<S, L>,
    safety: &'a Safety<L>,
    ready: &'a Ready,
    request: &'a Request<'r>,
    deadline: Deadline,
    /// Whether a part gave no answer that may have decided.
    lost: AtomicBool,
}

impl<'a, S: Store, L: Store> Guarded<'a, '_, S, L> {
    fn asked(&self, piece: Piece) -> Asked<'a> {
        Asked::of(&self.engine.store, &self.ready.met, self.ready.ticket, piece.which)
    }

    fn name(&self, piece: Piece) -> impl Fn() -> String {
        move || self.engine.store.shard_name(piece.part.shard)
    }

    /// What the store says.
    async fn store(&self, piece: Piece, look: bool) -> Result<Answer, StoreError> {
        let request = request_of(self.request, piece.which, look)
            .map_err(|error| StoreError::did_not_run(error.to_string()))?;
        let call = self.engine.store.decide_one(&request);
        let guard = self.safety.guards.of(piece.part.shard);
        guard.call(self.deadline, self.name(piece), call).await
    }

    /// What is said without the store: by leave that it gave before, and of the rest by the choices
    /// of its rules.
    async fn without(&self, piece: Piece) -> Result<Saids<'_>, EngineError> {
        let (mut said, mut rest) = (Saids::new(), piece.which);
        if let Some((which, alone)) = self.alone(piece)? {
            let Alone { answer, held, .. } = alone;
            let piece = Piece { which, ..piece };
            said.push(Said { piece, answer, fell: false, held: Some(held) });
            rest = rest.without(which);
        }
        if !rest.is_none() {
            let piece = Piece { which: rest, ..piece };
            let fallback = &self.safety.fallback;
            let answer = fallback.decide(self.asked(piece), &self.engine.store).await?;
            said.push(Said { piece, answer, fell: true, held: None });
        }
        Ok(said)
    }

    /// What this process decides of a piece by itself, and which of the request's limits that is.
    fn alone(&self, piece: Piece) -> Result<Option<(Which, Alone<'_>)>, EngineError> {
        if !self.ready.met.is_local() {
            return Ok(None);
        }
        let request = request_of(self.request, piece.which, false)?;
        let Some(alone) = self.engine.store.decide_alone(&request) else { return Ok(None) };
        let places = piece.which.of(0..self.request.checks().len()).enumerate();
        let places = places.filter(|(nth, _)| alone.which.contains(nth));
        let which = places.fold(Which::NONE, |which, (_, place)| which.with(place));
        Ok(Some((which, alone)))
    }
}

impl<S: Store, L: Store> Desk for Guarded<'_, '_, S, L> {
    type Error = EngineError;

    async fn decide(&self, piece: Piece) -> Result<Saids<'_>, EngineError> {
        match self.store(piece, false).await {
            Ok(answer) => Ok(Saids::from_iter([Said::by_store(piece, answer)])),
            Err(error) => {
                self.lost.fetch_or(error.ran() == Ran::Perhaps, Ordering::Relaxed);
                self.without(piece).await
            }
        }
    }

    async fn give_back(&self, said: &Said<'_>) {
        let Said { piece, answer, .. } = said;
        if said.fell {
            return self.safety.fallback.undo(self.asked(*piece), answer).await;
        }
        let amendments = amendments_of(self.request, piece.which, answer);
        let call = async {
            let amended = self.engine.store.amend(&amendments).await;
            amended.into_iter().collect::<Result<Vec<_>, StoreError>>()
        };
        let guard = self.safety.guards.of(piece.part.shard);
        guard.give_back(self.deadline, self.name(*piece), call).await;
        // Others may have been denied by what was charged for a moment.
        let now_us = self.safety.guards.now_us();
        for Amendment { limit, quota, key, .. } in &amendments {
            self.safety.denied.forget(limit, quota.algorithm(), key, now_us);
        }
    }

    async fn look(&self, said: &Said<'_>) -> Option<Answer> {
        if said.fell {
            return self.safety.fallback.look(self.asked(said.piece)).await.ok();
        }
        let guard = self.safety.guards.of(said.piece.part.shard);
        if guard.is_past(self.deadline) {
            return None;
        }
        self.store(said.piece, true).await.ok()
    }
}
