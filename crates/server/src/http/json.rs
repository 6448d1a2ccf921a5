//! Owns [`Writer`]: JSON that is written as it is told, without a tree in between.
//!
//! It is told in pairs: what stands before a value, such as `,"limit":`, and the value. So each
//! field is two copies into the text, and the shape of the whole can be read where it is written.

use std::io::Write;

/// A text that becomes JSON. What stands before a value is known where it is written, so each copy
/// of it is a few moves: that is why these functions are inlined.
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Adds what is JSON already.
    #[inline(always)]
    pub(super) fn raw(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    #[inline(always)]
    pub(super) fn flag(&mut self, before: &str, value: bool) {
        self.raw(before);
        self.raw(if value { "true" } else { "false" });
    }

    #[inline(always)]
    pub(super) fn whole(&mut self, before: &str, value: u64) {
        self.raw(before);
        self.number(value);
    }

    fn number(&mut self, value: u64) {
        self.0.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }

    #[inline(always)]
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
    #[inline(always)]
    pub(super) fn plain(&mut self, before: &str, value: &'static str) {
        self.raw(before);
        self.raw("\"");
        self.raw(value);
        self.raw("\"");
    }

    #[inline(always)]
    pub(super) fn text(&mut self, before: &str, value: &str) {
        self.raw(before);
        self.quoted(value);
    }

    fn quoted(&mut self, value: &str) {
        self.0.push(b'"');
        if value.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
            self.raw(value);
        } else {
            value.bytes().for_each(|byte| self.escaped(byte));
        }
        self.0.push(b'"');
    }

    /// What is escaped is one byte; the others of a letter are none of these.
    fn escaped(&mut self, byte: u8) {
        match byte {
            b'"' | b'\\' => self.0.extend([b'\\', byte]),
            // Writing to memory does not fail.
            byte if byte < b' ' => drop(write!(self.0, "\\u{byte:04x}")),
            byte => self.0.push(byte),
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
        let text = String::from_utf8(out.into_bytes()).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected, "{text}");
    }
}
