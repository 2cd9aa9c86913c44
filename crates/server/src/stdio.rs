//! JSON-RPC messages, one on each line. A line that can't be understood gets an error instead of silence.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};

use kenning_engine::{Order, Ticket};
use rmcp::RoleServer;
use rmcp::model::{ClientNotification, ClientRequest, GetExtensions, GetMeta, ProtocolVersion, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{Mutex, Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::batch::{Batch, BatchAnswer, Batches, MESSAGES_MAX};
use crate::mcp::{VERSIONS, call_kind};
use crate::oversized::IdSearch;

const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The most requests that may be under way before reading stops. A request is under way until its work is
/// done and its answer is written.
pub(crate) const UNDER_WAY_MAX: usize = 128;
/// The most subscriptions. They stay under way until the client ends them, so they must not take all places.
const LISTENING_MAX: usize = 64;
/// The most bytes of answers that may wait for a client that does not read. Beyond that the server stops
/// reading from the client.
const UNREAD_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The most bytes that the lines of the requests under way may have before reading stops. A parsed message
/// takes several times the memory of its line, and a cancelled request keeps it until its work has ended.
const UNDER_WAY_BYTES_MAX: usize = 8 * 1024 * 1024;
const COMPLAINTS_MAX: usize = 64;

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const INVALID_PARAMS: i32 = -32602;

pub(crate) struct Stdio<R, W> {
    input: BufReader<R>,
    /// The part of the line that was read so far. It is a field because rmcp polls `receive` inside a
    /// `select!` and may drop it half way.
    line: Vec<u8>,
    /// Set once the line is longer than its cap: the line is read and dropped, except for its id.
    oversized: Option<IdSearch>,
    output: Arc<Mutex<W>>,
    /// Tasks that write answers to lines that never became messages.
    complaints: JoinSet<()>,
    /// Whether the client has chosen its protocol era. Until then rmcp accepts requests only.
    begun: bool,
    /// Cancelled at the end of the input, so that open subscriptions end too.
    ended: CancellationToken,
    listening: Arc<Listening>,
    /// One permit for each request that may be under way.
    room: Arc<Semaphore>,
    /// The permit for the next request. It is a field for the same reason as `line`.
    taken: Option<OwnedSemaphorePermit>,
    unanswered: Arc<Unanswered>,
    unread: Arc<Backlog>,
    /// The bytes of the lines of the requests under way.
    under_way: Arc<Backlog>,
    /// The length of the line that is being read; in a batch, the length divided by the number of messages.
    message_bytes: usize,
    order: Arc<Order>,
    /// Whether the session uses 2025-03-26, the only revision that has batches.
    has_batches: bool,
    /// The batch that is being read, and its messages that are not handled yet.
    batch: Option<(Arc<Batch<Collected>>, VecDeque<Value>)>,
    batches: Arc<Batches<Collected>>,
}

/// The bytes and the admission that an answer holds until the batch that it belongs to is complete.
type Collected = (BacklogLine, Option<Arc<Admission>>);

/// The permit of a request that was accepted. Its handler and every thread that works for it hold the permit,
/// because the work may go on after the client was told of a timeout or has cancelled the request.
pub(crate) struct Admission {
    pub(crate) ticket: Option<Arc<Ticket>>,
    /// The share of this transport's bounds that the request takes up.
    _held: Option<(OwnedSemaphorePermit, BacklogLine)>,
}

impl Admission {
    /// For a transport that bounds its requests in another way.
    pub(crate) fn of_ticket(ticket: Arc<Ticket>) -> Admission {
        Admission { ticket: Some(ticket), _held: None }
    }
}

/// The requests that have no answer yet.
#[derive(Default)]
struct Unanswered(std::sync::Mutex<HashMap<RequestId, Arc<Admission>>>);

impl Unanswered {
    fn add(&self, id: RequestId, admission: Arc<Admission>) {
        self.requests().insert(id, admission);
    }

    fn has(&self, id: &RequestId) -> bool {
        self.requests().contains_key(id)
    }

    /// Removes a request that is answered, or was cancelled and never will be. Its id may then be used again.
    fn settle(&self, id: &RequestId) -> Option<Arc<Admission>> {
        self.requests().remove(id)
    }

    /// The ticket of a request if it is a write.
    fn write(&self, id: &RequestId) -> Option<Arc<Ticket>> {
        let requests = self.requests();
        requests.get(id)?.ticket.as_ref().filter(|ticket| ticket.is_write()).cloned()
    }

    fn requests(&self) -> MutexGuard<'_, HashMap<RequestId, Arc<Admission>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts the bytes of lines that are held: of answers until the client has read them, of requests until
/// their work is done.
struct Backlog {
    bytes: AtomicUsize,
    bytes_max: usize,
    fewer: Notify,
}

impl Backlog {
    fn new(bytes_max: usize) -> Arc<Backlog> {
        Arc::new(Backlog { bytes: AtomicUsize::new(0), bytes_max, fewer: Notify::new() })
    }

    fn add(self: &Arc<Self>, bytes: usize) -> BacklogLine {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        BacklogLine { backlog: self.clone(), bytes }
    }

    /// Waits until the held bytes are within the bound. The next line may exceed it, since its length is not
    /// known before.
    async fn room(&self) {
        while self.bytes.load(Ordering::Relaxed) > self.bytes_max {
            self.fewer.notified().await;
        }
    }
}

/// A line that is counted until this value is dropped: when the line was written, when nobody reads it any
/// more, or when its work is done.
struct BacklogLine {
    backlog: Arc<Backlog>,
    bytes: usize,
}

impl Drop for BacklogLine {
    fn drop(&mut self) {
        self.backlog.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.backlog.fewer.notify_one();
    }
}

/// The `subscriptions/listen` requests under way, and whether the client has cancelled them.
///
/// rmcp may hold a notice while the cancellation is read, and write it after the answer to a later request.
/// So cancellation is checked once more where lines are written: after it was read, nothing more is written
/// for that subscription.
#[derive(Default)]
pub(crate) struct Listening(std::sync::Mutex<HashMap<RequestId, bool>>);

impl Listening {
    fn began(&self, id: RequestId) {
        self.cancelled().insert(id, false);
    }

    fn cancel(&self, id: &RequestId) {
        if let Some(cancelled) = self.cancelled().get_mut(id) {
            *cancelled = true;
        }
    }

    fn many(&self) -> usize {
        self.cancelled().len()
    }

    /// Removes a request that is done, after everything that it wanted to send was sent or dropped.
    pub(crate) fn ended(&self, id: &RequestId) {
        self.cancelled().remove(id);
    }

    fn is_cancelled(&self, id: &RequestId) -> bool {
        self.cancelled().get(id).copied().unwrap_or(false)
    }

    fn cancelled(&self) -> MutexGuard<'_, HashMap<RequestId, bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Send + Unpin + 'static> Stdio<R, W> {
    pub(crate) fn new(
        input: R,
        output: W,
        ended: CancellationToken,
        listening: Arc<Listening>,
        room: Arc<Semaphore>,
    ) -> Self {
        Stdio {
            input: BufReader::with_capacity(64 * 1024, input),
            line: Vec::new(),
            oversized: None,
            output: Arc::new(Mutex::new(output)),
            complaints: JoinSet::new(),
            begun: false,
            ended,
            listening,
            room,
            taken: None,
            unanswered: Arc::default(),
            unread: Backlog::new(UNREAD_BYTES_MAX),
            under_way: Backlog::new(UNDER_WAY_BYTES_MAX),
            message_bytes: 0,
            order: Arc::default(),
            has_batches: false,
            batch: None,
            batches: Arc::default(),
        }
    }

    /// The next line without its end; `None` at the end of the input.
    async fn next_line(&mut self) -> Option<Line> {
        loop {
            let available = match self.input.fill_buf().await {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return None,
            };
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.unwrap_or(available.len());
            if self.oversized.is_none() && self.line.len() + taken > LINE_BYTES_MAX {
                let mut search = IdSearch::default();
                search.read(&std::mem::take(&mut self.line));
                self.oversized = Some(search);
            }
            match &mut self.oversized {
                Some(search) => search.read(&available[..taken]),
                None => self.line.extend_from_slice(&available[..taken]),
            }
            let at_end = available.is_empty();
            self.input.consume(taken + usize::from(end.is_some()));
            if end.is_some() || (at_end && (!self.line.is_empty() || self.oversized.is_some())) {
                let line = std::mem::take(&mut self.line);
                return Some(match self.oversized.take() {
                    Some(search) => Line::TooLong { id: search.found() },
                    None => Line::Whole(line),
                });
            }
            if at_end {
                return None;
            }
        }
    }

    fn complain(&mut self, Complaint { id, code, message }: Complaint) {
        let reply = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
        let line = reply.to_string().into_bytes();
        match &self.batch {
            Some((batch, _)) => batch.add(line, None),
            None => self.write(line, ()),
        }
    }

    /// Writes a line that is not an answer of the service, then drops `held`.
    fn write<T: Send + 'static>(&mut self, line: Vec<u8>, held: T) {
        let output = self.output.clone();
        self.complaints.spawn(async move {
            // A write error is ignored: a client that no longer reads will also close the input.
            let _ = write_line(&output, line, || true).await;
            drop(held);
        });
        while self.complaints.try_join_next().is_some() {}
    }

    fn close(&mut self, batch: &Batch<Collected>) {
        if let Some(BatchAnswer { line, _held }) = batch.close() {
            self.write(line, _held);
        }
    }

    /// The next message of the batch that is being read. After the last one the batch is only kept until its
    /// requests have their answers.
    fn next_of_batch(&mut self) -> Option<Value> {
        let (batch, messages) = self.batch.as_mut()?;
        if let Some(message) = messages.pop_front() {
            return Some(message);
        }
        let batch = batch.clone();
        self.batch = None;
        self.close(&batch);
        None
    }

    /// Begins to read a line that is an array.
    fn begin_batch(&mut self, messages: Vec<Value>) {
        let refused = match messages.len() {
            _ if !self.has_batches => {
                Some("only sessions of revision 2025-03-26 have batches: send one message a line")
            }
            0 => Some("a batch has at least one message"),
            many if many > MESSAGES_MAX => Some("a batch has at most 64 messages"),
            _ => None,
        };
        match refused {
            Some(message) => self.complain(Complaint { id: Value::Null, code: INVALID_REQUEST, message }),
            None => self.batch = Some((Arc::new(Batch::new()), messages.into())),
        }
    }
}

enum Line {
    Whole(Vec<u8>),
    TooLong { id: Value },
}

impl<R, W> Transport<RoleServer> for Stdio<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let (output, listening) = (self.output.clone(), self.listening.clone());
        let subscription = match &item {
            TxJsonRpcMessage::<RoleServer>::Notification(notice) => {
                notice.notification.get_meta().subscription_id()
            }
            _ => None,
        };
        let answered = match &item {
            TxJsonRpcMessage::<RoleServer>::Response(response) => Some(response.id.clone()),
            TxJsonRpcMessage::<RoleServer>::Error(error) => error.id.clone(),
            _ => None,
        };
        let unanswered = self.unanswered.clone();
        let line = serde_json::to_vec(&item);
        let unread = self.unread.add(line.as_ref().map_or(0, Vec::len));
        let batch = answered.as_ref().and_then(|id| self.batches.settle(id));
        async move {
            if let Some(batch) = batch {
                let admission = answered.and_then(|id| unanswered.settle(&id));
                batch.add(line?, Some((unread, admission)));
                return match batch.close() {
                    Some(BatchAnswer { line, _held }) => write_line(&output, line, || true).await,
                    None => Ok(()),
                };
            }
            let _unread = unread;
            let mut _admission = None;
            let wanted = || {
                // The id is free before the answer is written, because the client may use it again as soon as
                // it has read the answer. The permit is kept until the answer was written.
                _admission = answered.and_then(|id| unanswered.settle(&id));
                subscription.is_none_or(|id| !listening.is_cancelled(&id))
            };
            write_line(&output, line?, wanted).await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            // Reading stops while a client does not read its answers, or has too many bytes under way, so
            // that memory stays bounded. A batch is read to its end, since its answers are written only when
            // all of them are complete.
            if self.batch.is_none() {
                self.unread.room().await;
                self.under_way.room().await;
            }
            if self.taken.is_none() {
                self.taken = self.room.clone().acquire_owned().await.ok();
            }
            while self.complaints.len() >= COMPLAINTS_MAX {
                self.complaints.join_next().await;
            }
            let message = match self.next_of_batch() {
                Some(message) => read_message(message),
                None => {
                    let Some(line) = self.next_line().await else {
                        while self.complaints.join_next().await.is_some() {}
                        // The end of the server waits for all permits, so the spare one is returned.
                        self.taken = None;
                        self.ended.cancel();
                        return None;
                    };
                    match line {
                        Line::Whole(line) if line.trim_ascii().is_empty() => continue,
                        Line::Whole(line) => {
                            self.message_bytes = line.len();
                            match parse(&line) {
                                Ok(Value::Array(messages)) => {
                                    self.message_bytes /= messages.len().max(1);
                                    self.begin_batch(messages);
                                    continue;
                                }
                                parsed => parsed.and_then(read_message),
                            }
                        }
                        Line::TooLong { id } => {
                            let message = "the line is longer than 4 MiB";
                            Err(Complaint { id, code: INVALID_REQUEST, message })
                        }
                    }
                }
            };
            match message {
                Ok(Some(RxJsonRpcMessage::<RoleServer>::Request(mut request))) => {
                    let listens = matches!(request.request, ClientRequest::SubscriptionsListenRequest(_));
                    let refused = match () {
                        // Neither the client nor this server could tell two answers with one id apart.
                        () if self.unanswered.has(&request.id) => Some("this `id` has a request under way"),
                        () if listens && self.listening.many() >= LISTENING_MAX => {
                            Some("there are 64 subscriptions already; cancel one first")
                        }
                        () if self.batch.is_some() && is_initialize(&request.request) => {
                            Some("`initialize` is no part of a batch")
                        }
                        () => None,
                    };
                    if let Some(message) = refused {
                        let id = serde_json::to_value(&request.id).unwrap_or_default();
                        self.complain(Complaint { id, code: INVALID_REQUEST, message });
                        continue;
                    }
                    self.begun |= begins(&request.request);
                    if let ClientRequest::InitializeRequest(hello) = &request.request {
                        self.has_batches = hello.params.protocol_version == ProtocolVersion::V_2025_03_26;
                    }
                    if let Some((batch, _)) = &self.batch {
                        self.batches.begin(request.id.clone(), batch.clone());
                    }
                    if listens {
                        self.listening.began(request.id.clone());
                    }
                    let room = self.taken.take()?;
                    // The ticket is taken here because handlers run in separate tasks, which may overtake
                    // each other.
                    let ticket = call_kind(&request.request).map(|kind| Arc::new(self.order.arrived(kind)));
                    let held = Some((room, self.under_way.add(self.message_bytes)));
                    let admission = Arc::new(Admission { ticket, _held: held });
                    self.unanswered.add(request.id.clone(), admission.clone());
                    request.request.extensions_mut().insert(admission);
                    return Some(RxJsonRpcMessage::<RoleServer>::Request(request));
                }
                Ok(Some(message)) if self.begun => {
                    if let RxJsonRpcMessage::<RoleServer>::Notification(notice) = &message
                        && let ClientNotification::CancelledNotification(cancelled) = &notice.notification
                        && let Some(id) = &cancelled.params.request_id
                    {
                        // A write is not aborted half way. It is asked to stop, and its answer says whether
                        // it was applied, which the protocol allows.
                        if let Some(write) = self.unanswered.write(id) {
                            write.cancel();
                            continue;
                        }
                        self.listening.cancel(id);
                        self.unanswered.settle(id);
                        if let Some(batch) = self.batches.settle(id) {
                            self.close(&batch);
                        }
                    }
                    return Some(message);
                }
                Ok(_) => {}
                Err(complaint) => self.complain(complaint),
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.output.lock().await.flush().await
    }
}

/// Whether a request chooses the protocol era, by the rules of rmcp: a handshake does, and so does any
/// request that names its protocol version, but neither a ping nor a discovery.
fn begins(request: &ClientRequest) -> bool {
    let meta = request.get_meta();
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
        _ => {
            meta.missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty()
                && meta.protocol_version().is_some_and(|version| VERSIONS.contains(&version))
        }
    }
}

fn is_initialize(request: &ClientRequest) -> bool {
    matches!(request, ClientRequest::InitializeRequest(_))
}

struct Complaint {
    id: Value,
    code: i32,
    message: &'static str,
}

fn parse(line: &[u8]) -> Result<Value, Complaint> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    serde_json::from_slice(line).map_err(|_| Complaint {
        id: Value::Null,
        code: PARSE_ERROR,
        message: "the line is not JSON",
    })
}

/// Reads a message; `None` for a malformed notification or answer, which must not be answered.
fn read_message(value: Value) -> Result<Option<RxJsonRpcMessage<RoleServer>>, Complaint> {
    let complaint = |id: &Value, code, message| {
        let id = if id.is_string() || id.is_number() { id.clone() } else { Value::Null };
        Complaint { id, code, message }
    };
    let invalid = |message| complaint(&value["id"], INVALID_REQUEST, message);
    let Some(object) = value.as_object() else {
        return Err(invalid("a message is a JSON object"));
    };
    if value["jsonrpc"] != "2.0" {
        return Err(invalid("`jsonrpc` must be \"2.0\""));
    }
    let method = object.get("method");
    let is_answer = method.is_none() && (object.contains_key("result") || object.contains_key("error"));
    let is_notification = method.is_some_and(Value::is_string) && !object.contains_key("id");
    if is_answer || is_notification {
        return Ok(serde_json::from_value(value).ok());
    }
    if object.get("id").is_some_and(|id| !id.is_string() && !id.is_number()) {
        return Err(invalid("`id` must be a string or a number"));
    }
    if !method.is_some_and(Value::is_string) {
        return Err(invalid("`method` must be a string"));
    }
    if object.get("params").is_some_and(|params| !params.is_object() && !params.is_null()) {
        return Err(complaint(&value["id"], INVALID_PARAMS, "`params` must be an object"));
    }
    let id = value["id"].clone();
    serde_json::from_value(value)
        .map(Some)
        .map_err(|_| complaint(&id, INVALID_REQUEST, "the message has the wrong form"))
}

/// Writes a line. `wanted` is called while the output is locked, so no other line can come between the check
/// and the write.
async fn write_line<W: AsyncWrite + Unpin>(
    output: &Mutex<W>,
    mut line: Vec<u8>,
    wanted: impl FnOnce() -> bool,
) -> io::Result<()> {
    line.push(b'\n');
    let mut output = output.lock().await;
    if !wanted() {
        return Ok(());
    }
    output.write_all(&line).await?;
    output.flush().await
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// A client sends five large requests without waiting: they are read until the bound on bytes is reached,
    /// and further ones after one is done.
    #[test]
    fn requests_under_way_are_bounded_by_their_bytes() {
        let ballast = "x".repeat(3 * 1024 * 1024);
        let line = |id: u32| {
            let params = json!({"name": "query", "arguments": {}, "_meta": {"ballast": ballast}});
            json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string() + "\n"
        };
        let input: String = (1..=5).map(line).collect();
        let room = Arc::new(Semaphore::new(UNDER_WAY_MAX));
        let mut stdio =
            Stdio::new(input.as_bytes(), tokio::io::sink(), CancellationToken::new(), Arc::default(), room);
        let mut receive = || {
            let mut context = Context::from_waker(Waker::noop());
            match pin!(Transport::<RoleServer>::receive(&mut stdio)).poll(&mut context) {
                Poll::Ready(message) => message,
                Poll::Pending => None,
            }
        };
        let settle = |request: &RxJsonRpcMessage<RoleServer>| match request {
            RxJsonRpcMessage::<RoleServer>::Request(request) => request.id.clone(),
            _ => panic!("a request"),
        };
        let held: Vec<_> = std::iter::from_fn(&mut receive).collect();
        assert_eq!(held.len(), 3, "the third is the first beyond 8 MiB");
        for id in held.iter().map(settle).collect::<Vec<_>>() {
            stdio.unanswered.settle(&id);
        }
        drop(held);
        let mut context = Context::from_waker(Waker::noop());
        let next = pin!(Transport::<RoleServer>::receive(&mut stdio)).poll(&mut context);
        assert!(matches!(next, Poll::Ready(Some(_))), "there is room again");
    }

    #[test]
    fn any_line_is_a_message_or_gets_an_error() {
        const LINES: [&str; 5] = [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"store","arguments":{"topic":"a","content":"b"}}}"#,
            r#"{"jsonrpc":"2.0","id":"x","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
            r#"[{"jsonrpc":"2.0","id":2,"result":{}},{"jsonrpc":"2.0","id":3,"error":{"code":-1,"message":"m"}}]"#,
            r#"{"jsonrpc":"2.0","id":4,"method":"resources/read","params":{"uri":"knowledge://entries?limit=5"}}"#,
        ];
        kenning_testkit::fuzz::run("JSON-RPC line", &LINES, |input| {
            let mut search = IdSearch::default();
            search.read(input);
            search.found();
            let messages = match parse(input) {
                Ok(Value::Array(messages)) => messages,
                Ok(message) => vec![message],
                Err(_) => return,
            };
            for message in messages {
                if let Err(complaint) = read_message(message) {
                    let id = &complaint.id;
                    assert!(id.is_null() || id.is_string() || id.is_number(), "an error has an id: {id}");
                }
            }
        });
    }
}
