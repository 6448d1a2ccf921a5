//! The policy file: read with positions, checked, and compiled into rules.
//!
//! [`Policy::parse`] takes the text of the file and gives a [`Policy`], valid by its type, or
//! [`PolicyErrors`]: everything that is wrong with it, each thing with its line, its column, what
//! was expected and what was probably meant. [`schema`] describes the file to an editor.
//! [`Policy::meet`] tells which rules a request meets, with which key, cost and tier, and
//! [`Policy::explain`] why. [`Policy::advice`] tells what a valid policy does that was hardly meant.
//!
//! Nothing here reads a file, an environment or a clock: the caller brings the text and looks up
//! variables. The value of a variable is never part of a message, nor are the user and the password
//! in a URL.

mod advice;
mod compile;
mod error;
mod fields;
pub mod limits;
mod matcher;
mod nearest;
mod networks;
mod policy;
mod raw;
mod reader;
mod redact;
mod refused;
mod render;
mod request;
mod rule;
mod schema;
mod settings;
mod store_url;
mod yaml;

pub use advice::{Advice, AdviceCode, render_advice};
pub use compact_str::CompactString;
pub use error::{PolicyError, PolicyErrors};
pub use ipnet::IpNet;
pub use matcher::{Denied, Explained, Meeting, Met};
pub use nearest::nearest;
pub use networks::Networks;
pub use policy::Policy;
pub use refused::FieldError;
pub use request::{AttributeError, Attributes, RequestView};
pub use rule::{
    Cost, Exempt, HeaderMatch, HostPattern, KeyPart, Limit, Match, PathPattern, Rule, RuleError,
    Source, Status, Tier, Tiers, WhenMissing,
};
pub use schema::schema;
pub use settings::{
    ClientIp, GatewaySettings, HeaderStyle, Listen, OnFailure, SettingError, StoreSettings, Tls,
    Upstream,
};
pub use store_url::{HostPort, RedisAddress, RedisUrl, Secret, StoreUrl, StoreUrlError};
