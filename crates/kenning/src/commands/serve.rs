//! `kenning serve`

use super::Outcome;
use crate::config::Config;

pub fn run(config: &Config) -> anyhow::Result<Outcome> {
    let (engine, options) = (config.engine()?, config.options()?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let served = runtime.block_on(async {
        survive_file_limits();
        tokio::select! {
            served = kenning_server::serve_stdio(engine, options) => served,
            () = asked_to_stop() => Ok(()),
        }
    });
    // Calls that still run may end with the process: what they have not committed is not acknowledged.
    runtime.shutdown_background();
    served?;
    Ok(Outcome::Done)
}

/// Past a file size limit the system sends a signal that kills; with a handler the write fails instead, and the
/// failure is reported like a full disk.
fn survive_file_limits() {
    #[cfg(target_os = "linux")]
    {
        const SIGXFSZ: i32 = 25;
        let kind = tokio::signal::unix::SignalKind::from_raw(SIGXFSZ);
        if let Err(error) = tokio::signal::unix::signal(kind) {
            tracing::warn!("a file size limit would end this process: {error}");
        }
    }
}

async fn asked_to_stop() {
    #[cfg(unix)]
    if let Ok(mut terminate) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        terminate.recv().await;
        return;
    }
    std::future::pending().await
}
