//! Owners of resources: a resource of another owner does not exist for a caller.

use async_trait::async_trait;
use mcp_dual_response::reqwest::{self, Method};
use mcp_dual_response::server::{
    Authorizer, DualResponseServer, Error, Executor, NewResource, PageRequest, Principal, Resource, Right,
};
use mcp_dual_response::{BoxError, Row};
use serde_json::{Value, json};

use crate::support::*;

/// Callers name themselves as `tenant/subject`, as a proxy in front of the server might do. Members of a
/// tenant may read everything in it; only owners may do more.
struct ByHeader;

#[async_trait]
impl Authorizer for ByHeader {
    async fn principal(&self, headers: &http::HeaderMap) -> Result<Principal, Error> {
        let name =
            headers.get("x-caller").and_then(|name| name.to_str().ok()).ok_or(Error::Unauthenticated)?;
        let (tenant, subject) = name.split_once('/').ok_or(Error::Unauthenticated)?;
        Ok(Principal::subject(subject).of_tenant(tenant))
    }

    fn allow(&self, principal: &Principal, resource: &Resource, right: Right) -> bool {
        match right {
            Right::Read => principal.tenant == resource.owner.tenant,
            _ => *principal == resource.owner,
        }
    }
}

async fn call(url: &str, method: Method, caller: &str) -> (u16, Value) {
    let mut request = reqwest::Client::new().request(method, url);
    if !caller.is_empty() {
        request = request.header("x-caller", caller);
    }
    let response = request.send().await.unwrap();
    let (status, text) = (response.status().as_u16(), response.text().await.unwrap());
    (status, serde_json::from_str(&text).unwrap_or(Value::Null))
}

async fn of_ada() -> (DualResponseServer, Clock, String) {
    let (server, clock) = served(|builder| builder.authorizer(ByHeader)).await;
    let owner = Principal::subject("ada").of_tenant("acme");
    let url = server.create_response(live().owner(owner)).await.unwrap().resource_url.unwrap();
    (server, clock, url)
}

#[tokio::test]
async fn not_yours_is_404_like_nothing_at_all() {
    let (server, _, url) = of_ada().await;
    let unknown = server.url_of("nothing").unwrap();
    for method in [Method::GET, Method::POST, Method::PUT, Method::DELETE] {
        let theirs = call(&url, method.clone(), "globex/eve").await;
        assert_eq!(theirs.0, 404, "{method}");
        assert_eq!(theirs, call(&unknown, method, "globex/eve").await, "nothing tells the two apart");
    }
    for path in ["rows", "export"] {
        assert_eq!(call(&format!("{url}/{path}"), Method::GET, "globex/eve").await.0, 404);
    }
    assert_eq!(call(&url, Method::GET, "acme/ada").await.0, 200, "and it is still there");
}

#[tokio::test]
async fn an_expired_resource_of_another_is_404() {
    let (_server, clock, url) = of_ada().await;
    clock.forward(std::time::Duration::from_secs(900));
    assert_eq!(call(&url, Method::GET, "acme/ada").await.0, 410);
    assert_eq!(call(&url, Method::GET, "globex/eve").await.0, 404);
}

#[tokio::test]
async fn who_may_only_read_is_told_so() {
    let (_server, _, url) = of_ada().await;
    assert_eq!(call(&url, Method::POST, "acme/bob").await.0, 200);
    for method in [Method::PUT, Method::DELETE] {
        let (status, body) = call(&url, method, "acme/bob").await;
        assert_eq!((status, &body["code"]), (403, &json!("FORBIDDEN")));
    }
    assert_eq!(call(&url, Method::PUT, "acme/ada").await.0, 200);
}

#[tokio::test]
async fn an_unknown_caller_is_401() {
    let (_server, _, url) = of_ada().await;
    let (status, body) = call(&url, Method::GET, "").await;
    assert_eq!((status, &body["code"]), (401, &json!("UNAUTHENTICATED")));
}

#[tokio::test]
async fn without_an_authoriser_an_owned_resource_is_out_of_reach() {
    let (server, _) = served(|builder| builder).await;
    let open = server.create_response(live()).await.unwrap().resource_url.unwrap();
    let owned =
        server.create_response(live().owner(Principal::subject("ada"))).await.unwrap().resource_url.unwrap();
    assert_eq!(call(&open, Method::GET, "").await.0, 200);
    assert_eq!(call(&owned, Method::GET, "").await.0, 404);
}

/// Returns each caller's own name.
struct WhoAmI;

impl Executor for WhoAmI {
    type Args = ();
    type Row = Row;
    const NAME: &'static str = "who_am_i";
    const VERSION: u32 = 1;

    async fn execute(&self, (): &(), _: PageRequest, principal: &Principal) -> Result<Vec<Row>, BoxError> {
        Ok(vec![object(json!({"name": principal.subject}))])
    }

    async fn count(&self, (): &(), _: &Principal) -> Result<u64, BoxError> {
        Ok(1)
    }
}

#[tokio::test]
async fn executors_are_told_who_asks() {
    let (server, _) = served(|builder| builder.authorizer(ByHeader).executor(WhoAmI)).await;
    let owner = Principal::subject("ada").of_tenant("acme");
    let new = NewResource::query::<WhoAmI>(NAME, columns(), &()).owner(owner);
    let response = server.create_response(new).await.unwrap();
    assert_eq!(response.sample[0]["name"], "ada");
    let (_, body) = call(&response.resource_url.unwrap(), Method::POST, "acme/bob").await;
    assert_eq!(body["data"][0]["name"], "bob");
}
