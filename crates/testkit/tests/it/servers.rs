//! The guard of real servers does to them what it says.

use std::path::{Path, PathBuf};
use std::process::Command;

use tollkeeper_testkit::peers;
use tollkeeper_testkit::port::Port;
use tollkeeper_testkit::redis_server::{Launch, RedisServer};
use tollkeeper_testkit::resp::{Connection, Reply};
use tollkeeper_testkit::tls::Tls;

fn ok() -> Reply {
    Reply::Text("OK".to_owned())
}

/// The server's clock, also as a script reads it.
fn time_us(server: &RedisServer) -> i64 {
    let script = "local t = redis.call('TIME') return t[1] * 1000000 + t[2]";
    let time = server.command(&["EVAL", script, "0"]).unwrap();
    time.integer().unwrap()
}

#[test]
fn a_killed_server_comes_back_empty_or_full_on_the_same_port() {
    for program in peers::servers().unwrap() {
        let mut server = RedisServer::start(program, &["--maxmemory", "8mb"]).unwrap();
        let (url, pid) = (server.url(), server.pid());
        server.command(&["SET", "a", "1"]).unwrap();
        server.restart_keeping().unwrap();
        assert_eq!(server.command(&["GET", "a"]), Ok(Reply::Text("1".to_owned())));
        server.kill();
        assert!(Connection::tcp(server.port()).unwrap_err().contains("refused"));
        assert!(server.command(&["PING"]).is_err());
        server.restart().unwrap();
        assert_eq!(server.command(&["GET", "a"]), Ok(Reply::Nil));
        let memory = server.command(&["CONFIG", "GET", "maxmemory"]).unwrap();
        assert_eq!(memory.list()[1].integer(), Some(8 << 20));
        assert_eq!(server.url(), url);
        assert_ne!(server.pid(), pid);
    }
}

/// A test of limits counts what was admitted before a restart, so nothing that was answered may be lost:
/// a server that was saved and then killed forgot what came in between.
#[test]
fn a_restarted_server_keeps_all_that_it_has_answered() {
    let mut server = RedisServer::start("redis-server", &[]).unwrap();
    server.command(&["SET", "count", "0", "EX", "1000"]).unwrap();
    for _ in 0..3 {
        let mut writer = server.keeper().unwrap();
        let (begun, has_begun) = std::sync::mpsc::channel();
        let writing = std::thread::spawn(move || {
            let mut last = None;
            while let Ok(count) = writer.call(&["INCR", "count"]) {
                last = count.integer();
                let _ = begun.send(());
            }
            last
        });
        has_begun.recv().unwrap();
        server.restart_keeping().unwrap();
        let (told, kept) = (writing.join().unwrap(), server.command(&["GET", "count"]).unwrap());
        assert!(kept.integer() >= told && told.is_some(), "{told:?} of {kept}");
    }
}

#[test]
fn a_server_can_come_up_later_on_a_port_that_was_reserved() {
    let port = Port::reserve().unwrap();
    let number = port.number();
    assert!(Connection::tcp(number).unwrap_err().contains("refused"));
    let server = Launch::new("redis-server").on(port).start().unwrap();
    assert_eq!(server.port(), number);
    assert!(Connection::tcp(number).unwrap().call(&["PING"]).is_ok());
}

#[test]
fn a_frozen_server_keeps_its_connections_and_answers_when_it_goes_on() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let mut keeper = server.keeper().unwrap();
    for _ in 0..3 {
        server.stop().unwrap();
        assert_eq!(state_of(server.pid()), 'T');
        server.cont().unwrap();
        assert_eq!(keeper.call(&["SET", "a", "1", "EX", "1000"]), Ok(ok()));
    }
    // A frozen one can be killed, and waited for.
    server.stop().unwrap();
    let pid = server.pid();
    drop(server);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

/// The letter that the system has for what a process does.
fn state_of(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(") ").next().unwrap().chars().next().unwrap()
}

#[test]
fn a_server_loads_until_it_is_told_to_finish() {
    for program in peers::servers().unwrap() {
        let mut server = RedisServer::start(program, &[]).unwrap();
        server.command(&["SET", "ours", "1", "EX", "1000"]).unwrap();
        server.restart_loading().unwrap();
        let mut client = Connection::tcp(server.port()).unwrap();
        for _ in 0..3 {
            let refusal = client.call(&["GET", "ours"]).unwrap_err();
            assert!(refusal.starts_with("LOADING"), "{refusal}");
        }
        server.finish_loading().unwrap();
        assert_eq!(client.call(&["GET", "ours"]), Ok(Reply::Text("1".to_owned())));
        assert_eq!(server.keys_without_ttl(), Ok(vec![]));
    }
}

#[test]
fn the_wall_clock_of_a_running_server_moves_both_ways() {
    const HOUR_US: i64 = 3_600_000_000;
    for program in peers::servers().unwrap() {
        let server = Launch::new(program).fake_time().start().unwrap();
        let set_px = |name, ms| server.command(&["SET", name, "1", "PX", ms]).unwrap();
        let exists = |name| server.command(&["EXISTS", name]).unwrap().integer().unwrap();
        let begun_us = time_us(&server);
        set_px("lives", "7300000");
        set_px("dies", "3500000");
        server.set_clock_offset_us(HOUR_US + 7).unwrap();
        let later_us = time_us(&server);
        let by_us = later_us - begun_us;
        assert!((HOUR_US..HOUR_US + 60_000_000).contains(&by_us), "{by_us}");
        assert_eq!((exists("lives"), exists("dies")), (1, 0));

        server.set_clock_offset_us(-HOUR_US).unwrap();
        let before_us = time_us(&server);
        let by_us = before_us - begun_us;
        assert!((-HOUR_US..60_000_000 - HOUR_US).contains(&by_us), "{by_us}");
        let left_ms = server.command(&["PTTL", "lives"]).unwrap().integer().unwrap();
        assert!((10_800_000..=10_900_000).contains(&left_ms), "{left_ms}");
        // Its timers run: what has a short life is gone by itself, without being asked for.
        let mut keeper = server.keeper().unwrap();
        keeper.call(&["CONFIG", "SET", "notify-keyspace-events", "Ex"]).unwrap();
        keeper.call(&["SUBSCRIBE", "__keyevent@0__:expired"]).unwrap();
        set_px("short", "1");
        assert_eq!(keeper.hear().unwrap().to_string().lines().last(), Some("short"));
    }
}

#[test]
fn passwords_and_users_are_asked_for() {
    let server = Launch::new("redis-server").password("open sesame").start().unwrap();
    let mut stranger = Connection::tcp(server.port()).unwrap();
    assert!(stranger.call(&["PING"]).unwrap_err().starts_with("NOAUTH"));
    assert_eq!(server.command(&["SET", "a", "1", "EX", "1000"]), Ok(ok()));
    assert!(server.url().starts_with("redis://:open%20sesame@127.0.0.1:"));

    for program in peers::servers().unwrap() {
        let server = Launch::new(program)
            .user("default", "x", "-@all")
            .user("app", "secret", "~rl:* +@all -@dangerous")
            .start()
            .unwrap();
        let mut app = Connection::tcp(server.port()).unwrap();
        assert!(app.call(&["AUTH", "app", "guess"]).unwrap_err().starts_with("WRONGPASS"));
        assert_eq!(app.call(&["AUTH", "app", "secret"]), Ok(ok()));
        assert_eq!(app.call(&["SET", "rl:a", "1"]), Ok(ok()));
        assert!(app.call(&["SET", "other", "1"]).unwrap_err().starts_with("NOPERM"));
        assert!(app.call(&["FLUSHALL"]).unwrap_err().starts_with("NOPERM"));
        assert_eq!(server.command(&["FLUSHALL"]), Ok(ok()));
    }
}

#[test]
fn keys_that_would_stay_for_ever_are_found() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let mut keeper = server.keeper().unwrap();
    for n in 0..2_000 {
        keeper.call(&["SET", &format!("key {n}"), "1", "EX", "1000"]).unwrap();
    }
    assert_eq!(server.keys_without_ttl(), Ok(vec![]));
    keeper.call(&["PERSIST", "key 77"]).unwrap();
    assert_eq!(server.keys_without_ttl(), Ok(vec!["key 77".to_owned()]));
    server.holds_others();
}

#[test]
fn a_server_with_tls_is_trusted_by_its_authority_alone() {
    let (tls, other) = (Tls::new().unwrap(), Tls::new().unwrap());
    let server = Launch::new("redis-server").tls(&tls).start().unwrap();
    assert!(server.url().starts_with("rediss://"));
    assert!(Connection::tcp(server.port()).unwrap().call(&["PING"]).is_err());
    assert!(server.command(&["PING"]).is_ok());
    let ping = |ca: &Path, host: &str| {
        let port = server.port().to_string();
        let output = Command::new("redis-cli")
            .args(["-h", host, "-p", &port, "--tls", "--cacert"])
            .arg(ca)
            .arg("ping")
            .output()
            .unwrap();
        output.stdout == b"PONG\n"
    };
    assert!(ping(tls.ca(), "127.0.0.1") && ping(tls.ca(), "localhost"));
    assert!(!ping(other.ca(), "127.0.0.1"));
}

#[test]
fn the_peers_are_as_old_and_as_new_as_they_say() {
    let version = |program: PathBuf| {
        let server = RedisServer::start(program, &[]).unwrap();
        let info = server.command(&["INFO", "server"]).unwrap().to_string();
        let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
        let version = field("valkey_version:").or_else(|| field("redis_version:"));
        version.unwrap().to_owned()
    };
    assert!(version(peers::valkey().unwrap()).starts_with("9.1."));
    assert!(version(peers::oldest_redis().unwrap()).starts_with("6.2."));
    assert!(version(peers::too_old_redis().unwrap()).starts_with("5.0."));
}

#[test]
fn a_key_that_stays_for_ever_fails_the_test_that_made_it() {
    let ends = |key: &str, is_told: bool| {
        let server = RedisServer::start("redis-server", &[]).unwrap();
        server.command(&["SET", key, "1"]).unwrap();
        if is_told {
            server.holds_others();
        }
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(server)))
    };
    // Whatever its name: a test may have given our keys another prefix.
    for key in ["rl:{alice}:api:tb", "shop:{alice}:api:tb", "rl-simulate-1:{alice}:api:tb", "other"]
    {
        assert!(ends(key, false).is_err() && ends(key, true).is_ok(), "{key}");
    }
    assert!(ends("testkit:last", false).is_ok());
}
