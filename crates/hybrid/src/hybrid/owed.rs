//! Owns [`Owed`]: what parts of the store were charged for a request that others have yet to admit. It
//! is given back unless the request goes, also if nobody waits for the request any longer.

use std::sync::Arc;

use smallvec::SmallVec;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tollkeeper_core::{Amendment, Change, Check, Consistency, Quota, Store};

use crate::local::Local;

/// A charge, and what undoes it.
struct Charge {
    limit: String,
    key: String,
    quota: Quota,
    consistency: Consistency,
    change: Change,
}

type Charges = SmallVec<[Charge; 2]>;

/// What is given back when it is dropped.
pub(super) struct Owed<S: Store + 'static> {
    local: Arc<Local<S>>,
    charges: Charges,
}

impl<S: Store + 'static> Owed<S> {
    pub(super) fn nothing(local: &Arc<Local<S>>) -> Self {
        Self { local: Arc::clone(local), charges: Charges::new() }
    }

    /// A check was charged, and `change` undoes it.
    pub(super) fn charged(&mut self, check: &Check<'_>, change: Change) {
        let Check { limit, quota, key, consistency, .. } = *check;
        let (limit, key) = (limit.to_owned(), key.to_owned());
        self.charges.push(Charge { limit, key, quota: *quota, consistency, change });
    }

    /// The request goes.
    pub(super) fn keep(mut self) {
        self.charges.clear();
    }

    /// Gives all of it back, and waits until that is done. It is done as well if nobody waits.
    pub(super) async fn give_back(mut self) {
        let charges = std::mem::take(&mut self.charges);
        if charges.is_empty() {
            return;
        }
        let given_back = give_back(Arc::clone(&self.local), charges);
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(given_back).await),
            Err(_) => given_back.await,
        }
    }
}

impl<S: Store + 'static> Drop for Owed<S> {
    fn drop(&mut self) {
        let charges = std::mem::take(&mut self.charges);
        if !charges.is_empty()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(give_back(Arc::clone(&self.local), charges));
        }
    }
}

/// If it fails, it is lost until it has flown in again.
async fn give_back<S: Store + 'static>(local: Arc<Local<S>>, charges: Charges) {
    let amendments = charges.iter().map(|charge| {
        let Charge { limit, key, quota, consistency, change } = charge;
        Amendment { limit, quota, key, consistency: *consistency, change: *change }
    });
    let amendments: SmallVec<[Amendment<'_>; 2]> = amendments.collect();
    let _ = timeout(local.patience(), local.store.amend(&amendments)).await;
}
