//! No reply shows anything that the scope does not see. The server lists its own tools, resources and
//! prompts; each of them has a row here with its calls, which are made from every scope.

mod rows;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use kenning_server::client::{Client, Era};
use kenning_testkit::TempStore;
use serde_json::{Value, json};

use self::rows::{Answers, Asker, Call, Item, Passage, Row, Shows, rows};
use self::world::{COMMON, Kind, Reach, World, markers};
use crate::http::{HttpServer, file_with, new_key};
use crate::subscriptions::SOON;
use crate::{connect, server, start, start_in, text, with_store};

/// Scopes that were deleted: nothing is seen from them any more. A scope that was only renamed is followed.
const GONE: [&str; 2] = ["acme:doomed", "gone:default"];
/// Scopes for which the test also starts servers of their own.
const DEFAULTS: [&str; 5] = ["acme:shop", "acme:nomad", "acme:later", "global:tools", "acme:doomed"];

/// The distance between two scopes that questions are asked from; 1 means all scopes, which takes minutes. A
/// database or HTTP only adds another way to the same checks. `KENNING_WHOLE_MATRIX` asks from all scopes
/// everywhere.
fn step(of_scopes: usize) -> usize {
    let is_set = |name: &str| std::env::var_os(name).is_some();
    match (is_set("KENNING_WHOLE_MATRIX"), is_set("KENNING_TEST_DATABASE")) {
        (true, _) => 1,
        (false, true) => of_scopes.max(24),
        (false, false) => of_scopes,
    }
}

#[test]
fn no_reply_shows_what_the_scope_does_not_see() {
    let store = TempStore::new();
    // Patterns are documents, but while there are no other documents the tools for documents are not listed
    // automatically.
    let start_with_all = || {
        let mut command = server(store.path());
        command.args(["--toolsets", "memory,knowledge,patterns,kb,graph"]);
        Client::start(command, Era::Modern, "isolation").expect("the server starts")
    };
    let mut author = start_with_all();
    let world = World::build(&mut author, store.path());
    author.finish().expect("the server ends");
    // A session always sees what it has written itself, so another session asks.
    let mut client = start_with_all();
    let listed = Listed::ask(&mut client);
    let rows = rows();
    listed.check_rows(&rows);
    check_writes(&world, &rows);
    let names: Vec<&str> = world.now().names().chain(GONE).collect();
    let askers: Vec<Asker> = names.iter().step_by(step(1)).map(|name| Asker::naming(name)).collect();
    for row in &rows {
        if matches!(row.answers, Answers::OfServer(_)) {
            continue;
        }
        let (mut may_show, mut has_shown) = (false, false);
        for asker in &askers {
            let calls = listed.calls(row, &world, asker);
            listed.check_arguments(row, &calls);
            for call in calls {
                may_show |= call.reach != Reach::Nothing;
                has_shown |= Asking { client: &mut client, world: &world, asker }.check(&call);
            }
        }
        assert_eq!(has_shown, may_show, "{:?} has shown what was stored", row.item);
    }
    client.finish().expect("the server ends");

    // Some calls are answered only for the server's own scope, so each scope gets a server of its own.
    let mut other = start_in(store.path(), Era::Modern, "another", "acme:shop");
    let of_others = passages(&mut other);
    assert!(!of_others.is_empty(), "a search from acme:shop finds something");
    let mut shown = vec![(false, false); rows.len()];
    for name in names.iter().step_by(step(1)) {
        let mut client = start_in(store.path(), Era::Modern, "isolation", name);
        let asker = Asker::of_server(name, &mut client, &of_others);
        for (row, (may_show, has_shown)) in rows.iter().zip(&mut shown) {
            if !matches!(row.answers, Answers::OfServer(_)) {
                continue;
            }
            let calls = listed.calls(row, &world, &asker);
            listed.check_arguments(row, &calls);
            for call in calls {
                *may_show |= call.reach != Reach::Nothing;
                *has_shown |= Asking { client: &mut client, world: &world, asker: &asker }.check(&call);
            }
        }
    }
    for (row, (may_show, has_shown)) in rows.iter().zip(shown) {
        assert_eq!(has_shown, may_show, "{:?} has shown what was stored", row.item);
    }

    // The same again with all entries in segments of the index, from servers of their own.
    let mut rebuild = Command::new(env!("CARGO_BIN_EXE_kenning"));
    let rebuild = with_store(rebuild.arg("rebuild").arg("--data-dir").arg(store.path()), store.path());
    let rebuilt = rebuild.output().expect("it runs");
    assert!(rebuilt.status.success(), "{rebuilt:?}");
    for name in DEFAULTS.into_iter().step_by(step(1)) {
        let mut client = start_in(store.path(), Era::Legacy, "isolation", name);
        let asker = Asker::of_server(name, &mut client, &of_others);
        for call in rows.iter().flat_map(|row| listed.calls(row, &world, &asker)) {
            Asking { client: &mut client, world: &world, asker: &asker }.check(&call);
        }
    }
}

/// Principals with rights in some namespaces: the value of `--namespaces`, the names of these namespaces with
/// their old names, and the scope of calls that name none.
const PRINCIPALS: [(&str, &[&str], &str); 3] = [
    ("acme", &["acme"], "acme:shop"),
    ("beta=write,global=read", &["beta", "global"], "beta:worker"),
    ("omega=read", &["omega", "zeta"], "omega:default"),
];

/// A server that is confined to some namespaces shows nothing of the others and changes nothing there,
/// whatever scope a call names and whatever id it uses.
#[test]
fn a_principal_reaches_no_other_namespace() {
    let store = TempStore::new();
    let mut author = start(store.path(), Era::Modern, "isolation");
    let world = World::build(&mut author, store.path());
    author.finish().expect("the server ends");
    let rows = rows();
    for (granted, namespaces, home) in PRINCIPALS {
        let mut command = server(store.path());
        command.args(["--toolsets", "all", "--namespaces", granted, "--scope", home]);
        let client = Client::start(command, Era::Modern, "isolation").expect("the server starts");
        check_principal(client, &world, &rows, (granted, namespaces, home), step(1));
    }
    check_nothing_is_left(&store, &world);
}

/// The same test with a key over HTTP, through `serve --connect`.
#[test]
fn a_key_reaches_no_other_namespace_over_http() {
    let store = TempStore::new();
    let mut author = start(store.path(), Era::Modern, "isolation");
    let world = World::build(&mut author, store.path());
    author.finish().expect("the server ends");
    // The test sends requests as fast as it can, so the limits are raised.
    let limits = r#"{"requests_per_second": 1000000, "writes_per_second": 1000000}"#;
    let limits = file_with(store.path(), "limits.json", limits);
    let remote =
        HttpServer::start(store.path(), &["--toolsets", "all", "--auth", "keys", "--limits", &limits]);
    let (granted, namespaces, home) = PRINCIPALS[1];
    let (key, _) = new_key(store.path(), &["isolation", "--namespaces", granted, "--scope", home]);
    let client = connect::start(&remote.url, Era::Modern, "isolation", Some(&key));
    check_principal(client, &world, &rows(), (granted, namespaces, home), step(12));
    check_nothing_is_left(&store, &world);
}

fn check_principal(
    mut client: Client,
    world: &World,
    rows: &[Row],
    (granted, namespaces, home): (&str, &[&str], &str),
    step: usize,
) {
    let listed = Listed::ask(&mut client);
    let own = Asker::of_server(home, &mut client, &[]);
    let named = world.now().names().chain(GONE).step_by(step).map(Asker::naming);
    let mut has_shown = false;
    for asker in named.chain([own]) {
        let of_principal = OfPrincipal { world, namespaces, granted };
        for row in rows {
            // Such a call is answered for the server's own scope and does not name a scope.
            if matches!(row.answers, Answers::OfServer(_)) && !asker.is_default {
                continue;
            }
            for call in listed.calls(row, world, &asker) {
                let mut asking = Asking { client: &mut client, world, asker: &asker };
                has_shown |= of_principal.check(&mut asking, &call);
            }
        }
    }
    assert!(has_shown, "{granted} sees what is theirs");
    check_foreign_writes(&mut client, world, namespaces, granted, step);
    client.finish().expect("the server ends");
}

fn check_nothing_is_left(store: &TempStore, world: &World) {
    let mut owner = start(store.path(), Era::Modern, "owner");
    let newest = crate::call(&mut owner, "history", json!({"limit": 100, "since_tx_id": world.head}));
    for item in newest["items"].as_array().expect("a list") {
        let is_taken_back = item["tool"] == "undo" || item["undone_by"].is_u64();
        assert!(is_taken_back, "a principal has left something behind: {item}");
    }
}

/// What a principal may see, in addition to what the world knows about scopes.
struct OfPrincipal<'a> {
    world: &'a World,
    namespaces: &'a [&'a str],
    granted: &'a str,
}

impl OfPrincipal<'_> {
    /// Checks that no text, id or name in the replies belongs to another namespace. True if the replies show
    /// something that was stored.
    fn check(&self, asking: &mut Asking<'_>, call: &Call<'_>) -> bool {
        let replies = asking.pages(call);
        let from = &asking.asker.name;
        let asked = format!("{} {} from {from} as {}", call.method, call.params, self.granted);
        let within = self.world.within_namespaces(from, call.reach, self.namespaces);
        let ever = self.world.within_namespaces(from, Reach::Changes(None), self.namespaces);
        let unseen = self.world.ids_outside(self.namespaces);
        let sent = call.params.to_string();
        let mut has_shown = false;
        for reply in &replies {
            let named = unseen.iter().find(|id| reply.contains(**id) && !sent.contains(**id));
            assert_eq!(named, None, "{asked} names it: {reply}");
            let named = self.world.names_outside(self.namespaces).into_iter().find(|name| {
                let quoted = [format!("`{name}`"), format!("\"{name}\"")];
                // A name that the caller has sent may be in the reply.
                quoted.iter().any(|name| reply.contains(name)) && name != from && !sent.contains(name)
            });
            assert_eq!(named, None, "{asked} names a scope of another namespace: {reply}");
            for marker in markers(reply) {
                let is_known = within.iter().chain(&ever).any(|word| word.starts_with(marker));
                assert!(is_known, "{asked} shows {marker}: {reply}");
                has_shown = true;
            }
        }
        has_shown
    }
}

/// A write with an id or number of another namespace is refused in the same words as a write with an id that
/// does not exist.
fn check_foreign_writes(client: &mut Client, world: &World, namespaces: &[&str], granted: &str, step: usize) {
    let nothing = "ZZZZZZZZZZ";
    for id in world.ids_outside(namespaces).into_iter().step_by(step) {
        let calls = |id: &str| {
            [
                ("update", json!({"id": id, "content": "taken over", "expected_version": 77})),
                ("update_knowledge", json!({"id": id, "content": "taken over"})),
                ("delete", json!({"id": id})),
                ("delete", json!({"id": id, "entity_type": "triple"})),
                ("delete_knowledge", json!({"id": id})),
                ("resolve_knowledge_collision", json!({"active_id": id, "suppressed_ids": []})),
                ("history", json!({"id": id})),
                ("query", json!({"ids": [id]})),
            ]
        };
        for ((tool, foreign), (_, unknown)) in calls(id).into_iter().zip(calls(nothing)) {
            let mut answer =
                |arguments: Value| client.call(tool, arguments).expect("the server answers").to_string();
            let foreign = answer(foreign).replace(id, nothing);
            assert_eq!(foreign, answer(unknown), "{tool} of {id} as {granted}");
        }
    }
    for tx in (1..=world.head).step_by(step) {
        let planned = client.call("undo", json!({"tx_id": tx, "any_actor": true, "dry_run": true}));
        let planned = planned.expect("the server answers").to_string();
        let named = world.ids_outside(namespaces).into_iter().find(|id| planned.contains(*id));
        assert_eq!(named, None, "undo of {tx} as {granted}: {planned}");
    }
}

#[test]
fn a_cursor_of_another_scope_is_refused() {
    let store = TempStore::new();
    let mut client = start(store.path(), Era::Modern, "isolation");
    let world = World::build(&mut client, store.path());
    for tool in ["query", "query_graph", "history"] {
        let first = crate::call(&mut client, tool, json!({"scope": "acme:shop", "limit": 1}));
        for name in world.now().names().filter(|name| *name != "acme:shop") {
            let arguments = json!({"scope": name, "limit": 1, "cursor": first["next_cursor"]});
            let refused = client.call(tool, arguments).expect("the server answers");
            assert_eq!(refused["error"]["code"], "INVALID_ARGUMENT", "{tool} from {name}: {refused}");
        }
    }
}

/// The error of a refused call, with the id replaced.
fn refusal_of(client: &mut Client, tool: &str, arguments: Value, id: &str) -> String {
    let reply = client.call(tool, arguments).expect("the server answers");
    assert!(reply["error"].is_object(), "{tool} is refused: {reply}");
    reply["error"].to_string().replace(id, "ID")
}

#[test]
fn what_is_out_of_sight_is_refused_like_what_does_not_exist() {
    let store = TempStore::new();
    let mut author = start(store.path(), Era::Modern, "claimed-name");
    for name in ["acme", "other"] {
        crate::call(&mut author, "create_namespace", json!({"name": name, "description": "One."}));
    }
    let stored = |client: &mut Client, scope: &str| {
        let entry = json!({"topic": "pumps", "content": "Green pumps hum.", "scope": scope});
        let reply = crate::call(client, "store", entry);
        (text(&reply["id"]).to_owned(), reply["tx_id"].clone())
    };
    let (secret, secret_tx) = stored(&mut author, "acme:default");
    let (seen, seen_tx) = stored(&mut author, "other:default");
    let fact = json!({"subject": "pump", "predicate": "is", "object": "green", "scope": "acme:default"});
    let triple = text(&crate::call(&mut author, "relate", fact)["id"]).to_owned();
    let stale = |id: &str| json!({"id": id, "content": "Red.", "expected_version": 7});
    let collision = |id: &str, other: &str| json!({"active_id": id, "suppressed_ids": [other]});
    const NOWHERE: &str = "ZZZZZZZZZZ";

    // Another process with the same name does not own what the author wrote.
    let mut reader = start_in(store.path(), Era::Modern, "claimed-name", "other:default");
    for (tool, of) in [("update", &secret), ("delete", &triple)] {
        let asked = |id: &str| if tool == "update" { stale(id) } else { json!({"id": id}) };
        let known = refusal_of(&mut reader, tool, asked(of), of);
        assert_eq!(known, refusal_of(&mut reader, tool, asked(NOWHERE), NOWHERE), "{tool}");
    }
    let known = refusal_of(&mut reader, "resolve_knowledge_collision", collision(&seen, &secret), &secret);
    let unknown = refusal_of(&mut reader, "resolve_knowledge_collision", collision(&seen, NOWHERE), NOWHERE);
    assert_eq!(known, unknown);
    let of_others = refusal_of(&mut reader, "undo", json!({"tx_id": secret_tx}), NOWHERE);
    assert!(of_others.contains("CONFLICT") && !of_others.contains("claimed-name"), "{of_others}");
    let of_others = refusal_of(&mut reader, "undo", json!({"tx_id": seen_tx}), NOWHERE);
    assert!(of_others.contains("claimed-name"), "what is in sight is told: {of_others}");
    let dry = json!({"tx_id": secret_tx, "any_actor": true, "dry_run": true});
    let preview = crate::call(&mut reader, "undo", dry);
    assert_eq!((&preview["changed_ids"], &preview["changes"]), (&json!([]), &json!([])));
    assert_eq!((&preview["changed_ids_left_out"], &preview["changes_left_out"]), (&json!(1), &json!(1)));
    let uri = |id: &str| json!({"uri": format!("knowledge://entries/{id}")});
    let resource = |client: &mut Client, id: &str| {
        let refused = client.request("resources/read", uri(id)).expect_err("it is not in sight");
        refused.to_string().replace(id, "ID")
    };
    let unknown = resource(&mut reader, NOWHERE);
    assert_eq!(resource(&mut reader, &secret), unknown);

    // After the session has named the scope, a refusal may mention what is in it.
    crate::call(&mut reader, "query", json!({"scope": "acme:default"}));
    let known = refusal_of(&mut reader, "update", stale(&secret), &secret);
    assert!(known.contains("CONFLICT") && known.contains("current_version"), "{known}");
    // An id suffices for a write, and the reply names the scope that was written to.
    let written = crate::call(&mut reader, "update", json!({"id": secret, "content": "Red pumps hum."}));
    assert_eq!(written["scope"], "acme:default");
    author.finish().expect("the server ends");
    reader.finish().expect("the server ends");
}

impl Asker {
    /// An asker that names its scope in each call.
    fn naming(scope: &str) -> Asker {
        let (passages, of_others, sets) = (Vec::new(), Vec::new(), Vec::new());
        Asker { name: scope.to_owned(), is_default: false, passages, of_others, sets }
    }

    /// An asker whose server was started for the scope.
    fn of_server(scope: &str, client: &mut Client, of_others: &[Passage]) -> Asker {
        let (passages, sets) = (passages(client), sets(client));
        Asker { name: scope.to_owned(), is_default: true, passages, of_others: of_others.to_vec(), sets }
    }
}

/// The result sets of lists that show only one row.
fn sets(client: &mut Client) -> Vec<(String, Kind)> {
    let lists = [
        ("query", json!({"content": COMMON, "limit": 1}), Kind::Entry),
        ("query_graph", json!({"limit": 1}), Kind::Triple),
        ("search_patterns", json!({"q": COMMON, "difficulty": "beginner", "limit": 1}), Kind::Document),
        ("kb_search", json!({"query": COMMON, "top_k": 1}), Kind::Section),
    ];
    let set = |(tool, arguments, kind): (&str, Value, Kind)| {
        let reply = client.call(tool, arguments).expect("the server answers");
        Some((reply["resource"]["uri"].as_str()?.to_owned(), kind))
    };
    lists.into_iter().filter_map(set).collect()
}

/// All results of a search from the server's own scope; empty if that scope was deleted.
fn passages(client: &mut Client) -> Vec<Passage> {
    let options = json!({"include_debug": true});
    let arguments = json!({"query": COMMON, "top_k": 20, "page_size": 20, "options": options});
    let found = client.call("kb_search", arguments).expect("the server answers");
    let trace = found["diagnostic_id"].as_str().unwrap_or_default().to_owned();
    let results = found["results"].as_array().into_iter().flatten();
    results
        .map(|found| Passage {
            handle: text(&found["passage_id"]).to_owned(),
            uri: text(&found["scratch_uri"]).to_owned(),
            trace: trace.clone(),
        })
        .collect()
}

/// Everything that the server lists.
struct Listed {
    items: BTreeSet<Item>,
    /// The arguments of tools that only read.
    arguments: BTreeMap<String, BTreeSet<String>>,
    /// By the name of an argument or variable: the prompts and templates that have it.
    completed: BTreeMap<String, Vec<Value>>,
}

impl Listed {
    fn ask(client: &mut Client) -> Listed {
        let mut listed =
            Listed { items: BTreeSet::new(), arguments: BTreeMap::new(), completed: BTreeMap::new() };
        for tool in list(client, "tools/list", "tools") {
            let name = text(&tool["name"]).to_owned();
            if tool["annotations"]["readOnlyHint"] == true {
                let properties = tool["inputSchema"]["properties"].as_object().expect("a schema");
                listed.arguments.insert(name.clone(), properties.keys().cloned().collect());
            }
            listed.items.insert(Item::Tool(name));
        }
        for resource in list(client, "resources/list", "resources") {
            listed.items.insert(Item::Resource(text(&resource["uri"]).to_owned()));
        }
        for template in list(client, "resources/templates/list", "resourceTemplates") {
            let template = text(&template["uriTemplate"]).to_owned();
            for variable in variables(&template) {
                listed.add_completion(variable, json!({"type": "ref/resource", "uri": template}));
            }
            listed.items.insert(Item::Template(template));
        }
        for prompt in list(client, "prompts/list", "prompts") {
            for argument in prompt["arguments"].as_array().into_iter().flatten() {
                let completed = json!({"type": "ref/prompt", "name": prompt["name"]});
                listed.add_completion(text(&argument["name"]), completed);
            }
            listed.items.insert(Item::Prompt(text(&prompt["name"]).to_owned()));
        }
        listed
    }

    fn add_completion(&mut self, argument: &str, completed: Value) {
        self.items.insert(Item::Completion(argument.to_owned()));
        self.completed.entry(argument.to_owned()).or_default().push(completed);
    }

    fn check_rows(&self, rows: &[Row]) {
        let told: BTreeSet<Item> = rows.iter().map(|row| row.item.clone()).collect();
        let without: Vec<&Item> = self.items.difference(&told).collect();
        assert!(without.is_empty(), "listed, but no row says how to ask it from a scope: {without:?}");
        let stale: Vec<&Item> = told.difference(&self.items).collect();
        assert!(stale.is_empty(), "has a row, but is not listed: {stale:?}");
    }

    /// The calls of a row. A completion is requested for every prompt or template that has the argument.
    fn calls<'a>(&self, row: &Row, world: &'a World, asker: &Asker) -> Vec<Call<'a>> {
        let calls = match row.answers {
            Answers::Stored(calls) | Answers::OfServer(calls) => calls(world, asker),
            Answers::OwnWordsOnly(_) => Vec::new(),
        };
        let Item::Completion(argument) = &row.item else { return calls };
        let each = |call: &Call<'a>, completed: &Value| {
            let mut params = call.params.clone();
            params["ref"] = completed.clone();
            Call { params, ..*call }
        };
        let completed = &self.completed[argument];
        calls.iter().flat_map(|call| completed.iter().map(move |it| each(call, it))).collect()
    }

    /// Checks that a read-only tool is called with each of its arguments at least once.
    fn check_arguments(&self, row: &Row, calls: &[Call<'_>]) {
        let Item::Tool(name) = &row.item else { return };
        let Some(arguments) = self.arguments.get(name) else { return };
        let given = calls.iter().filter_map(|call| call.params["arguments"].as_object());
        let given: BTreeSet<&String> = given.flat_map(|given| given.keys()).collect();
        // A cursor comes from an earlier reply, so no call starts with one.
        let never: Vec<&String> =
            arguments.iter().filter(|name| !given.contains(name) && *name != "cursor").collect();
        assert!(never.is_empty(), "no call of {name} has {never:?}");
    }
}

fn list(client: &mut Client, method: &str, of: &str) -> Vec<Value> {
    let mut listed = client.request(method, json!({})).expect("a list");
    let Value::Array(items) = listed[of].take() else { panic!("{method}: {listed}") };
    items
}

/// The variables of a URI template: `knowledge://graph/triples{?limit,cursor}` has two, and so has
/// `kenning://scratch/{session_id}/{passage_id}`.
fn variables(template: &str) -> impl Iterator<Item = &str> {
    let expressions = template.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
    expressions.flat_map(|(expression, _)| expression.trim_start_matches('?').split(','))
}

/// Checks that each tool whose replies contain no stored text was called while the store was filled, and that
/// its replies contain none.
fn check_writes(world: &World, rows: &[Row]) {
    for row in rows {
        let (Item::Tool(name), Answers::OwnWordsOnly(why)) = (&row.item, &row.answers) else { continue };
        let replies: Vec<&String> =
            world.written.iter().filter(|(tool, _)| tool == name).map(|(_, reply)| reply).collect();
        assert!(!replies.is_empty(), "{name} was never called");
        for reply in replies {
            assert_eq!(markers(reply), BTreeSet::new(), "{name} ({why}): {reply}");
        }
    }
}

/// The questions from one scope.
struct Asking<'a> {
    client: &'a mut Client,
    world: &'a World,
    asker: &'a Asker,
}

impl Asking<'_> {
    /// Checks that everything shown is in sight, and that enough of it is shown. True if the replies show
    /// something that was stored.
    fn check(&mut self, call: &Call<'_>) -> bool {
        let replies = self.pages(call);
        let asked = format!("{} {} from {}", call.method, call.params, self.asker.name);
        let within = self.world.within(&self.asker.name, call.reach);
        let unseen = self.world.ids_without(&within);
        let mut shown = BTreeSet::new();
        for reply in &replies {
            let named = unseen.iter().find(|id| reply.contains(**id) && !may_name(call, id));
            assert_eq!(named, None, "{asked} names it: {reply}");
            for marker in markers(reply) {
                // A long text may be cut in the middle of a word.
                let known = within.iter().find(|word| word.starts_with(marker));
                let known = known.unwrap_or_else(|| panic!("{asked} shows {marker}: {reply}"));
                shown.insert(*known);
            }
        }
        if ["query", "get_task_context"].iter().any(|tool| call.params["name"] == *tool) {
            replies.iter().for_each(|reply| self.check_elsewhere(&asked, call.reach, reply));
        }
        self.check_enough(&asked, call.shows, &replies, (&within, &shown));
        !shown.is_empty()
    }

    /// A reply may say that other scopes of the namespace have entries and how many, but nothing about other
    /// namespaces.
    fn check_elsewhere(&self, asked: &str, reach: Reach, reply: &str) {
        let foreign = self.world.foreign_names(&self.asker.name, reach);
        let named = foreign.iter().find(|name| reply.contains(**name));
        assert_eq!(named, None, "{asked} names a scope of another namespace: {reply}");
        let message: Value = serde_json::from_str(reply).expect("a message");
        let allowed = self.world.elsewhere(&self.asker.name, reach);
        let told = &message["result"]["structuredContent"]["elsewhere"];
        for (place, many) in told.as_object().into_iter().flatten() {
            let what = match place.as_str() {
                "documents" => ["section", "sections"],
                "graph" => ["fact", "facts"],
                _ => ["entry", "entries"],
            };
            let (many, of) = text(many).split_once(' ').expect("how many of what");
            assert!(what.contains(&of), "{asked}: {place} has {many} {of}");
            let many: usize = many.parse().expect("a number");
            let most = allowed.get(place.as_str()).copied().unwrap_or(0);
            assert!(many <= most, "{asked}: {place} has {most} at most: {reply}");
        }
    }

    /// Checks that the replies show as much of what is in reach as the call promises.
    fn check_enough(
        &self,
        asked: &str,
        shows: Shows<'_>,
        replies: &[String],
        (within, shown): (&BTreeSet<&str>, &BTreeSet<&str>),
    ) {
        let of = |kind| within & &self.world.of_kind(kind);
        match shows {
            Shows::All(kinds) => {
                let wanted: BTreeSet<&str> = kinds.iter().flat_map(|kind| of(*kind)).collect();
                let missing = &wanted - shown;
                assert!(missing.is_empty(), "{asked} does not show {missing:?}: {replies:?}");
            }
            Shows::One(kind) => {
                let is_enough = of(kind).is_empty() || !of(kind).is_disjoint(shown);
                assert!(is_enough, "{asked} shows nothing: {replies:?}");
            }
            Shows::Of(id) => {
                let is_in_reach = !(within & &self.world.of_id(id)).is_empty();
                let is_refused = replies.iter().all(|reply| is_refusal(reply));
                assert_eq!(is_in_reach, !is_refused, "{asked}: {replies:?}");
                assert_eq!(is_in_reach, !shown.is_empty(), "{asked}: {replies:?}");
            }
            Shows::Refusal => {
                assert!(replies.iter().all(|reply| is_refusal(reply)), "{asked}: {replies:?}");
            }
            Shows::Some => {}
        }
    }

    /// Every page of the answer, each as a whole message.
    fn pages(&mut self, call: &Call<'_>) -> Vec<String> {
        let mut params = call.params.clone();
        let mut pages = Vec::new();
        loop {
            let reply = self.answer(call.method, params.clone());
            pages.push(reply.to_string());
            self.take_back(&call.params, &reply["result"]["structuredContent"]);
            let Some(cursor) = next_cursor(&reply["result"]) else { return pages };
            match call.method {
                "tools/call" => params["arguments"]["cursor"] = json!(cursor),
                _ => {
                    let uri = text(&call.params["uri"]);
                    let joint = if uri.contains('?') { '&' } else { '?' };
                    params["uri"] = json!(format!("{uri}{joint}cursor={cursor}"));
                }
            }
        }
    }

    fn answer(&mut self, method: &str, params: Value) -> Value {
        let id = self.client.begin(method, params).expect("the server lives");
        loop {
            let message = self.client.receive(SOON).expect("an answer");
            if message["id"] == json!(id) {
                return message;
            }
        }
    }

    /// Undoes the writes that were made to look at their replies, so that every scope asks the same store.
    fn take_back(&mut self, params: &Value, written: &Value) {
        let is_writing = ["store", "store_many", "write_knowledge", "update_knowledge", "relate"]
            .iter()
            .any(|tool| params["name"] == *tool);
        if is_writing && written["tx_id"].is_u64() && written["written"] != false {
            crate::call(self.client, "undo", json!({"tx_id": written["tx_id"]}));
        }
    }
}

fn is_refusal(reply: &str) -> bool {
    let reply: Value = serde_json::from_str(reply).expect("a message");
    reply["result"]["isError"] == true || reply["error"].is_object()
}

/// An id that the caller has sent may be in the reply.
fn may_name(call: &Call<'_>, id: &str) -> bool {
    call.params.to_string().contains(id)
}

fn next_cursor(result: &Value) -> Option<String> {
    let contents = &result["contents"][0];
    let page = match contents["text"].as_str() {
        // A passage is plain text on a single page.
        Some(_) if contents["mimeType"] == "text/plain" => return None,
        Some(text) => &serde_json::from_str(text).expect("resources are JSON"),
        None => &result["structuredContent"],
    };
    page["next_cursor"].as_str().map(str::to_owned)
}
