//! A REST server over generated institutions: `cargo run --example axum_server`.
//!
//! Prints one line of JSON, the tool result that an MCP server would return for it, and serves until it is stopped.
//! The address to listen on is the first argument; without one, a free port on loopback.

use std::convert::Infallible;

use axum::Router;
use mcp_dual_response::server::{DualResponseServer, NewResource, PageRequest};
use mcp_dual_response::{Column, Order, Row};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const INSTITUTIONS: u64 = 847;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = TcpListener::bind(address).await?;
    let base_url = format!("http://{}/resources", listener.local_addr()?);

    let server = DualResponseServer::builder(base_url).build()?;
    let columns =
        [Column::number("id"), Column::string("name"), Column::string("state"), Column::number("enrollment")];
    let count = || async { Ok::<_, Infallible>(INSTITUTIONS) };
    let new = NewResource::live("Institution Search Results", columns, search, count);
    let response = server.create_response(new).await?;
    say(&response.to_mcp_tool_result());

    let app: Router = Router::new().nest("/resources", server.router());
    axum::serve(listener, app).await?;
    Ok(())
}

/// Does in memory what a database would do: `SELECT … ORDER BY … LIMIT … OFFSET …`, with `page.order_by()`
/// for the order.
async fn search(page: PageRequest) -> Result<Vec<Row>, Infallible> {
    let mut rows: Vec<Row> = (0..INSTITUTIONS).map(institution).collect();
    // Sorts by the least important field first: each stable sort keeps the earlier order among equal rows.
    for sort in page.sort.iter().rev() {
        let key = |row: &Row| (row[&sort.field].as_u64(), row[&sort.field].as_str().map(str::to_owned));
        match sort.order {
            Order::Desc => rows.sort_by_key(|row| std::cmp::Reverse(key(row))),
            _ => rows.sort_by_key(key),
        }
    }
    Ok(rows.into_iter().skip(page.offset as usize).take(page.limit as usize).collect())
}

fn institution(id: u64) -> Row {
    let state = ["NJ", "NY", "CA"][(id % 3) as usize];
    Row::from_iter([
        ("id".to_owned(), json!(id)),
        ("name".to_owned(), json!(format!("College {id}"))),
        ("state".to_owned(), json!(state)),
        ("enrollment".to_owned(), json!((id * 7919) % 50)),
    ])
}

#[expect(clippy::print_stdout, reason = "the line is what this program is for")]
fn say(line: &Value) {
    println!("{line}");
}
