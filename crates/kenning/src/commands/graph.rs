//! `kenning graph NAME`: shows the things that a name is linked to.

use std::collections::HashMap;

use clap::Args;
use serde_json::{Value, json};

use super::refusal::Refused;
use super::store::{AsOf, Store};
use super::{Outcome, complain, line, print};
use crate::config::Config;
use crate::terminal::{self, BOLD, DIM, NAME, PLAIN, Table, Text};

#[derive(Args)]
#[command(after_help = "Examples:
  kenning graph checkout
  kenning graph 'team red' --hops 2
  kenning graph checkout --json")]
pub struct Graph {
    /// Of a thing, or the id of a document or section
    name: String,
    /// How many steps away
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=3))]
    hops: u8,
    /// The store as it was at this transaction or time
    #[arg(long, value_name = "TX|TIME")]
    as_of: Option<AsOf>,
    /// Print nodes and edges as JSON, as the tool `graph.expand` replies with them
    #[arg(long)]
    json: bool,
}

/// At most this many nodes are shown.
const NODES_MAX: u32 = 100;

pub fn run(config: &Config, graph: Graph) -> anyhow::Result<Outcome> {
    let store = Store::existing(config, graph.as_of)?;
    let asked = json!({"node_ids": [graph.name], "max_hops": graph.hops, "page_size": NODES_MAX});
    let reply = store.call(config, "graph.expand", asked)?.structured;
    if reply["missing"].as_array().is_some_and(|missing| !missing.is_empty()) {
        let name = line(&graph.name);
        let scope = &store.caller.scope;
        return Err(Refused::not_found(format!(
            "nothing is called `{name}` in the graph that `{scope}` sees ({}); `kenning search` finds words",
            store.dir.display()
        )));
    }
    if graph.json {
        print(&reply.to_string())?;
        return Ok(Outcome::Done);
    }
    terminal::print(&table(&reply, &graph.name))?;
    if reply["partial"] == true {
        complain(&format!("there is more than these; {NODES_MAX} are shown at most"));
    }
    Ok(Outcome::Done)
}

/// A line for each edge, with the names of the two nodes that it links.
fn table(reply: &Value, asked: &str) -> Text {
    let said = |value: &Value, name: &str| line(value[name].as_str().unwrap_or_default());
    let mut names: HashMap<String, String> = HashMap::new();
    for node in reply["nodes"].as_array().into_iter().flatten() {
        let title = said(node, "title");
        let shown = match said(node, "label").as_str() {
            "section" | "document" => format!("{title} ({})", said(node, "id")),
            _ => title,
        };
        names.insert(said(node, "id"), shown);
    }
    let start = asked.strip_prefix("entity:").unwrap_or(asked);
    let mut table = Table::new(&["FROM", "RELATION", "TO"]);
    for edge in reply["edges"].as_array().into_iter().flatten() {
        let cell = |end: &str| {
            let id = said(edge, end);
            let name = id.strip_prefix("entity:").unwrap_or(&id);
            let is_start = kenning_model::fold(name) == kenning_model::fold(start);
            match is_start {
                true => Text::styled(BOLD, line(start)),
                false => Text::styled(PLAIN, names.get(&id).map_or(name, String::as_str)),
            }
        };
        table.row(vec![cell("from"), Text::styled(NAME, said(edge, "type")), cell("to")]);
    }
    if reply["edges"].as_array().is_none_or(Vec::is_empty) {
        return Text::styled(DIM, format!("`{}` is linked to nothing", line(start)));
    }
    table.text()
}
