//! Styles and scripts. Their addresses contain a hash of their content, so browsers may keep them forever.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use crate::BASE;

const HASH_BYTES: usize = 8;
const FOREVER: &str = "public, max-age=31536000, immutable";

pub(crate) struct Asset {
    /// `/console/assets/console-0123456789abcdef.css`
    pub(crate) address: String,
    file: String,
    content_type: &'static str,
    text: &'static str,
}

impl Asset {
    fn new(name: &str, extension: &str, content_type: &'static str, text: &'static str) -> Asset {
        let hash = data_encoding::HEXLOWER.encode(&Sha256::digest(text)[..HASH_BYTES]);
        let file = format!("{name}-{hash}.{extension}");
        Asset { address: format!("{BASE}/assets/{file}"), file, content_type, text }
    }
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

pub(crate) static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("console", "css", "text/css; charset=utf-8", include_str!("../assets/console.css"))
});
pub(crate) static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("icon", "svg", "image/svg+xml", include_str!("../assets/icon.svg")));
/// The scripts of the pages. Each does one thing and imports nothing.
pub(crate) static SCRIPTS: LazyLock<[Asset; 3]> = LazyLock::new(|| {
    [
        Asset::new("keys", "js", SCRIPT, include_str!("../assets/keys.js")),
        Asset::new("live", "js", SCRIPT, include_str!("../assets/live.js")),
        Asset::new("search", "js", SCRIPT, include_str!("../assets/search.js")),
    ]
});

pub(crate) async fn serve(Path(file): Path<String>) -> Response {
    let mut all = [&*STYLE, &*ICON].into_iter().chain(SCRIPTS.iter());
    match all.find(|asset| asset.file == file) {
        Some(asset) => {
            let headers = [(header::CONTENT_TYPE, asset.content_type), (header::CACHE_CONTROL, FOREVER)];
            (headers, asset.text).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
