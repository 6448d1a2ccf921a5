//! Requests whose limits lie in several parts of the store: each part behind the guard of its
//! server, and without an answer by the choices of its own rules.

use tollkeeper_core::{Amended, Amendment, Answer, Change, Request, Store, StoreError};

use super::amend::{which, whole};
use super::{Engine, Ready, Safety};
use crate::error::EngineError;
use crate::failure::Asked;
use crate::guard::Deadline;
use crate::handle::{Handle, OwnedTarget};
use crate::met::{Met, MetLimit};
use crate::parts::{Desk, Fate, Piece, Plain, Said, amendments_of, decide, merge, request_of};
use crate::verdict::{Decided, Verdict};

impl<S: Store, L: Store> Engine<S, L> {
    /// Decides on a store that cannot fail.
    pub(super) async fn decide_apart(
        &self,
        request: &Request<'_>,
        pieces: &[Piece],
    ) -> Result<Decided, EngineError> {
        let said = decide(&Plain { store: &self.store, request }, request, pieces).await?;
        Ok(decided(request, pieces, &said))
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
        let desk = Guarded { engine: self, safety, ready, request, deadline };
        let said = decide(&desk, request, pieces).await?;
        for (piece, said) in pieces.iter().zip(&said).filter(|(_, said)| !said.local) {
            safety.fallback.learn(desk.asked(*piece), &said.answer).await;
        }
        let decided = decided(request, pieces, &said);
        if !said.iter().any(|said| said.local) {
            let most_us = ready.met.denied_cache_us();
            let sent_us = deadline.began_us();
            safety.denied.learn(request.checks(), &decided.answer, sent_us, most_us, None);
        }
        Ok(decided)
    }

    /// Gives back what the limits in `met` were charged, each by its own clock, and where it was
    /// charged. They are some of the verdict's.
    pub(super) async fn give_back_apart(
        &self,
        verdict: &Verdict,
        fates: &[Fate],
        met: &Met,
    ) -> Result<(), EngineError> {
        let fate = |met: &MetLimit<'_>| {
            verdict.inner.met.position(met).and_then(|nth| fates.get(nth)).copied()
        };
        let some = |local: bool| {
            let meant = |met: &MetLimit<'_>| {
                fate(met).is_some_and(|fate| fate.local == local && fate.charged_at_us.is_some())
            };
            which(met, meant)
        };
        let change = |met: &MetLimit<'_>| {
            let charged_at_us = fate(met).and_then(|fate| fate.charged_at_us);
            Change::Refund { units: met.cost, charged_at_us }
        };
        if let Some(safety) = &self.safety {
            let asked = Asked::of(&self.store, met, None, some(true));
            whole(safety.fallback.amend(asked, change).await)?;
        }
        self.amend_only(met, some(false), change).await.map(drop)
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

fn decided(request: &Request<'_>, pieces: &[Piece], said: &[Said]) -> Decided {
    let (answer, fates) = merge(request.checks().len(), pieces, said);
    Decided { apart: Some(fates.into_boxed_slice()), ..Decided::by_store(answer) }
}

/// Asks the store through its guards, and decides without it what that does not answer.
struct Guarded<'a, 'r, S, L> {
    engine: &'a Engine<S, L>,
    safety: &'a Safety<L>,
    ready: &'a Ready,
    request: &'a Request<'r>,
    deadline: Deadline,
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
}

impl<S: Store, L: Store> Desk for Guarded<'_, '_, S, L> {
    type Error = EngineError;

    async fn decide(&self, piece: Piece) -> Result<Said, EngineError> {
        match self.store(piece, false).await {
            Ok(answer) => Ok(Said { answer, local: false }),
            // Whether or not it ran there, it is not asked again: it could be charged twice.
            Err(_) => {
                let asked = self.asked(piece);
                let answer = self.safety.fallback.decide(asked, &self.engine.store).await?;
                Ok(Said { answer, local: true })
            }
        }
    }

    async fn give_back(&self, piece: Piece, said: &Said) {
        if said.local {
            return self.safety.fallback.undo(self.asked(piece), &said.answer).await;
        }
        let amendments = amendments_of(self.request, piece.which, &said.answer);
        let call = async {
            let amended = self.engine.store.amend(&amendments).await;
            amended.into_iter().collect::<Result<Vec<_>, StoreError>>()
        };
        let guard = self.safety.guards.of(piece.part.shard);
        guard.give_back(self.deadline, self.name(piece), call).await;
        // Others may have been denied by what was charged for a moment.
        let now_us = self.safety.guards.now_us();
        for Amendment { limit, quota, key, .. } in &amendments {
            self.safety.denied.forget(limit, quota.algorithm(), key, now_us);
        }
    }

    async fn look(&self, piece: Piece, local: bool) -> Option<Answer> {
        if local {
            return self.safety.fallback.look(self.asked(piece)).await.ok();
        }
        let guard = self.safety.guards.of(piece.part.shard);
        if guard.is_past(self.deadline) {
            return None;
        }
        self.store(piece, true).await.ok()
    }
}
