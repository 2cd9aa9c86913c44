//! `get_section_text`: the beginning of sections, as this tool returned it before `kb.read_excerpt` replaced
//! it.

use kenning_model::Id;
use kenning_presentation::Answer;
use kenning_presentation::budget::{ROWS_BYTES_MAX, take_rows};
use kenning_presentation::text::{clean, cut};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Meta;
use crate::arguments::{Ids, Whole};
use crate::code::counted;
use crate::memory::item::{as_data, one_line};
use crate::tool::{Effect, Tool, sight};
use crate::{Context, Stop};

pub(super) struct GetSectionText;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    section_ids: Ids,
    max_bytes_per: Option<Whole<1, 32_768>>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Output {
    results: Vec<Read>,
    hints: Hints,
    /// What was asked for and is not there.
    missing: Vec<String>,
    partial: bool,
    limit_reason: &'static str,
    session_id: String,
    meta: Meta,
}

#[derive(Serialize, JsonSchema)]
struct Read {
    section_id: String,
    title: String,
    doc_tag: String,
    text_truncated: String,
    bytes: usize,
    truncated: bool,
    source_blob_id: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Hints {
    next_tools: Vec<&'static str>,
}

const BYTES_DEFAULT: u64 = 8_192;
/// The largest size of one row, so that it leaves room for the others.
const ROW_BYTES_MAX: usize = 32 * 1024;

impl Tool for GetSectionText {
    const NAME: &'static str = "get_section_text";
    const ABOUT: &'static str = "Old `kb_read_excerpt`: the beginning of sections. Use if told to. Do not use otherwise. \
        Returns at most `max_bytes_per` (8192, max 32768) of each of at most 50 sections, 60 KiB in all.";
    const EFFECT: Effect = Effect::Reads;
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<Output>, Stop> {
        let bytes_max = input.max_bytes_per.map_or(BYTES_DEFAULT, |bytes| bytes.0) as usize;
        let snapshot = ctx.snapshot()?;
        let sight = sight(&snapshot, &ctx.scope_name(None)?)?;
        let (mut results, mut missing) = (Vec::new(), Vec::new());
        for name in &input.section_ids.0 {
            let stored = match Id::parse(name) {
                Some(id) => snapshot.section(id)?.filter(|stored| sight.sees_record(&stored.record)),
                None => None,
            };
            let Some(section) = stored.as_ref().and_then(|stored| stored.record.as_section()) else {
                missing.push(clean(name));
                continue;
            };
            let text = clean(&section.text);
            let shown = text[..text.floor_char_boundary(bytes_max)].to_owned();
            results.push(Read {
                section_id: name.clone(),
                title: section.title(),
                doc_tag: clean(&section.doc_tag),
                bytes: shown.len(),
                truncated: shown.len() < text.len(),
                text_truncated: shown,
                source_blob_id: None,
            });
        }
        let all = results.len();
        // Text that takes more bytes as JSON than as plain text is cut further.
        let results = take_rows(results, ROWS_BYTES_MAX, |read| {
            let text = cut(&read.text_truncated, ROW_BYTES_MAX / 4);
            Read { bytes: text.len(), truncated: true, text_truncated: text, ..read }
        });
        let is_cut = results.len() < all;
        let next_tools = match results.iter().any(|read| read.truncated) {
            true => vec!["kb.read_excerpt", "kb.extract_evidence"],
            false => Vec::new(),
        };
        Ok(Answer::text(
            Output {
                meta: Meta::of(&results, 0),
                results,
                hints: Hints { next_tools },
                missing,
                partial: is_cut,
                limit_reason: if is_cut { "byte_cap" } else { "none" },
                session_id: ctx.caller.session(),
            },
            text,
        ))
    }
}

fn text(output: &Output) -> String {
    let said = format!("Read {}.", counted(output.results.len(), "section"));
    let missing = match output.missing.is_empty() {
        true => String::new(),
        false => format!(" {} not there.", counted(output.missing.len(), "section")),
    };
    let lines = |read: &Read| {
        let more = if read.truncated { " (there is more)" } else { "" };
        let text = read.text_truncated.replace('\n', "\n   ");
        format!("{} {}{more}\n   {text}", read.section_id, one_line(&read.title, 300))
    };
    match output.results.is_empty() {
        true => format!("{said}{missing}"),
        false => {
            let all: Vec<String> = output.results.iter().map(lines).collect();
            format!("{said}{missing} {}", as_data(&all.join("\n")))
        }
    }
}
