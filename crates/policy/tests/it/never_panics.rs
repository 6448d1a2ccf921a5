//! No bytes make the reader panic, and what it says can always be shown.

use proptest::prelude::*;
use tollkeeper_policy::{Policy, render_advice};

const FILES: &[&str] = &[
    "rules:\n  global:\n    algorithm: token_bucket\n    token_bucket: { capacity: 10, refill_rate: 5 }\n    fixed_window: { max_requests: 10, window_size: 60 } # seconds\n",
    "listen: { http: \"127.0.0.1:8080\" }\nstore:\n  url: memory://\n  max_keys: 1000\n  when_full: deny\nrules:\n  per-key:\n    limits: [20/s, 5000/day]\n    shadow: true\n",
    "store:\n  url: redis://app:p%40ss@[::1]:6379/2\n  timeout: 20ms\n  on_failure: closed\n  connections: 4\n  nodes: 3\n  prefix: rl\nrules: { r: { limit: 1/s, on_failure: open } }\n",
    "store: { url: \"redis+unix:///run/r.sock?db=1&user=u&pass=p\", ca: x }\nrules: { r: { limit: 1/s } }\n",
    "listen: { gateway: \"127.0.0.1:1\", admin: \"[::1]:2\" }\nupstream: http://a:1\nadmin: { token: 0123456789abcdef }\nclient_ip: { trusted_proxies: [10.0.0.0/8], ipv6_prefix: 56 }\nheaders: [ietf, openai]\nrules: { r: { limit: 1/s } }\n",
    "rules:\n  r:\n    limit: 1/s\n    match: { path: [\"/a/{b}/**\", /c%2Fd], methods: [GET], host: \"*.a\", headers: { x: \"*\" } }\n    key: [ip, header:x, cookie:y, query:z]\n    when_missing: deny\n    cost: { header: c, min: 1, max: 9, default: 2 }\n    tiers: { by: attribute:p, limits: { pro: [2/s, 3/min], free: 1/h } }\n    refund_on: [5xx, 404]\n    exempt: { ips: [10.0.0.1], keys: [k] }\n",
    "---\nrules:\n  a: &a\n    limit: ${LIMIT:-5/s}\n  b: *a\n  c: !t { limit: \"1\\u002fs\", <<: *a }\n...\n",
    "rules:\r\n  ? x\r\n  : { limit: |\r\n      5/s\r\n }\r\n\tä: 'it''s'\r\n  l:\r\n  - >-\r\n    1 per 1 s\r\n",
];

/// Pieces of which YAML is made.
const PIECES: &[&str] = &[
    "rules:",
    "api:",
    "limit:",
    "limits:",
    " ",
    "  ",
    "\n",
    "\r",
    "\t",
    "{",
    "}",
    "[",
    "]",
    ",",
    ": ",
    "- ",
    "? ",
    "&a ",
    "*a ",
    "!t ",
    "<<: ",
    "|\n",
    ">-\n",
    "'",
    "\"",
    "\\x",
    "#",
    "---\n",
    "...\n",
    "%YAML 1.2\n",
    "%TAG ! x\n",
    "${V}",
    "${",
    "$${",
    "10/s",
    "5",
    "~",
    "\u{feff}",
    "\u{85}",
    "\u{0}",
    "ä",
    "token_bucket:",
    "capacity:",
    "shadow:",
    "true",
    "store:",
    "url:",
    "redis://",
    "redis+unix:///",
    "@",
    "?pass=",
    "timeout:",
    "match:",
    "path:",
    "/a/{b}/**",
    "headers:",
    "key:",
    "cost:",
    "tiers:",
    "limits: {",
    "admin:",
    "token:",
    "upstream:",
    "http://a",
    "exempt:",
];

/// Reads the bytes and shows what is wrong with them, or what is to be said of them.
fn read(bytes: &[u8]) {
    let env = |name: &str| (name == "V").then(|| "7/s".to_owned());
    let text = String::from_utf8_lossy(bytes);
    match Policy::parse_bytes(bytes, &env) {
        Ok(policy) => {
            let advice = policy.advice_in(&text);
            assert_eq!(render_advice(&advice, "file", &text).is_empty(), advice.is_empty());
            // Whatever is said of a rule that was read is said of a place.
            assert!(advice.iter().all(|one| one.line.is_some_and(|line| line > 0)), "{text}");
        }
        Err(errors) => {
            assert!(!errors.render("file", &text).is_empty());
            assert!(errors.iter().all(|error| error.line > 0 && error.column > 0));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read(&bytes);
    }

    #[test]
    fn random_text(text in "\\PC{0,200}") {
        read(text.as_bytes());
    }

    #[test]
    fn random_pieces(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40)) {
        read(pieces.concat().as_bytes());
    }

    #[test]
    fn changed_files(
        file in prop::sample::select(FILES),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in prop::option::of((any::<prop::sample::Index>(), any::<prop::sample::Index>())),
        piece in prop::option::of((any::<prop::sample::Index>(), prop::sample::select(PIECES))),
    ) {
        let mut bytes = file.as_bytes().to_vec();
        for (index, byte) in flips {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some((at, piece)) = piece {
            let at = at.index(bytes.len());
            bytes.splice(at..at, piece.bytes());
        }
        if let Some((from, to)) = cut {
            let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
            bytes.drain(from.min(to)..from.max(to));
        }
        read(&bytes);
    }
}

#[test]
fn every_beginning_of_a_file() {
    for file in FILES {
        for end in 0..file.len() {
            read(&file.as_bytes()[..end]);
        }
    }
}
