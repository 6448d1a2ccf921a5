//! Every code has its page, and the files on it get what it says: the first one that code and
//! nothing else, the second one nothing.

use std::fs;
use std::path::{Path, PathBuf};

use tollkeeper_policy::{AdviceCode, Policy};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/advice")
}

fn page(name: &str) -> String {
    fs::read_to_string(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The blocks of YAML on a page.
fn files(page: &str) -> Vec<&str> {
    let blocks = page.split("```yaml\n").skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap()).collect()
}

fn codes(file: &str) -> Vec<AdviceCode> {
    let policy = Policy::parse(file, &|_| None);
    let policy = policy.unwrap_or_else(|errors| panic!("{}", errors.render("page", file)));
    policy.advice_in(file).iter().map(|advice| advice.code).collect()
}

#[test]
fn the_first_file_of_a_page_gets_its_code_and_the_second_none() {
    for code in AdviceCode::ALL {
        let page = page(&format!("{code}.md"));
        let files = files(&page);
        let [gets_it, fixed] = files[..] else { panic!("{code}: {} files", files.len()) };
        match code {
            // It is seen while requests come; the tests of the service show it.
            AdviceCode::UntrustedProxy => assert_eq!(codes(gets_it), []),
            _ => assert_eq!(codes(gets_it), [code], "{gets_it}"),
        }
        assert_eq!(codes(fixed), [], "{code}: {fixed}");
        assert_ne!(gets_it, fixed);
    }
}

#[test]
fn every_code_has_a_page_of_its_own_and_every_page_a_code() {
    let index = page("README.md");
    for (nth, code) in AdviceCode::ALL.into_iter().enumerate() {
        assert_eq!(code.as_str(), format!("TK{:03}", nth + 1));
        let title = code.title();
        assert!(page(&format!("{code}.md")).starts_with(&format!("# {code}: {title}\n")), "{code}");
        assert!(index.contains(&format!("| [{code}]({code}.md) | {title} |\n")), "{code}");
        assert!(code.page().ends_with(&format!("/docs/advice/{code}.md")));
    }
    let pages = fs::read_dir(folder()).unwrap().count();
    assert_eq!(pages, AdviceCode::ALL.len() + 1);
}

#[test]
fn the_index_shows_what_is_shown() {
    let file = "rules:\n  api:\n    limits: [10/s, 1000/min]\n";
    let advice = Policy::parse(file, &|_| None).unwrap().advice_in(file);
    let shown = tollkeeper_policy::render_advice(&advice, "tollkeeper.yaml", file);
    assert!(page("README.md").contains(&shown), "{shown}");
}
