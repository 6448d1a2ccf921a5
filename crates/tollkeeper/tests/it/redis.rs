//! The library on a real server.

use std::time::Duration;

use tollkeeper::{Limit, OnFailure, Source, Tollkeeper};
use tollkeeper_testkit::redis_server::RedisServer;

/// So long that only a server that never answers misses it.
const AMPLE: Duration = Duration::from_secs(5);

#[tokio::test]
async fn limiters_on_one_server_share_their_limits() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let limiter = || {
        let limit = Limit::per_day(10);
        Tollkeeper::redis(&server.url()).limit("api", limit).timeout(AMPLE).build()
    };
    let (one, other) = (limiter(), limiter());
    one.opened().await.unwrap();
    other.opened().await.unwrap();
    let mut admitted = 0;
    for nth in 0..30 {
        let asked = if nth % 2 == 0 { &one } else { &other };
        let decision = asked.check("api", "alice").await.unwrap();
        // A denial may be told again without asking, an admission never.
        let known = if decision.allowed() { Source::Store } else { Source::Cache };
        assert!([Source::Store, known].contains(&decision.source()));
        admitted += u32::from(decision.allowed());
    }
    assert_eq!(admitted, 10);
    assert_eq!(server.keys_without_ttl().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn keys_are_spread_over_several_servers_in_whatever_order() {
    let servers = [(), ()].map(|()| RedisServer::start("redis-server", &[]).unwrap());
    let [one, other] = [servers[0].url(), servers[1].url()];
    let limiter = |urls: &[&str]| {
        let limit = Limit::per_day(1);
        Tollkeeper::shards(urls).limit("api", limit).timeout(AMPLE).build()
    };
    let (there, back) = (limiter(&[&one, &other]), limiter(&[&other, &one]));
    there.opened().await.unwrap();
    back.opened().await.unwrap();
    for nth in 0..20 {
        let key = format!("key{nth}");
        assert!(there.check("api", &key).await.unwrap().allowed());
        assert!(!back.check("api", &key).await.unwrap().allowed());
    }
    for server in &servers {
        assert!(server.command(&["DBSIZE"]).unwrap().integer().unwrap() > 0);
    }
    assert!(Tollkeeper::shards(&[&one, &one]).limit("api", Limit::per_day(1)).try_build().is_err());
}

#[tokio::test]
async fn without_a_server_each_limit_does_as_it_says() {
    let limiter = Tollkeeper::redis("redis://127.0.0.1:1")
        .limit("usual", Limit::per_day(10))
        .limit("lenient", Limit::per_day(1).on_failure(OnFailure::Open))
        .limit("strict", Limit::per_day(10).on_failure(OnFailure::Closed))
        .nodes(2)
        .build();
    assert!(limiter.opened().await.is_err());
    for (rule, expected) in [("usual", 5), ("lenient", 20), ("strict", 0)] {
        let mut admitted = 0;
        for _ in 0..20 {
            let decision = limiter.check(rule, "alice").await.unwrap();
            assert_eq!(decision.source(), Source::Fallback);
            admitted += u32::from(decision.allowed());
        }
        assert_eq!(admitted, expected, "{rule}");
    }
}

#[tokio::test]
async fn a_policy_file_can_name_a_server() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let yaml =
        format!("store: {{ url: \"{}\" }}\nrules: {{ api: {{ limit: 1/day }} }}", server.url());
    let limiter = Tollkeeper::from_yaml(&yaml).unwrap();
    limiter.opened().await.unwrap();
    assert!(limiter.check("api", "alice").await.unwrap().allowed());
    assert!(!limiter.check("api", "alice").await.unwrap().allowed());
}

/// How many scripts the server has run.
fn scripts_run(server: &RedisServer) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]).unwrap().to_string();
    let lines = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    lines.filter_map(|rest| rest.split(',').next()?.parse::<u64>().ok()).sum()
}

#[tokio::test]
async fn a_denial_is_asked_for_again_if_none_is_kept() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    for (most, source) in [(Duration::ZERO, Source::Store), (AMPLE, Source::Cache)] {
        let limit = Limit::per_day(1);
        let limiter = Tollkeeper::redis(&server.url()).limit("api", limit).timeout(AMPLE);
        let limiter = limiter.denied_cache(most).build();
        limiter.opened().await.unwrap();
        while limiter.check("api", "alice").await.unwrap().allowed() {}
        assert_eq!(limiter.check("api", "alice").await.unwrap().source(), source);
    }
}

#[tokio::test]
async fn checks_that_wait_go_together_unless_they_are_not_to() {
    const AT_ONCE: usize = 64;
    let server = RedisServer::start("redis-server", &[]).unwrap();
    for merge in [false, true] {
        let limit = Limit::per_day(1_000);
        let limiter = Tollkeeper::redis(&server.url()).limit("api", limit).timeout(AMPLE);
        let limiter = limiter.merge(merge).build();
        limiter.opened().await.unwrap();
        assert!(limiter.check("api", "alice").await.unwrap().allowed());
        let before = scripts_run(&server);
        let asking = (0..AT_ONCE).map(|_| {
            let limiter = limiter.clone();
            async move { limiter.check("api", "alice").await.unwrap().allowed() }
        });
        let told = asking.collect::<tokio::task::JoinSet<_>>().join_all().await;
        assert!(told.into_iter().all(|allowed| allowed));
        let calls = scripts_run(&server) - before;
        assert_eq!(calls == AT_ONCE as u64, !merge, "{calls} calls");
    }
}

#[test]
fn what_is_wrong_is_said_when_it_is_built() {
    let built = |url: &str| Tollkeeper::redis(url).limit("api", Limit::per_day(1)).try_build();
    let error = built("reddis://:hunter2@localhost").unwrap_err().to_string();
    assert!(error.contains("did you mean `redis://`?") && !error.contains("hunter2"), "{error}");
    let error = built("redis://localhost").unwrap_err().to_string();
    assert!(error.contains("Tokio runtime"), "{error}");
    let error = Tollkeeper::memory().limit("api", Limit::per_day(1)).nodes(0).try_build();
    assert_eq!(error.unwrap_err().to_string(), "`nodes` is 0; expected 1 to 100000");
}

/// The server gave it when nobody waited any more, and held it for an hour.
#[tokio::test]
async fn a_permit_that_the_server_gives_too_late_is_given_back() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let limiter = || {
        let limit = Limit::concurrency(1, "1h");
        let limiter = Tollkeeper::redis(&server.url()).limit("few", limit);
        limiter.on_failure(OnFailure::Closed)
    };
    let (hurried, patient) = (limiter().build(), limiter().timeout(AMPLE).build());
    for limiter in [&hurried, &patient] {
        limiter.opened().await.unwrap();
    }
    // The script is known from here on.
    let first = patient.check("few", "alice").await.unwrap();
    patient.release(first.handle().unwrap()).await.unwrap();
    server.stop().unwrap();
    let late = hurried.check("few", "alice").await.unwrap();
    assert_eq!((late.allowed(), late.source()), (false, Source::Fallback));
    server.cont().unwrap();
    hurried.given_back().await;
    assert_eq!(patient.peek("few", "alice").await.unwrap().remaining(), 1);
}
