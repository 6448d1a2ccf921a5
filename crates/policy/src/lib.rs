//! The policy file: read with positions, checked, and compiled into rules.
//!
//! [`Policy::parse`] takes the text of the file and gives a [`Policy`], valid by its type, or
//! [`PolicyErrors`]: everything that is wrong with it, each thing with its line, its column, what
//! was expected and what was probably meant. [`schema`] describes the file to an editor.
//!
//! Nothing here reads a file, an environment or a clock: the caller brings the text and looks up
//! variables. The value of a variable is never part of a message, nor are the user and the password
//! in a URL.

mod compile;
mod error;
mod fields;
pub mod limits;
mod nearest;
mod policy;
mod raw;
mod reader;
mod redact;
mod render;
mod rule;
mod schema;
mod settings;
mod store_url;
mod yaml;

pub use error::{PolicyError, PolicyErrors};
pub use nearest::nearest;
pub use policy::Policy;
pub use rule::{Limit, Rule, RuleError};
pub use schema::schema;
pub use settings::{Listen, OnFailure, SettingError, StoreSettings};
pub use store_url::{RedisAddress, RedisUrl, Secret, StoreUrl, StoreUrlError};
