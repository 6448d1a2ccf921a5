//! Shows advice the way errors are shown: with the line of the file, if there is one, and the page
//! that tells more.

use super::Advice;
use crate::limits::MAX_ADVICE;
use crate::render::{Remark, Source};

/// The advice for people: what will happen, where it stands, what to write instead.
///
/// ```
/// use tollkeeper_policy::{Policy, render_advice};
///
/// let text = "rules:\n  api: { limits: [10/s, 1000/min] }\n";
/// let policy = Policy::parse(text, &|_| None)?;
/// let shown = render_advice(&policy.advice_in(text), "tollkeeper.yaml", text);
/// assert!(shown.starts_with("warning[TK005]: "));
/// assert!(shown.contains("
///  2 |   api: { limits: [10/s, 1000/min] }
///    |                         ^^^^^^^^
/// "));
/// # Ok::<(), tollkeeper_policy::PolicyErrors>(())
/// ```
#[must_use]
pub fn render_advice(advice: &[Advice], file_name: &str, source_text: &str) -> String {
    let source = Source::new(file_name, source_text);
    let mut out = String::new();
    for one in advice {
        if !out.is_empty() {
            out.push('\n');
        }
        let head = format!("warning[{}]: {}", one.code, one.message);
        let notes = vec![format!("help: {}", one.help), format!("see: {}", one.code.page())];
        match one.line.zip(one.column) {
            Some(at) => {
                let remark = Remark { head, at, length: one.length, expected: None, notes };
                // Writing to a String does not fail.
                let _ = source.show(&mut out, &remark);
            }
            None => {
                out.push_str(&head);
                notes.iter().for_each(|note| out.push_str(&format!("\n  = {note}")));
                out.push('\n');
            }
        }
    }
    if advice.len() >= MAX_ADVICE {
        out.push_str(&format!("\nonly the first {MAX_ADVICE} are shown\n"));
    }
    out
}
