//! Finds a dual response in a tool result.

use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};
use url::Url;

use super::parsed::ParsedDualResponse;
use super::{ClientError, DualResponseClient};
use crate::wire::{Column, META_KEY, Row};

/// The fields that may contain the sample; the first one that is present is used.
const SAMPLE_FIELDS: [&str; 4] = ["results", "items", "patterns", "data"];

pub(super) fn tool_result(
    client: &DualResponseClient,
    value: &Value,
) -> Result<ParsedDualResponse, ClientError> {
    let meta_url = value.get("_meta").and_then(|meta| meta.get(META_KEY)).and_then(|meta| meta.get("url"));
    let meta_url = meta_url.and_then(Value::as_str);
    match value {
        Value::String(text) => match serde_json::from_str(text) {
            Ok(inner @ Value::Object(_)) => tool_result(client, &inner),
            _ => Err(ClientError::parse("the text is not a JSON object")),
        },
        Value::Object(fields) => match fields.get("structuredContent") {
            Some(structured_content) => structured(client, structured_content, meta_url),
            None if fields.contains_key("content") => in_text(client, &fields["content"], meta_url),
            None => structured(client, value, meta_url),
        },
        _ => Err(ClientError::parse("a tool result is an object or a text")),
    }
}

/// The first text block that contains a dual response as JSON.
fn in_text(
    client: &DualResponseClient,
    content: &Value,
    meta_url: Option<&str>,
) -> Result<ParsedDualResponse, ClientError> {
    let blocks = content.as_array().map_or(std::slice::from_ref(content), Vec::as_slice);
    let texts = blocks.iter().filter_map(|block| block.get("text")?.as_str());
    let mut objects = texts.filter_map(|text| serde_json::from_str::<Value>(text).ok());
    objects.find_map(|object| structured(client, &object, meta_url).ok()).ok_or_else(|| {
        ClientError::parse("there is no structured content, and no text block holds it as JSON")
    })
}

pub(super) fn structured(
    client: &DualResponseClient,
    content: &Value,
    meta_url: Option<&str>,
) -> Result<ParsedDualResponse, ClientError> {
    let none = Map::new();
    let content =
        content.as_object().ok_or_else(|| ClientError::parse("structured content is not an object"))?;
    let metadata = content.get("metadata").and_then(Value::as_object).unwrap_or(&none);
    let resource = content.get("resource").and_then(Value::as_object);
    let resource = resource.ok_or_else(|| ClientError::parse("there is no `resource`"))?;
    let text = |field: &str| resource.get(field).and_then(Value::as_str);
    let resource_uri =
        text("uri").or(text("url")).ok_or_else(|| ClientError::parse("`resource` has no `uri`"))?;
    let total_count = metadata.get("total_count").or(content.get("total_count")).and_then(Value::as_u64);
    let total_count = total_count.ok_or_else(|| ClientError::parse("there is no `total_count`"))?;
    Ok(ParsedDualResponse {
        sample: sample(content)?,
        total_count,
        resource_url: resource_url(client, resource_uri, text("url"), meta_url)?,
        resource_uri: resource_uri.to_owned(),
        name: text("name").unwrap_or_default().to_owned(),
        columns: columns(metadata)?,
        expires_at: time(metadata, "expires_at")?,
        executed_at: time(metadata, "executed_at")?,
        client: client.clone(),
    })
}

fn sample(content: &Map<String, Value>) -> Result<Vec<Row>, ClientError> {
    let Some(rows) = SAMPLE_FIELDS.iter().find_map(|field| content.get(*field)?.as_array()) else {
        return Err(ClientError::parse("there is no sample: no `results`, `items`, `patterns` or `data`"));
    };
    let rows = rows.iter().map(|row| row.as_object().cloned());
    rows.collect::<Option<_>>().ok_or_else(|| ClientError::parse("a row of the sample is not an object"))
}

fn columns(metadata: &Map<String, Value>) -> Result<Vec<Column>, ClientError> {
    match metadata.get("columns") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(columns) => serde_json::from_value(columns.clone())
            .map_err(|error| ClientError::parse(format!("`columns` cannot be read: {error}"))),
    }
}

fn time(metadata: &Map<String, Value>, field: &str) -> Result<Option<Timestamp>, ClientError> {
    match metadata.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(time) => match time.as_str().map(str::parse) {
            Some(Ok(time)) => Ok(Some(time)),
            _ => Err(ClientError::parse(format!("`{field}` is not a time"))),
        },
    }
}

/// The URL of the rows: below the program's own base URL if there is one, else the URL in the result. `None`
/// if the result has no URL, as from a server without REST endpoints.
fn resource_url(
    client: &DualResponseClient,
    uri: &str,
    url: Option<&str>,
    meta_url: Option<&str>,
) -> Result<Option<Url>, ClientError> {
    if let Some(base_url) = &client.inner.base_url {
        let id = id_of(uri)
            .ok_or_else(|| ClientError::parse(format!("`{uri}` names no id that could be fetched")))?;
        let mut below = base_url.clone();
        below.path_segments_mut().expect("an http URL has a path").pop_if_empty().push(&id);
        return Ok(Some(below));
    }
    let candidates = [url, meta_url, Some(uri)];
    let mut urls = candidates.into_iter().flatten().filter_map(|text| Url::parse(text).ok());
    Ok(urls.find(|url| matches!(url.scheme(), "http" | "https")))
}

/// The id in a URI, which is its last part: `abc123` in `resource://abc123` and in `resource://query/abc123`.
fn id_of(uri: &str) -> Option<String> {
    let (_, rest) = uri.split_once("://")?;
    let rest = rest.split(['?', '#']).next()?;
    let last = rest.rsplit('/').next()?;
    // The decoder leaves a bad escape such as `%+f` as it is; the check below refuses it, because an id has
    // no `%`.
    let id = percent_decode_str(last).decode_utf8().ok()?.into_owned();
    let is_id = (1..=128).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    is_id.then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_uris() {
        let id = |uri: &str| id_of(uri);
        assert_eq!(id("resource://abc123").as_deref(), Some("abc123"));
        assert_eq!(id("resource://query/abc123").as_deref(), Some("abc123"));
        assert_eq!(id("https://api.example.com/resources/abc123?x=1").as_deref(), Some("abc123"));
        assert_eq!(id("kenning://rows/%61bc").as_deref(), Some("abc"));
        for bad in [
            "abc123",
            "resource://",
            "resource://..",
            "resource://a/..",
            "resource://%2e%2e",
            "r://a%2Fb",
            "r://a%+f",
            "r://a%2",
            "r://%25",
            "r://é",
        ] {
            assert_eq!(id(bad), None, "{bad}");
        }
    }
}
