//! The value of a variable is in no message, whatever it is and wherever it stands.

use tollkeeper_policy::Policy;

/// Files with `@` at a place where a value may stand.
const PLACES: &[&str] = &[
    "listen: { http: @ }\nrules: { r: { limit: 1/s } }",
    "store: { url: @ }\nrules: { r: { limit: 1/s } }",
    "store: { max_keys: @ }\nrules: { r: { limit: 1/s } }",
    "store: { when_full: @ }\nrules: { r: { limit: 1/s } }",
    "store: { timeout: @ }\nrules: { r: { limit: 1/s } }",
    "store: { on_failure: @ }\nrules: { r: { limit: 1/s } }",
    "store: { connections: @, nodes: @ }\nrules: { r: { limit: 1/s } }",
    "store: { prefix: @ }\nrules: { r: { limit: 1/s } }",
    "store: { url: \"redis://h\", ca: @ }\nrules: { r: { limit: 1/s } }",
    "store: { url: @, ca: x }\nrules: { r: { limit: 1/s } }",
    "rules: { r: { limit: 1/s, on_failure: @ } }",
    "store: @\nrules: { r: { limit: 1/s } }",
    "rules: @",
    "rules: { r: @ }",
    "rules: { r: { limit: @ } }",
    "rules: { r: { limits: @ } }",
    "rules: { r: { limits: [1/s, @] } }",
    "rules: { r: { limits: [@, @] } }",
    "rules: { r: { algorithm: fixed_window, limit: @ } }",
    "rules: { r: { algorithm: @ } }",
    "rules: { r: { algorithm: @, limit: 1/s burst 7 } }",
    "rules: { r: { algorithm: @, limit: 2.5/s } }",
    "rules: { r: { algorithm: @, limit: 1/s, gcra: { burst: 1, rate: 1 } } }",
    "rules: { r: { limit: 1/s, shadow: @ } }",
    "rules: { r: { limit: 1/s, consistency: @, period: @ } }",
    "rules: { r: { limit: 9/s, consistency: lease, period: @ } }",
    "rules: { r: { limit: @, consistency: lease } }",
    "rules: { r: { limit: 900/s, consistency: lease, cost: @ } }",
    "rules: { r: { limit: 900/s, consistency: lease, tiers: { by: attribute:p, limits: { pro: @ } } } }",
    "rules: { r: { algorithm: @, limit: 900/s, consistency: lease } }",
    "rules: { r: { concurrency: { max_in_flight: @, lease: 1s }, consistency: lease } }",
    "rules: { r: { token_bucket: @ } }",
    "rules: { r: { token_bucket: { capacity: @, refill_rate: 0.333333333333333 } } }",
    "rules: { r: { token_bucket: { capacity: 1000000000000, refill_rate: @ } } }",
    "rules: { r: { leaking_bucket: { queue_capacity: 1, leak_rate: 1, mode: @ } } }",
    "rules: { r: { leaking_bucket: { queue_capacity: 1, leak_rate: 1, max_delay: @ } } }",
    "rules: { r: { fixed_window: { max_requests: @, window_size: 1 } } }",
    "rules: { r: { fixed_window: { max_requests: 1, window_size: @ } } }",
    "rules: { r: { concurrency: { max_in_flight: @, lease: @ } } }",
    "unknown: @",
    "admin: { token: @ }",
    "admin: @",
    "admin: { token: [@], tokn: @ }",
    "upstream: @\nlisten: { gateway: @, admin: @ }\nrules: { r: { limit: 1/s } }",
    "client_ip: { trusted_proxies: [@], ipv6_prefix: @ }\nrules: { r: { limit: 1/s } }",
    "headers: @\nrules: { r: { limit: 1/s } }",
    "headers: [@, @]\nrules: { r: { limit: 1/s } }",
    "rules: { r: { limit: 1/s, match: { path: @, methods: @, host: @, headers: { x-a: @ } } } }",
    "rules: { r: { limit: 1/s, match: { path: [@, @], methods: [@], host: [@, @] } } }",
    "rules: { r: { limit: 1/s, match: @, tiers: @, exempt: @ } }",
    "rules: { r: { limit: 1/s, key: @, when_missing: @ } }",
    "rules: { r: { limit: 1/s, key: [@, @] } }",
    "rules: { r: { limit: 1/s, cost: @ } }",
    "rules: { r: { limit: 1/s, cost: { header: @, min: @, max: @, default: @ } } }",
    "rules: { r: { limit: 1/s, cost: { attribute: @, min: 7, max: @, default: 3 } } }",
    "rules: { r: { limit: 1/s, tiers: { by: @, limits: { pro: @, free: [@, @] } } } }",
    "rules: { r: { algorithm: @, limit: 1/s, tiers: { by: attribute:p, limits: { pro: 1/s burst 2 } } } }",
    "rules: { r: { limit: 1/s, refund_on: @ } }",
    "rules: { r: { limit: 1/s, refund_on: [@, @] } }",
    "rules: { r: { limit: 1/s, key: ip, exempt: { ips: [@], keys: [@, @] } } }",
];

/// What must not be seen of the values: nothing else in the files has these letters.
const MARKS: &[&str] = &["hunter", "31337", "gcra", "tokenbucket"];

const VALUES: &[&str] = &[
    "hunter",
    "",
    "31337",
    "-31337",
    "31337.5",
    "313373133731337",
    "31337313373133731337",
    "31_337",
    "31337/s",
    "31337/hunter",
    "0.31337/s burst 31337",
    "31337.31337/s",
    "31337/31337d",
    "31337d",
    "redis://:hunter@127.0.0.1:31337",
    "redis://hunter:31337@127.0.0.1",
    "redis://hunter:31337",
    "redis://127.0.0.1:31337/hunter",
    "redis://127.0.0.1/313373",
    "redis://hunter 31337@h",
    "redis://:hunter/31337@h",
    "rediss://hunter?31337=hunter",
    "redis+unix:///hunter?hunter=31337",
    "redis+unix:///h?db=hunter&pass=31337",
    "redis+sentinel://:hunter@31337",
    "hunter://31337",
    "memory://hunter",
    "localhost:31337",
    ":31337",
    "gcra",
    "tokenbucket",
    "TRUE",
    "\u{1b}[31mhunter",
    "hunter: { a: b }",
];

#[test]
fn no_value_of_a_variable_is_printed() {
    let mut refused = 0;
    for place in PLACES {
        let own: Vec<&str> = MARKS.iter().copied().filter(|m| place.contains(m)).collect();
        for value in VALUES {
            for written in ["\"${V}\"", "'x${V}'", "\"${V:-d}\""] {
                let text = place.replace('@', written);
                let Err(errors) = Policy::parse(&text, &|_| Some((*value).to_owned())) else {
                    continue;
                };
                refused += 1;
                // What a field takes is told whatever its value is.
                let mut told = format!("{errors}");
                for error in &errors {
                    told += &format!("{:?}", error.help);
                    if !text.contains("algorithm") && !text.contains("unknown") {
                        told += &format!("{:?}", error.expected);
                    }
                }
                for mark in MARKS.iter().filter(|mark| !own.contains(mark)) {
                    assert!(!told.contains(mark), "{text} with {value:?}: {told}");
                }
                assert!(!errors.render("f", &text).contains("hunter"), "{text}");
            }
        }
    }
    assert!(refused > 1000, "{refused}");
}
