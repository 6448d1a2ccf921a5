//! How the store reaches its server: every kind of URL, what is told where that fails, and what
//! becomes of calls when connections break. With real servers, a bad network, and servers that lie.

mod again;
mod half_open;
mod kit;
mod liars;
mod many;
mod refusals;
mod strangers;
mod tls;
mod urls;
mod users;
