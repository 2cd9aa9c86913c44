//! `kenning config`: shows which settings are in force, and where each value comes from.

use clap::{Args, Subcommand};
use serde_json::json;

use super::{Outcome, line, print};
use crate::config::Config;
use crate::terminal::{self, DIM, NAME, PLAIN, Table, Text};

#[derive(Args)]
#[command(after_help = "Examples:
  kenning config show
  kenning config show --origin
  kenning config path

Flags come before variables, variables before the project's .kenning.toml, that before the user's file.")]
pub struct Settings {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Show every setting with the value that holds
    Show {
        /// Also say where each value is from
        #[arg(long)]
        origin: bool,
        /// Print for programs: a line for each
        #[arg(long)]
        json: bool,
    },
    /// Print where the user's file is, or would be
    Path,
}

pub fn run(config: &Config, settings: Settings) -> anyhow::Result<Outcome> {
    match settings.action {
        Action::Path => match &config.user_file {
            Some(file) => print(&file.display().to_string())?,
            None => anyhow::bail!("there is no home directory, so there is no file"),
        },
        Action::Show { json: true, .. } => {
            for setting in &config.in_force {
                let (value, origin) = (without_password(&setting.value), &setting.origin);
                print(&json!({"name": setting.name, "value": value, "origin": origin}).to_string())?;
            }
        }
        Action::Show { origin, .. } => {
            let heading: &[&str] =
                if origin { &["SETTING", "VALUE", "ORIGIN"] } else { &["SETTING", "VALUE"] };
            let mut table = Table::new(heading);
            for setting in &config.in_force {
                let value = match setting.value.as_str() {
                    "" => Text::styled(DIM, "-"),
                    value => Text::styled(PLAIN, line(&without_password(value))),
                };
                let mut row = vec![Text::styled(NAME, &setting.name), value];
                if origin {
                    row.push(Text::styled(DIM, line(&setting.origin)));
                }
                table.row(row);
            }
            terminal::print(&table.text())?;
        }
    }
    Ok(Outcome::Done)
}

/// The value of a setting for display: if it is a URL with a password, before the host or as a parameter, the password is
/// replaced by `***`.
fn without_password(value: &str) -> String {
    let Some((scheme, rest)) = value.split_once("://") else { return value.to_owned() };
    let (address, query) =
        rest.split_once('?').map_or((rest, None), |(address, query)| (address, Some(query)));
    let address = match address.rsplit_once('@') {
        Some((user, host)) => format!("{}:***@{host}", user.split(':').next().unwrap_or_default()),
        None => address.to_owned(),
    };
    let Some(query) = query else { return format!("{scheme}://{address}") };
    let parameters = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name @ ("password" | "sslpassword"), _)) => format!("{name}=***"),
        _ => pair.to_owned(),
    });
    format!("{scheme}://{address}?{}", parameters.collect::<Vec<_>>().join("&"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(
            super::without_password("postgres://me:secret@db/kenning"),
            "postgres://me:***@db/kenning"
        );
        assert_eq!(super::without_password("https://kenning.example"), "https://kenning.example");
        assert_eq!(
            super::without_password("postgres://db/kenning?user=me&password=p@ss&sslmode=require"),
            "postgres://db/kenning?user=me&password=***&sslmode=require"
        );
    }
}
