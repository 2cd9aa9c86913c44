//! Patterns: the catalogue as cards.

use kenning_engine::PatternQuestion;
use kenning_model::{EntityType, Id, clean};
use maud::html;

use crate::request::{Page, PageContext, Trouble};
use crate::show::{counted, cut, number};

const CARDS_MAX: usize = 60;
const SUMMARY_BYTES: usize = 200;

pub(crate) fn show(ctx: &PageContext<'_>) -> Result<Page, Trouble> {
    let sight = ctx.everywhere();
    let (words, category) = (ctx.fields.get("words"), ctx.fields.get("category"));
    let overview = ctx.snapshot.catalogue(&sight, None)?;
    let ids: Vec<Id> = match words {
        Some(text) => {
            let question = PatternQuestion { sight: &sight, text, category, difficulty: None, loosely: true };
            ctx.snapshot.search_patterns(&question)?.ids
        }
        None => {
            let shown = ctx.snapshot.catalogue(&sight, category)?;
            let mut ids = Vec::new();
            for (name, _) in shown.names.iter().take(CARDS_MAX) {
                ids.extend(ctx.snapshot.pattern(&sight, name)?.map(|stored| stored.id));
            }
            ids
        }
    };
    let total = match words {
        Some(_) => ids.len() as u64,
        None => category.map_or(overview.patterns, |_| ids.len() as u64),
    };
    let shown: Vec<Id> = ids.into_iter().take(CARDS_MAX).collect();
    let records = ctx.snapshot.records(EntityType::Document, &shown)?;
    Page::new(
        "Patterns",
        html! {
            h1 { "Patterns " span.count { (number(total)) } }
            @if overview.patterns == 0 {
                section.empty { h2 { "There is no catalogue" } p { "Take one in with " code { "kenning ingest --kind patterns DIR" } "." } }
            } @else {
                form.search action=(format!("{}/patterns", crate::BASE)) aria-label="Find patterns" {
                    @if let Some(tx) = ctx.as_of { input type="hidden" name="as_of" value=(tx); }
                    label.hidden for="words" { "Words" }
                    input #words type="search" name="words" value=(words.unwrap_or_default()) placeholder="What the pattern is for";
                    label.hidden for="category" { "Category" }
                    select #category name="category" {
                        option value="" { "Every category" }
                        @for (name, many) in &overview.categories { option value=(name) selected[category == Some(name.as_str())] { (name) " (" (many) ")" } }
                    }
                    button type="submit" { "Find" }
                }
                ul.cards { @for stored in records.into_iter().flatten() {
                    @if let Some((document, pattern)) = stored.record.as_document().and_then(|document| Some((document, document.pattern.as_ref()?))) {
                        li.card data-item {
                            h2 { a data-open href=(ctx.to(&format!("/document/{}", stored.id))) { (clean(&document.title)) } }
                            p.text { (cut(&pattern.summary, SUMMARY_BYTES)) }
                            p.meta { span.tag { (clean(&pattern.category)) } @if let Some(difficulty) = &pattern.difficulty { " " span.tag { (clean(difficulty)) } } }
                        }
                    }
                } }
                @if total > CARDS_MAX as u64 { p.quiet { "Shown are " (CARDS_MAX) " of " (counted(total, "pattern")) "; name a category or words." } }
            }
        },
    )
}
