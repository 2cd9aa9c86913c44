//! The console: pages on which people see what their agents know, who wrote it and why, and correct it. No
//! other crate makes HTML. It reads through snapshots of the visitor's principal and writes by calling tools,
//! so the same rights apply as for every other caller. The server decides who a visitor is: every request
//! carries a `Visitor`.

mod actions;
mod assets;
mod difference;
mod fields;
mod layout;
mod live;
mod markdown;
mod pages;
mod request;
mod review;
mod show;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use kenning_engine::Engine;
use kenning_tools::{Access, Caller};
use tokio::sync::Semaphore;

pub use layout::sign_in_page;

/// The beginning of all addresses of the console.
pub const BASE: &str = "/console";

/// The largest number of open pages that are told about changes; further pages show the state at which they
/// were loaded.
const VIEWERS_MAX: usize = 256;

/// The content security policy: a page may only show itself and talk to its own server. Scripts and styles
/// inside of the page are forbidden.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The visitor of a page, as the server has identified it.
#[derive(Clone)]
pub struct Visitor {
    pub caller: Arc<Caller>,
    pub access: Access,
    /// The token that every form must send back. Other sites do not know it, so they can't send forms for the
    /// visitor.
    pub form_token: String,
    /// Whether the visitor has signed in with a key, and so can sign out.
    pub can_sign_out: bool,
}

/// Facts about the installation for the page of settings. Only the owner sees them.
#[derive(Clone, Default)]
pub struct Installation {
    pub version: &'static str,
    /// The location of the data.
    pub place: String,
    /// Lists the present keys for HTTP.
    pub keys: Option<Arc<dyn Fn() -> Vec<KeyLine> + Send + Sync>>,
}

/// A key for HTTP in a list; the secret part is not in it.
#[derive(Clone, Debug)]
pub struct KeyLine {
    pub id: String,
    pub name: String,
    pub rights: String,
    pub expires_at: Option<jiff::Timestamp>,
}

pub(crate) struct Console {
    engine: Arc<Engine>,
    installation: Installation,
    review: Arc<review::Review>,
    viewers: Arc<Semaphore>,
}

/// The routes of the pages. Every request must have a `Visitor` in its extensions.
pub fn router(engine: Arc<Engine>, installation: Installation) -> Router {
    let review = review::Review::of(&engine);
    let console =
        Arc::new(Console { engine, installation, review, viewers: Arc::new(Semaphore::new(VIEWERS_MAX)) });
    let mut router = Router::new();
    for (path, page) in pages::ALL {
        router = router.route(&format!("{BASE}{path}"), request::page(*page));
    }
    router
        .route(&format!("{BASE}/"), request::page(pages::HOME))
        .route(&format!("{BASE}/do/{{action}}"), post(actions::act))
        .route(&format!("{BASE}/live"), get(live::stream))
        .route(&format!("{BASE}/{{*rest}}"), get(request::nowhere))
        .with_state(console)
        .layer(middleware::from_fn(protected))
}

/// The routes of styles, scripts and the icon. They reveal nothing about the store, so they need no visitor.
pub fn assets() -> Router {
    Router::new()
        .route(&format!("{BASE}/assets/{{file}}"), get(assets::serve))
        .layer(middleware::from_fn(protected))
}

/// Adds headers to every response that forbid browsers to use a page for anything but showing it.
pub async fn protected(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        // Other sites get no address of the console. With `no-referrer`, browsers would also send
        // `Origin: null` with the console's own forms, and the check of the origin would refuse them.
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
