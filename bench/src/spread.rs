//! Owns [`Spread`]: what some rounds gave.

/// The median of some rounds, the least and the most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    pub(crate) fn of(numbers: impl Iterator<Item = f64>) -> Self {
        let mut numbers: Vec<f64> = numbers.collect();
        numbers.sort_by(f64::total_cmp);
        Self {
            median: numbers[numbers.len() / 2],
            least: numbers[0],
            most: numbers[numbers.len() - 1],
        }
    }

    /// `12.3 (11.0–14.2)`
    pub(crate) fn shown(&self, digits: usize) -> String {
        let Self { median, least, most } = self;
        format!("{median:.digits$} ({least:.digits$}–{most:.digits$})")
    }
}
