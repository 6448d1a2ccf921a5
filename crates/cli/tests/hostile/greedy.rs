//! Heads without end: each connection can make the service hold so much, and no more.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::alone;
use crate::client::{LIMIT, Regular, policy, until};
use crate::kit::Service;
use crate::process::raise_open_files;

const CONNECTIONS: usize = 400;

/// The largest head that the service reads, and what each connection sends of one.
const MAX_HEAD: usize = 32 * 1024;
const SENT: usize = 300 * 1024;

/// What a connection costs beside its head: a task, a timer, what the allocator keeps.
const OTHER: usize = 16 * 1024;

#[test]
fn a_head_without_end_is_cut_off_and_costs_no_more_than_the_largest() {
    // It used to be read up to 400 kB: a few thousand connections were gigabytes.
    let _alone = alone();
    raise_open_files();
    let service = Service::start("greedy", &policy(LIMIT));
    let mut regular = Regular::new(service.address, "regular", LIMIT);
    regular.asks(100);
    let ((memory, _), files) = (service.memory(), service.open_files());
    let head = [b"GET /healthz HTTP/1.1\r\nx: ".as_slice(), &[b'a'; SENT]].concat();
    let crowd: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| {
            let mut stream = TcpStream::connect(service.address).unwrap();
            // Who is cut off while sending hears of it here.
            let _ = stream.write_all(&head);
            stream
        })
        .collect();
    let most = memory + CONNECTIONS * (MAX_HEAD + OTHER);
    let (_, peak) = service.memory();
    assert!(peak <= most, "{memory} bytes, then {peak}; at most {most}");
    for mut stream in crowd {
        let mut told = Vec::new();
        // Where the answer is not lost on the way it says why.
        let _ = stream.read_to_end(&mut told);
        let told = String::from_utf8_lossy(&told);
        assert!(told.is_empty() || told.starts_with("HTTP/1.1 431"), "{told}");
    }
    until("its files are closed", || service.open_files() <= files);
    regular.asks(100);
}
