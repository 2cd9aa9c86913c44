//! The console: pages on which people see what their agents know, who wrote it and why, and correct it. The only crate that
//! makes HTML. It reads through snapshots of the visitor's principal and writes by calling tools, so rights hold as for
//! every other caller. It leaves to the edge who a visitor is: every request carries a `Visitor`.

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

/// What all addresses of the console begin with.
pub const BASE: &str = "/console";

/// How many pages may be told of changes at once; others show what was there when they were asked for.
const VIEWERS_MAX: usize = 256;

/// What a page may do: show itself and talk to its own server. No script or style stands in the page itself.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Who looks, as the edge has found out.
#[derive(Clone)]
pub struct Visitor {
    pub caller: Arc<Caller>,
    pub access: Access,
    /// What every form must send back: another site does not know it.
    pub form_token: String,
    /// Whether the visitor has signed in with a key, and so can sign out.
    pub can_sign_out: bool,
}

/// What the edge knows about how the store is kept, for the page of settings. Shown to the owner alone.
#[derive(Clone, Default)]
pub struct Installation {
    pub version: &'static str,
    /// Where the data is.
    pub place: String,
    /// Lists the keys for HTTP as they are at the moment.
    pub keys: Option<Arc<dyn Fn() -> Vec<KeyLine> + Send + Sync>>,
}

/// A key for HTTP as it is listed; it opens nothing.
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

/// The pages, with a `Visitor` expected in the extensions of every request.
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

/// Styles, scripts and the icon, which say nothing about the store and so need no visitor.
pub fn assets() -> Router {
    Router::new()
        .route(&format!("{BASE}/assets/{{file}}"), get(assets::serve))
        .layer(middleware::from_fn(protected))
}

/// Adds to every answer what keeps browsers from doing more with a page than to show it.
pub async fn protected(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        // Other sites learn nothing. `no-referrer` would also make browsers send `Origin: null` with the console's own forms, which
        // the check of the origin refuses.
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
