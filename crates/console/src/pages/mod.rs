//! One file per page.

mod contradictions;
mod documents;
pub(crate) mod entry;
mod graph;
mod history;
mod home;
mod patterns;
mod search;
mod sessions;
mod settings;
mod task;
mod time;

use crate::request::Show;

pub(crate) const HOME: Show = home::show;

/// The pages by the paths of their addresses.
pub(crate) const ALL: &[(&str, Show)] = &[
    ("", home::show),
    ("/search", search::show),
    ("/entry/{id}", entry::show),
    ("/entry/{id}/edit", entry::show_edit),
    ("/entry/{id}/move", entry::show_move),
    ("/entry/{id}/delete", entry::show_delete),
    ("/new", entry::show_new),
    ("/history", history::show),
    ("/tx/{id}", history::show_transaction),
    ("/tx/{id}/undo", history::show_undo),
    ("/undo", history::show_undo_many),
    ("/contradictions", contradictions::show),
    ("/task", task::show),
    ("/time", time::show),
    ("/documents", documents::show),
    ("/document/{id}", documents::show_document),
    ("/patterns", patterns::show),
    ("/graph", graph::show),
    ("/sessions", sessions::show),
    ("/settings", settings::show),
];
