//! Owns [`Whole`]: a store of many parts as one that takes requests across them.

use futures_util::future::join_all;
use tollkeeper_core::{
    Amended, Amendment, Answer, Entry, Filter, Request, RequestError, Store, StoreError,
};

use super::{Desk, Piece, Said, Saids, Spread, amendments_of, decide, merge, request_of, spread};

/// A store of many parts as one whole: a request across them is decided part by part, as the
/// engine does it, without a guard. A part that fails is the failure of the request; what the
/// others were charged is given back.
#[derive(Debug)]
pub struct Whole<S>(pub S);

impl<S: Store> Store for Whole<S> {
    async fn decide(&self, requests: &[Request<'_>]) -> Vec<Result<Answer, StoreError>> {
        let mut under_way = Vec::with_capacity(requests.len());
        for request in requests {
            under_way.push(decide_one(&self.0, request));
        }
        join_all(under_way).await
    }

    async fn amend(&self, amendments: &[Amendment<'_>]) -> Vec<Result<Amended, StoreError>> {
        self.0.amend(amendments).await
    }

    async fn reset(&self, filter: Filter<'_>) -> Result<u64, StoreError> {
        self.0.reset(filter).await
    }

    async fn inspect(&self, filter: Filter<'_>, most: usize) -> Result<Vec<Entry>, StoreError> {
        self.0.inspect(filter, most).await
    }
}

async fn decide_one<S: Store>(store: &S, request: &Request<'_>) -> Result<Answer, StoreError> {
    match spread(store, request.checks()) {
        Spread::One(_) => store.decide_one(request).await,
        Spread::Several(pieces) => {
            let desk = Plain { store, request };
            let said = decide(&desk, request, &pieces).await?;
            Ok(merge(request.checks().len(), &said).0)
        }
    }
}

/// Asks a store and nobody else.
pub(crate) struct Plain<'a, 'r, S> {
    pub(crate) store: &'a S,
    pub(crate) request: &'a Request<'r>,
}

impl<S: Store> Plain<'_, '_, S> {
    async fn ask(&self, piece: Piece, look: bool) -> Result<Answer, StoreError> {
        let request = request_of(self.request, piece.which, look).map_err(unfit)?;
        self.store.decide_one(&request).await
    }
}

impl<S: Store> Desk for Plain<'_, '_, S> {
    type Error = StoreError;

    async fn decide(&self, piece: Piece) -> Result<Saids<'_>, StoreError> {
        let answer = self.ask(piece, false).await?;
        Ok(Saids::from_iter([Said::by_store(piece, answer)]))
    }

    async fn give_back(&self, said: &Said<'_>) {
        let amendments = amendments_of(self.request, said.piece.which, &said.answer);
        // Nobody watches here.
        let _ = self.store.amend(&amendments).await;
    }

    async fn look(&self, said: &Said<'_>) -> Option<Answer> {
        self.ask(said.piece, true).await.ok()
    }
}

/// Cannot be: a part of a request that can be asked can be asked.
fn unfit(error: RequestError) -> StoreError {
    StoreError::did_not_run(error.to_string())
}
