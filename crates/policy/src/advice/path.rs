//! Where in a file a thing may stand that advice is about.

use crate::rule::Rule;

/// The names of fields from the top of the file on; an entry of a list is its number.
pub(super) type Path = Vec<String>;

/// A field of a rule; the rule itself where that is not there.
pub(super) fn paths_of(rule: &Rule, fields: &[&str]) -> Vec<Path> {
    let at = |fields: &[&str]| -> Path {
        let all = ["rules", rule.name()].into_iter().chain(fields.iter().copied());
        all.map(str::to_owned).collect()
    };
    vec![at(fields), at(&[])]
}

/// A limit of a rule, in all its spellings.
pub(super) fn paths_of_limit(rule: &Rule, tier: Option<usize>, limit: usize) -> Vec<Path> {
    let number = limit.to_string();
    let name = tier.and_then(|tier| Some(rule.tiers()?.list().get(tier)?.name()));
    let spellings: Vec<Vec<&str>> = match name {
        Some(name) => vec![vec!["tiers", "limits", name, &number], vec!["tiers"]],
        None => vec![vec!["limits", &number], vec!["limit"], vec![rule.algorithm().name()]],
    };
    let mut paths: Vec<Path> = Vec::new();
    for spelling in spellings {
        paths.extend(paths_of(rule, &spelling).into_iter().take(1));
    }
    paths.extend(paths_of(rule, &[]).into_iter().take(1));
    paths
}
