//! A server for the official conformance suite: the tools, prompts and resources that the suite asks for, on
//! the code that serves Kenning over HTTP (`kenning_server::http::serve_handler`).
//!
//! Most scenarios of the suite call tools that no product has, such as `test_image_content`. So they can't be
//! run against Kenning itself, and are run against this server by `scripts/conformance`.

mod inputs;
mod prompts;
mod resources;
mod tools;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use kenning_server::http::limits::CurrentLimits;
use kenning_server::http::{HttpListener, serve_handler};
use rmcp::model::*;
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

const LIST_TTL_MS: u64 = 60_000;
/// One scenario changes two lists once.
const CHANGES_QUEUED: usize = 16;

/// A list that has changed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ChangedList {
    Tools,
    Prompts,
}

/// The handler. Each request and each session gets a copy.
#[derive(Clone)]
pub(crate) struct Suite {
    changed: broadcast::Sender<ChangedList>,
    /// Seals what a client has to send back with its answers.
    codec: RequestStateCodec,
}

impl Suite {
    fn new() -> Result<Suite, Box<dyn std::error::Error>> {
        let codec = RequestStateCodec::try_new(b"a key for the conformance suite alone")?;
        Ok(Suite { changed: broadcast::channel(CHANGES_QUEUED).0, codec })
    }
}

impl ServerHandler for Suite {
    /// Logging is declared because the suite's scenarios of 2025-11-25 require it; rmcp marks it as deprecated,
    /// which it is since 2026-07-28.
    #[expect(deprecated)]
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_completions()
            .enable_logging()
            .build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("kenning-conformance", "0"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let listed = ListToolsResult::with_all_items(tools::list());
        Ok(listed.with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Public))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::list().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match inputs::is_asking(&request.name) {
            true => inputs::call(self, request, &context),
            false => tools::call(self, &request, &context).await.map(Into::into),
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let listed = ListResourcesResult::with_all_items(resources::list());
        Ok(listed.with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let listed = ListResourceTemplatesResult::with_all_items(resources::templates());
        Ok(listed.with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let read = resources::read(&request.uri)?;
        Ok(read.with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Public).into())
    }

    /// The suite checks only that a subscription can begin and end, so none is kept.
    async fn subscribe(
        &self,
        _: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changed = self.changed.subscribe();
        loop {
            let changed = tokio::select! {
                () = subscription.cancelled() => return Ok(()),
                changed = changed.recv() => changed,
            };
            // An error means that the client did not ask for this list, or is gone.
            let _ = match changed {
                Ok(ChangedList::Tools) => subscription.sink().notify_tool_list_changed().await,
                Ok(ChangedList::Prompts) => subscription.sink().notify_prompt_list_changed().await,
                Err(_) => return Ok(()),
            };
        }
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let listed = ListPromptsResult::with_all_items(prompts::list());
        Ok(listed.with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        prompts::get(request)
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let begun = &request.argument.value;
        let values = ["paris", "park", "party"].into_iter().filter(|value| value.starts_with(begun.as_str()));
        let values = CompletionInfo::new(values.map(str::to_owned).collect());
        values.map(CompleteResult::new).map_err(|error| ErrorData::internal_error(error, None))
    }

    #[expect(deprecated)]
    async fn set_level(
        &self,
        _: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        match context.meta.protocol_version() {
            None => Ok(()),
            Some(_) => Err(ErrorData::method_not_found::<SetLevelRequestMethod>()),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let suite = Suite::new()?;
    let listener = HttpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    // `scripts/conformance` finds the address in this line, as in the one that Kenning writes.
    eprintln!("The suite's own tools are served at http://{}/mcp; Ctrl-C ends it", listener.address());
    let limits = Arc::new(CurrentLimits::new(None, None)?);
    let stop = CancellationToken::new();
    let serving = serve_handler(move || suite.clone(), limits, listener, stop.clone());
    tokio::select! {
        () = serving => {}
        interrupted = tokio::signal::ctrl_c() => interrupted?,
    }
    Ok(())
}
