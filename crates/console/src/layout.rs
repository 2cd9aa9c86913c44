//! The common parts of all pages: the head, the links to the other pages, the search field, and the note
//! about the last action.

use kenning_model::TxId;
use kenning_tools::Access;
use maud::{DOCTYPE, Markup, html};

use crate::fields::address;
use crate::request::{Page, PageContext, Trouble};
use crate::show::{ago, button, change_line, moment};
use crate::{BASE, assets};

/// The pages that every page links to: path, name.
const PAGES: [(&str, &str); 11] = [
    ("", "Home"),
    ("/search", "Search"),
    ("/history", "History"),
    ("/contradictions", "Contradictions"),
    ("/task", "Task"),
    ("/documents", "Documents"),
    ("/patterns", "Patterns"),
    ("/graph", "Graph"),
    ("/sessions", "Sessions"),
    ("/time", "Time"),
    ("/settings", "Settings"),
];

/// The note about the last action lists at most this many changes.
const DONE_CHANGES_MAX: usize = 3;

pub(crate) fn page(ctx: &PageContext<'_>, page: &Page) -> Markup {
    let head = ctx.snapshot.at();
    html! {
        (DOCTYPE)
        html lang="en" {
            (head_of(&page.title, true))
            body data-head=(head) data-live=[ctx.as_of.is_none().then(|| format!("{BASE}/live?since={head}"))] {
                a.skip href="#main" { "Skip to the content" }
                header.bar {
                    a.brand href=(ctx.to("")) { "Kenning" }
                    form.find role="search" action=(format!("{BASE}/search")) {
                        @if let Some(tx) = ctx.as_of { input type="hidden" name="as_of" value=(tx); }
                        input #find type="search" name="q" placeholder="Search what agents know" aria-label="Search"
                            value=(ctx.fields.get("q").unwrap_or_default()) autocomplete="off" maxlength="2000";
                    }
                    @if ctx.visitor.can_sign_out {
                        form.inline method="post" action=(format!("{BASE}/sign-out")) {
                            input type="hidden" name="token" value=(ctx.visitor.form_token);
                            button.quiet type="submit" { "Sign out" }
                        }
                    }
                }
                nav.pages aria-label="Pages" {
                    ul {
                        @for (path, name) in PAGES {
                            li { a href=(ctx.to(path)) aria-current=[is_current(ctx, path).then_some("page")] { (name) } }
                        }
                    }
                }
                main #main tabindex="-1" {
                    @if let Some(tx) = ctx.as_of { (looking_back(ctx, tx)) }
                    @if let Some(tx) = ctx.fields.number("done") { (done(ctx, TxId(tx))) }
                    (page.body)
                }
                p.news role="status" hidden { }
                (help())
            }
        }
    }
}

fn head_of(title: &str, has_scripts: bool) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) " · Kenning" }
            link rel="icon" href=(assets::ICON.address);
            link rel="stylesheet" href=(assets::STYLE.address);
            @if has_scripts {
                @for script in assets::SCRIPTS.iter() { script type="module" src=(script.address) {} }
            }
        }
    }
}

fn is_current(ctx: &PageContext<'_>, path: &str) -> bool {
    let own = ctx.path.trim_end_matches('/');
    let path = format!("{BASE}{path}");
    match path == BASE {
        true => own == BASE,
        false => own.starts_with(&path),
    }
}

fn looking_back(ctx: &PageContext<'_>, tx: TxId) -> Markup {
    let kept = ctx.fields.iter().filter(|(name, _)| !["as_of", "done"].contains(name));
    html! {
        div.note.past role="note" {
            p { "You see the store as it was after transaction " strong { (tx) } ", " (moment(ctx.judged_at)) "." }
            p { a href=(ctx.to("/time")) { "Another time" } " · " a href=(address(ctx.path, kept)) { "Back to now" } }
        }
    }
}

/// The visitor's last action, with a button that undoes it.
fn done(ctx: &PageContext<'_>, tx: TxId) -> Markup {
    let found = ctx.transaction(tx, DONE_CHANGES_MAX).ok().flatten();
    let number = tx.to_string();
    html! {
        @if let Some(found) = found {
            div.note.done role="status" {
                ul.changes { @for change in &found.changes { li { (change_line(ctx, change)) } } }
                p {
                    "Transaction " a.tx href=(ctx.to(&format!("/tx/{tx}"))) { "#" (tx) } ", " (ago(ctx, found.at)) ". "
                    @match found.undone_by {
                        Some(by) => { "Undone by #" (by) "." },
                        None if ctx.writes() => {
                            (button(ctx, "undo", "Undo", &[("tx", number.as_str())], "undo"))
                        },
                        None => {},
                    }
                }
            }
        }
    }
}

fn help() -> Markup {
    let keys = [
        ("/", "search"),
        ("j k", "next, previous in a list"),
        ("Enter", "open"),
        ("u", "undo what was just done, or what is shown"),
        ("?", "this help"),
    ];
    html! {
        dialog #help aria-labelledby="help-title" {
            h2 #help-title { "Keys" }
            dl.keys { @for (key, what) in keys { dt { kbd { (key) } } dd { (what) } } }
            form method="dialog" { button type="submit" { "Close" } }
        }
    }
}

pub(crate) fn trouble_page(trouble: &Trouble) -> Page {
    Page {
        title: "Not done".to_owned(),
        body: html! {
            h1 { @if matches!(trouble, Trouble::NotFound(_) | Trouble::Store(_)) { "Nothing here" } @else { "Not done" } }
            p { (trouble.message()) }
            p { a href=(BASE) { "Home" } }
        },
    }
}

/// A page for visitors who may see nothing of the store.
pub(crate) fn bare(title: &str, text: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head_of(title, false))
            body.bare { main #main { h1 { (title) } p { (text) } p { a href=(BASE) { "Home" } } } }
        }
    }
}

/// A page without the links to the other pages.
pub(crate) fn bare_page(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head_of(title, true))
            body.bare { main #main { (body) } }
        }
    }
}

/// The page on which people enter their key to sign in. `trouble` tells why the last key was refused.
pub fn sign_in_page(form_token: &str, trouble: Option<&str>) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            (head_of("Sign in", false))
            body.bare {
                main #main {
                    h1 { "Kenning" }
                    form.stack method="post" action=(format!("{BASE}/sign-in")) {
                        input type="hidden" name="token" value=(form_token);
                        label for="key" { "Key" }
                        input #key type="password" name="key" required autocomplete="current-password" autofocus
                            aria-describedby=[trouble.map(|_| "trouble")];
                        @if let Some(trouble) = trouble { p #trouble.trouble role="alert" { (trouble) } }
                        button.first type="submit" { "Sign in" }
                    }
                    p.quiet { "An administrator makes a key with " code { "kenning token create" } "." }
                }
            }
        }
    };
    markup.into_string()
}

/// The reason why a page has no buttons for changes; `None` if it has.
pub(crate) fn cannot_write(ctx: &PageContext<'_>) -> Option<&'static str> {
    match (ctx.as_of, ctx.visitor.access) {
        (Some(_), _) => Some("The past can't be changed; go back to now."),
        (None, Access::ReadOnly) => Some("Kenning was started read-only."),
        (None, Access::ReadWrite) => None,
    }
}
