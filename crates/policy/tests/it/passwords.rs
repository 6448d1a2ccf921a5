//! The user and the password of a URL are shown nowhere, however the URL is written and whatever
//! is wrong with it or beside it.

use proptest::prelude::*;
use tollkeeper_policy::Policy;

/// Files with `<URL>` at a place where a URL may stand. Most are wrong in another place too.
const FILES: &[&str] = &[
    "store:\n  url: <URL>\n  timeout: 0\nrules: { r: { limit: 1/s } }\n",
    "store:\n  url: \"<URL>\"\n  timeout: 0\nrules: { r: { limit: 1/s } }\n",
    "store: { url: <URL>, timeout: 0 }\nrules: { r: { limit: 1/s } }\n",
    "store: { url: \"<URL>\", timeout: 0 }\nrules: { r: { limit: 1/s } }\n",
    "store: { timeout: 0, url: '<URL>' }\r\nrules: { r: { limit: 1/s } }\r\n",
    "\u{feff}store: { timeout: 0, url: '<URL>' }\nrules: { r: { limit: 1/s } }\n",
    "store: { url: \"<URL>\" }\nrules: { r: { limit: 1/s } }\n",
    "store:\n  url: <URL> # a comment\nrules: {}\n",
    "store:\n  url: ${V:-<URL>}\n  timeout: 0\nrules: { r: { limit: 1/s } }\n",
    "store:\n  url: \"${V:-x}<URL>\"\nrules: {}\n",
    "store:\n  url: ${<URL>}\nrules: {}\n",
    "store:\n  url: >-\n    <URL>\nrules: {}\n",
    "store:\n  url: |\n    <URL>\nrules: {}\n",
    "store:\n  url: &u <URL>\n  ca: *u\nrules: {}\n",
    "store:\n  url: !t <URL>\nrules: {}\n",
    "store:\n  ? url\n  : <URL>\nrules: {}\n",
    "store:\n  url: [<URL>, \"<URL>\"]\nrules: {}\n",
    "store:\n  url:\n  - <URL>\n  - x\nrules: {}\n",
    "store:\n  urll: <URL>\nrules: {}\n",
    "store:\n  url: <URL>\n  url: <URL>\nrules: {}\n",
    "store: <URL>\nrules: {}\n",
    "store: { prefix: \"<URL>\", ca: \"<URL>\", timeout: \"<URL>\", nodes: \"<URL>\" }\n",
    "store: { on_failure: \"<URL>\", when_full: \"<URL>\", max_keys: \"<URL>\" }\n",
    "listen: { http: \"<URL>\" }\nadmin: \"<URL>\"\nwhat: \"<URL>\"\n",
    "rules: { r: { limit: \"<URL>\" }, s: { limits: [\"<URL>\", \"<URL>\"] }, t: \"<URL>\" }\n",
    "rules: { r: { algorithm: \"<URL>\", shadow: \"<URL>\", on_failure: \"<URL>\" } }\n",
    "rules: { r: { token_bucket: { capacity: \"<URL>\", refill_rate: \"<URL>\" } } }\n",
    "rules: { r: { gcra: \"<URL>\", limits: \"<URL>\" } }\nlisten: \"<URL>\"\n",
    "rules: \"<URL>\"\n",
    "\"<URL>\"\n",
    "- <URL>\n",
    "store:\n  url: \"<URL>\nrules: {}\n",
    "store: { url: <URL>\nrules: {}\n",
    "store:\n\turl: <URL>\nrules: {}\n",
    "rules: {}\nx: [\n  \"<URL>\", }\n",
    "store:\n  url: <URL>\u{1b}\nrules: {}\n",
];

/// URLs with `hunter` in the user or the password, right and wrong.
const URLS: &[&str] = &[
    "redis://:hunter@h",
    "redis://hunter:x@h",
    "redis://hunter@h:6379/0",
    "rediss://hunter:hunter@127.0.0.1:70000/0",
    "redis://:hunter%zz@h",
    "redis://:hunter/x@h",
    "redis://:x/hunter@h",
    "redis://:x?hunter@h",
    "redis://:x#hunter@h",
    "redis://:x #hunter@h",
    "redis://:hunter #x@h",
    "redis://:x,hunter@h",
    "redis://:hunter,x@h",
    "redis://:x,hunter,x@h",
    "redis://:x hunter@h",
    "redis://:x@hunter@h",
    "redis://:x'hunter@h",
    "redis://:x\"hunter@h",
    "redis://:x\\x41hunter@h",
    "redis://:x{hunter}x@h",
    "redis://:x]hunter[x@h",
    "redis://:hunter@",
    "redis://:hunter@h/abc",
    "redis://:hunter@h?x=y",
    "redis://user:hunter",
    "redis://:hunter@a,redis://:hunter@b",
    "reddis://:hunter@h",
    "http://:hunter@h",
    "redis+sentinel://:hunter@h1,h2/mymaster/0",
    "redis+cluster://:hunter@a:7000,b:7000",
    "redis+unix://:hunter@/run/r.sock",
    "redis+unix:///r?pass=hunter",
    "redis+unix:///r?user=hunter&pass=x",
    "redis+unix:///r?db=x&pass=hunter",
    "redis+unix:///r?pass=x@hunter",
    "redis+unix:///r?pass=x/hunter",
    "redis+unix:///r?pass=x&hunter=y",
    "redis+unix:///r?password=hunter",
];

/// URLs in double quotes whose looks are not what they say.
const ESCAPED: &[&str] = &[
    "redis:\\/\\/:hunter@h",
    "redis://:hunter\\x40h",
    "redis://:hunter\n   x@h",
    "redis://:x\n   hunter@h",
    "redis://:x\\\n   hunter@h",
    "redis://:hunter\\\n   x@h",
    "redis:\\\n   //:hunter@h",
];

/// Reads the file, and fails if anything that can be shown of the outcome has the mark.
fn check(text: &str) -> bool {
    let shown = match Policy::parse(text, &|_| None) {
        Ok(policy) => format!("{policy:?} {policy:#?}"),
        Err(errors) => format!("{errors} {errors:?} {}", errors.render("f", text)),
    };
    assert!(!shown.contains("hunter"), "{text}\n{shown}");
    shown.contains("PolicyError")
}

#[test]
fn of_a_url_in_the_file() {
    let files = FILES.iter().flat_map(|file| URLS.iter().map(|url| file.replace("<URL>", url)));
    let refused = files.filter(|text| check(text)).count();
    assert!(refused > 1000, "{refused}");
}

#[test]
fn of_a_url_with_escapes_or_in_several_lines() {
    for url in ESCAPED {
        check(&format!("store:\n  url: \"{url}\"\n  timeout: 0\nrules: {{}}\n"));
        check(&format!("store: {{ url: \"{url}\", timeout: 0, x: y }}\nrules: {{}}\n"));
    }
    check("store:\n  url: redis://:hunter\n    x@h\n  timeout: 0\n");
    check("store:\n  url: redis://:x\n    hunter@h\n  timeout: 0\n");
    check("store: { url: redis://:x\n    hunter@h, timeout: 0 }\n");
    check("store:\n  url: >-\n    redis://:x\n    hunter@h\n  timeout: 0\n");
}

#[test]
fn of_a_url_from_variables() {
    for url in URLS {
        let env = |name: &str| Some(if name == "U" { url } else { "hunter" }.to_owned());
        for written in [
            "${U}",
            "redis://:${P}@h:0",
            "redis://${P}@h/x",
            "redis://${P}:${P}@h:${P}/${P}",
            "redis+unix:///r?pass=${P}&x=y",
            "redis+unix:///r?db=${P}",
            "${P}://h",
            "redis://${P}",
            "redis://h:${P}",
            "redis+unix:///${P}?${P}=${P}",
            "${P}",
        ] {
            for ca in ["", "\n  ca: x"] {
                let text =
                    format!("store:\n  url: \"{written}\"{ca}\nrules: {{ r: {{ limit: 1/s }} }}");
                let shown = match Policy::parse(&text, &env) {
                    // A host or a path is no secret.
                    Ok(_) => continue,
                    Err(errors) => format!("{errors} {errors:?} {}", errors.render("f", &text)),
                };
                assert!(!shown.contains("hunter"), "{text} with {url}\n{shown}");
            }
        }
    }
}

/// What may stand around a password.
const JUNK: &[&str] = &[
    "a", "1", ":", "@", "/", "?", "&", "=", "#", " ", "'", "\"", "\\", "{", "}", "[", "]", "%",
    "%41", "${", "$", "*", "|", ">", "-", "ä", "\t", "://",
];

const SCHEMES: &[&str] = &["redis://", "rediss://:", "x://", "redis+unix:///r?pass="];

/// The files with one URL: with several, one that breaks its quotes makes fields of the others.
fn single() -> Vec<&'static str> {
    FILES.iter().copied().filter(|file| file.matches("<URL>").count() == 1).collect()
}

fn junk() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(JUNK), 0..5).prop_map(|junk| junk.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn of_any_url(
        file in prop::sample::select(single()),
        scheme in prop::sample::select(SCHEMES),
        (before, after, place) in (junk(), junk(), junk()),
    ) {
        let url = format!("{scheme}{before}hunter{after}@{place}");
        // The name of a variable is told, wherever it stands.
        let name = before.rsplit_once("${").map(|(_, name)| name);
        let is_name = name.is_some_and(|name| name.bytes().all(|b| b.is_ascii_alphanumeric()));
        // To YAML the URL ends there, perhaps with a host and a database.
        let is_cut = [": ", ":\t", " #", "\t#"].iter().any(|end| url.contains(end));
        if !is_name && !is_cut {
            check(&file.replace("<URL>", &url));
        }
    }
}
