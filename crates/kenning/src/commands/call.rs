//! `kenning call TOOL JSON`

use std::io::Read;

use anyhow::Context;
use clap::Args;
use serde_json::{Map, Value};

use super::{Outcome, print_reply, run_tool, usage};
use crate::config::Config;

#[derive(Args)]
pub struct Call {
    /// The tool's name
    tool: String,
    /// Its arguments as a JSON object; `-` reads them from stdin
    #[arg(default_value = "{}")]
    arguments: String,
    /// Print the structured reply
    #[arg(long)]
    json: bool,
}

pub fn run(config: &Config, call: Call) -> anyhow::Result<Outcome> {
    let arguments = match call.arguments.as_str() {
        "-" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).context("the arguments can't be read from stdin")?;
            parse(&text)?
        }
        text => parse(text)?,
    };
    print_reply(&run_tool(config, &call.tool, arguments)?, call.json)
}

fn parse(text: &str) -> anyhow::Result<Map<String, Value>> {
    match serde_json::from_str(text) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(_) => Err(usage("the arguments must be a JSON object, such as '{\"topic\": \"deploys\"}'")),
        Err(error) => Err(usage(format!("the arguments are not JSON: {error}"))),
    }
}
