//! The real binary, over real sockets and files.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod advice;
mod app;
mod check;
mod deploy;
mod elsewhere;
mod examples;
mod fleet;
mod full;
mod gateway;
mod held;
mod hot;
mod http;
mod kit;
mod leases;
mod limits;
mod local;
mod log;
mod nginx;
mod openapi;
mod outage;
mod overload;
mod pieces;
mod proxies;
mod readme;
mod redis;
mod reload;
mod rules;
mod serve;
mod shards;
mod simulate;
mod topology;
#[cfg(feature = "otlp")]
mod traces;
mod validate;
