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
        // A hook never fails and writes no log, because the log could appear in a host's window.
        commands::hook::run(&arguments.config, hook, started);
    }
    start_log();
    let config = arguments.config;
    config.color.choose();
    let done = match arguments.command {
        Some(command) => command.run(&config),
        // Users often write only the program's name into their client's configuration, so without a command
        // and a terminal it serves.
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

/// Logs go to stderr, because stdout belongs to the protocol. Only warnings and errors are logged.
fn start_log() {
    // As errors rmcp also reports what clients cause and what is answered and counted already: a stream that was closed while
    // something was on its way, a session beyond the limit. A client could fill the log with these.
    let default = "warn,rmcp=error,rmcp::service=off,rmcp::transport::common::server_side_http=off,notify=error,html5ever=off,htmd=off";
    let filter = tracing_subscriber::EnvFilter::try_from_env("KENNING_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        // The program that reads the log may close the pipe. Reporting that on the same pipe would panic.
        .log_internal_errors(false)
        .init();
}
