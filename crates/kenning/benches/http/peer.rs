//! A client that is as small as can be: one connection, requests one after the other, and what comes back.

use std::io;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Where a server is and who asks it.
#[derive(Clone)]
pub struct Target {
    /// `127.0.0.1:8787`
    pub host: String,
    pub key: Option<String>,
}

pub struct Peer {
    target: Target,
    stream: BufReader<TcpStream>,
}

pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
    pub took: Duration,
}

impl Answer {
    /// The JSON-RPC message in the body: an event stream has one in its lines of data.
    pub fn message(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        let lines = text.lines().map(|line| line.strip_prefix("data:").unwrap_or(line));
        lines.filter_map(|line| serde_json::from_str(line).ok()).find(Value::is_object).unwrap_or_default()
    }
}

/// A call of a tool in a request of 2026-07-28.
pub fn call(id: u64, tool: &str, arguments: Value) -> Value {
    request(id, "tools/call", json!({"name": tool, "arguments": arguments}))
}

pub fn request(id: u64, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        // A host, as most clients are.
        "io.modelcontextprotocol/clientInfo": {"name": "claude-code", "version": "1"},
    });
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

impl Target {
    /// The bytes of a request with this message.
    pub fn post(&self, message: &Value) -> Vec<u8> {
        let body = message.to_string();
        let mut head = format!(
            "POST /mcp HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n\
             mcp-protocol-version: 2026-07-28\r\nmcp-method: {}\r\ncontent-length: {}\r\n",
            self.host,
            message["method"].as_str().unwrap_or_default(),
            body.len()
        );
        if let Some(name) = message["params"]["name"].as_str() {
            head.push_str(&format!("mcp-name: {name}\r\n"));
        }
        if let Some(key) = &self.key {
            head.push_str(&format!("authorization: Bearer {key}\r\n"));
        }
        format!("{head}\r\n{body}").into_bytes()
    }
}

impl Peer {
    pub async fn connect(target: &Target) -> io::Result<Peer> {
        let stream = TcpStream::connect(&target.host).await?;
        stream.set_nodelay(true)?;
        Ok(Peer { target: target.clone(), stream: BufReader::new(stream) })
    }

    pub async fn ask(&mut self, message: &Value) -> io::Result<Answer> {
        let request = self.target.post(message);
        self.exchange(request).await
    }

    /// Asks for a page.
    pub async fn get(&mut self, path: &str) -> io::Result<Answer> {
        let host = &self.target.host;
        let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\naccept: text/html\r\n\r\n");
        self.exchange(request.into_bytes()).await
    }

    async fn exchange(&mut self, request: Vec<u8>) -> io::Result<Answer> {
        let since = Instant::now();
        let answer = async {
            self.send(&request).await?;
            self.read_answer(since).await
        };
        timeout(ANSWER_MAX, answer).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes).await
    }

    /// The next line of what the server sends: the head of an answer, or an event of a stream.
    pub async fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    async fn read_answer(&mut self, since: Instant) -> io::Result<Answer> {
        let broken = || io::Error::from(io::ErrorKind::InvalidData);
        let status = self.line().await?;
        let status = status.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(broken)?;
        let (mut length, mut is_chunked) = (0, false);
        loop {
            let line = self.line().await?.to_ascii_lowercase();
            match line.split_once(':') {
                None if line.is_empty() => break,
                Some(("content-length", value)) => length = value.trim().parse().map_err(|_| broken())?,
                Some(("transfer-encoding", _)) => is_chunked = true,
                _ => {}
            }
        }
        let mut body = Vec::new();
        if is_chunked {
            loop {
                let size = self.line().await?;
                let size = usize::from_str_radix(&size, 16).map_err(|_| broken())?;
                let start = body.len();
                body.resize(start + size, 0);
                self.stream.read_exact(&mut body[start..]).await?;
                self.line().await?;
                if size == 0 {
                    break;
                }
            }
        } else {
            body.resize(length, 0);
            self.stream.read_exact(&mut body).await?;
        }
        Ok(Answer { status, body, took: since.elapsed() })
    }
}
