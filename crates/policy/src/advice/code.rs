//! Owns [`AdviceCode`]: the names of the checks, which never change their meaning.

use std::fmt;

/// Which check a piece of advice comes from. A code that is out of use is not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AdviceCode {
    /// `TK001`
    UntrustedProxy,
    /// `TK002`
    NeverMatches,
    /// `TK003`
    NeverThere,
    /// `TK004`
    SharedAddress,
    /// `TK005`
    Hidden,
    /// `TK006`
    UntrustedHeader,
    /// `TK007`
    WholeLimitEach,
    /// `TK008`
    LongWait,
    /// `TK009`
    ManyFaces,
    /// `TK010`
    TooDear,
}

impl AdviceCode {
    /// All of them, in order.
    pub const ALL: [Self; 10] = [
        Self::UntrustedProxy,
        Self::NeverMatches,
        Self::NeverThere,
        Self::SharedAddress,
        Self::Hidden,
        Self::UntrustedHeader,
        Self::WholeLimitEach,
        Self::LongWait,
        Self::ManyFaces,
        Self::TooDear,
    ];

    /// The code.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UntrustedProxy => "TK001",
            Self::NeverMatches => "TK002",
            Self::NeverThere => "TK003",
            Self::SharedAddress => "TK004",
            Self::Hidden => "TK005",
            Self::UntrustedHeader => "TK006",
            Self::WholeLimitEach => "TK007",
            Self::LongWait => "TK008",
            Self::ManyFaces => "TK009",
            Self::TooDear => "TK010",
        }
    }

    /// What it is about, as the heading of its page has it.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::UntrustedProxy => "A proxy forwards requests, and no proxy is trusted",
            Self::NeverMatches => "A rule, or a part of it, can never match",
            Self::NeverThere => "What a rule reads is never there",
            Self::SharedAddress => "Signed-in users are counted by their address alone",
            Self::Hidden => "A limit is hidden by a stricter one",
            Self::UntrustedHeader => "A header sets a cost or a tier, and no proxy is trusted",
            Self::WholeLimitEach => "In an outage every process admits the whole limit",
            Self::LongWait => "Requests wait longer than clients do",
            Self::ManyFaces => "One client can be counted as many",
            Self::TooDear => "A request costs more than the limit ever has",
        }
    }

    /// The address of the page that tells more.
    #[must_use]
    pub fn page(self) -> String {
        format!("{}/blob/main/docs/advice/{self}.md", env!("CARGO_PKG_REPOSITORY"))
    }
}

impl fmt::Display for AdviceCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
