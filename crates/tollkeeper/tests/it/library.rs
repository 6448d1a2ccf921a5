//! The library as an application uses it.

use std::time::Duration;

use tollkeeper::{Amended, Charge, Limit, ManualClock, Source, Tollkeeper};

const DONE: Amended = Amended::Done { forgiven: 0 };

#[tokio::test]
async fn a_denial_says_when_to_come_back() {
    let clock = ManualClock::default();
    let limiter = Tollkeeper::memory()
        .limit("api", Limit::per_minute(60).burst(2))
        .clock(clock.clone())
        .build();
    assert!(limiter.check("api", "alice").await.unwrap().allowed());
    assert!(limiter.check("api", "alice").await.unwrap().allowed());
    let denied = limiter.check("api", "alice").await.unwrap();
    assert!(!denied.allowed());
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(1)));
    assert_eq!(denied.rule(), "api");
    assert!(limiter.check("api", "bob").await.unwrap().allowed(), "another key counts by itself");
    clock.advance(1_000_000);
    assert!(limiter.check("api", "alice").await.unwrap().allowed());
    let never = limiter.check_cost("api", "alice", 3).await.unwrap();
    assert_eq!((never.allowed(), never.retry_after()), (false, None));
}

#[tokio::test]
async fn every_algorithm_has_its_constructor() {
    for limit in [
        Limit::per_second(3),
        Limit::token_bucket(3, "1/min"),
        Limit::gcra(3, "1/min"),
        Limit::leaking_bucket(3, "1/min"),
        Limit::leaking_bucket(3, "1/min").meter(),
        Limit::fixed_window(3, "1d"),
        Limit::sliding_window_log(3, "1 min"),
        Limit::sliding_window_counter(3, "10 s"),
        Limit::concurrency(3, "30s"),
    ] {
        let limiter =
            Tollkeeper::memory().limit("api", limit).clock(ManualClock::at(1_000)).build();
        let mut admitted = 0;
        while limiter.check("api", "alice").await.unwrap().allowed() {
            admitted += 1;
        }
        assert_eq!(admitted, 3);
    }
}

#[tokio::test]
async fn several_limits_of_one_name_are_met_together() {
    let limiter = Tollkeeper::memory()
        .limit("api", Limit::fixed_window(5, "1d"))
        .limit("api", Limit::fixed_window(2, "1h"))
        .clock(ManualClock::at(0))
        .build();
    assert!(limiter.check_cost("api", "alice", 2).await.unwrap().allowed());
    let denied = limiter.check("api", "alice").await.unwrap();
    let limits: Vec<_> =
        denied.limits().map(|limit| (limit.name().to_owned(), limit.remaining())).collect();
    assert_eq!(limits, [("api/1d".to_owned(), 3), ("api/1h".to_owned(), 0)]);
}

#[tokio::test]
async fn permits_refunds_and_resets() {
    let limiter = Tollkeeper::memory()
        .limit("jobs", Limit::concurrency(1, "30s"))
        .limit("api", Limit::fixed_window(2, "1d"))
        .clock(ManualClock::at(0))
        .build();
    let held = limiter.check("jobs", "alice").await.unwrap();
    assert!(!limiter.check("jobs", "alice").await.unwrap().allowed());
    let permit = held.handle().unwrap();
    assert_eq!(limiter.renew(permit).await, Ok(DONE));
    assert_eq!(limiter.release(permit).await, Ok(DONE));
    assert_eq!(limiter.release(permit).await, Ok(Amended::Unknown));
    assert!(limiter.check("jobs", "alice").await.unwrap().allowed());

    let charged = limiter.check_cost("api", "alice", 2).await.unwrap();
    let charge = Charge { cost: 1, charged_at_us: charged.charged_at_us() };
    assert_eq!(limiter.refund("api", "alice", charge).await, Ok(DONE));
    assert_eq!(limiter.peek("api", "alice").await.unwrap().remaining(), 1);
    limiter.reset("api", "alice").await.unwrap();
    assert_eq!(limiter.peek("api", "alice").await.unwrap().remaining(), 2);
}

#[tokio::test]
async fn a_shadow_limit_counts_and_denies_nothing() {
    let limiter = Tollkeeper::memory().limit("api", Limit::fixed_window(1, "1d").shadow()).build();
    for would in [true, false, false] {
        let decision = limiter.check("api", "alice").await.unwrap();
        assert!(decision.allowed());
        assert_eq!(decision.limits().map(|limit| limit.allowed()).collect::<Vec<_>>(), [would]);
    }
}

#[tokio::test]
async fn mistakes_are_told_with_their_name() {
    let told = |limit| {
        Tollkeeper::memory().limit("api", limit).try_build().map(drop).unwrap_err().to_string()
    };
    assert_eq!(
        told(Limit::per_second(0)),
        "limit `api`: `rate` is 0; expected at least 1 (to let nothing through, take the route away)"
    );
    assert_eq!(
        told(Limit::fixed_window(1, "1h").burst(3)),
        "limit `api`: `burst` goes with a token bucket or gcra"
    );
    for (limit, said) in [
        (Limit::per_second(1).period("1s"), "`period` goes with `lease` or `sync`, behind it"),
        (
            Limit::per_second(1).share().period("1s"),
            "`period` goes with `lease` or `sync`, behind it",
        ),
        (Limit::per_second(1000).lease().sub_shards(2), "`sub_shards` goes with `sync`, behind it"),
        (
            Limit::per_second(1000).lease().period("1s"),
            "`lease`: a period of 1s does not suit the limit; expected 10ms to 125ms",
        ),
        (
            Limit::per_second(10).sync().sub_shards(2),
            "`sync`: 10 cannot be split over 2 keys; expected 1 to 1 of them",
        ),
    ] {
        assert_eq!(told(limit), format!("limit `api`: {said}"));
    }
    let error = told(Limit::concurrency(5, "30s").share());
    assert!(error.starts_with("limit `api`: `share`: not with concurrency"), "{error}");
    let error = told(Limit::per_second(1000).lease().period("soon"));
    assert!(error.starts_with("limit `api`: `soon`: "), "{error}");
    let limiter = Tollkeeper::memory().limit("api", Limit::per_second(1)).build();
    assert_eq!(
        limiter.check("apo", "alice").await.unwrap_err().to_string(),
        "`rule` is `apo`, which the policy does not have; did you mean `api`?"
    );
    assert_eq!(
        limiter.check("api", "").await.unwrap_err().to_string(),
        "`key` is empty; expected 1 to 1024 bytes"
    );
}

#[tokio::test]
async fn who_decides_is_one_for_all_limits_of_a_name_and_nobody_else_in_memory() {
    let (second, minute) = (Limit::per_second(1000), Limit::per_minute(10_000));
    let built = |second, minute| {
        let limiter = Tollkeeper::memory().limit("api", second).limit("api", minute);
        limiter.clock(ManualClock::at(0)).try_build()
    };
    let error = built(second.clone().lease(), minute.clone()).unwrap_err().to_string();
    assert_eq!(error, "limit `api`: its limits must all have the same `lease`, `sync` or `share`");
    let limiter = built(second.lease(), minute.lease()).unwrap();
    let decision = limiter.check_cost("api", "alice", 1000).await.unwrap();
    assert!(decision.allowed(), "nothing is kept back");
    assert_eq!(decision.source(), Source::Store);

    let counted =
        Tollkeeper::memory().limit("api", Limit::per_second(1)).nodes(2).count_nodes(true);
    assert_eq!(
        counted.try_build().unwrap_err().to_string(),
        "`nodes` says how many there are, and `count_nodes` counts them"
    );
}
