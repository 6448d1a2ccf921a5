//! Files that users write, and what is made of them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

mod advice;
mod advice_pages;
mod agree;
mod allocation;
mod attributes;
mod bounds;
mod broken;
mod explaining;
mod grown;
mod hidden;
mod keys;
mod linear;
mod meeting;
mod never_panics;
mod passwords;
mod rules;
mod schema;
mod secrets;
mod store;
mod store_url;
mod tokens;
mod valid;
