//! The seam to the client library: what is sent, what comes back, and how it can fail. No type of
//! the library is seen outside `driver/client.rs`.

use std::future::Future;

mod client;

pub(crate) use client::Client;

/// Makes connections and calls over them.
pub(crate) trait Driver: Send + Sync + 'static {
    /// A connection over which many calls go at once.
    type Link: Clone + std::fmt::Debug + Send + Sync + 'static;

    /// Opens a connection, signed in and ready.
    fn connect(&self) -> impl Future<Output = Result<Self::Link, Fault>> + Send;

    /// Sends one command and waits for its reply.
    fn call(
        &self,
        link: &Self::Link,
        command: &Command,
    ) -> impl Future<Output = Result<Reply, Fault>> + Send;
}

/// A command and its arguments.
#[derive(Debug, Default)]
pub(crate) struct Command {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Command {
    pub(crate) fn new(name: &str) -> Self {
        Self::default().arg(name)
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<[u8]>) -> Self {
        self.push(arg);
        self
    }

    pub(crate) fn push(&mut self, arg: impl AsRef<[u8]>) {
        self.bytes.extend_from_slice(arg.as_ref());
        self.ends.push(self.bytes.len());
    }

    /// The name and the arguments, in order.
    fn args(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }
}

/// What a server said.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Nothing,
    Whole(i64),
    Text(Vec<u8>),
    List(Vec<Reply>),
}

impl Reply {
    pub(crate) fn whole(&self) -> Option<i64> {
        match self {
            Self::Whole(number) => Some(*number),
            Self::Text(text) => std::str::from_utf8(text).ok()?.parse().ok(),
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => std::str::from_utf8(text).ok(),
            _ => None,
        }
    }

    pub(crate) fn list(&self) -> Option<&[Self]> {
        match self {
            Self::List(list) => Some(list),
            _ => None,
        }
    }

    /// A list of whole numbers.
    pub(crate) fn wholes(&self) -> Option<Vec<i64>> {
        self.list()?.iter().map(Self::whole).collect()
    }

    /// A list of texts.
    pub(crate) fn texts(&self) -> Option<Vec<String>> {
        self.list()?.iter().map(|item| item.text().map(str::to_owned)).collect()
    }
}

/// Why a call has no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The server answered with an error: its code, and all of its text.
    Refused { code: String, text: String },
    /// There is no connection; nothing was sent.
    Unconnected { text: String },
    /// The connection broke; what was sent may have run.
    Broken { text: String },
}

impl Fault {
    pub(crate) fn refused(text: impl Into<String>) -> Self {
        let text = text.into();
        let code = text.split(' ').next().unwrap_or_default().to_owned();
        Self::Refused { code, text }
    }

    /// Whether the server's error has this code. One that a script met is told by old servers in
    /// the middle of their text.
    pub(crate) fn says(&self, wanted: &str) -> bool {
        match self {
            Self::Refused { code, text } => {
                code == wanted || (code == "ERR" && text.contains(wanted))
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_keeps_its_arguments_apart() {
        let command = Command::new("SET").arg("a b").arg("").arg([0xff, 0]);
        let args: Vec<&[u8]> = command.args().collect();
        assert_eq!(args, [b"SET".as_slice(), b"a b", b"", &[0xff, 0]]);
    }

    #[test]
    fn a_fault_is_told_by_its_code_also_from_within_a_script() {
        let fault = Fault::refused("READONLY You can't write against a read only replica.");
        assert!(fault.says("READONLY") && !fault.says("OOM"));
        let old = "ERR Error running script (call to f_0): @user_script:9: WRONGTYPE Operation";
        assert!(Fault::refused(old).says("WRONGTYPE"));
        assert!(!Fault::refused("NOPERM this user has no OOM").says("OOM"));
    }
}
