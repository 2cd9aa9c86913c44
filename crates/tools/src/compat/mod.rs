//! Tools under their old names, with the old arguments, defaults and fields. Each is a few lines over the
//! tool that replaced it.

mod describe_nodes;
mod expand_neighbors;
mod get_entities_for_sections;
mod get_paths_between;
mod get_section_text;
mod get_sections_for_entities;
mod list_children;
mod list_parents;
mod search_sections;

use std::marker::PhantomData;

use kenning_presentation::Answer;
use kenning_presentation::budget::json_bytes;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::tool::{Effect, Tool, ToolRow, row};
use crate::{Context, Stop};

pub(crate) fn tools() -> Vec<ToolRow> {
    vec![
        row::<search_sections::SearchSections>(),
        row::<get_section_text::GetSectionText>(),
        row::<Renamed<describe_nodes::DescribeNodes>>(),
        row::<Renamed<expand_neighbors::ExpandNeighbors>>(),
        row::<Renamed<get_paths_between::GetPathsBetween>>(),
        row::<Renamed<list_children::ListChildren>>(),
        row::<Renamed<list_parents::ListParents>>(),
        row::<Renamed<get_entities_for_sections::GetEntitiesForSections>>(),
        row::<Renamed<get_sections_for_entities::GetSectionsForEntities>>(),
    ]
}

/// An old name for a tool whose reply is the same under the new name.
trait OldName {
    const NAME: &'static str;
    const ABOUT: &'static str;
    type Input: DeserializeOwned + JsonSchema;
    type New: Tool;

    fn input(old: Self::Input) -> <Self::New as Tool>::Input;
}

struct Renamed<T>(PhantomData<T>);

impl<T: OldName> Tool for Renamed<T> {
    const NAME: &'static str = T::NAME;
    const ABOUT: &'static str = T::ABOUT;
    const EFFECT: Effect = Effect::Reads;
    type Input = T::Input;
    type Output = <T::New as Tool>::Output;

    fn call(ctx: &Context<'_>, input: Self::Input) -> Result<Answer<Self::Output>, Stop> {
        T::New::call(ctx, T::input(input))
    }
}

/// What the old replies say of their size, inside of the reply.
#[derive(Serialize, JsonSchema)]
struct Meta {
    usage: Size,
}

#[derive(Serialize, JsonSchema)]
struct Size {
    tokens_estimate: usize,
    bytes_returned: usize,
    duplicates_suppressed: usize,
}

impl Meta {
    fn of<T: Serialize>(results: &[T], duplicates_suppressed: usize) -> Meta {
        let bytes_returned = json_bytes(&results);
        Meta {
            usage: Size {
                tokens_estimate: bytes_returned.div_ceil(4),
                bytes_returned,
                duplicates_suppressed,
            },
        }
    }
}
