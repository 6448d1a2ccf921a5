//! The real binary, over real sockets and files.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod app;
mod advice;
mod check;
mod examples;
mod gateway;
mod http;
mod kit;
mod nginx;
mod limits;
mod outage;
mod proxies;
mod redis;
mod reload;
mod rules;
mod serve;
mod simulate;
mod validate;
