//! The servers that are measured: Kenning, and a bare handler as the floor.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::peer::Target;

/// A server process. It is killed when the bench is done with it.
pub struct Server {
    child: Child,
    pub host: String,
}

pub const ADDRESS: &str = "127.0.0.1:0";

impl Server {
    pub fn kenning(dir: &Path, flags: &[&str]) -> Server {
        Server::kenning_at(dir, ADDRESS, flags)
    }

    pub fn kenning_at(dir: &Path, address: &str, flags: &[&str]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
        command.args(["serve", "--http", address]).args(flags).arg("--data-dir").arg(dir).current_dir(dir);
        let mut child =
            command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the server starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let said = lines.next().expect("it says where it is").expect("readable");
        let url = said.split_whitespace().find_map(|word| word.strip_prefix("http://"));
        let host = url.and_then(|url| url.split('/').next()).expect("an address").to_owned();
        Server { child, host }
    }

    /// The floor: this program, which answers every request with the bytes of a file.
    pub fn floor(answer: &Path) -> Server {
        let mut command = Command::new(std::env::current_exe().expect("the bench"));
        command.arg("floor").arg(answer);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the floor starts");
        let mut host = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        out.read_line(&mut host).expect("an address");
        Server { child, host: host.trim().to_owned() }
    }

    pub fn target(&self, key: Option<&str>) -> Target {
        Target { host: self.host.clone(), key: key.map(str::to_owned) }
    }

    /// The most memory that the process has had, in MiB.
    pub fn resident_max(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        let kilobytes: u64 = line.split_whitespace().next().and_then(|text| text.parse().ok()).unwrap_or(0);
        kilobytes / 1024
    }

    pub fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // A server that has ended already is what was wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// What `kenning` prints.
pub fn kenning(dir: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
    let done = command.args(arguments).arg("--data-dir").arg(dir).current_dir(dir).output().expect("it runs");
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("text")
}

pub fn new_key(dir: &Path, name: &str, rights: &[&str]) -> String {
    let shown = kenning(dir, &[&["token", "create", name, "--json"], rights].concat());
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    shown["key"].as_str().expect("a key").to_owned()
}

/// Serves the bytes of a file to whoever asks, after the body of the request was read.
pub async fn run_floor(answer: &str) {
    let bytes = axum::body::Bytes::from(std::fs::read(answer).expect("readable"));
    let handler = move |_body: axum::body::Bytes| {
        let bytes = bytes.clone();
        async move { ([("content-type", "text/event-stream")], bytes) }
    };
    let app = axum::Router::new().route("/mcp", axum::routing::post(handler));
    let listener = tokio::net::TcpListener::bind(ADDRESS).await.expect("a port");
    let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
        // Both servers send at once.
        let _ = stream.set_nodelay(true);
    });
    let address = axum::serve::Listener::local_addr(&listener).expect("an address");
    use std::io::Write;
    writeln!(std::io::stdout(), "{address}").expect("the bench reads");
    axum::serve(listener, app).await.expect("it serves");
}
