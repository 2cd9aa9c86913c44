//! The binary: reads the configuration once, then runs one command.

mod commands;
mod config;
mod terminal;

use std::io::IsTerminal;
use std::process::ExitCode;

use commands::{Command, Outcome};
use config::Arguments;

fn main() -> ExitCode {
    let started = std::time::Instant::now();
    let arguments = match Arguments::read() {
        Ok(arguments) => arguments,
        Err(error) => return ended(Err(error)),
    };
    if let Some(Command::Hook(hook)) = arguments.command {
        // It never fails, and what it would log could stand in a host's window.
        commands::hook::run(&arguments.config, hook, started);
    }
    start_log();
    let config = arguments.config;
    config.color.choose();
    let done = match arguments.command {
        Some(command) => command.run(&config),
        // People paste only the binary's name into their client's configuration.
        None if !std::io::stdin().is_terminal() => {
            commands::serve::run(&config, commands::serve::Serve::default())
        }
        None => commands::print(&Arguments::definition().render_help().to_string())
            .map(|()| Outcome::Done)
            .map_err(Into::into),
    };
    ended(done)
}

fn ended(done: anyhow::Result<Outcome>) -> ExitCode {
    match done {
        Ok(outcome) => outcome.into(),
        Err(error) => {
            let (outcome, message) = commands::explain(error);
            commands::complain(&message);
            outcome.into()
        }
    }
}

/// To stderr, since stdout belongs to the protocol; quiet unless something is wrong.
fn start_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("KENNING_LOG").unwrap_or_else(|_| {
        tracing_subscriber::EnvFilter::new("warn,rmcp=error,notify=error,html5ever=off,htmd=off")
    });
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        // Whoever reads the log may go away. To say so on the same stream would panic, and end what wanted to log.
        .log_internal_errors(false)
        .init();
}
