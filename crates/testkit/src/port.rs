//! Owns [`Port`]: a port of loopback that stays ours while nothing listens on it.
//!
//! A port that the system hands out can be taken again, by another test or as the near end of any
//! connection, while its server is down; a client that tries such a port in a loop can even meet
//! itself. So ports are chosen below the system's range, and a locked file keeps other tests off.

use std::fs::{self, File};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::dice::Dice;

/// Below what Linux hands out by itself, which begins at 32768.
const FIRST: u64 = 15_000;
const LAST: u64 = 31_999;

/// Ports that are tried before giving up.
const TRIES: u64 = 200;

/// A port that no other test takes until this is dropped.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// Finds a free port and keeps it.
    pub fn reserve() -> Result<Self, String> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let user = rustix::process::getuid().as_raw();
        let locks = std::env::temp_dir().join(format!("tollkeeper-ports-{user}"));
        fs::create_dir_all(&locks).map_err(|error| format!("{}: {error}", locks.display()))?;
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut dice = Dice::new((u64::from(std::process::id()) << 32) + nth);
        for _ in 0..TRIES {
            let number = u16::try_from(dice.between(FIRST, LAST)).unwrap_or(u16::MAX);
            let Ok(lock) = File::create(locks.join(number.to_string())) else { continue };
            if lock.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", number)).is_ok() {
                return Ok(Self { number, _lock: lock });
            }
        }
        Err(format!("no free port from {FIRST} to {LAST} after {TRIES} tries"))
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_port_is_free_and_nobody_elses() {
        let ports: Vec<Port> = (0..50).map(|_| Port::reserve().unwrap()).collect();
        let mut numbers: Vec<u16> = ports.iter().map(Port::number).collect();
        for number in &numbers {
            TcpListener::bind(("127.0.0.1", *number)).unwrap();
        }
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 50);
    }
}
