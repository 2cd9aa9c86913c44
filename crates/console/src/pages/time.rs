//! Time: chooses the transaction as of which every page is shown.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use kenning_engine::Error;
use kenning_model::TxId;
use maud::html;

use crate::BASE;
use crate::request::{Page, PageContext, Trouble};
use crate::show::{ago, moment};

/// The steps back in time that the page offers, in hours.
const STEPS: [(i64, &str); 5] = [
    (1, "an hour ago"),
    (24, "a day ago"),
    (7 * 24, "a week ago"),
    (30 * 24, "a month ago"),
    (365 * 24, "a year ago"),
];

pub(crate) fn show(ctx: &PageContext<'_>) -> Result<Page, Trouble> {
    let head = ctx.console.engine.head()?;
    let chosen = ctx.as_of.unwrap_or(head);
    let asked = ctx.fields.get("moment");
    let found = match asked {
        None => None,
        Some(text) => Some(at(ctx, text)?),
    };
    let steps: Vec<(TxId, &str)> = STEPS
        .iter()
        .map(|(hours, name)| {
            let moment = ctx.now - jiff::SignedDuration::from_hours(*hours);
            Ok((ctx.engine.newest_at(moment)?, *name))
        })
        .collect::<Result<_, Error>>()?;
    Page::new(
        "Time",
        html! {
            h1 { "See the store as it was" }
            p.quiet { "Nothing is overwritten, so every page can be shown as of any transaction. Links keep the moment until you come back to now." }
            form.stack action=(BASE) {
                label for="as_of" { "After transaction " output #chosen for="as_of" { (chosen) } " of " (head) }
                input #as_of type="range" name="as_of" min="0" max=(head) value=(chosen) data-shows="chosen";
                p.do-line { button.first type="submit" { "Look" } }
            }
            form.stack action=(format!("{BASE}/time")) {
                label for="moment" { "At a time (UTC)" }
                div.row {
                    input #moment type="datetime-local" name="moment" value=(asked.unwrap_or_default());
                    button type="submit" { "Find" }
                }
            }
            @if let Some((tx, time)) = found {
                p { "The newest transaction then was " strong { "#" (tx) } @if let Some(time) = time { ", made " (moment(time)) } ". "
                    a.button href=(format!("{BASE}?as_of={tx}")) { "Look" } }
            }
            section {
                h2 { "Quick" }
                ul.plain { @for (tx, name) in steps {
                    li { a href=(format!("{BASE}?as_of={tx}")) { (name) } " " span.quiet { "#" (tx) } }
                } }
            }
            @if let Some(tx) = ctx.as_of {
                p { "Now you look at #" (tx) ", " (ago(ctx, ctx.judged_at)) "." }
            }
        },
    )
}

/// The newest transaction at a given time, and the time at which it was made.
fn at(ctx: &PageContext<'_>, text: &str) -> Result<(TxId, Option<jiff::Timestamp>), Trouble> {
    let wrong = || Trouble::Refused {
        code: "INVALID_ARGUMENT".to_owned(),
        message: "The time is of the form 2026-01-31T12:00.".to_owned(),
    };
    let time: DateTime = text.parse().map_err(|_| wrong())?;
    let time = time.to_zoned(TimeZone::UTC).map_err(|_| wrong())?.timestamp();
    let tx = ctx.console.engine.newest_at(time)?;
    Ok((tx, ctx.snapshot.time_of(tx)?))
}
