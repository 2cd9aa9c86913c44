//! `list_children`: the old name of `graph.children`.

use schemars::JsonSchema;
use serde::Deserialize;

use super::OldName;
use crate::arguments::{CONTEXT_BYTES_MAX, TERM_BYTES_MAX, Text, Whole};
use crate::graph::children::{self, Children};

pub(super) struct ListChildren;

const PAGE_SIZE_DEFAULT: u64 = 50;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    parent_id: Text<TERM_BYTES_MAX>,
    page_size: Option<Whole<1, 100>>,
    cursor: Option<Text<CONTEXT_BYTES_MAX>>,
}

impl OldName for ListChildren {
    const NAME: &'static str = "list_children";
    const ABOUT: &'static str = "Old name of `graph_children`. Use if told to. Do not use otherwise. Returns at most `page_size` (50).";
    type Input = Input;
    type New = Children;

    fn input(old: Input) -> children::Input {
        children::Input {
            parent_id: old.parent_id,
            page_size: old.page_size.or(Some(Whole(PAGE_SIZE_DEFAULT))),
            cursor: old.cursor,
            scope: None,
        }
    }
}
