//! The golden vectors: cases in `conformance/vectors/*.json`, for every store and every language.

use std::fs;
use std::path::PathBuf;

use crate::case::Case;
use crate::random::{Plot, random_case};

/// The files, by name: what each holds.
const FILES: [(&str, Plot, u64); 5] = [
    ("trace", Plot::Trace, 30),
    ("after_the_fact", Plot::AfterTheFact, 10),
    ("clock", Plot::Clock, 10),
    ("reload", Plot::Reload, 8),
    ("everything", Plot::Everything, 8),
];

/// Seeds of the vectors, apart from those of the random stories.
const FIRST_SEED: u64 = 1_000_000;
const STEPS: usize = 16;

/// Where the vectors lie.
#[must_use]
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../conformance/vectors")
}

/// Reads every vector, by file name.
pub fn load() -> Result<Vec<(String, Vec<Case>)>, String> {
    FILES
        .iter()
        .map(|(name, _, _)| {
            let path = folder().join(format!("{name}.json"));
            let read = fs::read_to_string(&path).map_err(|error| error.to_string());
            let cases = read
                .and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()));
            cases.map(|cases| ((*name).to_owned(), cases)).map_err(|e| format!("{path:?}: {e}"))
        })
        .collect()
}

/// Makes the text of every vector file from the model.
pub fn make() -> Result<Vec<(String, String)>, String> {
    FILES
        .iter()
        .map(|(name, plot, each)| {
            let cases = (0..7).flat_map(|algorithm| {
                let seeds = FIRST_SEED..FIRST_SEED + each;
                seeds.map(move |seed| random_case(seed, *plot, algorithm, STEPS))
            });
            let lines: Result<Vec<String>, serde_json::Error> =
                cases.map(|case| serde_json::to_string(&case)).collect();
            let lines = lines.map_err(|error| error.to_string())?;
            Ok((format!("{name}.json"), format!("[\n{}\n]\n", lines.join(",\n"))))
        })
        .collect()
}
