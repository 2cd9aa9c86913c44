//! A response as a tool returns it: the sample for the model, and the address of all rows.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::wire::{Column, KIND, META_KEY, MIME_JSON, Row};

const OUTPUT_SCHEMA: &str = include_str!("../../schema/dual-response.v1.schema.json");

/// The content of a tool result's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContentStyle {
    /// The number of rows found, in one sentence. For hosts that are known to show the model structured
    /// content.
    Summary,
    /// The summary, the sample and the address. Most hosts show the model only text, so this is the default.
    #[default]
    SummaryWithSample,
}

/// The result of `create_response`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DualResponse {
    /// The id of the resource.
    pub resource_id: String,
    /// The URI of the resource, such as `resource://abc123`.
    pub resource_uri: String,
    /// The HTTP address of the resource; `None` without REST.
    pub resource_url: Option<String>,
    /// The name of the resource.
    pub name: String,
    /// The first rows.
    pub sample: Vec<Row>,
    /// Whether the sample was cut to the largest size in bytes.
    pub truncated: bool,
    /// The number of all rows.
    pub total_count: u64,
    /// The columns of a row.
    pub columns: Vec<Column>,
    /// The time at which the resource expires; `None` if it does not.
    pub expires_at: Option<Timestamp>,
    /// The time at which the resource was made.
    pub created_at: Timestamp,
    /// The content of the text.
    pub content_style: ContentStyle,
}

impl DualResponse {
    /// The `content` of a tool result: a text and a link. The link always has a name, because clients reject
    /// a whole result with a link without one.
    pub fn to_mcp_content(&self) -> Vec<Value> {
        vec![
            json!({"type": "text", "text": self.to_text()}),
            json!({
                "type": "resource_link",
                "uri": self.resource_uri,
                "name": self.name,
                "mimeType": MIME_JSON,
                // There is no `priority`, because some clients reject a result in which it is a fraction.
                "annotations": {"audience": ["user", "assistant"], "lastModified": self.created_at},
            }),
        ]
    }

    /// The `structuredContent` of a tool result.
    pub fn to_structured_content(&self) -> Value {
        let mut resource = json!({"uri": self.resource_uri, "name": self.name, "mimeType": MIME_JSON});
        if let Some(url) = &self.resource_url {
            resource["url"] = json!(url);
        }
        json!({
            "kind": KIND,
            "results": self.sample,
            "resource": resource,
            "metadata": {
                "total_count": self.total_count,
                "sample_count": self.sample.len(),
                "truncated": self.truncated,
                "columns": self.columns,
                "executed_at": self.created_at,
                "expires_at": self.expires_at,
            },
        })
    }

    /// The JSON Schema of [`DualResponse::to_structured_content`], for a tool's `outputSchema`.
    pub fn output_schema() -> Value {
        serde_json::from_str(OUTPUT_SCHEMA).expect("the schema in this crate is JSON")
    }

    /// The whole tool result. `resultType` is required by protocol revision 2026-07-28 and later, and ignored
    /// by earlier ones.
    pub fn to_mcp_tool_result(&self) -> Value {
        json!({
            "resultType": "complete",
            "content": self.to_mcp_content(),
            "structuredContent": self.to_structured_content(),
            "_meta": self.to_meta(),
        })
    }

    pub(crate) fn to_meta(&self) -> Value {
        // This is short because some hosts show it to the model.
        json!({META_KEY: {
            "url": self.resource_url,
            "total_count": self.total_count,
            "expires_at": self.expires_at,
        }})
    }

    pub(crate) fn to_text(&self) -> String {
        let found =
            format!("Found {} results. Sample data and full dataset link included.", self.total_count);
        match self.content_style {
            ContentStyle::Summary => found,
            ContentStyle::SummaryWithSample => format!("{found}\n{}{}", self.fenced_sample(), self.address()),
        }
    }

    /// The sample, one row per line, in a fence that no row can close: rows are data, whatever they contain.
    fn fenced_sample(&self) -> String {
        if self.sample.is_empty() {
            return String::new();
        }
        let lines: Vec<String> =
            self.sample.iter().map(|row| Value::Object(row.clone()).to_string()).collect();
        let lines = lines.join("\n");
        let fence = "`".repeat(longest_backticks(&lines).max(2) + 1);
        let shown = self.sample.len();
        let cut = if self.truncated { ", shortened" } else { "" };
        format!("Sample ({shown} of {}{cut}):\n{fence}json\n{lines}\n{fence}\n", self.total_count)
    }

    fn address(&self) -> String {
        let ends = match self.expires_at {
            Some(end) => format!("expires {end}"),
            None => "does not expire".to_owned(),
        };
        match &self.resource_url {
            Some(url) => format!("Full data: {} or {url} ({ends}).", self.resource_uri),
            None => format!("Full data: {} ({ends}).", self.resource_uri),
        }
    }
}

fn longest_backticks(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}
