//! `kenning://rows/{id}`: all rows behind a reply that showed some of them, page by page.

use kenning_presentation::Link;
use kenning_tools::{Caller, Stop};
use mcp_dual_response::wire::PageQuery;
use mcp_dual_response::{Sort, wire};
use rmcp::ErrorData;
use rmcp::model::{Annotations, Resource, ResourceTemplate, Role};

use super::{MIME_TYPE, not_found, refused};

const TEMPLATE: &str = "kenning://rows/{id}{?offset,limit,sort}";
const PREFIX: &str = "kenning://rows/";

pub(crate) fn template() -> ResourceTemplate {
    ResourceTemplate::new(TEMPLATE, "rows")
        .with_description(
            "The rows behind a reply that showed some of them, for a quarter of an hour, as they were then. Limit 1 to 1000, default 100; \
             sort by a column, with a minus for the largest first.",
        )
        .with_mime_type(MIME_TYPE)
}

pub(crate) fn link(link: Link) -> Resource {
    let mut annotations = Annotations::default().with_audience(vec![Role::User, Role::Assistant]);
    annotations.last_modified = Some(link.last_modified);
    Resource::new(link.uri, link.name).with_mime_type(MIME_TYPE).with_annotations(annotations)
}

/// The result set and the page of it that an address names.
pub(crate) struct Rows {
    uri: String,
    set: String,
    query: PageQuery,
}

impl Rows {
    /// Parses an address; `None` if it is not one of a result set.
    pub(crate) fn parse(uri: &str) -> Result<Option<Rows>, ErrorData> {
        if !uri.starts_with(PREFIX) {
            return Ok(None);
        }
        let (set, parameters) = uri.split_once('?').unwrap_or((uri, ""));
        let bad = |name: &str| {
            let message = format!("`{name}` is not a parameter of `{TEMPLATE}`, or not with this value");
            refused(Stop::invalid(message), uri)
        };
        let mut query = PageQuery::default();
        for pair in parameters.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            // A template yields an empty value for a variable that was not given.
            if value.is_empty() {
                continue;
            }
            match name {
                "offset" => query.offset = Some(value.parse().map_err(|_| bad(name))?),
                "limit" => query.limit = Some(value.parse().map_err(|_| bad(name))?),
                "sort" => query.sort = value.split(',').map(sort).collect(),
                _ => return Err(bad(name)),
            }
        }
        Ok(Some(Rows { uri: uri.to_owned(), set: set.to_owned(), query }))
    }

    pub(crate) fn read(&self, caller: &Caller) -> Result<String, ErrorData> {
        let Some(sets) = &caller.sets else { return Err(not_found(&self.uri)) };
        let page: wire::Page =
            sets.page(&caller.principal, &self.set, &self.query).map_err(|stop| refused(stop, &self.uri))?;
        serde_json::to_string(&page).map_err(|_| ErrorData::internal_error("the rows can't be written", None))
    }
}

fn sort(field: &str) -> Sort {
    match field.strip_prefix('-') {
        Some(field) => Sort::descending(field),
        None => Sort::ascending(field),
    }
}
