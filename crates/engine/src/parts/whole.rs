//! Owns [`Whole`]: a store of many parts as one that takes requests across them.

use futures_util::future::join_all;
use tollkeeper_core::{
    Amended, Amendment, Answer, Entry, Filter, Request, RequestError, Store, StoreError,
};

use super::{Desk, Piece, Said, Spread, amendments_of, decide, merge, request_of, spread};
use crate::failure::one;

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
        Spread::One(_) => one(store.decide(std::slice::from_ref(request)).await),
        Spread::Several(pieces) => {
            let said = decide(&Plain { store, request }, request, &pieces).await?;
            Ok(merge(request.checks().len(), &pieces, &said).0)
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
        one(self.store.decide(&[request]).await)
    }
}

impl<S: Store> Desk for Plain<'_, '_, S> {
    type Error = StoreError;

    async fn decide(&self, piece: Piece) -> Result<Said, StoreError> {
        Ok(Said { answer: self.ask(piece, false).await?, local: false })
    }

    async fn give_back(&self, piece: Piece, said: &Said) {
        let amendments = amendments_of(self.request, piece.which, &said.answer);
        // Nobody watches here.
        let _ = self.store.amend(&amendments).await;
    }

    async fn look(&self, piece: Piece, _local: bool) -> Option<Answer> {
        self.ask(piece, true).await.ok()
    }
}

/// Cannot be: a part of a request that can be asked can be asked.
fn unfit(error: RequestError) -> StoreError {
    StoreError::did_not_run(error.to_string())
}
