//! Task: the entries that an agent would get for a task, in their order and within the budget, and those that
//! would be left out.

use kenning_model::clean;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use crate::request::{Page, PageContext, Trouble};
use crate::show::{counted, cut, number};

const QUERIES_MAX: usize = 15;
const TOKENS_DEFAULT: u64 = 4_000;
/// The same factor by which replies count tokens.
const BYTES_PER_TOKEN: usize = 4;

pub(crate) fn show(ctx: &PageContext<'_>) -> Result<Page, Trouble> {
    let queries: Vec<&str> = ctx
        .fields
        .sent("queries")
        .unwrap_or_default()
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .take(QUERIES_MAX)
        .collect();
    let scope = ctx.fields.get("scope").unwrap_or(&ctx.visitor.caller.scope);
    let size = ctx.fields.get("size");
    let tokens = ctx.fields.number("tokens").unwrap_or(TOKENS_DEFAULT);
    let answer = match queries.is_empty() {
        true => None,
        false => {
            let mut arguments = Map::new();
            arguments.insert("queries".to_owned(), json!(queries));
            arguments.insert("scope".to_owned(), json!(scope));
            arguments.insert("max_tokens".to_owned(), json!(tokens));
            if let Some(size) = size {
                arguments.insert("task_size".to_owned(), json!(size));
            }
            Some(ctx.call("get_task_context", arguments))
        }
    };
    Page::new(
        "Task",
        html! {
            h1 { "What would an agent get?" }
            (form(ctx, scope, size, tokens))
            @match &answer {
                None => p.quiet { "Write what the task is about as an agent would ask, one query on a line. The answer is the one that " code { "get_task_context" } " gives." },
                Some(Err(trouble)) => p.trouble role="alert" { (trouble.message()) },
                Some(Ok(answer)) => (given(ctx, answer, tokens)),
            }
        },
    )
}

fn form(ctx: &PageContext<'_>, scope: &str, size: Option<&str>, tokens: u64) -> Markup {
    let mut names: Vec<String> = ctx.names.0.values().map(ToString::to_string).collect();
    names.sort();
    html! {
        form.stack action=(format!("{}/task", crate::BASE)) {
            @if let Some(tx) = ctx.as_of { input type="hidden" name="as_of" value=(tx); }
            label for="queries" { "Queries, one on a line" }
            textarea #queries name="queries" rows="3" required maxlength="8000" placeholder="git commit message rules\nhow releases are made" { "\n" (ctx.fields.sent("queries").unwrap_or_default()) }
            div.row {
                div { label for="scope" { "Scope" } select #scope name="scope" { @for name in &names { option value=(name) selected[name == scope] { (name) } } } }
                div { label for="size" { "Size of the task" } select #size name="size" { option value="" { "any" } @for known in ["XS", "S", "M", "L", "XL"] { option value=(known) selected[size == Some(known)] { (known) } } } }
                div { label for="tokens" { "Tokens at most" } input #tokens type="number" name="tokens" min="200" max="20000" value=(tokens); }
                button.first type="submit" { "Ask" }
            }
        }
    }
}

fn given(ctx: &PageContext<'_>, answer: &Value, tokens: u64) -> Markup {
    let empty = Map::new();
    let all = answer.as_object().unwrap_or(&empty);
    // The name of a scope has a colon; the keys beside the scopes have none.
    let scopes: Vec<(&String, &Map<String, Value>)> = all
        .iter()
        .filter(|(name, _)| name.contains(':'))
        .filter_map(|(name, entries)| Some((name, entries.as_object()?)))
        .collect();
    let spent = answer.to_string().len().div_ceil(BYTES_PER_TOKEN) as u64;
    let many: usize = scopes.iter().map(|(_, entries)| entries.len()).sum();
    let mut place = 0;
    html! {
        section {
            h2 { (counted(many as u64, "entry")) ", about " (counted(spent, "token")) " of " (number(tokens)) }
            meter.budget min="0" max=(tokens) value=(spent) aria-label="tokens spent" {}
            @if many == 0 { p { "Nothing would be given." } }
            @for (scope, entries) in &scopes {
                h3 { a.scope href=(ctx.link("/search", [("scope", scope.as_str())])) { (scope) } }
                ol.list.given { @for (id, text) in entries.iter() {
                    @let text = text.as_str().unwrap_or_default();
                    @let number_of = { place += 1; place };
                    li.item data-item {
                        p.text { span.place { (number_of) } " " (clean(text)) }
                        p.meta { a data-open href=(ctx.to(&format!("/entry/{id}"))) { (id) } " about " (counted(text.len().div_ceil(BYTES_PER_TOKEN) as u64, "token")) }
                    }
                } }
            }
            @for (name, title, what) in NOTES {
                @if let Some(notes) = all.get(*name).and_then(Value::as_object) {
                    section { h3 { (title) } p.quiet { (what) } ul.plain { @for (key, note) in notes {
                        li { (key_of(ctx, name, key)) ": " (cut(note.as_str().unwrap_or_default(), 400)) }
                    } } }
                }
            }
        }
    }
}

/// The keys of a reply beside the scopes, with their titles and meanings.
const NOTES: &[(&str, &str, &str)] = &[
    ("left_out", "Left out or cut", "There was no room for these within the budget."),
    ("contradictions", "Likely contradictions", "Both were given; of two scopes the nearer holds."),
    ("nothing_for", "Nothing is known about", "No entry in sight is about this."),
    ("elsewhere", "Elsewhere", "Matches that the agent is told of and must ask for."),
];

fn key_of(ctx: &PageContext<'_>, name: &str, key: &str) -> Markup {
    let is_id = matches!(name, "left_out" | "contradictions");
    html! { @if is_id { a href=(ctx.to(&format!("/entry/{key}"))) { (key) } } @else { strong { (clean(key)) } } }
}
