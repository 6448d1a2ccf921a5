//! Owns [`Status`]: which answers give back what a request has taken.

use std::fmt;
use std::str::FromStr;

use crate::limits::MAX_STATUSES;
use crate::refused::{FieldError, Refused};

/// What a status looks like.
pub(crate) const EXPECTED: &str = "a status such as `404`, or a class such as `5xx`";

/// A status of an answer, or a class of them.
///
/// ```
/// use tollkeeper_policy::Status;
///
/// let class: Status = "5xx".parse()?;
/// assert!(class.is(503) && !class.is(404));
/// # Ok::<(), tollkeeper_policy::FieldError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// `404`: 100 to 599.
    Code(u16),
    /// `4xx`: 1 to 5.
    Class(u8),
}

impl Status {
    /// Whether a status is this one, or of this class.
    #[must_use]
    pub fn is(self, status: u16) -> bool {
        match self {
            Self::Code(code) => status == code,
            Self::Class(class) => status / 100 == u16::from(class),
        }
    }

    pub(crate) fn read(text: &str) -> Result<Self, Refused> {
        let digit = |b: u8| b.is_ascii_digit();
        match text.as_bytes() {
            [class @ b'1'..=b'5', b'x', b'x'] => Ok(Self::Class(class - b'0')),
            [b'1'..=b'5', b'X', b'X'] => {
                Err(Refused::new(", which is not in lower case", EXPECTED)
                    .help(format!("write `{}`", text.to_ascii_lowercase())))
            }
            [b'1'..=b'5', tens, ones] if digit(*tens) && digit(*ones) => {
                text.parse().map(Self::Code).map_err(|_| unknown())
            }
            _ => Err(unknown()),
        }
    }
}

fn unknown() -> Refused {
    Refused::new(", which is no status", EXPECTED)
}

/// Adds a status that is not yet there.
pub(crate) fn add(statuses: &mut Vec<Status>, text: &str) -> Result<(), Refused> {
    let status = Status::read(text)?;
    if statuses.contains(&status) {
        return Err(Refused::new(", which stands here twice", "each one once"));
    }
    if statuses.len() == MAX_STATUSES {
        let expected = format!("at most {MAX_STATUSES} statuses");
        return Err(Refused::new(", which is one too many", expected));
    }
    statuses.push(status);
    Ok(())
}

impl FromStr for Status {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::read(text).map_err(|refused| refused.of("refund_on", text))
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "{code}"),
            Self::Class(class) => write!(f, "{class}xx"),
        }
    }
}
