//! Connections that do nothing: as many as the service takes, and more.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::alone;
use crate::client::{LIMIT, Regular, now, p99, policy, until};
use crate::kit::{Service, read_reply, request};
use crate::process::raise_open_files;

/// The most connections that the service takes, and how long it waits for a head.
const MAX_CONNECTIONS: usize = 10_000;
const HEAD_PATIENCE: Duration = Duration::from_secs(5);

/// What an idle connection may cost: the buffer that its head is read into, and as much again for
/// the task, the timer and the socket's entry.
const IDLE_BYTES: usize = 16 * 1024;

/// Connections that do nothing, half of them after one request that was answered.
fn idle(service: &Service, count: usize) -> Vec<TcpStream> {
    let connect = |nth: usize| {
        let mut stream = TcpStream::connect(service.address).unwrap();
        if nth % 2 == 1 {
            stream.write_all(&request("GET", "/healthz", &[], b"")).unwrap();
            let mut reader = std::io::BufReader::new(&mut stream);
            assert_eq!(read_reply(&mut reader).status, 200);
        }
        stream
    };
    (0..count).map(connect).collect()
}

#[test]
fn as_many_as_there_is_room_for_are_in_nobodys_way_and_give_way() {
    let _alone = alone();
    let most = raise_open_files().saturating_sub(500).min(MAX_CONNECTIONS);
    let service = Service::start("idle", &policy(LIMIT));
    let mut regular = Regular::new(service.address, "regular", LIMIT);
    let quiet = regular.asks(500);
    let (files, (memory, _), log) = (service.open_files(), service.memory(), service.log());

    // Room is left for one: it is served as well as if it were alone.
    let begun = now();
    let mut crowd = idle(&service, most - 1);
    let among = regular.asks(500);
    let bound = 20 * p99(&quiet) + HEAD_PATIENCE / 50;
    assert!(p99(&among) <= bound, "{:?} alone, {:?} among them", p99(&quiet), p99(&among));
    let (now_has, _) = service.memory();
    let most_bytes = memory + most * IDLE_BYTES;
    assert!(now_has <= most_bytes, "{memory} bytes, then {now_has}; at most {most_bytes}");

    // No room is left: a newcomer waits until the first of them have been idle for long enough.
    crowd.extend(idle(&service, 1));
    let full = begun.elapsed();
    let begun = now();
    regular.asks(10);
    let waited = begun.elapsed();
    assert!(waited <= HEAD_PATIENCE + bound, "{waited:?}, full after {full:?}");

    // All of them end, also those that were served before, and nothing is left of them.
    for mut stream in crowd {
        stream.set_read_timeout(Some(3 * HEAD_PATIENCE)).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        let told = String::from_utf8_lossy(&rest);
        assert!(rest.is_empty() || told.starts_with("HTTP/1.1 408"), "{told}");
    }
    until("its files are closed", || service.open_files() <= files);
    assert_eq!(service.log(), log, "they are not worth a word");
    let after = regular.asks(500);
    assert!(p99(&after) <= bound, "{:?} before, {:?} after", p99(&quiet), p99(&after));
}

#[test]
fn where_the_system_gives_few_files_the_service_has_some_left_for_itself() {
    // It used to take as many connections as there were files, and then could not open any other:
    // not the policy, not a connection to its store.
    const FILES: usize = 150;
    let _alone = alone();
    let service = Service::start_limited("few-files", &policy(LIMIT), FILES);
    let before = service.open_files();
    let connect = |_| TcpStream::connect(service.address).unwrap();
    let crowd: Vec<TcpStream> = (0..2 * FILES).map(connect).collect();
    until("all places are taken", || service.open_files() >= before + FILES - 100);
    service.folder.write("tollkeeper.yaml", policy(3_000_000_000));
    until("it was read again", || service.log().contains("took effect"));
    drop(crowd);
    Regular::new(service.address, "regular", 3_000_000_000).asks(10);
}
