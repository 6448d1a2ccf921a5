//! `tollkeeper serve`

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use hyper::Method;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tollkeeper_core::Consistency;
use tollkeeper_engine::{SystemTimer, Timer};
use tollkeeper_policy::{Limit, Policy, StoreUrl};
use tollkeeper_server::{Addresses, DRAIN, PolicyFile, Server, Traces};

use super::block_on;
use crate::args::ServeArgs;
use crate::client::send;
use crate::config::{load_if_there, reloadable, store_url};
use crate::output::log::Log;
use crate::output::{Failure, announce, table};

/// Limits that are told at the start.
const MOST_TOLD: usize = 5;

/// What is served where there is no file.
const DEMO_POLICY: &str = "\
rules:
  demo:
    token_bucket: { capacity: 10, refill_rate: 1 }
";

pub(crate) fn run(args: &ServeArgs) -> Result<ExitCode, Failure> {
    let log = Log::new(args.log_format, args.log.as_deref())?;
    let (listen, store) = (args.listen, store_url(&args.store)?);
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
        return block_on(serve(adapt(demo_policy()?), origin, None, args.demo, log));
    };
    let origin = loaded.name.clone();
    let file = reloadable(&loaded, adapt.clone());
    block_on(serve(adapt(loaded.policy()?), origin, Some(file), args.demo, log))
}

fn demo_policy() -> Result<Policy, Failure> {
    Policy::parse(DEMO_POLICY, &|_| None).map_err(Failure::told)
}

async fn serve(
    policy: Policy,
    origin: String,
    file: Option<PolicyFile>,
    demo: bool,
    log: Log,
) -> Result<ExitCode, Failure> {
    let all = || policy.rules().iter().flat_map(|rule| rule.limits());
    let limits = some(all().map(|limit| format!("{} ({})", limit.name(), limit.quota())));
    let is_local = |limit: &&Limit| limit.consistency() != Consistency::Exact;
    let local = all().filter(is_local).filter(|_| policy.store().url != StoreUrl::Memory);
    let local = some(local.map(|limit| format!("{} ({})", limit.name(), limit.consistency())));
    let (place, store) = match &policy.store().url {
        StoreUrl::Memory => ("memory".to_owned(), "embedded store".to_owned()),
        url => (url.place(), format!("state on {}", url.place())),
    };
    let on_failure = policy.store().on_failure.name();
    let scheme = if policy.tls().is_some() { "https" } else { "http" };
    let upstream = match policy.upstream() {
        Some(upstream) => format!("before {upstream}"),
        None => "before nothing: the file names no `upstream`".to_owned(),
    };
    let traces = begin(log);
    for advice in policy.advice() {
        tracing::warn!("{}", advice.in_one_line());
    }
    let server = Server::bind(policy).await.map_err(Failure::told)?;
    let server = match file {
        Some(file) => server.reloading(file),
        None => server,
    };
    let addresses = server.addresses().map_err(Failure::told)?;
    if let Err(error) = server.store_opened().await {
        tracing::warn!(
            store = place,
            %error,
            on_failure,
            "the store cannot be used yet: until then each rule decides by its on_failure"
        );
    }
    let listens =
        |door, address: SocketAddr| tracing::info!(door, %address, store = place, "listening");
    let Addresses { http, admin, gateway } = addresses;
    for (door, address) in [("http", http), ("admin", admin), ("gateway", gateway)] {
        address.into_iter().for_each(|address| listens(door, address));
    }
    announce(&format!(
        "tollkeeper {} with {origin}: {}\n{}  stop   Ctrl-C",
        env!("CARGO_PKG_VERSION"),
        limits,
        places(addresses, scheme, &store, &local, &upstream),
    ))?;
    // Handlers first: a signal between here and the server's first poll must not be lost.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let timer = SystemTimer::new();
    let (stopping, stopped_us) = oneshot::channel();
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => (),
            _ = interrupt.recv() => (),
        }
        tracing::info!("stopping: requests under way may finish");
        let _ = stopping.send(timer.now_us());
    };
    let serving = tokio::spawn(server.run(stop));
    if demo {
        let shown = match addresses.http.filter(|_| scheme == "http") {
            Some(address) => show(address).await,
            None => Err(Failure::told("--demo needs `listen.http`, without `tls`")),
        };
        if let Err(Failure::Told(problem)) = shown {
            tracing::error!(problem, "the demo could not be shown");
        }
    }
    serving.await.map_err(Failure::told)?;
    let since_us = stopped_us.await.unwrap_or(0);
    let drained = || Duration::from_micros(timer.now_us().saturating_sub(since_us));
    if let Some(traces) = traces {
        traces.flush(DRAIN.saturating_sub(drained())).await;
    }
    tracing::info!(duration_ms = drained().as_micros() as f64 / 1e3, "stopped");
    Ok(ExitCode::SUCCESS)
}

/// The first of them, and how many more there are.
fn some(all: impl Iterator<Item = String>) -> String {
    let mut all: Vec<String> = all.collect();
    if all.len() > MOST_TOLD {
        let more = all.split_off(MOST_TOLD).len();
        all.push(format!("and {more} more (tollkeeper validate)"));
    }
    all.join(", ")
}

/// What listens where, which limits this process decides, and what to try.
fn places(addresses: Addresses, scheme: &str, store: &str, local: &str, upstream: &str) -> String {
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
    if !local.is_empty() {
        line("here", format!("this process decides {local}"));
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

/// Begins to tell what happens, and to send traces where somebody collects them.
fn begin(log: Log) -> Option<Traces> {
    let (traces, problem) = match Traces::from_environment() {
        Ok(traces) => (traces, None),
        Err(problem) => (None, Some(problem)),
    };
    let (traces, layer) = traces.unzip();
    log.begin(layer);
    if let Some(problem) = problem {
        tracing::warn!(problem, "traces are off");
    }
    traces.inspect(Traces::announce)
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
