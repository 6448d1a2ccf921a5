//! Keys spread over several servers, as somebody sees it who runs the service.

use serde_json::Value;
use tollkeeper_testkit::moment::until;
use tollkeeper_testkit::redis_server::RedisServer;

use crate::kit::{Folder, PATIENCE, Service, run, text};

const RULES: &str = "
rules:
  per-user: { key: attribute:user, limit: 5/day }
  per-ip: { key: ip, limit: 1000/day }
";

fn servers() -> [RedisServer; 2] {
    [(), ()].map(|()| RedisServer::start("redis-server", &[]).unwrap())
}

fn policy(servers: &[RedisServer], more: &str) -> String {
    let urls: Vec<String> = servers.iter().map(|server| format!("\"{}\"", server.url())).collect();
    format!("store: {{ url: [{}], timeout: 5s{more} }}{RULES}", urls.join(", "))
}

fn place(server: &RedisServer) -> String {
    format!("127.0.0.1:{}", server.port())
}

fn check(service: &Service, user: &str) -> Value {
    let body = format!(r#"{{"attributes":{{"user":"{user}","ip":"1.2.3.4"}}}}"#);
    service.post("/v1/check", &body).json()
}

fn keys(server: &RedisServer) -> i64 {
    server.command(&["DBSIZE"]).unwrap().integer().unwrap()
}

#[test]
fn keys_are_spread_shown_and_forgotten_on_all_servers() {
    let servers = servers();
    let service = Service::start("spread", &policy(&servers, ""));
    for nth in 0..40 {
        assert_eq!(check(&service, &format!("user-{nth}"))["allowed"], true);
    }
    let counts = [keys(&servers[0]), keys(&servers[1])];
    assert_eq!(counts.iter().sum::<i64>(), 41);
    assert!(counts.iter().all(|count| *count > 5), "{counts:?}");
    let shown = service.get("/debug/state?rule=per-user").json();
    assert_eq!(shown["keys"].as_object().unwrap().len(), 40);
    let one = service.get("/debug/state?rule=per-user&key=user-7").json();
    assert_eq!(one["keys"].as_object().unwrap().len(), 1);
    assert_eq!(service.post("/debug/reset", "").json()["reset"], 41);
    assert_eq!([keys(&servers[0]), keys(&servers[1])], [0, 0]);
    let ready = service.get("/readyz").json();
    assert_eq!((&ready["store"], ready["shards"].as_object().unwrap().len()), (&"up".into(), 2));
}

#[test]
fn a_dead_server_is_named_and_the_service_stays_ready() {
    let mut servers = servers();
    let service = Service::start("one-dead", &policy(&servers, ", on_failure: closed"));
    let alive = (0..).map(|nth| format!("user-{nth}"));
    servers[1].kill();
    let dead = place(&servers[1]);
    let ready = until(PATIENCE, || {
        let reply = service.get("/readyz");
        (reply.json()["store"] == "partly down").then_some(reply)
    })
    .unwrap();
    assert_eq!(ready.status, 200);
    let body = ready.json();
    assert_eq!(body["shards"][&dead], "down");
    assert_eq!(body["shards"][place(&servers[0])], "up");
    let open = format!("tollkeeper_breaker_state{{shard=\"{dead}\"}} 2\n");
    until(PATIENCE, || {
        let _ = service.get("/readyz");
        service.get("/metrics").body.contains(&open).then_some(())
    })
    .unwrap();
    let well = format!("tollkeeper_breaker_state{{shard=\"{}\"}} 0\n", place(&servers[0]));
    assert!(service.get("/metrics").body.contains(&well));
    assert!(service.log().contains(&format!("store={dead}")), "{}", service.log());
    // Each limit says who decided it. A denied request left no charge on the living server.
    let mut sources = std::collections::HashSet::new();
    for user in alive.take(20) {
        let decision = check(&service, &user);
        let limits = decision["limits"].as_array().unwrap();
        for limit in limits.iter().filter(|limit| limit.get("source").is_some()) {
            sources.insert(limit["source"].as_str().unwrap().to_owned());
        }
        let closed = decision["source"] == "fallback";
        assert_eq!(decision["allowed"].as_bool(), Some(!closed), "{decision}");
    }
    let body = service.get("/metrics").body;
    assert!(body.contains("tollkeeper_unreturned_charges_total 0\n"), "{body}");
}

#[test]
fn what_shares_a_first_part_lies_together_if_the_file_says_so() {
    let servers = servers();
    let rules = "
rules:
  per-tenant: { key: attribute:tenant, limit: 1000/day }
  per-user: { key: [attribute:tenant, attribute:user], limit: 5/day }
";
    let policy = policy(&servers, ", colocate: first").replace(RULES, rules);
    let service = Service::start("together", &policy);
    for nth in 0..20 {
        let body = format!(r#"{{"attributes":{{"tenant":"t{nth}","user":"u{nth}"}}}}"#);
        let decision = service.post("/v1/check", &body).json();
        assert_eq!(decision["allowed"], true);
        // Decided in one step, none has anything of its own to tell.
        assert_eq!(decision["limits"][0].get("source"), None, "{decision}");
    }
    let name = "rl:{t3}|u3:per-user:tb";
    let found = servers
        .iter()
        .any(|server| server.command(&["EXISTS", name]).unwrap().integer().unwrap() == 1);
    assert!(found, "{name}");
    let state = service.get("/debug/state?rule=per-user&key=t3%7Cu3").json();
    assert!(state["keys"].get(name).is_some(), "{state}");
}

#[test]
fn the_commands_take_several_stores_and_refuse_one_twice() {
    let servers = servers();
    let [one, other] = [servers[0].url(), servers[1].url()];
    let folder = Folder::new("several");
    let check = |key: &str, stores: &[&str]| {
        let mut args = vec!["check", "--key", key, "--limit", "1/day"];
        stores.iter().for_each(|store| args.extend(["--store", store]));
        run(&args, &folder)
    };
    for nth in 0..8 {
        let key = format!("key{nth}");
        assert_eq!(check(&key, &[&one, &other]).status.code(), Some(0));
        // In the other order it is the same store.
        assert_eq!(check(&key, &[&other, &one]).status.code(), Some(1));
    }
    assert!(keys(&servers[0]) > 0 && keys(&servers[1]) > 0);
    let twice = check("k", &[&one, &one]);
    assert_eq!(twice.status.code(), Some(2));
    assert!(text(&twice.stderr).contains("has before"), "{}", text(&twice.stderr));

    folder.write("tollkeeper.yaml", "rules: { api: { limit: 2/s } }");
    let rows = (0..200).map(|nth| format!("{},api,k{},1\n", nth * 10_000, nth % 7));
    let trace: String = std::iter::once("time_us,rule,key,cost\n".to_owned()).chain(rows).collect();
    folder.write("trace.csv", trace);
    let simulate = |stores: &[&str]| {
        let mut args = vec!["simulate", "--trace", "trace.csv", "--out", "jsonl"];
        stores.iter().for_each(|store| args.extend(["--store", store]));
        let told = run(&args, &folder);
        assert!(told.status.success(), "{}", text(&told.stderr));
        text(&told.stdout)
    };
    assert_eq!(simulate(&[&one, &other]), simulate(&[]));
}
