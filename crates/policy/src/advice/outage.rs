//! `TK007`: limits that every process admits whole while the shared store is away.
//!
//! A server on this machine is not taken to be shared.

use std::net::IpAddr;

use super::{Advice, AdviceCode};
use crate::policy::Policy;
use crate::settings::OnFailure;
use crate::store_url::RedisAddress;

pub(super) fn check(policy: &Policy, advice: &mut Vec<Advice>) {
    let servers = policy.store().url.servers();
    let decides_here = policy.rules().iter().any(|rule| {
        let on_failure = rule.on_failure().unwrap_or(policy.store().on_failure);
        on_failure == OnFailure::Static && !rule.is_shadow()
    });
    let is_counted = policy.counts_nodes();
    if policy.says_nodes()
        || is_counted
        || !decides_here
        || servers.iter().all(|server| is_here(&server.address))
    {
        return;
    }
    let message = "while the store gives no answer, every process that shares it admits each \
                   limit whole: three of them admit three times as much"
        .to_owned();
    let help = "say how many processes share the limits: `store: { nodes: 3 }`; `nodes: 1` if it \
                is this one alone; or let them count each other: `store: { count_nodes: true }`";
    advice.push(Advice::new(AdviceCode::WholeLimitEach, message, help).of_setting(&["store"]));
}

fn is_here(address: &RedisAddress) -> bool {
    let is_loopback = |host: &str| {
        let loopback = |ip: IpAddr| ip.to_canonical().is_loopback();
        host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(loopback)
    };
    match address {
        RedisAddress::Unix { .. } => true,
        RedisAddress::Tcp { host, .. } => is_loopback(host),
        RedisAddress::Sentinel { sentinels: places, .. }
        | RedisAddress::Cluster { nodes: places, .. } => {
            places.iter().all(|place| is_loopback(&place.host))
        }
    }
}
