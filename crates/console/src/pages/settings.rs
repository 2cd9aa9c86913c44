//! Settings: where the store is kept, who has access, and the commands for backups and exports.

use kenning_model::clean;
use kenning_tools::{Access, definitions};
use maud::html;

use crate::request::{Page, PageContext, Trouble};
use crate::show::{moment, number};

/// Commands for the terminal, and their purposes.
const COMMANDS: [(&str, &str); 6] = [
    ("kenning backup FILE", "copy the store while sessions go on"),
    ("kenning restore FILE", "put a backup in its place"),
    ("kenning verify", "check the whole store against its log"),
    ("kenning ingest DIR", "take documents in"),
    ("kenning token create NAME", "make a key for HTTP"),
    ("kenning token revoke ID", "end a key"),
];

/// The limits of a call, as in the contract.
const LIMITS: [(&str, &str); 5] = [
    ("Text of an entry", "32 KiB"),
    ("Topic", "512 bytes"),
    ("Tags", "32 of 64 bytes"),
    ("A reply", "64 KiB in each channel"),
    ("Idempotency keys", "kept for 7 days"),
];

pub(crate) fn show(ctx: &PageContext<'_>) -> Result<Page, Trouble> {
    let installation = &ctx.console.installation;
    let principal = &ctx.visitor.caller.principal;
    let is_owner = principal.is_owner();
    let keys = installation.keys.as_ref().filter(|_| is_owner).map(|keys| keys());
    let access = if ctx.visitor.access == Access::ReadOnly { "read-only" } else { "reads and writes" };
    Page::new(
        "Settings",
        html! {
            h1 { "Settings" }
            section { h2 { "You" } dl.wide-list {
                dt { "Name in the log" } dd { (clean(&principal.actor)) }
                dt { "Rights" } dd { @if is_owner { "everything: the store is yours" } @else { (rights(ctx)) } }
                dt { "This console" } dd { (access) }
            } }
            section { h2 { "Store" } dl.wide-list {
                dt { "Kenning" } dd { (installation.version) }
                @if is_owner && !installation.place.is_empty() { dt { "Data" } dd.long { code { (clean(&installation.place)) } } }
                @if is_owner { dt { "Store" } dd { code { (ctx.snapshot.store()) } } }
                dt { "Newest transaction" } dd { (number(ctx.snapshot.at().0)) }
                dt { "Search index" } dd { @if ctx.engine.is_warm() { "in memory" } @else { "read from the disk as needed" } }
                dt { "Tools" } dd { (definitions().len()) }
            } }
            @if let Some(keys) = keys {
                section { h2 { "Keys for HTTP" }
                    @if keys.is_empty() { p.quiet { "There are none." } }
                    @else { div.wide tabindex="0" role="region" aria-label="Keys" { table {
                        thead { tr { th scope="col" { "Name" } th scope="col" { "Id" } th scope="col" { "Rights" } th scope="col" { "Until" } } }
                        tbody { @for key in &keys { tr { th scope="row" { (clean(&key.name)) } td { code { (clean(&key.id)) } } td { (clean(&key.rights)) } td { @match key.expires_at { Some(at) => (moment(at)), None => "revoked" } } } } }
                    } } }
                }
            }
            section { h2 { "Limits" } dl.wide-list { @for (what, limit) in LIMITS { dt { (what) } dd { (limit) } } } }
            section { h2 { "On the terminal" } dl.wide-list { @for (command, what) in COMMANDS { dt { code { (command) } } dd { (what) } } } }
        },
    )
}

/// The rights of the visitor as text: `acme: write, docs: read`
fn rights(ctx: &PageContext<'_>) -> String {
    let principal = &ctx.visitor.caller.principal;
    let named = ctx.tree.namespaces().filter_map(|(id, namespace)| {
        principal.right_in(id).map(|right| format!("{}: {}", namespace.name, right.as_str()))
    });
    named.collect::<Vec<_>>().join(", ")
}
