//! A host that handles a tool result: it reads the result from standard input, shows the sample, and fetches
//! the rest.
//! `cargo run --example axum_server` prints such a result; `… | head -1 | cargo run --example host_client`.

use futures_util::TryStreamExt;
use mcp_dual_response::Sort;
use mcp_dual_response::client::{BatchOptions, DualResponseClient, FetchOptions};

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what it got")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;

    let client = DualResponseClient::new()?;
    let parsed = client.try_parse(&serde_json::from_str(&line)?)?;
    println!("{}: {} rows, of which the model saw {}", parsed.name, parsed.total_count, parsed.sample.len());

    let largest = parsed.fetch(FetchOptions::new().limit(1).sort(Sort::descending("enrollment"))).await?;
    println!("the largest: {}", serde_json::to_string(&largest.data)?);

    let mut pages = Box::pin(parsed.fetch_stream(BatchOptions::new().batch_size(100)));
    while let Some(page) = pages.try_next().await? {
        println!("a page of {} rows", page.len());
    }
    let options = BatchOptions::new().on_progress(|fetched, total| println!("fetched {fetched} of {total}"));
    println!("all {} rows", parsed.fetch_all(options).await?.len());
    println!("read {} times so far", parsed.metadata().await?.access_count);
    Ok(())
}
