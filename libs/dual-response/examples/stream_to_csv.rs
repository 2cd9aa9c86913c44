//! Writes all rows of a result into a CSV file, one batch at a time: reads a tool result from standard input,
//! and writes to the file named by the first argument.
//! `cargo run --example stream_to_csv --features csv rows.csv < result.json`

use std::io::Write;

use futures_util::TryStreamExt;
use mcp_dual_response::client::DualResponseClient;
use mcp_dual_response::csv;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what it did")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("say which file to write")?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let parsed = DualResponseClient::new()?.try_parse(&serde_json::from_str(&line)?)?;

    let mut file = std::fs::File::create(&path)?;
    let mut out = Vec::new();
    csv::write_header(&mut out, &parsed.columns);
    let mut count = 0;
    // This needs one request and memory for one batch, and fails if the server stops before the end.
    let mut batches = Box::pin(parsed.export(Vec::new()));
    while let Some(rows) = batches.try_next().await? {
        for row in &rows {
            csv::write_row(&mut out, &parsed.columns, row);
        }
        count += rows.len();
        file.write_all(&out)?;
        out.clear();
    }
    println!("{count} rows in {path}");
    Ok(())
}
