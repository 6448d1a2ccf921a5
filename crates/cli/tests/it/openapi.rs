//! `/openapi.json`: the document says what the service does, and the service does what it says.

use std::collections::BTreeSet;
use std::io::{BufReader, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use tollkeeper_core::Algorithm;

use crate::kit::{Reply, Service, policy_of, read_reply};

mod document;

use document::{Call, Document};

const METHODS: [&str; 7] = ["get", "post", "put", "delete", "patch", "options", "trace"];

/// A service as `tollkeeper serve` starts it where there is no file.
fn demo(name: &str) -> Service {
    Service::launch(name, None, &[], &[])
}

/// Makes a call with a body, and with the examples of its parameters.
fn make(service: &Service, call: &Call<'_>, body: &str) -> Reply {
    let (mut query, mut headers) = (Vec::new(), Vec::new());
    for parameter in call.told["parameters"].as_array().into_iter().flatten() {
        let text = match &parameter["example"] {
            Value::Null => continue,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match parameter["in"].as_str().unwrap() {
            "query" => query.push(format!("{}={text}", parameter["name"].as_str().unwrap())),
            _ => headers.push((parameter["name"].as_str().unwrap().to_owned(), text)),
        }
    }
    let headers: Vec<(&str, &str)> =
        headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let path = format!("{}?{}", call.path, query.join("&"));
    service.send(&call.method.to_uppercase(), &path, &headers, body.as_bytes())
}

/// The status under which a call's answers have an example of that name.
fn status_of(call: &Call<'_>, name: &str) -> (u16, Value) {
    let responses = call.told["responses"].as_object().unwrap();
    let mut found = responses.iter().filter_map(|(status, response)| {
        let mut kinds = response["content"].as_object()?.values();
        let example = kinds.find_map(|kind| kind["examples"].get(name))?;
        Some((status.parse().unwrap(), example["value"].clone()))
    });
    let first = found.next().unwrap_or_else(|| panic!("{}: {name} has no answer", call.id()));
    assert!(found.next().is_none(), "{}: {name} has two answers", call.id());
    first
}

fn names(value: &Value) -> BTreeSet<&String> {
    value.as_object().unwrap().keys().collect()
}

#[test]
fn every_example_works_on_a_service_without_a_file() {
    let service = demo("openapi-examples");
    let document = Document::of(&service);
    let mut made = 0;
    for call in document.calls() {
        let examples = call.examples();
        if examples.is_empty() && call.id() != "policy_reload" {
            let reply = make(&service, &call, "");
            assert_eq!(document.holds(&call, &reply), "200", "{reply:?}");
            made += 1;
        }
        for (name, example) in &examples {
            let reply = make(&service, &call, &example["value"].to_string());
            let (status, answer) = status_of(&call, name);
            assert_eq!(reply.status, status, "{} {name}: {reply:?}", call.id());
            document.holds(&call, &reply);
            assert_eq!(names(&reply.json()), names(&answer), "{} {name}", call.id());
            let schema = &call.told["requestBody"]["content"]["application/json"]["schema"];
            let errors = document.errors(schema, &example["value"]);
            assert!(status == 400 || errors.is_empty(), "{} {name}: {errors:?}", call.id());
            made += 1;
        }
    }
    assert!(made >= 25, "{made}");
}

#[test]
fn every_example_of_an_answer_fits_its_schema() {
    let service = demo("openapi-answers");
    let document = Document::of(&service);
    let mut seen = 0;
    for call in document.calls() {
        for response in call.told["responses"].as_object().unwrap().values() {
            for kind in response["content"].as_object().into_iter().flatten().map(|(_, kind)| kind)
            {
                let several = kind["examples"].as_object().into_iter().flatten();
                let values = several.map(|(_, example)| &example["value"]);
                for value in values.chain(kind.get("example")) {
                    let errors = document.errors(&kind["schema"], value);
                    assert!(errors.is_empty(), "{}: {errors:?} in {value}", call.id());
                    seen += 1;
                }
            }
        }
    }
    assert!(seen >= 20, "{seen}");
}

#[test]
fn every_method_is_told_and_no_other_is_taken() {
    let service = demo("openapi-methods");
    let document = Document::of(&service);
    for (path, item) in document.told["paths"].as_object().unwrap() {
        for method in METHODS {
            let reply = service.send(&method.to_uppercase(), path, &[], b"");
            let told = item["x-any-method"] == true || item[method].is_object();
            assert_ne!(reply.status, 404, "{path}");
            assert_eq!(reply.status != 405, told, "{method} {path}: {reply:?}");
        }
    }
    assert_eq!(document.told["info"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(service.get("/openapi.jso").status, 404);
}

#[test]
fn bodies_have_the_fields_that_the_service_knows_and_no_other() {
    let service = demo("openapi-fields");
    let document = Document::of(&service);
    for call in document.calls() {
        let mut known = BTreeSet::new();
        for (name, example) in call.examples() {
            if status_of(&call, &name).0 == 400 {
                continue;
            }
            let mut body = example["value"].clone();
            body["zzzzzzzzzzzz"] = 1.into();
            let reply = make(&service, &call, &body.to_string());
            assert_eq!(reply.status, 400, "{reply:?}");
            let detail = reply.json()["detail"].as_str().unwrap().to_owned();
            let list = detail.split_once("; expected one of ").unwrap().1.to_owned();
            known.extend(list.split(", ").map(|name| name.trim_matches('`').to_owned()));
        }
        if !known.is_empty() {
            let schema = &call.told["requestBody"]["content"]["application/json"]["schema"];
            let told: BTreeSet<String> = document.fields(schema).into_iter().collect();
            assert_eq!(told, known, "{}", call.id());
        }
    }
}

#[test]
fn bounds_are_where_the_document_says() {
    let service = demo("openapi-bounds");
    let document = Document::of(&service);
    let schema = |pointer: &str| document.told.pointer(pointer).unwrap().clone();
    let bound = |pointer: &str| schema(pointer).as_u64().unwrap();
    let by_limit = "/components/schemas/CheckByLimit/properties";
    let check =
        |fields: &str| service.post("/v1/check", &format!(r#"{{"limit":"9/h",{fields}}}"#)).status;
    let longest = usize::try_from(bound(&format!("{by_limit}/key/maxLength"))).unwrap();
    let key = |length: usize| check(&format!(r#""key":"{}""#, "k".repeat(length)));
    assert_eq!((key(0), key(1), key(longest), key(longest + 1)), (400, 200, 200, 400));
    let most = bound(&format!("{by_limit}/cost/maximum"));
    let cost = |cost: u128| check(&format!(r#""key":"c","cost":{cost}"#));
    assert_eq!((cost(0), cost(most.into()), cost(u128::from(most) + 1)), (200, 429, 400));

    let most = bound("/components/schemas/Batch/properties/checks/maxItems");
    let batch = |count: u64| {
        let one = json!({ "key": "b", "limit": "1/h" });
        let checks: Vec<&Value> = (0..count).map(|_| &one).collect();
        service.post("/v1/check/batch", &json!({ "checks": checks }).to_string()).status
    };
    assert_eq!((batch(0), batch(1), batch(most), batch(most + 1)), (400, 200, 200, 400));

    let reserve = "/components/schemas/Reserve/oneOf/1/properties";
    let longest = bound(&format!("{reserve}/ttl/oneOf/0/maximum"));
    let least = bound(&format!("{reserve}/cost/minimum"));
    let reserving = |cost: u64, ttl: u64| {
        let body = json!({ "key": "r", "limit": "99/h", "cost": cost, "ttl": ttl });
        service.post("/v1/reserve", &body.to_string()).status
    };
    assert_eq!((reserving(least, longest), reserving(least, longest + 1)), (200, 400));
    assert_eq!((reserving(least, 0), reserving(least - 1, longest)), (400, 400));

    let parameter = |id: &str, name: &str| {
        let parameters = document.call(id).told["parameters"].as_array().unwrap().clone();
        let found = parameters.into_iter().find(|parameter| parameter["name"] == name).unwrap();
        let of = |bound: &str| found["schema"][bound].as_u64().unwrap();
        (of("minimum"), of("maximum"))
    };
    for id in ["debug_state", "debug_hot"] {
        let (least, most) = parameter(id, "limit");
        let path = document.call(id).path.to_owned();
        let shown = |limit: u64| service.get(&format!("{path}?limit={limit}")).status;
        assert_eq!(
            [least - 1, least, most, most + 1].map(shown),
            [400, 200, 200, 400],
            "{id} from {least} to {most}"
        );
    }
    let (least, most) = parameter("authz", "deny");
    let deny = |deny: u64| {
        let path = format!("/v1/authz?deny={deny}");
        service.send("GET", &path, &[("x-original-uri", "/")], b"").status
    };
    assert_eq!([least - 1, least, most, most + 1].map(deny), [400, 200, 200, 400]);
}

#[test]
fn states_of_every_algorithm_and_headers_of_every_style_are_told() {
    let algorithms = Algorithm::ALL.map(Algorithm::name);
    for (algorithm, styles) in
        algorithms.into_iter().zip(["legacy", "legacy-delta", "ietf", "openai"].iter().cycle())
    {
        let policy = format!("headers: [{styles}]\n{}", policy_of(algorithm));
        let service = Service::start(&format!("openapi-{algorithm}"), &policy);
        let document = Document::of(&service);
        let check = document.call("check");
        for (cost, key) in [(1, "a"), (2, "b"), (11, "a"), (0, "a")] {
            let body = json!({ "rule": "global", "key": key, "cost": cost });
            document.holds(&check, &service.post("/v1/check", &body.to_string()));
        }
        // A limit that came along: its states are not of the policy.
        let inline = json!({ "key": "a", "limit": "5/h", "algorithm": algorithm });
        document.holds(&check, &service.post("/v1/check", &inline.to_string()));
        document.holds(&document.call("debug_state"), &service.get("/debug/state"));
    }
}

/// The statuses of refusals and failures that the document tells, by call.
fn told_failures(document: &Document) -> BTreeSet<(String, String)> {
    let mut told = BTreeSet::new();
    for call in document.calls() {
        for status in call.told["responses"].as_object().unwrap().keys() {
            if !status.starts_with('2') {
                told.insert((call.id().to_owned(), status.clone()));
            }
        }
    }
    told
}

/// Calls whose bodies have begun and never end; they are told so after a while.
fn begin_unfinished<'a>(
    service: &Service,
    calls: impl Iterator<Item = Call<'a>>,
) -> Vec<(Call<'a>, TcpStream)> {
    let begin = |call: Call<'a>| {
        let mut stream = TcpStream::connect(service.address).unwrap();
        let head = format!("POST {} HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{{", call.path);
        stream.write_all(head.as_bytes()).unwrap();
        (call, stream)
    };
    calls.map(begin).collect()
}

#[test]
fn every_failure_that_is_told_can_be_met_and_is_as_told() {
    let service = demo("openapi-failures");
    let document = Document::of(&service);
    let with_body = || document.calls().into_iter().filter(|call| !call.examples().is_empty());
    let unfinished = begin_unfinished(&service, with_body());
    let mut met = BTreeSet::new();
    let mut meet = |id: &str, reply: &Reply| {
        let status = document.holds(&document.call(id), reply);
        met.insert((id.to_owned(), status));
    };
    for call in with_body() {
        meet(call.id(), &make(&service, &call, "{}"));
        let size = if call.id() == "check_batch" { 4 << 20 } else { 64 << 10 };
        meet(call.id(), &make(&service, &call, &" ".repeat(size + 1)));
    }
    meet("policy_reload", &service.post("/policy/reload", ""));
    meet("debug_state", &service.get("/debug/state?limit=0"));
    meet("debug_hot", &service.get("/debug/hot?limit=0"));
    meet("debug_reset", &service.post("/debug/reset?limit=1", ""));

    let none_left = Service::start(
        "openapi-none-left",
        "rules: { api: { limit: 1/day }, keyed: { match: { path: /k }, key: header:x-k, limit: 1/day, when_missing: deny } }",
    );
    let uri = [("x-original-uri", "/"), ("accept", "application/problem+json")];
    assert_eq!(none_left.get("/api/resource").status, 200);
    meet("check", &none_left.post("/v1/check", r#"{"rule":"api","cost":2}"#));
    meet("check", &none_left.post("/v1/check", r#"{"attributes":{"path":"/k"}}"#));
    meet("reserve", &none_left.post("/v1/reserve", r#"{"rule":"api","cost":2}"#));
    meet("resource", &none_left.get("/api/resource"));
    meet("resource", &none_left.send("GET", "/api/resource", &uri, b""));
    meet("authz", &none_left.get("/v1/authz"));
    meet("authz", &none_left.send("GET", "/v1/authz", &uri[..1], b""));
    meet("authz", &none_left.send("GET", "/v1/authz", &[("x-original-uri", "/k")], b""));
    meet("authz", &none_left.send("GET", "/v1/authz?deny=403", &uri, b""));
    meet("authz", &none_left.send("GET", "/v1/authz?deny=500", &uri[..1], b""));
    none_left.folder.write("tollkeeper.yaml", "rules: [");
    meet("policy_reload", &none_left.post("/policy/reload", ""));

    let full =
        Service::start("openapi-full", "store: { max_keys: 1 }\nrules: { a: { limit: 9/s } }");
    let reserve = || full.post("/v1/reserve", r#"{"key":"a","limit":"99/h"}"#);
    let refused = (0..99).map(|_| reserve()).find(|reply| reply.status == 503).unwrap();
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    meet("reserve", &refused);

    // Nobody listens there.
    let down = Service::start(
        "openapi-down",
        "store: { url: redis://127.0.0.1:1, on_failure: closed }\nrules: { api: { limit: 1/day } }",
    );
    for id in ["check", "reserve", "refund"] {
        let path = document.call(id).path.to_owned();
        meet(id, &down.post(&path, r#"{"rule":"api","key":"a"}"#));
    }
    for id in ["settle", "cancel", "release", "renew"] {
        let call = document.call(id);
        for example in call.examples().values() {
            meet(id, &make(&down, &call, &example["value"].to_string()));
        }
    }
    meet("resource", &down.get("/api/resource"));
    meet("authz", &down.send("GET", "/v1/authz", &uri[..1], b""));
    meet("readyz", &down.get("/readyz"));
    meet("debug_state", &down.get("/debug/state"));
    meet("debug_reset", &down.post("/debug/reset", ""));

    let locked = Service::start(
        "openapi-locked",
        "admin: { token: correct-horse-battery }\nrules: { api: { limit: 1/day } }",
    );
    for id in ["debug_state", "debug_reset", "debug_hot", "metrics", "policy_reload"] {
        let call = document.call(id);
        let method = call.method.to_uppercase();
        meet(id, &locked.send(&method, call.path, &[], b""));
        meet(id, &service.send(&method, call.path, &[("x-forwarded-for", "1.2.3.4")], b""));
        // It is the scheme that the document names.
        let bearer = [("authorization", "Bearer correct-horse-battery")];
        let reply = locked.send(&method, call.path, &bearer, b"");
        assert_eq!(document.holds(&call, &reply), "200");
        assert_eq!(call.told["security"][0], json!({ "adminToken": [] }));
    }
    for (call, stream) in unfinished {
        meet(call.id(), &read_reply(&mut BufReader::new(stream)));
    }
    assert_eq!(met, told_failures(&document));
}

#[test]
fn what_is_held_is_named_by_the_answer_and_ended_by_that_name() {
    let service = demo("openapi-held");
    let document = Document::of(&service);
    let post = |id: &str, body: Value| {
        let call = document.call(id);
        let reply = service.post(call.path, &body.to_string());
        assert_eq!(document.holds(&call, &reply), "200");
        reply.json()
    };
    let reserve = json!({ "key": "llm", "limit": "100/day", "cost": 60, "ttl": "10m" });
    let reserved = post("reserve", reserve.clone())["reservation"].clone();
    let settled = post("settle", json!({ "reservation": reserved, "actual": 10 }));
    assert_eq!(settled["result"], "done");
    let reserved = post("reserve", reserve)["reservation"].clone();
    assert_eq!(post("cancel", json!({ "reservation": reserved }))["result"], "done");
    let permit = json!({ "key": "jobs", "limit": "2/30s", "algorithm": "concurrency" });
    let permit = json!({ "permit": post("check", permit)["permit"] });
    assert_eq!(post("renew", permit.clone())["result"], "done");
    assert_eq!(post("release", permit)["result"], "done");
    let charged = post("check", json!({ "key": "r", "limit": "9/h" }))["charged_at_us"].clone();
    let refund = json!({ "key": "r", "limit": "9/h", "charged_at_us": charged });
    assert_eq!(post("refund", refund)["result"], "done");
}
