//! `/openapi.json`: what can be called and what is answered, as an OpenAPI 3.1 document.
//!
//! The document is a file of our own beside this one. Requests are read field by field, so there
//! are no types that it could be made from; tests hold it to what the service does instead.

use std::sync::LazyLock;

use axum::http::header;
use axum::response::{IntoResponse, Response};

/// The document, with the version of this build.
static DOCUMENT: LazyLock<String> =
    LazyLock::new(|| include_str!("openapi.json").replacen("0.0.0", env!("CARGO_PKG_VERSION"), 1));

pub(super) async fn document() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT.as_str()).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    #[test]
    fn the_document_has_every_path_of_the_router_and_no_other() {
        let routes = include_str!("../http.rs");
        let written = routes.split(".route(\"").skip(1).filter_map(|rest| rest.split('"').next());
        let written: BTreeSet<&str> = written.collect();
        let document: Value = serde_json::from_str(&DOCUMENT).unwrap();
        let told: BTreeSet<&str> =
            document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(told, written);
    }

    #[test]
    fn the_document_tells_the_version_of_this_build() {
        let document: Value = serde_json::from_str(&DOCUMENT).unwrap();
        assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    }
}
