//! Views inside the host (MCP Apps): pages that show the rows of a set, or a graph, to people. Only a host
//! that declares that it shows such pages is told of them.

use kenning_tools::{Definition, find};
use rmcp::RoleServer;
use rmcp::model::{ExtensionCapabilities, JsonObject, MetaObject, Resource, ResourceContents, Tool};
use rmcp::service::RequestContext;
use serde_json::{Value, json};

use crate::ToolNames;
use crate::mcp::listed_tool;

const EXTENSION: &str = "io.modelcontextprotocol/ui";
const MIME_TYPE: &str = "text/html;profile=mcp-app";
/// The tool from which the table gets its rows: `read_rows` under a name that hosts do not show to the model.
const ROWS_TOOL: &str = "kenning_rows_page";
const TABLE: &str = "ui://kenning/table.html";
const GRAPH: &str = "ui://kenning/graph.html";

/// The script with which both views talk to their host. It replaces `HOST_MARK`, because a view must be a
/// single file.
const HOST: &str = include_str!("../views/host.js");
const HOST_MARK: &str = "/* host.js */";

struct View {
    uri: &'static str,
    name: &'static str,
    about: &'static str,
    html: &'static str,
}

const VIEWS: [View; 2] = [
    View {
        uri: TABLE,
        name: "table",
        about: "The rows behind a reply: sorted, paged, filtered, downloaded.",
        html: include_str!("../views/table.html"),
    },
    View {
        uri: GRAPH,
        name: "graph",
        about: "Nodes and what links them; a click shows more.",
        html: include_str!("../views/graph.html"),
    },
];

pub(crate) fn extension() -> ExtensionCapabilities {
    ExtensionCapabilities::from([(EXTENSION.to_owned(), JsonObject::new())])
}

/// Whether the client declares that it shows pages of this kind.
pub(crate) fn are_shown(context: &RequestContext<RoleServer>) -> bool {
    let extensions = context.client_capabilities().and_then(|client| client.extensions);
    extensions.as_ref().and_then(|extensions| extensions.get(EXTENSION)).is_some_and(|told| {
        let types = told.get("mimeTypes").and_then(Value::as_array);
        types.is_none_or(|types| types.iter().any(|shown| shown == MIME_TYPE))
    })
}

pub(crate) fn resources() -> impl Iterator<Item = Resource> {
    VIEWS
        .iter()
        .map(|view| Resource::new(view.uri, view.name).with_description(view.about).with_mime_type(MIME_TYPE))
}

/// Reads a view; `None` for any other address.
pub(crate) fn read(uri: &str) -> Option<ResourceContents> {
    let view = VIEWS.iter().find(|view| view.uri == uri)?;
    let html = view.html.replace(HOST_MARK, HOST);
    let contents = ResourceContents::text(html, uri).with_mime_type(MIME_TYPE);
    // A view loads nothing from the network, so its security policy names no origin.
    Some(contents.with_meta(meta(json!({"prefersBorder": true}))))
}

/// Prepares the list of tools for a client that shows views: adds to each tool the view that shows its
/// result, and adds the tools that the views themselves call.
pub(crate) fn dress(tools: &mut Vec<Tool>, names: ToolNames, has_graph: bool) {
    let listed = |tools: &[Tool], tool: &Definition| {
        let name = listed_tool(tool, names).name;
        tools.iter().any(|listed| listed.name == name)
    };
    for name in ["graph.describe", "graph.expand"] {
        if let Some(tool) = find(name).filter(|tool| has_graph && !listed(tools, tool)) {
            // Listed for the view only; hosts hide it from the model.
            let mut tool = listed_tool(tool, names);
            tool.meta = Some(meta(json!({"resourceUri": GRAPH, "visibility": ["app"]})));
            tools.push(tool);
        }
    }
    for tool in tools.iter_mut().filter(|tool| tool.meta.is_none()) {
        let view = match find(&tool.name).map(|tool| tool.name) {
            Some("query" | "history" | "search_patterns" | "kb.search") => TABLE,
            Some("query_graph") => GRAPH,
            Some(name) if name.starts_with("graph.") => GRAPH,
            _ => continue,
        };
        tool.meta = Some(meta(json!({"resourceUri": view})));
    }
    if let Some(rows) = find("read_rows") {
        let mut rows = listed_tool(rows, names);
        rows.name = ROWS_TOOL.into();
        rows.meta = Some(meta(json!({"visibility": ["app"]})));
        tools.push(rows);
    }
}

/// The real name of the tool that a view calls.
pub(crate) fn tool_named(name: &str) -> &str {
    if name == ROWS_TOOL { "read_rows" } else { name }
}

fn meta(ui: Value) -> MetaObject {
    let mut meta = MetaObject::new();
    meta.0.insert("ui".to_owned(), ui);
    meta
}
