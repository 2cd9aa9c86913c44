//! A tool of an rmcp server that returns a dual response, called by an rmcp client in the same process:
//! `cargo run --example rmcp_tool`.

use std::convert::Infallible;

use axum::Router;
use mcp_dual_response::client::{BatchOptions, DualResponseClient};
use mcp_dual_response::rmcp::handler::server::router::tool::ToolRouter;
use mcp_dual_response::rmcp::handler::server::wrapper::Parameters;
use mcp_dual_response::rmcp::model::{CallToolRequestParams, CallToolResult, ErrorData};
use mcp_dual_response::rmcp::{self, ServerHandler, ServiceExt, schemars, tool, tool_handler, tool_router};
use mcp_dual_response::server::{DualResponseServer, NewResource, PageRequest};
use mcp_dual_response::{Column, Row};
use serde::Deserialize;
use serde_json::json;
use tokio::net::TcpListener;

#[derive(Clone)]
struct Reports {
    dual: DualResponseServer,
    tool_router: ToolRouter<Self>,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Search {
    /// A state's abbreviation.
    state: String,
}

#[tool_router]
impl Reports {
    #[tool(description = "Search colleges and universities of a state")]
    async fn search_institutions(
        &self,
        Parameters(Search { state }): Parameters<Search>,
    ) -> Result<CallToolResult, ErrorData> {
        let columns = [Column::number("id"), Column::string("name"), Column::string("state")];
        let execute = move |page: PageRequest| {
            let rows =
                (page.offset..847).take(page.limit as usize).map(|id| institution(id, &state)).collect();
            async move { Ok::<Vec<Row>, Infallible>(rows) }
        };
        let count = || async { Ok::<_, Infallible>(847) };
        let new = NewResource::live("Institution Search Results", columns, execute, count);
        match self.dual.create_response(new).await {
            Ok(response) => Ok(response.into()),
            Err(error) => Err(ErrorData::internal_error(error.to_string(), None)),
        }
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Reports {}

fn institution(id: u64, state: &str) -> Row {
    let name = format!("College {id}");
    Row::from_iter([
        ("id".to_owned(), json!(id)),
        ("name".to_owned(), json!(name)),
        ("state".to_owned(), json!(state)),
    ])
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what it got")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The REST side.
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let dual = DualResponseServer::builder(format!("http://{}/resources", listener.local_addr()?)).build()?;
    let app: Router = Router::new().nest("/resources", dual.router());
    let rest = tokio::spawn(async move { axum::serve(listener, app).await });

    // The MCP side, and a host that talks to it.
    let (of_server, of_host) = tokio::io::duplex(64 * 1024);
    let reports = Reports { dual, tool_router: Reports::tool_router() };
    let mcp = tokio::spawn(async move {
        reports.serve(of_server).await?.waiting().await.map_err(rmcp::RmcpError::from)
    });
    let host = ().serve(of_host).await?;
    let mut call = CallToolRequestParams::new("search_institutions");
    call.arguments = json!({"state": "NJ"}).as_object().cloned();
    let result = host.call_tool(call).await?;

    // The model reads the sample; the person gets all rows.
    let parsed = DualResponseClient::new()?.parse_rmcp(&result).ok_or("not a dual response")?;
    println!("the model sees {} of {} rows", parsed.sample.len(), parsed.total_count);
    let all = parsed.fetch_all(BatchOptions::new()).await?;
    println!("the host fetched {} rows from {}", all.len(), parsed.resource_uri);
    host.cancel().await?;
    mcp.abort();
    rest.abort();
    Ok(())
}
