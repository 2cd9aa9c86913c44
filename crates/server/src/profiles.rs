//! Chooses the blocks of a reply by the name of the client. Hosts and agent frameworks pass every block of
//! `content` to a model, which pays for an embedded copy of the reply and can't follow a link; some SDK
//! helpers even fail on such blocks. Programs and unknown clients get all blocks.

use kenning_presentation::Content;

/// Names in lower case; a name that ends in `*` matches every name with that beginning.
const TEXT_ALONE: &[&str] = &[
    // Hosts.
    "claude-code*",
    "claude-ai*",
    "claude desktop*",
    "anthropic*",
    "codex*",
    "chatgpt*",
    "openai-mcp*",
    "gemini*",
    "antigravity*",
    "agy",
    "visual studio code*",
    "vscode*",
    "github-copilot*",
    "copilot*",
    "cursor*",
    "zed",
    "opencode*",
    "windsurf*",
    "codeium*",
    "devin*",
    "junie*",
    "jetbrains*",
    "goose*",
    "cline*",
    "roo code*",
    "roo-code*",
    "kilo*",
    "continue*",
    "amp-mcp-client*",
    "kiro*",
    "qwen*",
    "kimi*",
    "crush*",
    "warp*",
    "lm studio*",
    "lmstudio*",
    "librechat*",
    "@librechat*",
    // Agent frameworks.
    "ai-sdk-mcp-client*",
    "langchain*",
    "langgraph*",
    "pydantic-ai*",
    "openai-agents*",
    "google-adk*",
    "google-genai*",
    "llama-index*",
    "llamaindex*",
    "mastra*",
    "mcp-use*",
    "mcpadapt*",
    "smolagents*",
    "agno*",
    "autogen*",
    "crewai*",
    "semantic kernel*",
    "semantic-kernel*",
    "spring-ai*",
    "strands*",
    // Names that the SDKs give to a client without a name of its own.
    "mcp",
    "mcp-client",
    "mcp client",
    "rmcp",
    "fastmcp*",
];

/// Marks the text that a proxy appends to the name of its client, as in `claude-ai (via mcp-remote 0.1.29)`.
const PROXIED: &str = " (via ";

pub(crate) fn content_for(client: &str) -> Content {
    let name = client.trim().to_lowercase();
    let name = name.split_once(PROXIED).map_or(name.as_str(), |(name, _)| name);
    let is_known = TEXT_ALONE.iter().any(|known| match known.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == *known,
    });
    if is_known { Content::Text } else { Content::Full }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_show_a_model_every_block_get_text_alone() {
        for name in [
            "claude-code",
            "claude-ai",
            "claude-ai (via mcp-remote 0.1.29)",
            "codex-mcp-client",
            "gemini-cli-mcp-client",
            "Visual Studio Code",
            "Visual Studio Code - Insiders",
            "github-copilot-developer",
            "cursor-vscode",
            "Zed",
            "opencode",
            "goose",
            "ai-sdk-mcp-client",
            "mcp",
        ] {
            assert_eq!(content_for(name), Content::Text, "{name}");
        }
        for name in ["", "rows", "mcp-inspector", "inspector-client", "my-script", "zedd", "mcp-probe"] {
            assert_eq!(content_for(name), Content::Full, "{name}");
        }
    }

    #[test]
    fn the_table_is_in_lower_case_and_names_nothing_twice() {
        for (number, name) in TEXT_ALONE.iter().enumerate() {
            assert_eq!(*name, name.to_lowercase());
            assert!(!TEXT_ALONE[number + 1..].contains(name), "{name}");
        }
    }
}
