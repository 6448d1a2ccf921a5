//! What nginx alone can get wrong: it throws away our body, knows few statuses, and passes upgrades.

use std::io::{BufReader, Read, Write};

use tollkeeper_testkit::call::{Call, read_answer};
use tollkeeper_testkit::front::Kind;
use tollkeeper_testkit::port::Port;

use crate::proxies::Street;

const PER_CLIENT: &str = "
client_ip: { trusted_proxies: [127.0.0.1] }
rules: { per-client: { match: { path: /api/** }, key: ip, limit: 2/day } }
";

fn nginx(name: &str, policy: &str, change: impl Fn(&str) -> String) -> Street {
    Street::with(&format!("nginx-{name}"), Kind::Nginx, policy, change)
}

#[test]
fn a_request_to_upgrade_is_decided_once_and_what_follows_is_not() {
    let street = nginx("upgrade", PER_CLIENT, str::to_owned);
    let upgrade = Call::get("/api/socket").from(2);
    let upgrade = upgrade.header("connection", "upgrade").header("upgrade", "websocket");
    for left in ["1", "0"] {
        let stream = upgrade.open(street.front.address()).unwrap();
        let mut reader = BufReader::new(&stream);
        let answer = read_answer(&mut reader, true).unwrap();
        assert_eq!((answer.status, answer.header("upgrade")), (101, Some("websocket")));
        assert_eq!(answer.header("x-ratelimit-remaining"), Some(left));
        for said in [b"one", b"two", b"six"] {
            (&stream).write_all(said).unwrap();
            let mut heard = [0; 3];
            reader.read_exact(&mut heard).unwrap();
            assert_eq!(&heard, said);
        }
    }
    assert_eq!(street.status(&upgrade), 429);
    assert_eq!(street.app.take().len(), 2);
}

#[test]
fn its_question_is_not_for_clients() {
    let street = nginx("internal", PER_CLIENT, str::to_owned);
    let statuses =
        ["/_tollkeeper", "/_tollkeeper?deny=403"].map(|path| street.status(&Call::get(path)));
    assert_eq!((statuses, street.app.take()), ([404; 2], vec![]));
}

#[test]
fn a_403_that_is_not_ours_stays_one() {
    let street = nginx("deny", PER_CLIENT, |file| {
        file.replace("auth_request /_tollkeeper;", "auth_request /_tollkeeper; deny 127.0.0.9;")
    });
    let call = Call::get("/api/x").from(9);
    assert_eq!([street.status(&call), street.status(&call), street.status(&call)], [403; 3]);
    let statuses = [(); 3].map(|()| street.status(&Call::get("/api/x").from(2)));
    assert_eq!(statuses, [200, 200, 429]);
}

#[test]
fn a_rule_that_is_closed_without_its_store_is_a_503() {
    let nobody = Port::reserve().unwrap();
    let url = format!("redis://127.0.0.1:{}", nobody.number());
    let policy = format!(
        "store: {{ url: \"{url}\" }}
rules: {{ strict: {{ match: {{ path: /pay }}, limit: 5/day, on_failure: closed }} }}"
    );
    let street = nginx("closed", &policy, str::to_owned);
    let answer = street.send(&Call::get("/pay"));
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(answer.json()["error"], "limiter_unavailable", "{answer:?}");
    assert_eq!(answer.header("retry-after"), Some("1"));
}

#[test]
fn it_can_be_told_to_let_everybody_in_while_we_are_away() {
    let mut street = nginx("open", PER_CLIENT, |file| {
        let changed = file.replace("# error_page 502 504", "error_page 502 504");
        assert_ne!(changed, file);
        changed
    });
    let call = Call::get("/api/x").from(2);
    assert_eq!([(); 3].map(|()| street.status(&call)), [200, 200, 429]);
    street.service.kill();
    for _ in 0..3 {
        let answer = street.send(&call);
        assert_eq!((answer.status, answer.header("x-ratelimit-limit")), (200, None), "{answer:?}");
    }
}

/// The most limits that a request can meet, with the longest names: all of it stands in headers.
#[test]
fn the_most_limits_fit_its_buffer() {
    let rule = |letter: &str| {
        let limits: Vec<String> = (1..=16).map(|days| format!("1/{days}d")).collect();
        let name = letter.repeat(64);
        format!("  {name}: {{ match: {{ path: /api/** }}, limits: [{}] }}\n", limits.join(", "))
    };
    let policy = format!("headers: [legacy, ietf]\nrules:\n{}{}", rule("a"), rule("b"));
    let street = nginx("most", &policy, str::to_owned);
    assert_eq!(street.status(&Call::get("/api/x")), 200);
    let denied = street.send(&Call::get("/api/x"));
    assert_eq!(denied.status, 429, "{denied:?}; {}", street.front.log());
    assert_eq!(denied.json()["violated-policies"].as_array().unwrap().len(), 32, "{denied:?}");
    assert_eq!(denied.header("ratelimit").unwrap().matches(";r=0").count(), 32, "{denied:?}");
}
