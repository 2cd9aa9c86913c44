//! The only crate that knows MCP. It turns protocol messages into calls of `tools`, and replies into messages.

pub mod audit;
mod batch;
pub mod client;
pub mod connect;
mod edge;
mod elicitation;
pub mod http;
mod listener;
mod mcp;
mod oversized;
mod percent;
mod places;
mod profiles;
mod prompts;
pub mod remote_status;
mod resources;
mod roots;
mod rows;
mod stdio;
mod subscriptions;
mod toolsets;
pub mod traces;
mod views;

use std::sync::Arc;
use std::time::Duration;

use kenning_engine::Engine;
use kenning_model::Principal;
use kenning_presentation::Content;
use kenning_tools::Access;
use kenning_tools::project::ProjectSettings;
use kenning_tools::recall::Recorder;
use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use traces::Traces;

pub use mcp::tool_list;
pub use rows::RowsListener;
pub use toolsets::{Toolsets, listed_families};

/// The settings with which the server was started.
#[derive(Clone, Debug)]
pub struct Options {
    pub access: Access,
    pub tool_names: ToolNames,
    pub toolsets: Toolsets,
    /// The name in the log; if there is none, the client's name, else `local`.
    pub actor: Option<String>,
    /// The principal that all calls are made for. The name in the log comes from `actor` or from the client.
    pub principal: Arc<Principal>,
    /// The settings that decide in which scope a call works that names none.
    pub project: ProjectSettings,
    pub has_graph: bool,
    /// The kinds of blocks that replies have; if not given, the name of the client decides.
    pub content: Option<Content>,
    /// The log of which entries were given to whom; `None` if it is turned off.
    pub recall: Option<Arc<Recorder>>,
    /// Where spans go; none where nobody wants them.
    pub traces: Option<Arc<Traces>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolNames {
    /// `kb_search`: several hosts reject a whole server because of one dot in a tool name.
    Portable,
    /// `kb.search`
    Dotted,
}

/// How long requests other than calls may continue after the input has ended.
const GRACE: Duration = Duration::from_millis(800);
/// How long calls may continue after the input has ended. A script that pipes a call in and closes the pipe
/// still wants its reply.
const CALL_GRACE: Duration = Duration::from_secs(5);

/// Serves one client on the standard streams until they end.
pub async fn serve_stdio(
    engine: Arc<Engine>,
    options: Options,
    rows: Option<RowsListener>,
) -> Result<(), ServerInitializeError> {
    let (input, output) = rmcp::transport::io::stdio_pipes();
    serve(engine, options, rows, input, output).await
}

/// Serves one client on the standard streams by passing its messages on to a remote server.
pub async fn serve_remote(remote: connect::Remote) -> Result<(), connect::ConnectError> {
    let (input, output) = rmcp::transport::io::stdio_pipes();
    connect::connect(remote, input, output).await
}

/// Serves one client on any pair of streams.
pub async fn serve(
    engine: Arc<Engine>,
    options: Options,
    rows: Option<RowsListener>,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), ServerInitializeError> {
    let ended = CancellationToken::new();
    let listening = Arc::new(stdio::Listening::default());
    let room = Arc::new(Semaphore::new(stdio::UNDER_WAY_MAX));
    let transport = stdio::Stdio::new(input, output, ended.clone(), listening.clone(), room.clone());
    let base_url = rows.as_ref().map(RowsListener::base_url);
    let sets = mcp::set_store(&engine, &options);
    let server = mcp::Server::new(engine, options, sets, base_url, ended.clone(), edge::Edge::default());
    if let Some(rows) = rows {
        tokio::spawn(rows.serve(server.sets.clone()));
    }
    let running = match (mcp::Service { server, listening }).serve(transport).await {
        Ok(running) => running,
        // The client only checked that the server starts.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(error),
    };
    let grace = async {
        ended.cancelled().await;
        let idle = room.acquire_many(stdio::UNDER_WAY_MAX as u32);
        let _ = tokio::time::timeout(CALL_GRACE, idle).await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        _ = running.waiting() => {}
        () = grace => {}
    }
    Ok(())
}
