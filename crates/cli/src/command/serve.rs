//! `tollkeeper serve`

use std::net::SocketAddr;
use std::process::ExitCode;

use hyper::Method;
use tokio::signal::unix::{SignalKind, signal};
use tollkeeper_policy::{Limit, Policy, StoreUrl};
use tollkeeper_server::{PolicyFile, Server};

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
    log_to_stderr();
    let server = Server::bind(policy).await.map_err(Failure::told)?;
    let server = match file {
        Some(file) => server.reloading(file),
        None => server,
    };
    let address = server.address().map_err(Failure::told)?;
    let admin = match server.admin_address().map_err(Failure::told)? {
        Some(admin) => format!("\n  admin  http://{admin}"),
        None => String::new(),
    };
    let states = server.admin_address().ok().flatten().unwrap_or(address);
    if let Err(error) = server.store_opened().await {
        warn(&format!(
            "{error}\n  until it can be used, each rule decides by its on_failure (default {on_failure})"
        ));
    }
    announce(&format!(
        "tollkeeper {} with {origin}: {}
  http   http://{address}  ({store}){admin}
  try    curl -i http://{address}/api/resource
         curl -s http://{address}/v1/check -d '{{\"key\":\"alice\",\"limit\":\"10/min\"}}'
         curl -s http://{states}/debug/state
  stop   Ctrl-C",
        env!("CARGO_PKG_VERSION"),
        limits.join(", "),
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
    if demo && let Err(Failure::Told(problem)) = show(address).await {
        complain(&problem);
    }
    serving.await.map_err(Failure::told)?;
    Ok(ExitCode::SUCCESS)
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
