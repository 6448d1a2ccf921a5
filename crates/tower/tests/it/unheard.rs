//! A proxy that nobody trusts is noticed once in the life of a process: so this is a process of its
//! own, with a single test.

use std::io::Write;
use std::sync::{Arc, Mutex};

use http::{HeaderMap, HeaderValue, Method, Uri};
use tollkeeper_policy::{ClientIp, Networks, Policy};
use tollkeeper_tower::HttpRequest;

/// What was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn policy(rules: &str) -> Policy {
    Policy::parse(&format!("rules: {rules}"), &|_| None).unwrap()
}

/// Lets a policy meet a request from a peer with these headers.
fn meet(policy: &Policy, settings: &ClientIp, peer: &str, headers: &[(&'static str, &str)]) {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.insert(*name, HeaderValue::from_str(value).unwrap());
    }
    let (method, uri) = (Method::GET, Uri::from_static("/"));
    let request = HttpRequest::new(&method, &uri, &map, peer.parse().ok(), settings);
    assert_eq!(policy.meet(&request).met.len(), 1);
}

#[test]
fn a_proxy_that_nobody_trusts_is_noticed_once_and_only_where_it_matters() {
    let log = Log::default();
    let writer = log.clone();
    let to_log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
    tracing::subscriber::with_default(to_log.finish(), || {
        let (by_ip, for_all) =
            (policy("{ r: { key: ip, limit: 9/s } }"), policy("{ r: { limit: 9/s } }"));
        let nobody = ClientIp::default();
        let trusted_proxies = Networks::parse(["10.0.0.0/8"]).unwrap();
        let proxies = ClientIp { trusted_proxies, ..ClientIp::default() };
        let forwarded = [("x-forwarded-for", "203.0.113.9")];
        // Nobody asks for the address; nobody forwards; somebody is trusted.
        meet(&for_all, &nobody, "10.0.3.7", &forwarded);
        meet(&by_ip, &nobody, "10.0.3.7", &[("accept", "*/*")]);
        meet(&by_ip, &proxies, "10.0.3.7", &forwarded);
        meet(&by_ip, &proxies, "192.0.2.1", &forwarded);
        assert_eq!(log.text(), "");
        meet(&by_ip, &nobody, "10.0.3.7", &forwarded);
        meet(&by_ip, &nobody, "10.0.4.7", &[("forwarded", "for=203.0.113.9")]);
        meet(&by_ip, &nobody, "10.0.3.7", &forwarded);
    });
    let told = log.text();
    assert_eq!((told.lines().count(), told.matches("TK001").count()), (1, 2), "{told}");
    assert!(told.contains("WARN") && told.contains("a request from 10.0.3.0/24 "), "{told}");
    assert!(told.contains("client_ip.trusted_proxies"), "{told}");
    assert!(!told.contains("203.0.113") && !told.contains("10.0.3.7"), "{told}");
}
