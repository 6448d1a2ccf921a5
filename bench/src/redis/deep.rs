//! What a call costs the server by how many wait on a connection for their answers: they are read and answered
//! together.

use tollkeeper_testkit::redis_server::RedisServer;

use super::contestants::{self, MERGED, ONE};
use super::{LONG, measure};
use crate::table::Table;

const CONNECTIONS: u64 = 50;

/// Callers of each connection.
const DEEP: [u64; 3] = [1, 16, 64];

/// Calls of everybody in a round.
const CALLS: u64 = 64_000;

const COMPARED: [&str; 6] =
    ["INCR", "plain token bucket", ONE, "plain gcra in a string", "plain gcra", MERGED];

pub(crate) async fn run(server: &RedisServer) -> Table {
    let connections = usize::try_from(CONNECTIONS).unwrap();
    let mut all = contestants::all(server.port(), connections, false).await;
    all.retain(|contestant| COMPARED.contains(&contestant.name));
    let mut rounds = Vec::new();
    for deep in DEEP {
        rounds.push(measure(server, &all, deep * CONNECTIONS, LONG, CALLS).await);
    }
    let title =
        format!("Seconds of the Redis server for a million calls, {CONNECTIONS} connections");
    let mut table = Table::new(title, &["", "one at a time", "16 deep", "64 deep"]);
    for name in COMPARED {
        let cells = rounds.iter().map(|rounds| rounds.of(name, |it| it.server_us).shown(1));
        table.row(&[vec![name.to_owned()], cells.collect()].concat());
    }
    table.note(
        "Nothing is merged: each check is a call of its own, as each of the plain scripts' is.",
    );
    table
}
