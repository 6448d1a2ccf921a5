//! The memory of the server that a key takes, with its end.

use tollkeeper_testkit::dice::Dice;
use tollkeeper_testkit::redis_server::RedisServer;

use super::contestants;
use crate::progress::progress;
use crate::table::Table;

/// How often a key is asked for: a log keeps what it admits.
const TIMES: [u32; 2] = [1, 1_000];

pub(crate) async fn run(server: &RedisServer) -> Table {
    let title = "Bytes of the Redis server for a key, by how often it was admitted";
    let mut table = Table::new(title, &["", "its name", "once", "a thousand times"]);
    let all = contestants::all(server.port(), 1, true).await;
    let is_one = |name: &str| !name.ends_with("new keys") && !name.starts_with("four");
    let bar = progress(all.len() as u64);
    for contestant in all.iter().filter(|contestant| is_one(contestant.name)) {
        bar.set_message(format!("memory: {}", contestant.name));
        server.command(&["FLUSHALL"]).unwrap();
        let (mut asked, mut sizes, mut name) = (0, Vec::new(), String::new());
        for times in TIMES {
            while asked < times {
                // The same dice, hence the same key.
                contestant.ask(&mut Dice::new(7)).await;
                asked += 1;
            }
            name = server.command(&["RANDOMKEY"]).unwrap().to_string();
            let size = server.command(&["MEMORY", "USAGE", &name, "SAMPLES", "0"]).unwrap();
            sizes.push(size.to_string());
        }
        let [once, often] = [&sizes[0], &sizes[1]];
        table.row(&[contestant.name, &name.len().to_string(), once, often]);
        bar.inc(1);
    }
    bar.finish_and_clear();
    table.note("All of it: name, value and end. INCR gives its key no end.".to_owned());
    table
}
