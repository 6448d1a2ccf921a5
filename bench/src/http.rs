//! The service beside a bare hyper server, each in a process of its own, and the middleware beside
//! the same axum app without it, in this one.

mod load;
mod middleware;
mod servers;

use crate::progress::progress;
use crate::spread::Spread;
use load::Load;
use servers::Process;
pub(crate) use servers::{BARE, SERVICE, serve_bare, serve_service};

const ROUNDS: usize = 7;

/// Requests of everybody in a round, and the slices in which everybody has a turn.
const REQUESTS: u64 = 64_000;
const SLICES: u64 = 10;

const CONNECTIONS: u64 = 64;
const KEYS: u64 = 10_000;

/// The most that a check may cost in terms of a bare answer.
const BAR_OF_CHECK: f64 = 1.3;

/// The most that the middleware may add to a request.
const BAR_OF_MIDDLEWARE_NS: f64 = 1_000.0;

pub(crate) fn run() {
    service();
    println!();
    middleware();
}

fn service() {
    println!(
        "{ROUNDS} rounds of {REQUESTS} requests, {CONNECTIONS} connections, {KEYS} keys; medians (least–most)\n"
    );
    let servers = [BARE, SERVICE].map(Process::start);
    let loads = servers.each_ref().map(|server| Load::connect(server.address(), CONNECTIONS, KEYS));
    let mut costs = [(); 2].map(|()| Vec::new());
    let mut waits = [(); 2].map(|()| Vec::new());
    let bar = progress(ROUNDS as u64 * SLICES);
    // The first round warms up.
    for round in 0..=ROUNDS {
        let mut used_us = [0.0; 2];
        let mut waited = [(); 2].map(|()| Vec::new());
        for _ in 0..SLICES {
            for (nth, server) in servers.iter().enumerate() {
                let before_us = server.used_us();
                waited[nth].extend(loads[nth].run(REQUESTS / SLICES));
                used_us[nth] += server.used_us() - before_us;
            }
            bar.inc(u64::from(round > 0));
        }
        if round == 0 {
            continue;
        }
        for nth in 0..2 {
            costs[nth].push(used_us[nth] / REQUESTS as f64);
            waited[nth].sort_unstable();
            waits[nth].push(waited[nth][waited[nth].len() * 99 / 100].as_secs_f64() * 1e6);
        }
    }
    bar.finish_and_clear();
    println!("µs of the server for a request, and what 99 % of the callers waited at most\n");
    for (nth, name) in ["bare hyper", "/v1/check"].into_iter().enumerate() {
        let cost = Spread::of(costs[nth].iter().copied());
        let wait = Spread::of(waits[nth].iter().copied());
        println!("{name:<16}{:<24}{}", cost.shown(2), wait.shown(0));
    }
    let ratio = Spread::of(costs[1].iter().zip(&costs[0]).map(|(ours, bare)| ours / bare));
    let met = if ratio.median <= BAR_OF_CHECK { "met" } else { "MISSED" };
    println!("{:<16}{:<24}{met}: ≤ {BAR_OF_CHECK}", "ratio", ratio.shown(2));
}

fn middleware() {
    println!("ns for a request to an axum handler, one thread, no socket\n");
    let runs: Vec<middleware::Round> = (0..ROUNDS).map(|_| middleware::round(KEYS)).collect();
    for (name, number) in middleware::NUMBERS {
        println!("{name:<28}{}", Spread::of(runs.iter().map(number)).shown(0));
    }
    let added = Spread::of(runs.iter().map(|round| round.limited_ns - round.bare_ns));
    let met = if added.median <= BAR_OF_MIDDLEWARE_NS { "met" } else { "MISSED" };
    println!("{:<28}{:<20}{met}: < {BAR_OF_MIDDLEWARE_NS}", "the layer adds", added.shown(0));
}
