//! Whether Codex runs our hooks. Codex silently skips a hook until the user has trusted it. It records the
//! trust in its own configuration, as a hash of the hook's definition.

use std::path::Path;

use data_encoding::HEXLOWER;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::commands::setup::edit::is_our_hook;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    Trusted,
    /// The user never trusted the hook, or trusted an earlier definition of it, which has another hash.
    Untrusted,
    Disabled,
}

/// For each of our hooks in a file: the name of its event, and whether Codex trusts it.
pub(super) fn trust(hooks_path: &Path, hooks: &Value, configuration: &Value) -> Vec<(String, Trust)> {
    let mut found = Vec::new();
    let events = hooks["hooks"].as_object().into_iter().flatten();
    for (event, groups) in events {
        let label = snake_case(event);
        for (group_index, group) in groups.as_array().into_iter().flatten().enumerate() {
            let handlers = group["hooks"].as_array().into_iter().flatten();
            for (index, handler) in handlers.enumerate().filter(|(_, handler)| is_our_hook(handler)) {
                let key = format!("{}:{label}:{group_index}:{index}", hooks_path.display());
                let state = &configuration["hooks"]["state"][key];
                let trust = match state["trusted_hash"].as_str() {
                    _ if state["enabled"] == json!(false) => Trust::Disabled,
                    Some(hash) if hash == hash_of(&label, group, handler) => Trust::Trusted,
                    _ => Trust::Untrusted,
                };
                found.push((event.clone(), trust));
            }
        }
    }
    found
}

/// The hash of a hook's event, matcher and handler, computed over JSON with sorted keys, as Codex does it.
fn hash_of(label: &str, group: &Value, handler: &Value) -> String {
    let or = |name: &str, default: Value| handler.get(name).cloned().unwrap_or(default);
    let mut identity_handler = json!({
        "async": or("async", json!(false)),
        "command": or("command", json!("")),
        "timeout": or("timeout", json!(600)),
        "type": "command",
    });
    if let Some(message) = handler.get("statusMessage") {
        identity_handler["statusMessage"] = message.clone();
    }
    let mut identity = json!({"event_name": label, "hooks": [identity_handler]});
    if let Some(matcher) = group.get("matcher") {
        identity["matcher"] = matcher.clone();
    }
    let hash = Sha256::digest(sorted(&identity).to_string());
    format!("sha256:{}", HEXLOWER.encode(&hash))
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut names: Vec<&String> = map.keys().collect();
            names.sort();
            let all: Map<String, Value> =
                names.into_iter().map(|name| (name.clone(), sorted(&map[name]))).collect();
            Value::Object(all)
        }
        Value::Array(list) => list.iter().map(sorted).collect(),
        value => value.clone(),
    }
}

/// Codex writes the event `SessionStart` as `session_start` in the keys of its state.
fn snake_case(event: &str) -> String {
    let mut label = String::new();
    for c in event.chars() {
        if c.is_ascii_uppercase() && !label.is_empty() {
            label.push('_');
        }
        label.push(c.to_ascii_lowercase());
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_is_trusted_as_what_it_is() {
        let hooks = json!({"hooks": {"SessionStart": [
            {"hooks": [{"type": "command", "command": "other"}]},
            {"hooks": [{"type": "command", "command": "kenning hook", "timeout": 5}]},
        ]}});
        let path = Path::new("/home/a/.codex/hooks.json");
        // The value that Codex 0.169.0 reports as `currentHash` for this hook.
        let hash = "sha256:b810a632de8d432080a12bee2338fbe640c981153ccc9c59dc7660a7730fdf5f";
        let key = "/home/a/.codex/hooks.json:session_start:1:0";
        let state = |state: Value| json!({"hooks": {"state": {key: state}}});
        let of = |configuration: Value| trust(path, &hooks, &configuration);
        let event = || "SessionStart".to_owned();
        assert_eq!(of(state(json!({"trusted_hash": hash}))), [(event(), Trust::Trusted)]);
        assert_eq!(of(state(json!({"trusted_hash": "sha256:other"}))), [(event(), Trust::Untrusted)]);
        assert_eq!(of(state(json!({"trusted_hash": hash, "enabled": false}))), [(event(), Trust::Disabled)]);
        assert_eq!(of(json!({})), [(event(), Trust::Untrusted)]);
    }
}
