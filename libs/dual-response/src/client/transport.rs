//! The transport of requests. The default is reqwest, restricted by the guard's rules.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::TryStreamExt;
use futures_util::stream::BoxStream;
use http::{Request, Response};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::{Attempt, Policy};

use super::ClientError;
use super::guard::Guard;
use crate::BoxError;

/// The largest number of redirects within one origin that are followed.
const REDIRECTS_MAX: usize = 5;

/// The body of a reply, in pieces as they arrive.
pub type BodyStream = BoxStream<'static, Result<Bytes, BoxError>>;

/// Sends requests, like `fetch` in a browser. Timeouts and status codes are handled by the client.
#[async_trait]
pub trait HttpSend: Send + Sync + 'static {
    /// Sends a request and returns the reply as soon as its head has arrived.
    async fn send(&self, request: Request<Bytes>) -> Result<Response<BodyStream>, BoxError>;
}

pub(super) struct ReqwestSend(pub(super) reqwest::Client);

impl ReqwestSend {
    /// An HTTP client that keeps to the guard's rules when it resolves names and follows redirects. It uses
    /// no proxy, because a proxy would resolve names itself.
    pub(super) fn guarded(guard: &Arc<Guard>) -> Result<Self, ClientError> {
        let client = reqwest::Client::builder()
            .dns_resolver(Arc::new(GuardedResolver(guard.clone())))
            .redirect(Policy::custom(stay_within_origin))
            .no_proxy()
            .build();
        match client {
            Ok(client) => Ok(Self(client)),
            Err(error) => Err(ClientError::broken("no HTTP client can be made here", error)),
        }
    }
}

#[async_trait]
impl HttpSend for ReqwestSend {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<BodyStream>, BoxError> {
        let request = reqwest::Request::try_from(request)?;
        let asked = request.url().origin();
        let response = self.0.execute(request).await?;
        if response.url().origin() != asked {
            return Err("the server redirected to another origin".into());
        }
        let (status, headers) = (response.status(), response.headers().clone());
        let body: BodyStream = Box::pin(response.bytes_stream().map_err(BoxError::from));
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }
}

fn stay_within_origin(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let same = attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
    if !same {
        return attempt.error("the server redirected to another origin");
    }
    if attempt.previous().len() > REDIRECTS_MAX {
        return attempt.error("the server redirected too often");
    }
    attempt.follow()
}

struct GuardedResolver(Arc<Guard>);

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.0.clone();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed: Vec<SocketAddr> =
                found.filter(|address| guard.allows(name.as_str(), address.ip())).collect();
            if allowed.is_empty() {
                return Err("the name stands for no address that may be asked".into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}
