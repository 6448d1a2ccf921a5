//! `tollkeeper serve`

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;

use hyper::Method;
use tokio::signal::unix::{SignalKind, signal};
use tollkeeper_policy::{Limit, Policy, StoreUrl};
use tollkeeper_server::{Addresses, PolicyFile, Server};

use super::block_on;
use crate::args::ServeArgs;
use crate::client::send;
use crate::config::{load_if_there, reloadable};
use crate::output::{Failure, announce, complain, log_to_stderr, table, warn};

/// Limits that are told at the start.
const MOST_TOLD: usize = 5;

/// What is served where there is no file.
const DEMO_POLICY: &str = "\
rules:
  demo:
    token_bucket: { capacity: 10, refill_rate: 1 }
";

pub(crate) fn run(args: &ServeArgs) -> Result<ExitCode, Failure> {
    let (listen, store) = (args.listen, args.store.as_deref().map(str::parse::<StoreUrl>));
    let store = store.transpose().map_err(Failure::told)?;
    // The command line goes before the file, also when that is read again.
    let adapt = move |policy: Policy| {
        let policy = match listen {
            Some(address) => policy.listening_on(address),
            None => policy,
        };
        match &store {
            Some(url) => policy.stored_at(url.clone()),
            None => policy,
        }
    };
    let Some(loaded) = load_if_there(args.config.as_deref())? else {
        let origin = "a demo rule (no ./tollkeeper.yaml here)".to_owned();
        return block_on(serve(adapt(demo_policy()?), origin, None, args.demo));
    };
    let origin = loaded.name.clone();
    let file = reloadable(&loaded, adapt.clone());
    block_on(serve(adapt(loaded.policy()?), origin, Some(file), args.demo))
}

fn demo_policy() -> Result<Policy, Failure> {
    Policy::parse(DEMO_POLICY, &|_| None).map_err(Failure::told)
}

async fn serve(
    policy: Policy,
    origin: String,
    file: Option<PolicyFile>,
    demo: bool,
) -> Result<ExitCode, Failure> {
    let all = || policy.rules().iter().flat_map(|rule| rule.limits());
    let told = |limit: &Limit| format!("{} ({})", limit.name(), limit.quota());
    let mut limits: Vec<String> = all().take(MOST_TOLD).map(told).collect();
    if all().count() > MOST_TOLD {
        limits.push(format!("and {} more (tollkeeper validate)", all().count() - MOST_TOLD));
    }
    let store = match &policy.store().url {
        StoreUrl::Redis(url) => format!("state on {}", url.place()),
        _ => "embedded store".to_owned(),
    };
    let on_failure = policy.store().on_failure.name();
    let scheme = if policy.tls().is_some() { "https" } else { "http" };
    let upstream = match policy.upstream() {
        Some(upstream) => format!("before {upstream}"),
        None => "before nothing: the file names no `upstream`".to_owned(),
    };
    for advice in policy.advice() {
        warn(&advice.in_one_line());
    }
    log_to_stderr();
    let server = Server::bind(policy).await.map_err(Failure::told)?;
    let server = match file {
        Some(file) => server.reloading(file),
        None => server,
    };
    let addresses = server.addresses().map_err(Failure::told)?;
    if let Err(error) = server.store_opened().await {
        warn(&format!(
            "{error}\n  until it can be used, each rule decides by its on_failure (default {on_failure})"
        ));
    }
    announce(&format!(
        "tollkeeper {} with {origin}: {}\n{}  stop   Ctrl-C",
        env!("CARGO_PKG_VERSION"),
        limits.join(", "),
        places(addresses, scheme, &store, &upstream),
    ))?;
    // Handlers first: a signal between here and the server's first poll must not be lost.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => (),
            _ = interrupt.recv() => (),
        }
    };
    let serving = tokio::spawn(server.run(stop));
    if demo {
        let shown = match addresses.http.filter(|_| scheme == "http") {
            Some(address) => show(address).await,
            None => Err(Failure::told("--demo needs `listen.http`, without `tls`")),
        };
        if let Err(Failure::Told(problem)) = shown {
            complain(&problem);
        }
    }
    serving.await.map_err(Failure::told)?;
    Ok(ExitCode::SUCCESS)
}

/// What listens where, and what to try.
fn places(addresses: Addresses, scheme: &str, store: &str, upstream: &str) -> String {
    let Addresses { http, admin, gateway } = addresses;
    let mut lines = String::new();
    let mut line = |name: &str, text: String| {
        let _ = writeln!(lines, "  {name:<6} {text}");
    };
    if let Some(http) = http {
        line("http", format!("{scheme}://{http}  ({store})"));
    }
    if let Some(admin) = admin {
        line("admin", format!("{scheme}://{admin}"));
    }
    if let Some(gateway) = gateway {
        line("proxy", format!("{scheme}://{gateway}  ({upstream})"));
    }
    let mut names = ["try"].into_iter();
    let mut name = || names.next().unwrap_or("");
    if let Some(gateway) = gateway {
        line(name(), format!("curl -i {scheme}://{gateway}/"));
    }
    if let Some(http) = http {
        line(name(), format!("curl -i {scheme}://{http}/api/resource"));
        let body = r#"{"key":"alice","limit":"10/min"}"#;
        line("", format!("curl -s {scheme}://{http}/v1/check -d '{body}'"));
    }
    if let Some(states) = admin.or(http) {
        line("", format!("curl -s {scheme}://{states}/debug/state"));
    }
    lines
}

/// Sends eleven requests to the demo route and shows what they met.
async fn show(address: SocketAddr) -> Result<(), Failure> {
    let url = format!("http://{address}/api/resource");
    let mut rows = Vec::new();
    for nth in 1..=11 {
        let reply = send(Method::GET, &url, String::new()).await?;
        let header = |name: &str| {
            let value = reply.headers.get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or("").to_owned()
        };
        rows.push(vec![
            nth.to_string(),
            reply.status.to_string(),
            header("x-ratelimit-limit"),
            header("x-ratelimit-remaining"),
            header("retry-after"),
        ]);
    }
    announce(&format!("\nEleven requests to {url}:\n"))?;
    let header = ["request", "answer", "X-RateLimit-Limit", "X-RateLimit-Remaining", "Retry-After"];
    announce(&table(&header, rows))
}
