//! The seam to the client library: what is sent, what comes back, and how it can fail. No type of
//! the library is seen outside `driver/client.rs`.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use tollkeeper_core::HostPort;

use crate::examine::Wanted;

mod client;
mod reach;
mod wire;

pub(crate) use client::{Access, Client, Ear, Line};

/// Makes connections to one server.
pub(crate) trait Driver: fmt::Debug + Send + Sync + 'static {
    /// A connection over which many calls go at once. Dropping it closes it.
    type Link: Link;

    /// How long the server may take to let us in, or to say that it is still there.
    fn patience(&self) -> Duration;

    /// What kind of server it should be.
    fn wanted(&self) -> Wanted {
        Wanted::Single
    }

    /// Opens a connection, signed in and ready.
    fn connect(&self) -> impl Future<Output = Result<Self::Link, Fault>> + Send;
}

/// A connection.
pub(crate) trait Link: fmt::Debug + Send + Sync + 'static {
    /// Sends one command and waits for its reply.
    fn call(&self, command: &Command) -> impl Future<Output = Result<Reply, Fault>> + Send;

    /// Sends two commands, with nothing between them, and waits for the reply to the second.
    fn call_after(
        &self,
        first: &Command,
        command: &Command,
    ) -> impl Future<Output = Result<Reply, Fault>> + Send;

    /// Why there is no more connection, as soon as that is known.
    fn end(&self) -> Option<Fault>;

    /// Waits for the end. For one at a time.
    fn ended(&self) -> impl Future<Output = Fault> + Send;

    /// Ends it here; whoever waits for a reply is told.
    fn close(&self);
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
    pub(crate) fn args(&self) -> impl Iterator<Item = &[u8]> {
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

    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Text(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        std::str::from_utf8(self.bytes()?).ok()
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
    /// The server answered the call with an error.
    Refused(Refusal),
    /// The server does not let us in, or no longer; the call was not sent.
    TurnedAway(Refusal),
    /// There is no connection; nothing was sent.
    Unconnected { text: String },
    /// The connection broke; what was sent may have run.
    Broken { text: String },
}

impl Fault {
    pub(crate) fn refused(text: &str) -> Self {
        Self::Refused(Refusal::new(text))
    }

    /// Whether the server answered the call with an error of this code.
    pub(crate) fn says(&self, wanted: &str) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.says(wanted))
    }

    /// Whether the server answered that we may not run this command.
    pub(crate) fn forbids(&self, command: &str) -> bool {
        let command = command.to_ascii_lowercase();
        self.says("NOPERM")
            && matches!(self, Self::Refused(refusal) if refusal.text.contains(&command))
    }

    /// What is told of it.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Refused(refusal) | Self::TurnedAway(refusal) => refusal.text(),
            Self::Unconnected { text } | Self::Broken { text } => text,
        }
    }

    /// The same, told with the place of the server among several.
    pub(crate) fn at(self, place: &HostPort) -> Self {
        match self {
            Self::Unconnected { text } => Self::Unconnected { text: format!("{place}: {text}") },
            Self::Broken { text } => Self::Broken { text: format!("{place}: {text}") },
            refused => refused,
        }
    }

    /// The same for whoever comes later, and whose call is not sent any more.
    pub(crate) fn unsent(self) -> Self {
        match self {
            Self::Refused(refusal) => Self::TurnedAway(refusal),
            Self::Broken { text } => Self::Unconnected { text },
            unsent => unsent,
        }
    }
}

/// Characters of a server's error that are kept.
const MAX_TEXT: usize = 300;

/// A server's error: its code, and its text without what is nobody's business.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    code: String,
    text: String,
}

impl Refusal {
    fn new(text: &str) -> Self {
        // A server that does not know AUTH would tell who signs in, and with which password.
        let text = text.split(", with args beginning with").next().unwrap_or_default();
        let mut text = anonymous(text.trim());
        if let Some((at, _)) = text.char_indices().nth(MAX_TEXT) {
            text.truncate(at);
            text.push('…');
        }
        let code = text.split(' ').next().unwrap_or_default().to_owned();
        Self { code, text }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    /// Whether the error has this code. One that a script met is told by old servers in the middle
    /// of their text.
    pub(crate) fn says(&self, wanted: &str) -> bool {
        self.code == wanted || (self.code == "ERR" && self.text.contains(wanted))
    }
}

/// The text without the name of the user, which Valkey tells.
fn anonymous(text: &str) -> String {
    const LACKS: &str = " has no permissions";
    if let Some((before, after)) = text.rsplit_once(LACKS)
        && let Some((before, _name)) = before.split_once("User ")
    {
        return format!("{before}this user{LACKS}{after}");
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use tollkeeper_testkit::dice::Dice;

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

    #[test]
    fn who_we_are_is_not_told() {
        for (said, told) in [
            ("NOPERM User alice has no permissions to run", "NOPERM this user has no permissions"),
            ("ERR ACL failure in script: User alice has no permissions", "ERR ACL failure in"),
            ("ERR unknown command 'AUTH', with args beginning with: 'alice' 'x'", "ERR unknown"),
        ] {
            let refusal = Refusal::new(said);
            assert!(!refusal.text().contains("alice"), "{refusal:?}");
            assert!(refusal.text().starts_with(told), "{refusal:?}");
        }
    }

    #[test]
    fn no_text_is_too_much() {
        const PARTS: [&str; 12] = [
            "ERR",
            " ",
            "NOPERM",
            "User ",
            " has no permissions",
            ", with args beginning with",
            "é",
            "\u{1f980}",
            "\0",
            "\r\n",
            "WRONGTYPE",
            "a",
        ];
        let mut dice = Dice::new(9);
        for _ in 0..20_000 {
            let count = if dice.one_in(100) { 500 } else { dice.below(12) };
            let text: String = (0..count).map(|_| dice.pick(&PARTS)).collect();
            let refusal = Refusal::new(&text);
            assert!(refusal.text().chars().count() <= MAX_TEXT + 1, "{refusal:?}");
            assert!(refusal.text().starts_with(&refusal.code), "{refusal:?}");
            let _ = (refusal.says("WRONGTYPE"), refusal.says(""), Fault::refused(&text).says("é"));
        }
    }
}
