//! `kenning ui`

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};

use anyhow::Context;
use clap::Args;
use kenning_console::Installation;
use kenning_server::http::{HttpListener, Ui};
use tokio_util::sync::CancellationToken;

use super::serve::asked_to_stop;
use super::{Outcome, complain, print};
use crate::config::Config;

#[derive(Args)]
pub struct ShowUi {
    /// Only print the address, and open no browser
    #[arg(long)]
    no_open: bool,
    /// The port on this machine [default: one that is free]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
}

pub fn run(config: &Config, ui: &ShowUi) -> anyhow::Result<Outcome> {
    let (engine, options) = (config.engine()?, config.options()?);
    // If the store can't be opened, this reports it here instead of on every page.
    engine.head()?;
    let installation = Installation {
        version: env!("CARGO_PKG_VERSION"),
        place: config.data_dir()?.display().to_string(),
        keys: None,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let store = engine.clone();
    let served = runtime.block_on(async {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ui.port));
        let listener =
            HttpListener::bind(address).await.with_context(|| format!("{address} can't be listened on"))?;
        let console = Ui::new(listener);
        let address = console.address();
        print(&address)?;
        complain("the address opens the console once, in one browser; Ctrl-C ends it");
        if !ui.no_open {
            open(&address);
        }
        let stop = CancellationToken::new();
        let asked = stop.clone();
        let asked = tokio::spawn(async move {
            asked_to_stop().await;
            asked.cancel();
        });
        console.serve(engine, options, installation, stop).await;
        asked.abort();
        anyhow::Ok(())
    });
    runtime.shutdown_background();
    store.close();
    served?;
    Ok(Outcome::Done)
}

/// Shows the address in the user's browser, if there is one.
fn open(address: &str) {
    let (program, arguments): (&str, &[&str]) = if cfg!(target_os = "macos") {
        ("open", &[])
    } else if cfg!(windows) {
        ("cmd", &["/c", "start", ""])
    } else {
        ("xdg-open", &[])
    };
    let opened = Command::new(program)
        .args(arguments)
        .arg(address)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if opened.is_err() {
        complain("no browser was found; open the address yourself");
    }
}
