//! The examples run as their readers run them.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use tollkeeper_testkit::port::Port;

use crate::kit::text;

#[test]
fn two_servers() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/two-servers/run.sh");
    let ran = Command::new(script).env("TOLLKEEPER", env!("CARGO_BIN_EXE_tollkeeper")).output();
    let ran = ran.unwrap();
    let told = text(&ran.stdout);
    assert!(ran.status.success(), "{told}{}", text(&ran.stderr));
    let parts: Vec<&str> = told.split(":\n").collect();
    let [_, shared, alone, back] = parts.as_slice() else { panic!("{told}") };
    let count = |part: &str, what: &str| part.matches(what).count();
    assert!(count(shared, "by the store") >= 10 && count(shared, "denied") >= 2, "{told}");
    // What the store had denied may be told again for a while.
    let without = count(alone, "by the fallback")
        + count(alone, "denied   remaining 0   by the denied_cache");
    assert!(without == 14 && count(alone, "allowed") <= 10, "{told}");
    assert!(count(back, "by the store") >= 1, "{told}");
}

/// Runs an example whose proxy keeps to limits, on ports that no other test takes.
fn proxied(proxy: &str) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(proxy);
    let ports = [(); 3].map(|()| Port::reserve().unwrap());
    let at = |nth: usize| format!("127.0.0.1:{}", ports[nth].number());
    let ran = Command::new(script.join("run.sh"))
        .env("TOLLKEEPER", env!("CARGO_BIN_EXE_tollkeeper"))
        .envs([("FRONT", at(0)), ("LIMITER", at(1)), ("APP", at(2))])
        .output()
        .unwrap();
    let told = text(&ran.stdout);
    assert!(ran.status.success(), "{told}{}", text(&ran.stderr));
    assert_eq!(told.matches("Hello from the app.").count(), 3, "{told}");
    assert_eq!(told.matches("\"message\":\"Try again in ").count(), 2, "{told}");
    // Nothing of it is left.
    for port in ports {
        TcpListener::bind(("127.0.0.1", port.number())).unwrap();
    }
    told.to_lowercase()
}

#[test]
fn gateway() {
    assert_eq!(proxied("gateway").matches("x-ratelimit-remaining: ").count(), 5);
}

#[test]
fn nginx() {
    assert_eq!(proxied("nginx").matches("x-ratelimit-remaining: ").count(), 5);
}

#[test]
fn caddy() {
    assert_eq!(proxied("caddy").matches("x-ratelimit-remaining: ").count(), 5);
}

#[test]
fn traefik() {
    // Who is let in is told by nobody but the app.
    assert_eq!(proxied("traefik").matches("x-ratelimit-remaining: ").count(), 2);
}
