//! Asks the system for large pages. It is the one place of the workspace that is not safe Rust by itself.
//!
//! `madvise` can do anything to memory, so that no safe function stands for all of it. This use of it is safe:
//!
//! - The advice changes no byte, and not who may read or write it; nobody sees a difference but in time. What
//!   it is about may be in use by others meanwhile.
//! - The range is the words that were borrowed, so it lies in memory that is ours and stays so during the call. When
//!   that is given back later, the advice goes with it, or somebody else's memory lies on large pages.
//! - Nothing depends on the answer. A system that has no large pages, or whose operator wants none, says no, as
//!   it does if the range does not begin with a page; then all is as it was.

use std::sync::atomic::AtomicU64;

/// Asks for large pages for what these words lie in.
#[cfg(all(target_os = "linux", not(miri)))]
#[expect(unsafe_code, reason = "advice on memory that is borrowed; see above")]
pub(super) fn ask_for(words: &[AtomicU64]) {
    use rustix::mm::{Advice, madvise};

    let start = words.as_ptr().cast_mut().cast();
    // SAFETY: the range is borrowed, and the advice changes nothing in it.
    let _ = unsafe { madvise(start, size_of_val(words), Advice::LinuxHugepage) };
}

/// Elsewhere there is nobody to ask.
#[cfg(not(all(target_os = "linux", not(miri))))]
pub(super) fn ask_for(_: &[AtomicU64]) {}
