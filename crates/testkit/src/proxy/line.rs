//! Owns [`Line`]: the bytes of one connection, one way.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::Shutdown;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::rules::{Ending, Rule, Rules, Way};

/// Bytes that wait in a line; when it is full, the sender is read no further.
const MAX_WAITING: usize = 64 * 1024;
const MAX_CHUNK: usize = 16 * 1024;

#[derive(Debug)]
struct Chunk {
    came: Instant,
    bytes: Vec<u8>,
}

/// Carries bytes from one socket to another, by the rules.
#[derive(Debug)]
pub(super) struct Line<'a> {
    id: u64,
    way: Way,
    from: &'a TcpStream,
    to: &'a TcpStream,
    rules: &'a Rules,
    changes: watch::Receiver<()>,
    waiting: VecDeque<Chunk>,
    waiting_bytes: usize,
    ended: bool,
    /// When the next bytes may leave, where they leave at a pace.
    next: Instant,
}

impl<'a> Line<'a> {
    pub(super) fn new(
        id: u64,
        way: Way,
        (from, to): (&'a TcpStream, &'a TcpStream),
        rules: &'a Rules,
    ) -> Self {
        Self {
            id,
            way,
            from,
            to,
            rules,
            changes: rules.changes(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            ended: false,
            next: Instant::now(),
        }
    }

    /// Runs until the sender has ended and everything is handed on. The error says how the whole
    /// connection is to end.
    pub(super) async fn run(mut self) -> Result<(), Ending> {
        loop {
            self.changes.borrow_and_update();
            match self.rules.of(self.id, self.way) {
                Rule::End(ending) => return Err(ending),
                Rule::Hold => changed(&mut self.changes).await,
                Rule::Swallow => self.swallow().await?,
                Rule::Forward { .. } if self.ended && self.waiting.is_empty() => {
                    let _ = SockRef::from(self.to).shutdown(Shutdown::Write);
                    return Ok(());
                }
                Rule::Forward { delay, pace } => self.forward(delay, pace).await?,
            }
        }
    }

    /// One step: something comes, something leaves, or the rules change.
    async fn forward(
        &mut self,
        delay: Duration,
        pace: Option<(usize, Duration)>,
    ) -> Result<(), Ending> {
        let (from, to) = (self.from, self.to);
        let first = self.waiting.front().map(|chunk| chunk.came + delay);
        let leaves = first.map(|at| if pace.is_some() { at.max(self.next) } else { at });
        let can_leave = async {
            if let Some(at) = leaves.filter(|at| *at > Instant::now()) {
                sleep_until(at).await;
            }
            to.writable().await
        };
        tokio::select! {
            () = changed(&mut self.changes) => Ok(()),
            writable = can_leave, if leaves.is_some() => {
                writable.map_err(|_| Ending::Reset)?;
                self.write(pace)
            }
            readable = from.readable(), if !self.ended && self.waiting_bytes < MAX_WAITING => {
                readable.map_err(|_| Ending::Reset)?;
                self.read()
            }
        }
    }

    fn read(&mut self) -> Result<(), Ending> {
        let mut bytes = vec![0; MAX_CHUNK];
        match self.from.try_read(&mut bytes) {
            Ok(0) => self.ended = true,
            Ok(count) => {
                bytes.truncate(count);
                self.waiting_bytes += count;
                self.waiting.push_back(Chunk { came: Instant::now(), bytes });
                let way = self.way;
                self.rules.see(|seen| match way {
                    Way::Up => seen.from_clients += count as u64,
                    Way::Down => seen.from_server += count as u64,
                });
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return Err(Ending::Reset),
        }
        Ok(())
    }

    fn write(&mut self, pace: Option<(usize, Duration)>) -> Result<(), Ending> {
        // The rules may have changed while the socket was waited for.
        if !matches!(self.rules.of(self.id, self.way), Rule::Forward { .. }) {
            return Ok(());
        }
        let Some(chunk) = self.waiting.front_mut() else { return Ok(()) };
        let most = pace.map_or(chunk.bytes.len(), |(bytes, _)| bytes.clamp(1, chunk.bytes.len()));
        let count = match self.to.try_write(&chunk.bytes[..most]) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(_) => return Err(Ending::Reset),
        };
        chunk.bytes.drain(..count);
        if chunk.bytes.is_empty() {
            self.waiting.pop_front();
        }
        self.waiting_bytes -= count;
        if let Some((_, every)) = pace {
            self.next = Instant::now() + every;
        }
        let way = self.way;
        self.rules.see(|seen| match way {
            Way::Up => seen.to_server += count as u64,
            Way::Down => seen.to_clients += count as u64,
        });
        Ok(())
    }

    /// Whatever waits or comes vanishes; an end vanishes, too.
    async fn swallow(&mut self) -> Result<(), Ending> {
        let lost = self.waiting_bytes as u64;
        if lost > 0 {
            self.waiting.clear();
            self.waiting_bytes = 0;
            self.rules.see(|seen| seen.swallowed += lost);
        }
        let from = self.from;
        tokio::select! {
            () = changed(&mut self.changes) => Ok(()),
            readable = from.readable(), if !self.ended => {
                readable.map_err(|_| Ending::Reset)?;
                self.read()
            }
        }
    }
}

/// Waits for a change. The rules outlive every line, so there is always one who could tell.
async fn changed(changes: &mut watch::Receiver<()>) {
    let _ = changes.changed().await;
}
