//! Owns [`Writer`]: JSON that is written as it is told, without a tree in between.
//!
//! It is told in pairs: what stands before a value, such as `,"limit":`, and the value. So each
//! field is two copies into the text, and the shape of the whole can be read where it is written.

use std::fmt::Write;

/// A text that becomes JSON.
pub(super) struct Writer(String);

impl Writer {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self(String::with_capacity(bytes))
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }

    /// Adds what is JSON already.
    pub(super) fn raw(&mut self, text: &str) {
        self.0.push_str(text);
    }

    pub(super) fn flag(&mut self, before: &str, value: bool) {
        self.raw(before);
        self.raw(if value { "true" } else { "false" });
    }

    pub(super) fn whole(&mut self, before: &str, value: u64) {
        self.raw(before);
        self.raw(itoa::Buffer::new().format(value));
    }

    pub(super) fn whole_or_null(&mut self, before: &str, value: Option<u64>) {
        match value {
            Some(value) => self.whole(before, value),
            None => {
                self.raw(before);
                self.raw("null");
            }
        }
    }

    /// A text of ours that needs no escapes.
    pub(super) fn plain(&mut self, before: &str, value: &'static str) {
        self.raw(before);
        self.0.push('"');
        self.raw(value);
        self.0.push('"');
    }

    pub(super) fn text(&mut self, before: &str, value: &str) {
        self.raw(before);
        self.0.push('"');
        if value.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
            self.0.push_str(value);
        } else {
            value.chars().for_each(|c| self.escaped(c));
        }
        self.0.push('"');
    }

    fn escaped(&mut self, c: char) {
        match c {
            '"' | '\\' => self.0.extend(['\\', c]),
            // Writing to a string does not fail.
            c if c < ' ' => drop(write!(self.0, "\\u{:04x}", u32::from(c))),
            c => self.0.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let strange = "a\"b\\c\n\u{1}\u{7f}é\u{1f600}/";
        let mut out = Writer::with_capacity(0);
        out.flag("{\"yes\":", true);
        out.flag(",\"no\":", false);
        out.whole(",\"most\":", u64::MAX);
        out.whole_or_null(",\"some\":", Some(0));
        out.whole_or_null(",\"none\":", None);
        out.text(",\"plain\":", "per-key/1s é");
        out.text(",\"strange\":", strange);
        out.raw("}");
        let expected = json!({
            "yes": true, "no": false, "most": u64::MAX, "some": 0, "none": null,
            "plain": "per-key/1s é", "strange": strange,
        });
        let text = out.into_text();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected, "{text}");
    }
}
