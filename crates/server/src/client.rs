//! A small MCP client on the standard streams of a server process. The demo, the kill tests and the benchmarks
//! speak to a real server through it.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub struct Client {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    /// Notifications that arrived while the client waited for an answer.
    notices: VecDeque<Value>,
    next_id: u64,
    era: Era,
    name: String,
    /// The capabilities that the client declares.
    capabilities: Value,
}

/// How a client introduces itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// 2026-07-28: every request carries the name and the capabilities of the client.
    Modern,
    /// Up to 2025-11-25: an `initialize` comes first.
    Legacy,
}

#[derive(Debug)]
pub enum ClientError {
    /// The server is gone or did not answer in time. It is not known whether it carried out the request.
    Lost(String),
    /// A JSON-RPC error.
    Refused { code: i64, message: String },
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ClientError::Lost(what) => write!(f, "the server is lost: {what}"),
            ClientError::Refused { code, message } => write!(f, "refused with {code}: {message}"),
        }
    }
}

impl std::error::Error for ClientError {}

const ANSWER_MAX: Duration = Duration::from_secs(60);

impl Client {
    /// Starts the server and, for an older client, performs the handshake.
    pub fn start(command: Command, era: Era, name: &str) -> Result<Client, ClientError> {
        Client::start_with(command, era, name, json!({}))
    }

    /// Like `start`, for a client with capabilities, such as that of being asked questions (elicitation).
    pub fn start_with(
        command: Command,
        era: Era,
        name: &str,
        capabilities: Value,
    ) -> Result<Client, ClientError> {
        let mut client = Client::start_raw(command, era, name)?;
        client.capabilities = capabilities;
        if era == Era::Legacy {
            let hello = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": client.capabilities,
                "clientInfo": {"name": client.name, "version": "1"},
            });
            client.request("initialize", hello)?;
            client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        }
        Ok(client)
    }

    /// Starts the server and sends nothing yet.
    pub fn start_raw(mut command: Command, era: Era, name: &str) -> Result<Client, ClientError> {
        let lost = |error: io::Error| ClientError::Lost(error.to_string());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(lost)?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or_else(|| ClientError::Lost("no standard output".into()))?;
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let name = name.to_owned();
        let (notices, capabilities) = (VecDeque::new(), json!({}));
        Ok(Client { child, input, lines, notices, next_id: 1, era, name, capabilities })
    }

    /// Calls a tool and returns its `structuredContent`, also for an error result.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, ClientError> {
        Ok(self.call_whole(tool, arguments)?["structuredContent"].take())
    }

    /// Calls a tool and returns the whole result.
    pub fn call_whole(&mut self, tool: &str, arguments: Value) -> Result<Value, ClientError> {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    pub fn request(&mut self, method: &str, params: Value) -> Result<Value, ClientError> {
        let id = self.begin(method, params)?;
        let since = Instant::now();
        loop {
            let message = self.receive(ANSWER_MAX.saturating_sub(since.elapsed()))?;
            if message["id"] != json!(id) {
                if message["id"].is_null() {
                    self.notices.push_back(message);
                }
                continue;
            }
            return match &message["error"] {
                Value::Null => Ok(message["result"].clone()),
                error => Err(ClientError::Refused {
                    code: error["code"].as_i64().unwrap_or_default(),
                    message: error["message"].as_str().unwrap_or_default().to_owned(),
                }),
            };
        }
    }

    /// Sends a request and does not wait for its answer, which the long-lived request `subscriptions/listen`
    /// never gets.
    pub fn begin(&mut self, method: &str, params: Value) -> Result<u64, ClientError> {
        let (id, message) = self.message(method, params);
        self.send(&message)?;
        Ok(id)
    }

    /// A request as this client would send it, for a caller that sends several in one piece.
    pub fn message(&mut self, method: &str, mut params: Value) -> (u64, Value) {
        let id = self.next_id;
        self.next_id += 1;
        if self.era == Era::Modern {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": self.capabilities,
                "io.modelcontextprotocol/clientInfo": {"name": self.name, "version": "1"},
            });
        }
        (id, json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    }

    /// The next message that is not an answer, or `None` if there is none within the given time.
    pub fn notice(&mut self, within: Duration) -> Result<Option<Value>, ClientError> {
        if let Some(notice) = self.notices.pop_front() {
            return Ok(Some(notice));
        }
        match self.lines.recv_timeout(within) {
            Ok(line) => parse(&line).map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(ClientError::Lost("its output has ended".into())),
        }
    }

    /// The messages that arrived before the last answer and are not answers themselves.
    pub fn earlier_notices(&mut self) -> Vec<Value> {
        self.notices.drain(..).collect()
    }

    /// Sends one raw line, also one that no correct client would send.
    pub fn send_line(&mut self, line: &[u8]) -> Result<(), ClientError> {
        let lost = |error: io::Error| ClientError::Lost(error.to_string());
        let input = self.input.as_mut().ok_or_else(|| ClientError::Lost("its input is closed".into()))?;
        input.write_all(line).and_then(|()| input.write_all(b"\n")).map_err(lost)?;
        input.flush().map_err(lost)
    }

    pub fn receive(&mut self, within: Duration) -> Result<Value, ClientError> {
        match self.lines.recv_timeout(within) {
            Ok(line) => parse(&line),
            Err(error) => Err(ClientError::Lost(error.to_string())),
        }
    }

    /// The id of the server's process, for tests that kill it while it works.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the server as `kill -9` does: it flushes nothing and sends nothing.
    pub fn kill(&mut self) {
        // An error means that the process has ended already, which is the goal.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Closes the input and waits until the server has ended; returns its exit code and how long that took.
    pub fn finish(mut self) -> Result<(Option<i32>, Duration), ClientError> {
        drop(self.input.take());
        let since = Instant::now();
        let status = self.child.wait().map_err(|error| ClientError::Lost(error.to_string()))?;
        Ok((status.code(), since.elapsed()))
    }

    fn send(&mut self, message: &Value) -> Result<(), ClientError> {
        self.send_line(message.to_string().as_bytes())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.input.take());
        self.kill();
    }
}

fn parse(line: &str) -> Result<Value, ClientError> {
    serde_json::from_str(line)
        .map_err(|_| ClientError::Lost(format!("it wrote a line that is not JSON: {line}")))
}
