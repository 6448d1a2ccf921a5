//! Finds the lines and columns that advice is about.
//!
//! The policy does not remember where it stood, so its text is read once more. What variables stand
//! for makes no difference to that.

use super::{Advice, Path};
use crate::error::{Problems, Span};
use crate::yaml::{self, Node, Value};

pub(super) fn find(advice: &mut [Advice], text: &str) {
    let root = yaml::parse(text, &|_| Some(String::new()), &mut Problems::default());
    let Some(root) = root else { return };
    for one in advice {
        let Some(span) = one.paths.iter().find_map(|path| locate(&root, path)) else { continue };
        (one.line, one.column, one.length) = (Some(span.line), Some(span.column), span.length);
    }
}

/// Where a path ends: a single value, or the name of what has several.
fn locate(root: &Node, path: &Path) -> Option<Span> {
    let (mut at, mut span) = (root, root.span);
    for step in path {
        match &at.value {
            Value::Map(entries) => {
                let entry = entries.iter().find(|entry| *entry.key == **step)?;
                at = &entry.value;
                span = match at.value {
                    Value::Scalar(_) => at.span,
                    _ => entry.key_span,
                };
            }
            Value::List(items) => {
                at = items.get(step.parse::<usize>().ok()?)?;
                span = at.span;
            }
            // One value stands for a list of it.
            Value::Scalar(_) if step == "0" => {}
            Value::Scalar(_) | Value::Unreadable => return None,
        }
    }
    Some(span)
}
