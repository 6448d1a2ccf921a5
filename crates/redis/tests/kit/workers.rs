//! Processes that ask a store together. The test's own program is started again as each of them.

#![allow(dead_code, reason = "not every test needs all of it")]

use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// How many processes there are, and how many callers at once in each of them.
pub(crate) const PROCESSES: u64 = 4;
pub(crate) const CALLERS: u64 = 64;

/// Tells a process that it is a worker, which one, and where the store is.
const MARK: &str = "TOLLKEEPER_TEST_WORKER";

/// Begins what a worker says, among all that the test harness prints.
const SAYS: &str = "@worker ";
const READY: &str = "ready";

/// How long a worker may be silent, and how long it is listened for at a time.
const PATIENCE: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_millis(1);

/// Processes that wait for orders.
pub(crate) struct Workers {
    children: Vec<(Child, ChildStdin)>,
    said: Receiver<String>,
}

impl Workers {
    /// Starts the processes, in each of which the test `name` calls [`serve`]. Returns when all
    /// are connected to the store at `place`, which is for them to understand.
    pub(crate) fn start(name: &str, place: &str) -> Self {
        let (sender, said) = channel();
        let children = (0..PROCESSES).map(|nth| start(name, nth, place, sender.clone())).collect();
        let workers = Self { children, said };
        for _ in 0..PROCESSES {
            assert_eq!(workers.wait(), READY);
        }
        workers
    }

    /// Gives all of them the same order, and adds up what they answer.
    pub(crate) fn all(&mut self, order: &str) -> u64 {
        self.tell(order).iter().map(|said| number(order, said)).sum()
    }

    /// Gives all of them the same order; what they answer, in any order.
    pub(crate) fn tell(&mut self, order: &str) -> Vec<String> {
        self.order(order);
        (0..PROCESSES).map(|_| self.wait()).collect()
    }

    /// The same, while `meanwhile` is done again and again.
    pub(crate) fn all_while(&mut self, order: &str, mut meanwhile: impl FnMut()) -> u64 {
        self.order(order);
        let mut answers = Vec::new();
        for _ in 0..PATIENCE.as_millis() {
            meanwhile();
            answers.extend(self.said.recv_timeout(TICK).ok().map(|said| number(order, &said)));
            if answers.len() as u64 == PROCESSES {
                return answers.iter().sum();
            }
        }
        panic!("{order}: only {} answers", answers.len());
    }

    fn order(&mut self, order: &str) {
        for (_, input) in &mut self.children {
            writeln!(input, "{order}").unwrap();
        }
    }

    fn wait(&self) -> String {
        self.said.recv_timeout(PATIENCE).expect("a worker is silent")
    }
}

fn number(order: &str, said: &str) -> u64 {
    said.parse().unwrap_or_else(|_| panic!("{order}: {said}"))
}

fn start(name: &str, nth: u64, place: &str, said: Sender<String>) -> (Child, ChildStdin) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(MARK, format!("{nth} {place}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input = child.stdin.take().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            if let Some(words) = line.strip_prefix(SAYS) {
                let _ = said.send(words.to_owned());
            }
        }
        let _ = said.send("has ended".to_owned());
    });
    (child, input)
}

/// In a process that is a worker: its number, and where the store is.
pub(crate) fn role() -> Option<(u64, String)> {
    let mark = std::env::var(MARK).ok()?;
    let (nth, place) = mark.split_once(' ').unwrap();
    Some((nth.parse().unwrap(), place.to_owned()))
}

/// Obeys orders until there are no more.
pub(crate) fn serve<T: ToString>(mut obey: impl FnMut(&str) -> T) {
    say(READY);
    for order in stdin().lines() {
        say(&obey(&order.unwrap()).to_string());
    }
}

/// The harness may have begun a line of its own.
fn say(words: &str) {
    let mut stdout = stdout().lock();
    writeln!(stdout, "\n{SAYS}{words}").unwrap();
    stdout.flush().unwrap();
}

impl Drop for Workers {
    fn drop(&mut self) {
        for (child, _) in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
