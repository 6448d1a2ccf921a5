//! Sentinels and clusters: who is asked, what is followed, and what is told of bad input.

mod cluster;
mod half_way;
mod kit;
mod moving;
mod sentinel;
mod strangers;
mod users;
