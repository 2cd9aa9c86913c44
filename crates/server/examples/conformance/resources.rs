//! The resources that the suite reads.

use rmcp::ErrorData;
use rmcp::model::*;
use serde_json::json;

const TEXT_URI: &str = "test://static-text";
const BINARY_URI: &str = "test://static-binary";
const WATCHED_URI: &str = "test://watched-resource";

/// A picture of one red pixel.
pub(crate) const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8/5+hHgAHggJ/PchI7wAAAABJRU5ErkJggg==";

pub(crate) fn list() -> Vec<Resource> {
    vec![
        Resource::new(TEXT_URI, "A text").with_mime_type("text/plain"),
        Resource::new(BINARY_URI, "A picture").with_mime_type("image/png"),
        Resource::new(WATCHED_URI, "A text to subscribe to").with_mime_type("text/plain"),
    ]
}

pub(crate) fn templates() -> Vec<ResourceTemplate> {
    vec![ResourceTemplate::new("test://template/{id}/data", "Data by id").with_mime_type("application/json")]
}

pub(crate) fn text(uri: &str, text: &str) -> ResourceContents {
    ResourceContents::text(text, uri).with_mime_type("text/plain")
}

pub(crate) fn read(uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
    let contents = match (uri, id) {
        (TEXT_URI | WATCHED_URI, _) => text(uri, "This is the content of a static text resource."),
        (BINARY_URI, _) => ResourceContents::blob(PNG, uri).with_mime_type("image/png"),
        (_, Some(id)) => {
            let data = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            ResourceContents::text(data.to_string(), uri).with_mime_type("application/json")
        }
        _ => {
            return Err(ErrorData::resource_not_found(
                "there is no such resource",
                Some(json!({"uri": uri})),
            ));
        }
    };
    Ok(ReadResourceResult::new(vec![contents]))
}
