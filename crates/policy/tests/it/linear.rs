//! A hostile file takes time in proportion to its size, and no more.
//!
//! What is hidden of a line used to be found by counting from the beginning of the line, for each
//! secret in it: 400 kB of `{token: 1},` on one line took a minute and a half to refuse, and a
//! reload held its lock for as long. Fields without a value looked back at all fields before them,
//! and each of a million mistakes was worded though a thousand are kept.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tollkeeper_policy::Policy;

/// How much larger the larger file is.
const TIMES: usize = 8;

/// How much longer it may take. In proportion it is as many times as it is larger; where each
/// thing looks at all others, the square of that.
const AT_MOST: u32 = 24;

/// Things in the smaller file.
const FEW: usize = 4_000;

/// The work to refuse a file and to show why, as time of the processor: however many others use the
/// machine, they are not counted. The least of three, for what they do to its caches.
fn takes(text: &str) -> Duration {
    let once = || {
        let begun = used();
        let errors = Policy::parse(text, &|_| None).unwrap_err();
        assert!(!errors.render("file", text).is_empty());
        used() - begun
    };
    (0..3).map(|_| once()).min().unwrap()
}

/// What this thread has had of the processor.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, ns) = (time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap());
    Duration::new(seconds, ns)
}

fn fields(count: usize, value: &str) -> String {
    (0..count).map(|i| format!("l{i}{value},")).collect()
}

#[test]
fn eight_times_the_file_is_about_eight_times_the_work() {
    type File = fn(usize) -> String;
    let files: [(&str, File); 8] = [
        ("values", |n| format!("x: [{}]", "1,".repeat(5 * n))),
        ("tokens on one line", |n| format!("x: [{}]", "{token: 1},".repeat(n))),
        ("tokens that are not closed", |n| format!("x: [{}", "{token: 1},".repeat(n))),
        ("tokens beside other letters", |n| format!("x: [ä{}]", "{token: 1},".repeat(n))),
        ("URLs on one line", |n| format!("x: [{}]", "a://b,".repeat(n))),
        ("a URL at the end of many lines", |n| format!("x: \"{}a://b\"", "a\n ".repeat(n))),
        ("fields without a value", |n| format!("rules: {{ a: {{ {} }} }}", fields(n, ""))),
        ("unknown fields", |n| format!("rules: {{ a: {{ {} }} }}", fields(n, ": 1"))),
    ];
    for (name, file) in files {
        let (small, large) = (takes(&file(FEW)), takes(&file(TIMES * FEW)));
        assert!(large < small * AT_MOST, "{name}: {small:?}, then {large:?}");
    }
}

#[test]
fn a_secret_within_a_secret_is_hidden_once_with_it() {
    let text = format!("{}hunter2{}", "{ token: ".repeat(20), " }".repeat(20));
    let shown = Policy::parse(&text, &|_| None).unwrap_err().render("file", &text);
    assert!(shown.contains("{ token: ***") && !shown.contains("hunter2"), "{shown}");
}
