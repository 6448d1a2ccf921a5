//! Stands in for the engine where a request's keys lie in several parts of a store: one part after
//! the other, in an order that is the same for all, until one denies.

use tollkeeper_core::{
    Amended, Amendment, Answer, Change, Check, Entry, Filter, Part, Request, Store, StoreError,
};
use tollkeeper_redis::RedisStore;

/// A store that takes requests whose keys lie anywhere.
#[derive(Debug)]
pub(crate) struct Split(pub(crate) RedisStore);

impl Split {
    async fn decide_one(&self, request: &Request<'_>) -> Result<Answer, StoreError> {
        let checks = request.checks();
        let part = |check: &Check<'_>| self.0.part(check.key);
        let mut parts: Vec<Part> = checks.iter().map(part).collect();
        parts.sort_unstable_by_key(|part| part.slot);
        parts.dedup();
        if let [_] = parts[..] {
            return self.0.decide(std::slice::from_ref(request)).await.remove(0);
        }
        let mut outcomes = vec![None; checks.len()];
        let (mut charged, mut now_us, mut denies) = (Vec::new(), 0, false);
        for wanted in parts {
            let here: Vec<usize> =
                (0..checks.len()).filter(|nth| part(&checks[*nth]) == wanted).collect();
            let asked = here.iter().map(|nth| match denies {
                true => Check { cost: 0, ..checks[*nth] },
                false => checks[*nth],
            });
            let asked = Request::new(asked, request.ticket()).unwrap();
            let answer = self.0.decide(&[asked]).await.remove(0)?;
            charged.extend(answer.charged_at_us.map(|at_us| (here.clone(), at_us)));
            denies |= !answer.allowed;
            now_us = answer.now_us;
            for (nth, outcome) in here.into_iter().zip(answer.outcomes()) {
                outcomes[nth] = Some(*outcome);
            }
        }
        for (here, charged_at_us) in charged.iter().filter(|_| denies) {
            for Check { limit, quota, key, cost, .. } in here.iter().map(|nth| checks[*nth]) {
                let charged_at_us = Some(*charged_at_us);
                let change = Change::Refund { units: cost, charged_at_us };
                self.0.amend(&[Amendment { limit, quota, key, change }]).await.remove(0)?;
            }
        }
        Ok(Answer::new(now_us, !charged.is_empty() && !denies, outcomes.into_iter().flatten()))
    }
}

impl Store for Split {
    async fn decide(&self, requests: &[Request<'_>]) -> Vec<Result<Answer, StoreError>> {
        let mut answers = Vec::new();
        for request in requests {
            answers.push(self.decide_one(request).await);
        }
        answers
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
