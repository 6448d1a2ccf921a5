//! A store that decides some limits in this process, with leave of its server.

use std::sync::Arc;

use tollkeeper_core::{
    Amended, Amendment, Answer, Check, Consistency, ManualClock, Request, Store, StoreError,
};
use tollkeeper_engine::{Ask, Engine, Judgement, ManualTimer, Source, Target, Verdict};
use tollkeeper_memory::{MemoryStore, Settings};
use tollkeeper_policy::{Attributes, Policy};
use tollkeeper_testkit::faulty::{FaultyStore, Mood};
use tollkeeper_testkit::parted::Parted;
use tollkeeper_testkit::relay::{Relay, Relayed};

use crate::kit::{Memory, ready};

const START_US: u64 = 1_700_000_000_000_000;
const HERE_US: u64 = START_US - 7_000_000;

/// A server, and what it gave leave for.
#[derive(Debug)]
struct Leave {
    server: FaultyStore<Memory>,
    here: Memory,
}

fn is_here(consistency: Consistency) -> bool {
    consistency != Consistency::Exact
}

impl Leave {
    /// A server and a process with clocks of their own.
    fn new() -> Relayed<Self> {
        let at = |us| MemoryStore::new(Settings::default(), ManualClock::at(us));
        Relayed(Self { server: FaultyStore::new(at(START_US)), here: at(HERE_US) })
    }

    /// Each limit where it is decided, with the time of there.
    async fn decide_both(&self, request: &Request<'_>) -> Result<Answer, StoreError> {
        if request.checks().iter().all(|check| is_here(check.consistency)) {
            return self.server.decide_one(request).await;
        }
        let mut told = Vec::new();
        for check in request.checks() {
            let one = Request::new([*check], request.ticket()).unwrap();
            let answer = match is_here(check.consistency) {
                true => self.here.decide_one(&one).await?,
                false => self.server.decide_one(&one).await?,
            };
            told.push((answer.outcomes()[0], answer.charged_at_us));
        }
        let answer = Answer::new(START_US, false, told.iter().map(|(outcome, _)| *outcome));
        Ok(answer.dated(told.iter().map(|(_, at_us)| *at_us)))
    }
}

impl Relay for Leave {
    type To = FaultyStore<Memory>;

    fn to(&self) -> &Self::To {
        &self.server
    }

    async fn decide(&self, requests: &[Request<'_>]) -> Vec<Result<Answer, StoreError>> {
        let mut answers = Vec::new();
        for request in requests {
            answers.push(self.decide_both(request).await);
        }
        answers
    }

    fn decide_at_once(&self, request: &Request<'_>) -> Option<Result<Answer, StoreError>> {
        let is_here = |check: &Check<'_>| is_here(check.consistency);
        let answer =
            request.checks().iter().all(is_here).then(|| self.here.decide_at_once(request));
        // What it has no leave for any longer is the server's.
        answer.flatten().filter(|answer| answer.as_ref().is_ok_and(|answer| answer.allowed))
    }

    async fn amend(&self, amendments: &[Amendment<'_>]) -> Vec<Result<Amended, StoreError>> {
        let mut amended = Vec::new();
        for amendment in amendments {
            let one = std::slice::from_ref(amendment);
            amended.extend(match is_here(amendment.consistency) {
                true => self.here.amend(one).await,
                false => self.server.amend(one).await,
            });
        }
        amended
    }
}

fn engine<S: Store>(rules: &str, store: S) -> Engine<S, Memory> {
    let policy = Policy::parse(rules, &|_| None).unwrap_or_else(|errors| panic!("{errors}"));
    let local = MemoryStore::new(Settings::default(), ManualClock::at(START_US));
    Engine::guarded(policy, store, local, Arc::new(ManualTimer::default())).unwrap()
}

fn judge<S: Store>(engine: &Engine<S, Memory>, pairs: [(&str, &str); 2]) -> Verdict {
    let attributes = Attributes::from_pairs(pairs).unwrap();
    match ready(engine.judge(engine.meet(&attributes))).unwrap() {
        Judgement::Decided(verdict) => verdict,
        other => panic!("{other:?}"),
    }
}

fn remaining(verdict: &Verdict) -> Vec<u64> {
    verdict.limits().map(|limit| limit.outcome.remaining).collect()
}

/// With the server down, a batch left to `on_failure` what a single check would have been given.
#[test]
fn a_batch_takes_what_was_given_leave_for_as_a_check_does() {
    let rules = "rules: { told: { limit: 10/h, consistency: sync, on_failure: closed } }";
    let engine = engine(rules, Leave::new());
    engine.store().0.server.set(Mood::Refusing);
    let ask = Ask { target: Target::Rule("told"), key: Some("alice"), cost: 1 };
    assert!(ready(engine.check(ask)).unwrap().allowed());
    let verdicts = ready(engine.check_many(&[ask; 12]));
    let allowed = verdicts.iter().filter(|verdict| verdict.as_ref().unwrap().allowed()).count();
    assert_eq!(allowed, 9, "ten in all");
    let last = verdicts.last().unwrap().as_ref().unwrap();
    assert_eq!(last.source(), Source::Fallback);
}

/// Parts of a key were found by a process that had met it, and in every rule.
#[test]
fn a_reset_of_a_key_means_its_parts_where_it_is_split() {
    let rules = "
store: { url: \"redis://127.0.0.1:1\" }
rules:
  split: { limit: 100/h, consistency: sync, sub_shards: 4 }
  whole: { limit: 100/h, consistency: sync }
";
    let engine = engine(rules, Leave::new());
    let states = || ready(engine.inspect(None, Some("a"), 9)).unwrap();
    for (rule, key) in [("split", "a#3"), ("whole", "a#3"), ("split", "a"), ("whole", "b")] {
        let quota = engine.policy().quota(rule).copied().unwrap();
        let request = Request::new([Check::new(rule, &quota, key, 1)], None).unwrap();
        assert!(ready(engine.store().0.server.decide_one(&request)).unwrap().allowed);
    }
    let mut keys: Vec<_> = states().into_iter().map(|entry| (entry.limit, entry.key)).collect();
    keys.sort_unstable();
    assert_eq!(keys, [("split", "a"), ("split", "a#3")].map(|(a, b)| (a.into(), b.into())));
    assert_eq!(ready(engine.reset(None, Some("a"))), Ok(2));
    assert!(states().is_empty());
    assert_eq!(ready(engine.reset(None, None)), Ok(2), "those of others");
}

/// A log that the server keeps, beside one that this process does.
const BESIDE: &str = "
  told: { key: attribute:a, algorithm: sliding_window_log, limit: 9/day, consistency: sync, refund_on: [5xx] }
  kept: { key: attribute:a, algorithm: sliding_window_log, limit: 9/day, refund_on: [5xx] }
";

/// Both were given back by the time of whichever was charged first, at which a log has nothing.
#[test]
fn each_limit_is_given_back_by_its_own_time() {
    for way in 0..2 {
        let engine = engine(&format!("rules:{BESIDE}"), Leave::new());
        let verdict = judge(&engine, [("a", "alice"), ("b", "")]);
        assert_eq!((remaining(&verdict), verdict.is_apart()), (vec![8, 8], true));
        let times: Vec<_> = verdict.limits().map(|limit| limit.charged_at_us).collect();
        assert_eq!(times, [Some(HERE_US), Some(START_US)]);
        match way {
            0 => ready(engine.undo(&verdict)).unwrap(),
            _ => ready(engine.refund_on(&verdict, 502)).unwrap(),
        }
        assert_eq!(remaining(&judge(&engine, [("a", "alice"), ("b", "")])), [8, 8]);
    }
}

/// A request that another server denied stayed in the log beside what this process decides.
#[test]
fn a_denial_of_another_server_leaves_no_charge_beside_what_is_decided_here() {
    let rules = format!("rules:{BESIDE}  there: {{ key: attribute:b, limit: 1/day }}");
    let store = Parted::new(vec![Leave::new(), Leave::new()]);
    let (a, b) = (store.key_on(0, "a"), store.key_on(1, "b"));
    let engine = engine(&rules, store);
    let pairs = [("a", a.as_str()), ("b", b.as_str())];
    assert!(judge(&engine, pairs).allowed());
    for _ in 0..3 {
        let denied = judge(&engine, pairs);
        assert_eq!((denied.allowed(), remaining(&denied)), (false, vec![8, 8, 0]));
    }
}
