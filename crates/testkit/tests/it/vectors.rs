//! The vectors on disk are the model's.

use tollkeeper_testkit::vectors;

#[test]
fn the_files_are_what_the_model_says() {
    for (name, text) in vectors::make().unwrap() {
        let on_disk = std::fs::read_to_string(vectors::folder().join(&name)).unwrap();
        assert!(
            on_disk == text,
            "{name} differs: run `cargo run -p tollkeeper-testkit --bin make-vectors`"
        );
    }
}

#[test]
fn there_are_several_hundred_over_all_algorithms() {
    let files = vectors::load().unwrap();
    let cases: Vec<_> = files.iter().flat_map(|(_, cases)| cases).collect();
    assert!(cases.len() >= 400, "{}", cases.len());
}
