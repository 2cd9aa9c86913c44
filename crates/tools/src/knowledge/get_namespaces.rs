//! `get_namespaces`: list the namespaces and their scopes.

use kenning_model::{DEFAULT, Scope};
use kenning_presentation::Answer;
use kenning_presentation::budget::{ROWS_BYTES_MAX, json_bytes};
use kenning_presentation::text::{clean, cut};
use kenning_storage::Tree;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

use super::current_name;
use crate::arguments::Name;
use crate::code::counted;
use crate::keyed::{ByName, Keyed};
use crate::memory::item::{as_data, one_line};
use crate::tool::{Effect, Tool};
use crate::{Context, Stop};

pub(crate) struct GetNamespaces;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Only this one.
    namespace: Option<Name>,
    /// long adds scopes, details their parents; default short.
    style: Option<Style>,
}

#[derive(Clone, Copy, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Style {
    #[default]
    Short,
    Long,
    Details,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    namespaces: Keyed<Namespace, ByName>,
}

#[derive(Serialize, JsonSchema)]
struct Namespace {
    description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Keyed<ScopeAbout, ByName>")]
    scopes: Option<Keyed<ScopeAbout, ByName>>,
}

#[derive(Serialize, JsonSchema)]
struct ScopeAbout {
    description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>")]
    parents: Option<Vec<String>>,
}

/// The length to which descriptions are cut when all of them together are too long.
const DESCRIPTION_BYTES: usize = 60;

impl Tool for GetNamespaces {
    const NAME: &'static str = "get_namespaces";
    const ABOUT: &'static str = "List namespaces and, by `style`, their scopes and parents. \
        Use first in a project without a scope, to reuse one before you create one. Do not use to find knowledge (`get_task_context`). \
        Returns all that fit 64 KiB; name a `namespace` for less.";
    const EFFECT: Effect = Effect::Reads;
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<Output>, Stop> {
        let snapshot = ctx.snapshot()?;
        let tree = snapshot.tree()?;
        let asked = input.namespace.map(|name| current_name(ctx, &snapshot, name.0)).transpose()?;
        let style = input.style.unwrap_or_default();
        let (namespaces, left_out) = fitting(&tree, asked.as_deref(), style);
        let at = snapshot.at().0;
        let mut about = json!({"as_of_tx_id": at});
        if left_out > 0 {
            about["left_out"] = json!({"count": left_out});
        }
        Ok(Answer {
            meta: Map::from_iter([("io.kenning/context".to_owned(), about)]),
            ..Answer::text(Output { namespaces }, |output| text(output, asked.as_deref(), at, left_out))
        })
    }
}

fn text(output: &Output, asked: Option<&str>, at: u64, left_out: usize) -> String {
    let at = format!("As of transaction {at}.");
    if let (Some(asked), true) = (asked, output.namespaces.0.is_empty()) {
        return format!("There is no namespace `{asked}`. {at} `create_namespace` makes it.");
    }
    let lines: Vec<String> =
        output.namespaces.0.iter().map(|(name, namespace)| namespace.lines(name)).collect();
    let many = counted(output.namespaces.0.len(), "namespace");
    let left_out = match left_out {
        0 => String::new(),
        many if asked.is_some() => {
            format!("\n{many} more did not fit; `kenning scopes` shows all on a terminal.")
        }
        many => format!("\n{many} more did not fit; name one `namespace`, or ask in `style` short."),
    };
    let names = match output.namespaces.0.iter().any(|(_, namespace)| namespace.scopes.is_some()) {
        true => " A scope is named `namespace:scope`.",
        false => "",
    };
    format!("Found {many}. {at}{names} {}{left_out}", as_data(&lines.join("\n")))
}

/// The namespaces with whole descriptions if these fit, otherwise with short ones, and only as many as fit;
/// and the number that was left out.
fn fitting(tree: &Tree, asked: Option<&str>, style: Style) -> (Keyed<Namespace, ByName>, usize) {
    let all = namespaces(tree, asked, style, usize::MAX);
    if json_bytes(&all) <= ROWS_BYTES_MAX {
        return (all, 0);
    }
    let mut short = namespaces(tree, asked, style, DESCRIPTION_BYTES);
    let (mut left_out, mut bytes) = (0, json_bytes(&short));
    while bytes > ROWS_BYTES_MAX {
        let Some((_, last)) = short.0.last_mut() else { break };
        // Scopes and namespaces are removed from the end, so the beginning stays whole.
        let gone = match last.scopes.as_mut().and_then(|scopes| scopes.0.pop()) {
            Some((name, scope)) => name.len() + json_bytes(&scope),
            None => short.0.pop().map_or(0, |(name, namespace)| name.len() + json_bytes(&namespace)),
        };
        left_out += 1;
        bytes = bytes.saturating_sub(gone);
    }
    (short, left_out)
}

fn namespaces(tree: &Tree, asked: Option<&str>, style: Style, bytes: usize) -> Keyed<Namespace, ByName> {
    let about = |scope: &Scope| ScopeAbout {
        description: cut(&clean(&scope.description), bytes),
        parents: (style == Style::Details).then(|| parents(tree, scope)),
    };
    let wanted = tree.namespaces().filter(|(_, it)| asked.is_none_or(|asked| asked == it.name));
    let namespace = |(id, it): (_, &kenning_model::Namespace)| {
        let scopes = || tree.scopes(id).map(|(_, scope)| (scope.name.clone(), about(scope))).collect();
        let namespace = Namespace {
            description: cut(&clean(&it.description), bytes),
            scopes: (style != Style::Short).then(|| Keyed::new(scopes())),
        };
        (it.name.clone(), namespace)
    };
    Keyed::new(wanted.map(namespace).collect())
}

/// The parents' names without the namespace, since all of them are in the same one.
fn parents(tree: &Tree, scope: &Scope) -> Vec<String> {
    let parents = tree.parents(scope).into_iter().filter_map(|parent| tree.get(parent));
    parents.map(|parent| parent.name.clone()).collect()
}

impl Namespace {
    fn lines(&self, name: &str) -> String {
        let mut lines = format!("{name}: {}", one_line(&self.description, 300));
        for (scope, about) in self.scopes.iter().flat_map(|scopes| &scopes.0) {
            let parents = match &about.parents {
                Some(parents) if scope != DEFAULT => format!(" (inherits from {})", parents.join(", ")),
                _ => String::new(),
            };
            lines.push_str(&format!("\n  {scope}{parents}: {}", one_line(&about.description, 300)));
        }
        lines
    }
}
