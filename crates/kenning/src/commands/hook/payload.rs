//! The JSON that a host writes to a hook: it is read up to a size limit, and its fields are mapped to one
//! form for all hosts.

use std::io::{self, Read};
use std::path::PathBuf;

use clap::ValueEnum;
use serde_json::{Map, Value};

/// A prompt may contain a pasted log file, so the limit is generous; a larger payload is refused.
const BYTES_MAX: u64 = 4 << 20;
/// At most this many of the directories that a host names are considered.
const DIRS_MAX: usize = 8;

/// The host that calls the hook. The names are those of `kenning setup`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Host {
    ClaudeCode,
    Codex,
    GeminiCli,
    #[value(name = "vscode")]
    VsCode,
    CopilotCli,
    Cursor,
    Junie,
    Goose,
    Antigravity,
    #[value(name = "opencode")]
    OpenCode,
    Windsurf,
}

impl Host {
    pub fn name(self) -> &'static str {
        match self {
            Host::ClaudeCode => "claude-code",
            Host::Codex => "codex",
            Host::GeminiCli => "gemini-cli",
            Host::VsCode => "vscode",
            Host::CopilotCli => "copilot-cli",
            Host::Cursor => "cursor",
            Host::Junie => "junie",
            Host::Goose => "goose",
            Host::Antigravity => "antigravity",
            Host::OpenCode => "opencode",
            Host::Windsurf => "windsurf",
        }
    }

    /// Whether the host passes the answer of a hook on to the model. Goose only lets a hook block an action,
    /// and Windsurf ignores the answer.
    pub fn listens(self) -> bool {
        !matches!(self, Host::Goose | Host::Windsurf)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Start(Source),
    Prompt(String),
    /// The host is about to shorten the conversation, and with it the entries that the session was given.
    Compaction,
    /// Any other event. It gets no answer.
    Other,
}

impl Event {
    pub fn name(&self) -> &'static str {
        match self {
            Event::Start(_) => "start",
            Event::Prompt(_) => "prompt",
            Event::Compaction => "compaction",
            Event::Other => "other",
        }
    }
}

/// Why a session starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    New,
    /// The session continues, and the model still knows what it was given.
    Resume,
    /// The user cleared the session, so the model has forgotten what it was given.
    Clear,
    /// The session became too long and was compacted, so the model has forgotten what it was given.
    Compact,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    pub host: Host,
    pub event: Event,
    /// The name of the event in the host's spelling, for hosts whose answer has to repeat it.
    pub event_name: &'static str,
    /// The host's id for the session.
    pub session: Option<String>,
    /// The directories in which the session works, as the host names them.
    pub dirs: Vec<PathBuf>,
}

/// Environment variables that tell apart hosts whose payloads look the same.
#[derive(Clone, Copy, Debug, Default)]
pub struct Environment {
    pub is_cursor: bool,
    pub is_gemini: bool,
}

impl Environment {
    pub fn read() -> Environment {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        Environment { is_cursor: is_set("CURSOR_VERSION"), is_gemini: is_set("GEMINI_SESSION_ID") }
    }
}

/// Reads one JSON object. The reader stops at the object's closing brace, because not every host closes the
/// pipe.
pub fn read(input: impl Read) -> io::Result<Map<String, Value>> {
    let input = io::BufReader::new(input.take(BYTES_MAX));
    let first = serde_json::Deserializer::from_reader(input).into_iter::<Value>().next();
    match first {
        Some(Ok(Value::Object(fields))) => Ok(fields),
        Some(Err(error)) if error.is_io() => Err(error.into()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Finds the host and the event from the fields of the payload. If `--host` was given, that host is taken.
pub fn understand(fields: &Map<String, Value>, named: Option<Host>, environment: Environment) -> Payload {
    let host = named.unwrap_or_else(|| host_of(fields, environment));
    let event = event_of(fields, host);
    let event_name = match (&event, host) {
        (Event::Prompt(_), Host::GeminiCli) => "BeforeAgent",
        (Event::Prompt(_), _) => "UserPromptSubmit",
        _ => "SessionStart",
    };
    // The conversation id comes first: a conversation of Cursor outlives its sessions, and the model
    // remembers it across them.
    const SESSIONS: [&str; 6] =
        ["conversation_id", "conversationId", "session_id", "sessionId", "trajectory_id", "sessionID"];
    let session = SESSIONS.iter().find_map(|name| text(fields, name)).map(str::to_owned);
    Payload { host, event, event_name, session, dirs: dirs(fields) }
}

fn host_of(fields: &Map<String, Value>, environment: Environment) -> Host {
    let has = |name: &str| fields.contains_key(name);
    let event = text(fields, "hook_event_name").unwrap_or_default();
    let transcript = text(fields, "transcript_path").unwrap_or_default();
    let is_written_out = text(fields, "timestamp").is_some();
    let in_dir = |dir: &str| transcript.split(['/', '\\']).any(|part| part == dir);
    if environment.is_cursor || has("cursor_version") || has("workspace_roots") {
        Host::Cursor
    } else if environment.is_gemini || event == "BeforeAgent" || in_dir(".gemini") {
        Host::GeminiCli
    } else if has("invocationNum") {
        Host::Antigravity
    } else if has("agent_action_name") {
        Host::Windsurf
    } else if has("event") && (has("working_dir") || has("matcher_context")) {
        Host::Goose
    } else if has("turn_id") || in_dir(".codex") || fields.get("transcript_path").is_some_and(Value::is_null)
    {
        Host::Codex
    } else if has("hookEventName") {
        Host::VsCode
    } else if has("sessionId") || (event.is_empty() && fields.get("timestamp").is_some_and(Value::is_number))
    {
        Host::CopilotCli
    } else if is_written_out {
        // Both hosts write the timestamp as text; only VS Code writes the path of the transcript.
        if has("transcript_path") { Host::VsCode } else { Host::CopilotCli }
    } else {
        Host::ClaudeCode
    }
}

fn event_of(fields: &Map<String, Value>, host: Host) -> Event {
    if host == Host::Antigravity {
        // Antigravity runs the hook before every call of the model; the first call is the start of the
        // session.
        let is_first = fields.get("invocationNum").and_then(Value::as_u64) == Some(1);
        return if is_first { Event::Start(Source::New) } else { Event::Other };
    }
    const NAMES: [&str; 4] = ["hook_event_name", "hookEventName", "event", "agent_action_name"];
    let name = NAMES.iter().find_map(|name| text(fields, name)).unwrap_or_default();
    let letters: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    match letters.to_ascii_lowercase().as_str() {
        "sessionstart" | "sessioncreated" => Event::Start(source_of(fields)),
        "userpromptsubmit"
        | "userpromptsubmitted"
        | "beforeagent"
        | "beforesubmitprompt"
        | "preuserprompt"
        | "chatmessage" => prompt_of(fields),
        "precompact" | "precompress" | "experimentalsessioncompacting" => Event::Compaction,
        // Copilot does not name its events, so the fields that are present tell them apart.
        "" if fields.contains_key("source") => Event::Start(source_of(fields)),
        "" if fields.contains_key("prompt") && !fields.contains_key("toolName") => prompt_of(fields),
        "" if fields.contains_key("trigger") => Event::Compaction,
        _ => Event::Other,
    }
}

fn source_of(fields: &Map<String, Value>) -> Source {
    match text(fields, "source").unwrap_or_default() {
        "resume" | "fork" => Source::Resume,
        "clear" => Source::Clear,
        "compact" => Source::Compact,
        _ => Source::New,
    }
}

fn prompt_of(fields: &Map<String, Value>) -> Event {
    let of_tool = || fields.get("tool_info")?.get("user_prompt")?.as_str();
    let prompt = text(fields, "prompt").or_else(|| text(fields, "message")).or_else(of_tool);
    prompt.map_or(Event::Other, |prompt| Event::Prompt(prompt.to_owned()))
}

fn dirs(fields: &Map<String, Value>) -> Vec<PathBuf> {
    let lists = ["workspace_roots", "workspacePaths"].iter().filter_map(|name| fields.get(*name)?.as_array());
    let roots = lists.flatten().filter_map(Value::as_str);
    let one = ["cwd", "working_dir"].iter().find_map(|name| text(fields, name));
    let dirs: Vec<PathBuf> = roots.filter(|dir| !dir.is_empty()).take(DIRS_MAX).map(PathBuf::from).collect();
    if dirs.is_empty() { one.map(PathBuf::from).into_iter().collect() } else { dirs }
}

/// The field as a text; `None` if it is missing, empty or of another type.
fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    fields.get(name)?.as_str().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use kenning_testkit::fuzz;
    use serde_json::json;

    use super::*;

    fn understood(payload: Value) -> Payload {
        let fields = read(payload.to_string().as_bytes()).expect("an object");
        understand(&fields, None, Environment::default())
    }

    #[test]
    fn hosts_that_write_nearly_the_same_are_told_apart() {
        let claude = json!({"session_id": "s", "transcript_path": "/h/.claude/projects/p/t.jsonl", "cwd": "/w",
            "hook_event_name": "SessionStart", "source": "compact"});
        let of = |more: Value| {
            let mut payload = claude.clone();
            let fields = payload.as_object_mut().expect("an object");
            fields.extend(more.as_object().expect("an object").clone());
            fields.retain(|_, value| *value != "-");
            understood(payload).host
        };
        assert_eq!(of(json!({})), Host::ClaudeCode);
        assert_eq!(of(json!({"turn_id": "t"})), Host::Codex);
        assert_eq!(of(json!({"transcript_path": null})), Host::Codex);
        assert_eq!(of(json!({"transcript_path": "/h/.codex/sessions/r.jsonl"})), Host::Codex);
        assert_eq!(
            of(json!({"hook_event_name": "BeforeAgent", "timestamp": "2026-11-18T00:00:00Z"})),
            Host::GeminiCli
        );
        assert_eq!(of(json!({"timestamp": "2026-11-18T00:00:00Z"})), Host::VsCode);
        assert_eq!(
            of(json!({"timestamp": "2026-11-18T00:00:00Z", "transcript_path": "-"})),
            Host::CopilotCli
        );
        assert_eq!(of(json!({"conversation_id": "c", "workspace_roots": ["/w"]})), Host::Cursor);
        let fields = claude.as_object().expect("an object");
        let in_gemini = Environment { is_gemini: true, ..Environment::default() };
        assert_eq!(understand(fields, None, in_gemini).host, Host::GeminiCli);
        assert_eq!(understand(fields, Some(Host::Junie), in_gemini).host, Host::Junie);
    }

    #[test]
    fn events_without_a_name_are_told_by_what_they_have() {
        let start = understood(json!({"sessionId": "s", "timestamp": 1, "cwd": "/w", "source": "new"}));
        assert_eq!((start.host, start.event), (Host::CopilotCli, Event::Start(Source::New)));
        let prompt = understood(json!({"sessionId": "s", "timestamp": 1, "cwd": "/w", "prompt": "p"}));
        assert_eq!(prompt.event, Event::Prompt("p".to_owned()));
        let tool = understood(
            json!({"sessionId": "s", "timestamp": 1, "cwd": "/w", "prompt": "p", "toolName": "t"}),
        );
        assert_eq!(tool.event, Event::Other);
        assert_eq!(understood(json!({})).event, Event::Other);
    }

    #[test]
    fn the_end_of_the_object_is_enough_and_a_long_one_is_refused() {
        let fields = read(&b"\n {\"a\": 1} trailing"[..]).expect("an object");
        assert_eq!(fields["a"], 1);
        for wrong in ["", "  ", "[]", "1", "{", "{\"a\": \"\u{1}\"}", "null"] {
            assert!(read(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let long = format!("{{\"prompt\": \"{}\"}}", "x".repeat(BYTES_MAX as usize));
        assert!(read(long.as_bytes()).is_err());
        let deep = format!("{}1{}", "{\"a\":".repeat(5_000), "}".repeat(5_000));
        assert!(read(deep.as_bytes()).is_err());
    }

    /// Any input is either refused or understood: the reader does not panic and reads no more than its limit.
    #[test]
    fn any_payload_is_understood_or_refused() {
        let seeds: Vec<Vec<u8>> = [
            json!({"session_id": "s", "cwd": "/w", "hook_event_name": "UserPromptSubmit", "prompt": "größer \u{1f600}"}),
            json!({"conversation_id": "c", "workspace_roots": ["/w", 1, ""], "hook_event_name": "sessionStart"}),
            json!({"invocationNum": 1, "workspacePaths": ["/w"]}),
            json!({"agent_action_name": "pre_user_prompt", "tool_info": {"user_prompt": "p"}}),
        ]
        .iter()
        .map(|seed| seed.to_string().into_bytes())
        .collect();
        fuzz::run("hook payload", &seeds, |bytes| {
            if let Ok(fields) = read(bytes) {
                let payload = understand(&fields, None, Environment::default());
                assert!(payload.dirs.len() <= DIRS_MAX);
            }
        });
        // Fields with the right names and values of any type.
        let names = [
            "hook_event_name",
            "session_id",
            "prompt",
            "source",
            "cwd",
            "workspace_roots",
            "timestamp",
            "tool_info",
        ];
        let values =
            [json!(null), json!(1), json!(-1.5), json!("x"), json!([1, "x"]), json!({"a": "b"}), json!(true)];
        for name in names {
            for value in &values {
                let mut fields = Map::new();
                fields.insert(name.to_owned(), value.clone());
                understand(&fields, None, Environment::default());
            }
        }
    }
}
