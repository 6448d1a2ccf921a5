//! Owns [`Alone`]: what of a request a process decides by itself, while its store gives no answer.

use std::fmt;

use smallvec::SmallVec;

use crate::decision::Answer;

/// Some limits of a request, decided without the store by leave that it gave before.
pub struct Alone<'a> {
    /// Which of the request's checks, in their order.
    pub which: SmallVec<[usize; 4]>,
    /// What they say, as to a request of their own.
    pub answer: Answer,
    /// What they were charged.
    pub held: Box<dyn Hold + 'a>,
}

impl fmt::Debug for Alone<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Alone");
        shown.field("which", &self.which).field("answer", &self.answer).finish_non_exhaustive()
    }
}

/// Units that were taken for a request. Whoever drops this puts them back.
pub trait Hold: Send + Sync {
    /// The request goes: they are spent.
    fn keep(self: Box<Self>);
}
