//! What the tools over documents share: the `scope` argument, and the labels of sections that it selects.

use std::borrow::Cow;

use kenning_engine::SectionLabel;
use kenning_model::{Section, fold};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::json;

use crate::arguments::{NAME_BYTES_MAX, Text, Texts};
use crate::{Code, Context, Stop};

const NAMES_MAX: usize = 32;
type Names = Texts<0, NAMES_MAX, NAME_BYTES_MAX>;

/// Narrows a search; it never widens it.
#[derive(Clone, Default, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "an object such as {\"doc_tags\": [\"api\"]}; documents are read from the scope that the server was started in"
)]
pub(crate) struct Scope {
    /// The name of the server's namespace.
    project_id: Option<Text<NAME_BYTES_MAX>>,
    environment: Option<Text<NAME_BYTES_MAX>>,
    doc_tags: Option<Names>,
    repositories: Option<Names>,
}

/// The schema is written by hand to keep it short, because twelve tools repeat it.
impl JsonSchema for Scope {
    fn schema_name() -> Cow<'static, str> {
        "DocumentScope".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let name = json!({"type": "string", "maxLength": NAME_BYTES_MAX});
        let names = json!({"type": "array", "maxItems": NAMES_MAX, "items": name});
        json_schema!({"type": "object", "properties": {
            "project_id": name, "environment": name, "doc_tags": names, "repositories": names,
        }})
    }
}

impl Scope {
    /// Refuses a `project_id` that is not the namespace of the server.
    pub(crate) fn check(&self, ctx: &Context<'_>) -> Result<(), Stop> {
        let own = ctx.scope_name(None)?.namespace;
        match &self.project_id {
            Some(project) if project.0 != own => {
                let asked = kenning_presentation::text::quote(&project.0, 64);
                let message = format!(
                    "this server is bound to project `{own}`, not to {asked}; leave `project_id` out"
                );
                Err(Stop::new(Code::ScopeViolation, message))
            }
            _ => Ok(()),
        }
    }

    /// The labels that sections must have; an empty list accepts every section.
    pub(crate) fn labels(&self) -> Vec<(SectionLabel, Vec<String>)> {
        let list = |texts: &Option<Names>| texts.as_ref().map(|texts| texts.0.clone()).unwrap_or_default();
        vec![
            (SectionLabel::DocTag, list(&self.doc_tags)),
            (SectionLabel::Repository, list(&self.repositories)),
            (SectionLabel::Environment, self.environment.iter().map(|name| name.0.clone()).collect()),
        ]
    }
}

/// The labels of a section by which a search can be narrowed.
pub(crate) struct Labels<'a> {
    pub(crate) doc_tag: &'a str,
    pub(crate) repository: Option<&'a str>,
    pub(crate) environment: Option<&'a str>,
}

impl<'a> Labels<'a> {
    pub(crate) fn of(section: &'a Section) -> Labels<'a> {
        Labels {
            doc_tag: &section.doc_tag,
            repository: section.repository.as_deref(),
            environment: section.environment.as_deref(),
        }
    }

    /// Whether the section has one of the values in each list that is not empty. The index uses the same
    /// rule.
    pub(crate) fn fit(&self, only: &[(SectionLabel, Vec<String>)]) -> bool {
        only.iter().filter(|(_, values)| !values.is_empty()).all(|(label, values)| {
            let own = match label {
                SectionLabel::DocTag => Some(self.doc_tag),
                SectionLabel::Repository => self.repository,
                SectionLabel::Environment => self.environment,
            };
            own.is_some_and(|own| values.iter().any(|value| fold(value) == fold(own)))
        })
    }
}
