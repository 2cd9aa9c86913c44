//! The binary: reads the configuration once, then runs one command.

mod commands;
mod config;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::CommandFactory;

use commands::Outcome;
use config::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = Arguments::read();
    start_log();
    let config = arguments.config;
    let done = match arguments.command {
        Some(Command::Serve(serve)) => commands::serve::run(&config, serve),
        Some(Command::Call(call)) => commands::call::run(&config, call),
        Some(Command::Search(search)) => commands::search::run(&config, search),
        Some(Command::History(history)) => commands::history::run(&config, history),
        Some(Command::Scopes(scopes)) => commands::scopes::run(&config, scopes),
        Some(Command::Ingest(ingest)) => commands::ingest::run(&config, ingest),
        Some(Command::Documents(documents)) => commands::documents::run(&config, documents),
        Some(Command::Undo(undo)) => commands::undo::run(&config, undo),
        Some(Command::Verify(verify)) => commands::verify::run(&config, verify),
        Some(Command::Backup(backup)) => commands::backup::run(&config, backup),
        Some(Command::Restore(restore)) => commands::backup::run_restore(&config, restore),
        Some(Command::Rebuild(rebuild)) => commands::rebuild::run(&config, rebuild),
        Some(Command::Trust(trust)) => commands::trust::run(&config, trust),
        Some(Command::Token(token)) => commands::token::run(&config, token),
        Some(Command::Demo) => commands::demo::run(),
        // People paste only the binary's name into their client's configuration.
        None if !std::io::stdin().is_terminal() => {
            commands::serve::run(&config, commands::serve::Serve::default())
        }
        None => Arguments::command().print_help().map(|()| Outcome::Done).map_err(Into::into),
    };
    match done {
        Ok(outcome) => outcome.into(),
        Err(error) => {
            commands::complain(&format!("{error:#}"));
            let outcome = if error.is::<commands::Usage>() { Outcome::Usage } else { Outcome::Failed };
            outcome.into()
        }
    }
}

/// To stderr, since stdout belongs to the protocol; quiet unless something is wrong.
fn start_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("KENNING_LOG").unwrap_or_else(|_| {
        tracing_subscriber::EnvFilter::new("warn,rmcp=error,notify=error,html5ever=off,htmd=off")
    });
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
}
