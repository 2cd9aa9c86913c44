//! A store with scopes of every kind, and what the test knows about it: which scope inherits from which, and
//! where each word was written. The test keeps this itself and never asks the server for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use kenning_server::client::Client;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{number, text, with_store, without_settings};

/// A word in every entry, triple and section, so that each of them matches every question.
pub const COMMON: &str = "lighthouse";
pub const TAG: &str = "beacon";
pub const PREDICATE: &str = "is kept by";
pub const SECOND_PREDICATE: &str = "looks over";
pub const SECOND_OBJECT: &str = "the sea";
/// The beginning of all words that tell where a text was written.
const MARKER: &str = "marker";

/// A scope, identified independently of its name.
type Scope = usize;

#[derive(Clone)]
struct Place {
    name: String,
    parents: Vec<Scope>,
}

/// The scopes that exist at some time.
#[derive(Clone, Default)]
pub struct Tree(BTreeMap<Scope, Place>);

impl Tree {
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.values().map(|place| place.name.as_str())
    }

    fn named(&self, name: &str) -> Option<Scope> {
        self.0.iter().find(|(_, place)| place.name == name).map(|(scope, _)| *scope)
    }

    fn sees(&self, scope: Scope) -> BTreeSet<Scope> {
        let Place { name, parents } = &self.0[&scope];
        let (namespace, _) = name.split_once(':').expect("namespace:scope");
        let defaults = [format!("{namespace}:default"), "global:default".to_owned()];
        let defaults = defaults.iter().map(|name| self.named(name).expect("every namespace has a default"));
        let inherited = parents.iter().flat_map(|parent| self.sees(*parent));
        [scope].into_iter().chain(inherited).chain(defaults).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Entry,
    Triple,
    Document,
    /// A section of a document; its title contains the document's word too.
    Section,
}

/// A text that was written, with a word that no other text has.
pub struct Mark {
    /// The word in every field that a reply may show.
    pub word: String,
    /// A second word, for questions that must not contain `word`, because a reply may repeat the question.
    pub key: String,
    pub kind: Kind,
    pub id: String,
    lives: Vec<Life>,
}

/// The scope that a text was in, from one transaction to another.
struct Life {
    scope: Scope,
    from: u64,
    to: Option<u64>,
    is_suppressed: bool,
}

/// The texts that an answer may contain, as of a transaction or of now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reach {
    /// Nothing that was stored.
    Nothing,
    Live(Option<u64>),
    LiveOrSuppressed(Option<u64>),
    /// Every text that was in sight at some time.
    Changes(Option<u64>),
}

impl Reach {
    fn at(self) -> Option<u64> {
        match self {
            Reach::Nothing => None,
            Reach::Live(at) | Reach::LiveOrSuppressed(at) | Reach::Changes(at) => at,
        }
    }

    fn has(self, life: &Life, at: u64) -> bool {
        let is_there = life.from <= at && life.to.is_none_or(|to| at < to);
        match self {
            Reach::Nothing => false,
            Reach::Live(_) => is_there && !life.is_suppressed,
            Reach::LiveOrSuppressed(_) => is_there,
            Reach::Changes(_) => life.from <= at,
        }
    }
}

pub struct Moment {
    pub tx: u64,
    pub time: String,
}

pub struct World {
    /// The scopes from each transaction on that changed them.
    trees: Vec<(u64, Tree)>,
    pub marks: Vec<Mark>,
    /// Transactions to look back to, each with a time at which it was the newest.
    pub moments: Vec<Moment>,
    /// Every reply to a write: the tool, and the whole message as text.
    pub written: Vec<(String, String)>,
    scopes: usize,
    pub head: u64,
}

impl World {
    /// Builds the store through a server on this data directory, and through the command line for what no
    /// tool can write.
    pub fn build(client: &mut Client, data: &Path) -> World {
        let global = Place { name: "global:default".to_owned(), parents: Vec::new() };
        let world = World {
            trees: vec![(0, Tree(BTreeMap::from([(0, global)])))],
            marks: Vec::new(),
            moments: Vec::new(),
            written: Vec::new(),
            scopes: 1,
            head: 0,
        };
        let files = tempfile::tempdir().expect("a directory");
        let mut builder = Builder { client, data, files, world };
        builder.fill();
        builder.remember();
        builder.rename_and_move();
        builder.remember();
        builder.suppress_and_delete();
        builder.world.check_words();
        builder.world
    }

    pub fn now(&self) -> &Tree {
        &self.trees.last().expect("the first is there from the beginning").1
    }

    fn at(&self, tx: u64) -> &Tree {
        let (_, tree) = self.trees.iter().rfind(|(from, _)| *from <= tx).expect("the first is from 0 on");
        tree
    }

    /// The words that an answer may contain if it is asked from the scope with this name.
    pub fn within(&self, name: &str, reach: Reach) -> BTreeSet<&str> {
        let at = reach.at().unwrap_or(u64::MAX);
        let tree = self.at(at);
        let seen = self.asked_from(name, tree).map(|scope| tree.sees(scope)).unwrap_or_default();
        let is_fitting = |life: &Life| seen.contains(&life.scope) && reach.has(life, at);
        let is_seen = |mark: &&Mark| mark.lives.iter().any(is_fitting);
        self.marks.iter().filter(is_seen).map(|mark| mark.word.as_str()).collect()
    }

    /// Like `within`, for a principal that may read only these namespaces.
    pub fn within_namespaces(&self, name: &str, reach: Reach, namespaces: &[&str]) -> BTreeSet<&str> {
        let at = reach.at().unwrap_or(u64::MAX);
        let tree = self.at(at);
        let seen = self.asked_from(name, tree).map(|scope| tree.sees(scope)).unwrap_or_default();
        let is_granted = |scope: &Scope| {
            let named = self.trees.iter().find_map(|(_, tree)| tree.0.get(scope));
            named.is_some_and(|place| namespaces.contains(&first_name(&place.name)))
        };
        let is_fitting =
            |life: &Life| seen.contains(&life.scope) && is_granted(&life.scope) && reach.has(life, at);
        let is_seen = |mark: &&Mark| mark.lives.iter().any(is_fitting);
        self.marks.iter().filter(is_seen).map(|mark| mark.word.as_str()).collect()
    }

    /// Every name that a scope of another namespace has or had. `global` is left out, because the server's
    /// own texts mention it.
    pub fn names_outside(&self, namespaces: &[&str]) -> BTreeSet<&str> {
        let places = self.trees.iter().flat_map(|(_, tree)| tree.names());
        places
            .filter(|name| !namespaces.contains(&first_name(name)) && first_name(name) != "global")
            .collect()
    }

    /// The places that a reply may mention as having more, and at most how much: entries in other scopes of
    /// the namespace, and documents and facts in sight.
    pub fn elsewhere(&self, name: &str, reach: Reach) -> BTreeMap<&str, usize> {
        let at = reach.at().unwrap_or(u64::MAX);
        let tree = self.at(at);
        let Some(scope) = self.asked_from(name, tree) else { return BTreeMap::new() };
        let seen = tree.sees(scope);
        let many = |kind: Kind, is_there: &dyn Fn(Scope) -> bool| {
            let is_live = |life: &Life| is_there(life.scope) && Reach::Live(None).has(life, at);
            let of_kind = self.marks.iter().filter(|mark| mark.kind == kind);
            of_kind.filter(|mark| mark.lives.iter().any(is_live)).count()
        };
        let namespace = |name: &str| name.split(':').next().map(str::to_owned);
        let here = namespace(&tree.0[&scope].name);
        let others =
            tree.0.iter().filter(|(other, place)| !seen.contains(*other) && namespace(&place.name) == here);
        let entries = others.map(|(other, place)| (&*place.name, many(Kind::Entry, &|it| it == *other)));
        let in_sight = |kind| many(kind, &|scope| seen.contains(&scope));
        let rest = [("documents", in_sight(Kind::Section)), ("graph", in_sight(Kind::Triple))];
        entries.chain(rest).filter(|(_, many)| *many > 0).collect()
    }

    /// All present and past names of the scopes that are neither in sight nor in the same namespace.
    pub fn foreign_names(&self, name: &str, reach: Reach) -> BTreeSet<&str> {
        let tree = self.at(reach.at().unwrap_or(u64::MAX));
        let Some(scope) = self.asked_from(name, tree) else { return BTreeSet::new() };
        let namespace = |name: &str| name.split(':').next().map(str::to_owned);
        let (here, seen) = (namespace(&tree.0[&scope].name), tree.sees(scope));
        let names = |is_foreign: bool| {
            let places = self.trees.iter().flat_map(|(_, tree)| &tree.0);
            let places = places.filter(|(other, place)| {
                is_foreign != (seen.contains(*other) || namespace(&place.name) == here)
            });
            places.map(|(_, place)| place.name.as_str()).collect::<BTreeSet<&str>>()
        };
        let mut foreign = &names(true) - &names(false);
        // The name that the caller used may be in the reply.
        foreign.remove(name);
        foreign
    }

    /// Finds a scope by the name that it had then, or else by its present name.
    fn asked_from(&self, name: &str, tree: &Tree) -> Option<Scope> {
        tree.named(name).or_else(|| self.now().named(name).filter(|it| tree.0.contains_key(it)))
    }

    /// The words of texts of this kind.
    pub fn of_kind(&self, kind: Kind) -> BTreeSet<&str> {
        self.marks.iter().filter(|mark| mark.kind == kind).map(|mark| mark.word.as_str()).collect()
    }

    /// The words of all versions of the record with this id.
    pub fn of_id(&self, id: &str) -> BTreeSet<&str> {
        self.marks.iter().filter(|mark| mark.id == id).map(|mark| mark.word.as_str()).collect()
    }

    /// The ids of all records that have none of these words.
    pub fn ids_without(&self, words: &BTreeSet<&str>) -> BTreeSet<&str> {
        let ids = |is_with: bool| {
            let marks = self.marks.iter().filter(move |mark| words.contains(&*mark.word) == is_with);
            marks.map(|mark| mark.id.as_str()).collect::<BTreeSet<&str>>()
        };
        &ids(false) - &ids(true)
    }

    /// The ids of all records that were never in one of these namespaces.
    pub fn ids_outside(&self, namespaces: &[&str]) -> BTreeSet<&str> {
        let is_inside = |life: &Life| {
            let place = self.trees.iter().find_map(|(_, tree)| tree.0.get(&life.scope));
            place.is_some_and(|place| namespaces.contains(&first_name(&place.name)))
        };
        let ids = |inside: bool| {
            let marks = self.marks.iter().filter(move |mark| mark.lives.iter().any(is_inside) == inside);
            marks.map(|mark| mark.id.as_str()).collect::<BTreeSet<&str>>()
        };
        &ids(false) - &ids(true)
    }

    /// Checks that no word is the beginning of another, because a reply may cut a word short.
    fn check_words(&self) {
        for (at, one) in self.marks.iter().enumerate() {
            for other in self.marks.iter().skip(at + 1) {
                let [one, other] = [one, other].map(|mark| mark.word.as_str());
                assert!(!one.starts_with(other) && !other.starts_with(one), "{one} and {other}");
            }
        }
    }
}

fn first_name(scope: &str) -> &str {
    scope.split_once(':').map_or(scope, |(namespace, _)| namespace)
}

/// The marker words in a reply, whole or cut short.
pub fn markers(reply: &str) -> BTreeSet<&str> {
    let word = |(at, _): (usize, &str)| {
        let rest = &reply[at..];
        let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric());
        end.map_or(rest, |end| &rest[..end])
    };
    reply.match_indices(MARKER).map(word).collect()
}

struct Builder<'a> {
    client: &'a mut Client,
    data: &'a Path,
    /// The directory with the files to take in, with a subdirectory for each scope.
    files: TempDir,
    world: World,
}

/// A document with one section.
struct Taken {
    scope: String,
    label: String,
    document: usize,
    section: usize,
}

impl Builder<'_> {
    /// Creates scopes that form a diamond, a chain, siblings, and one in `global`. Each scope gets an entry,
    /// two triples and a document.
    fn fill(&mut self) {
        for namespace in ["acme", "beta", "zeta", "gone"] {
            self.create_namespace(namespace);
        }
        for (name, parents) in [
            ("global:tools", &[][..]),
            ("acme:platform", &[]),
            ("acme:mobile", &["acme:platform"]),
            ("acme:payments", &["acme:platform"]),
            ("acme:shop", &["acme:mobile", "acme:payments"]),
            ("acme:web", &[]),
            ("acme:first", &[]),
            ("acme:second", &["acme:first"]),
            ("acme:third", &["acme:second"]),
            ("acme:earlier", &["acme:web"]),
            ("acme:nomad", &["acme:mobile"]),
            ("acme:doomed", &["acme:platform"]),
            ("acme:orphan", &["acme:doomed", "acme:web"]),
            ("beta:api", &[]),
            ("beta:worker", &["beta:api"]),
            ("zeta:lab", &[]),
        ] {
            self.create_scope(name, parents);
        }
        let names: Vec<String> = self.world.now().names().map(str::to_owned).collect();
        for name in names {
            self.fill_scope(&name, &name);
        }
        // A path along this predicate from any other scope would continue here.
        self.relate("beta:api", "wave", [SECOND_OBJECT, SECOND_PREDICATE]);
        // An entry that comes with every task, one that follows it, and one that follows an entry which moves
        // to another scope later.
        let pinned = self.store("acme:mobile", "pinned");
        self.change(pinned, json!({"pinned": true, "task_sizes": ["S"], "confidence": 0.5}));
        let next = self.store("acme:mobile", "next");
        self.change(next, json!({"follows": self.world.marks[pinned].id, "clear": ["source"]}));
    }

    /// Changes a field of the entry that contains none of its words.
    fn change(&mut self, mark: usize, mut arguments: Value) {
        arguments["id"] = json!(self.world.marks[mark].id);
        self.write("update", arguments);
    }

    /// Records a moment. The pauses make sure that later writes also have later times.
    fn remember(&mut self) {
        let tick = || std::thread::sleep(Duration::from_millis(20));
        tick();
        let time = kenning_model::Timestamp::now().to_string();
        tick();
        self.world.moments.push(Moment { tx: self.world.head, time });
    }

    /// Renames and moves scopes. The content of a scope moves with it.
    fn rename_and_move(&mut self) {
        self.rename_scope("acme:earlier", "acme:later");
        self.create_scope("acme:earlier", &["acme:payments"]);
        self.fill_scope("acme:earlier", "acme:reused");
        self.set_parents("acme:nomad", &["acme:web"]);
        self.rename_namespace("zeta", "omega");

        let moved = self.store("acme:mobile", "movedfrom");
        self.move_and_rewrite(moved, "acme:payments", "movedto");
        let carried = self.store("acme:web", "carried");
        let left = self.store("acme:web", "left");
        self.change(left, json!({"follows": self.world.marks[carried].id}));
        self.carry(carried, "beta:api");
        let rewritten = self.ingest("acme:mobile", "writtenfirst");
        self.rewrite(rewritten, "writtenagain");
    }

    fn suppress_and_delete(&mut self) {
        let holding = self.write_knowledge("acme:web", "holding");
        let hidden = self.store("acme:web", "hidden");
        self.suppress(holding, hidden);
        let [entry, knowledge] = ["deleted", "removed"].map(|label| self.store("acme:mobile", label));
        self.delete("delete", json!({}), entry);
        self.delete("delete_knowledge", json!({}), knowledge);
        let triple = self.relate("acme:web", "deleted", [COMMON, PREDICATE]);
        self.delete("delete", json!({"entity_type": "triple"}), triple);
        let closed = self.ingest("acme:web", "closed");
        self.close(closed);
        let mistaken = self.store("beta:api", "mistaken");
        self.undo(mistaken);
        self.delete_scope("acme:doomed");
        self.delete_namespace("gone");
        // An entry that follows one of another scope can still be changed.
        let left = self.world.marks.iter().position(|mark| mark.word == word(Kind::Entry, "left"));
        self.change(left.expect("it was stored"), json!({"confidence": 0.9}));
    }

    fn write(&mut self, tool: &str, arguments: Value) -> Value {
        let shown = format!("{tool} {arguments}");
        let mut reply = self.client.call_whole(tool, arguments).expect("the server answers");
        assert_eq!(reply["isError"], false, "{shown}: {reply}");
        self.world.written.push((tool.to_owned(), reply.to_string()));
        let structured = reply["structuredContent"].take();
        self.world.head = number(&structured["tx_id"]);
        structured
    }

    fn change_tree(&mut self, change: impl FnOnce(&mut Tree)) {
        let mut tree = self.world.now().clone();
        change(&mut tree);
        self.world.trees.push((self.world.head, tree));
    }

    fn scope(&self, name: &str) -> Scope {
        self.world.now().named(name).expect("a scope that was made")
    }

    fn add_scope(&mut self, name: &str, parents: &[&str]) {
        let (scope, name) = (self.world.scopes, name.to_owned());
        let parents = parents.iter().map(|parent| self.scope(parent)).collect();
        self.world.scopes += 1;
        self.change_tree(|tree| drop(tree.0.insert(scope, Place { name, parents })));
    }

    fn create_namespace(&mut self, name: &str) {
        self.write("create_namespace", json!({"name": name, "description": "a namespace"}));
        self.add_scope(&format!("{name}:default"), &[]);
    }

    fn create_scope(&mut self, name: &str, parents: &[&str]) {
        let arguments = json!({"scope": name, "description": "a scope", "parents": parents});
        self.write("create_scope", arguments);
        self.add_scope(name, parents);
    }

    fn rename_scope(&mut self, name: &str, new: &str) {
        let scope = self.scope(name);
        self.write("update_scope", json!({"scope": name, "new_scope": new}));
        self.change_tree(|tree| {
            tree.0.get_mut(&scope).expect("a scope that was made").name = new.to_owned();
        });
    }

    fn set_parents(&mut self, name: &str, parents: &[&str]) {
        let scope = self.scope(name);
        self.write("update_scope", json!({"scope": name, "parents": parents}));
        let parents: Vec<Scope> = parents.iter().map(|parent| self.scope(parent)).collect();
        self.change_tree(|tree| {
            tree.0.get_mut(&scope).expect("a scope that was made").parents = parents;
        });
    }

    fn rename_namespace(&mut self, name: &str, new: &str) {
        self.write("update_namespace", json!({"name": name, "new_name": new}));
        let before = format!("{name}:");
        self.change_tree(|tree| {
            for place in tree.0.values_mut() {
                if let Some(scope) = place.name.strip_prefix(&before) {
                    place.name = format!("{new}:{scope}");
                }
            }
        });
    }

    fn delete_scope(&mut self, name: &str) {
        self.write("delete_scope", json!({"scope": name}));
        self.take_away(|scope| scope == name);
    }

    fn delete_namespace(&mut self, name: &str) {
        self.write("delete_namespace", json!({"name": name}));
        self.take_away(|scope| scope.split(':').next() == Some(name));
    }

    /// Removes scopes with all their content, also from the parents of other scopes.
    fn take_away(&mut self, is_gone: impl Fn(&str) -> bool) {
        let gone: BTreeSet<Scope> = self
            .world
            .now()
            .0
            .iter()
            .filter(|(_, place)| is_gone(&place.name))
            .map(|(scope, _)| *scope)
            .collect();
        let head = self.world.head;
        for life in self.world.marks.iter_mut().flat_map(|mark| &mut mark.lives) {
            if gone.contains(&life.scope) && life.to.is_none() {
                life.to = Some(head);
            }
        }
        self.change_tree(|tree| {
            tree.0.retain(|scope, _| !gone.contains(scope));
            tree.0.values_mut().for_each(|place| place.parents.retain(|parent| !gone.contains(parent)));
        });
    }

    fn fill_scope(&mut self, name: &str, label: &str) {
        self.store(name, label);
        self.relate(name, label, [COMMON, PREDICATE]);
        let second = format!("second {label}");
        self.relate(name, &second, [&key(Kind::Triple, &second), SECOND_PREDICATE]);
        self.ingest(name, label);
    }

    /// Takes in a file that contains the document's word wherever a document can have one, and the word of
    /// its section.
    fn ingest(&mut self, scope: &str, label: &str) -> Taken {
        let path = self.file(scope, label);
        fs::create_dir_all(path.parent().expect("it is in a directory")).expect("a directory");
        fs::write(path, file(label)).expect("a file");
        self.run_ingest(scope);
        let document = self.newest_document(scope);
        let document = self.mark_id(Kind::Document, label, scope, document);
        let section = self.section(scope, label);
        let section = self.mark_id(Kind::Section, label, scope, section);
        Taken { scope: scope.to_owned(), label: label.to_owned(), document, section }
    }

    /// Replaces the content of a file. Its path, which contains a word of the old document, stays.
    fn rewrite(&mut self, taken: Taken, label: &str) {
        fs::write(self.file(&taken.scope, &taken.label), file(label)).expect("a file");
        self.run_ingest(&taken.scope);
        self.end(taken.section);
        let document = self.world.marks[taken.document].id.clone();
        self.mark_id(Kind::Document, label, &taken.scope, document);
        let section = self.section(&taken.scope, label);
        self.mark_id(Kind::Section, label, &taken.scope, section);
    }

    /// Deletes the file and takes in its directory again.
    fn close(&mut self, taken: Taken) {
        fs::remove_file(self.file(&taken.scope, &taken.label)).expect("it was there");
        self.run_ingest(&taken.scope);
        self.end(taken.document);
        self.end(taken.section);
    }

    fn file(&self, scope: &str, label: &str) -> PathBuf {
        let name = format!("{}.md", word(Kind::Document, label));
        self.dir(scope).join(name)
    }

    /// A scope that gets the former name of another scope has a directory of its own.
    fn dir(&self, scope: &str) -> PathBuf {
        self.files.path().join(self.scope(scope).to_string())
    }

    /// Each run is one transaction, because exactly one file of the directory has changed.
    fn run_ingest(&mut self, scope: &str) {
        let dir = self.dir(scope);
        let dir = dir.to_str().expect("UTF-8");
        let report =
            self.kenning(scope, &["ingest", "--kind", "patterns", dir, "--source", "harbour", "--json"]);
        let changed = ["written", "closed"].map(|of| report[of].as_array().map_or(0, Vec::len));
        assert_eq!(changed.iter().sum::<usize>(), 1, "{report}");
        self.world.head += 1;
    }

    fn newest_document(&mut self, scope: &str) -> String {
        let asked = json!({"scope": scope, "entity_type": "document", "limit": 1});
        let newest = crate::call(self.client, "history", asked);
        let newest = &newest["items"][0];
        assert_eq!(newest["tx_id"], self.world.head, "{newest}");
        text(&newest["changes"][0]["id"]).to_owned()
    }

    fn section(&self, scope: &str, label: &str) -> String {
        let query = json!({"query": key(Kind::Section, label)}).to_string();
        let found = self.kenning(scope, &["call", "kb.search", &query, "--json"]);
        text(&found["results"][0]["section_id"]).to_owned()
    }

    fn kenning(&self, scope: &str, arguments: &[&str]) -> Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
        with_store(without_settings(&mut command), self.data).current_dir(self.data);
        command.arg("--data-dir").arg(self.data).args(["--scope", scope]).args(arguments);
        let output = command.output().expect("kenning runs");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    fn store(&mut self, scope: &str, label: &str) -> usize {
        let mut arguments = fields(label);
        arguments["scope"] = json!(scope);
        let stored = self.write("store", arguments);
        self.mark(Kind::Entry, label, scope, &stored)
    }

    fn write_knowledge(&mut self, scope: &str, label: &str) -> usize {
        let mut arguments = fields(label);
        arguments["scope"] = json!(scope);
        for other in ["tags", "source"] {
            arguments.as_object_mut().expect("arguments").remove(other);
        }
        let written = self.write("write_knowledge", arguments);
        self.mark(Kind::Entry, label, scope, &written)
    }

    fn relate(&mut self, scope: &str, label: &str, [subject, predicate]: [&str; 2]) -> usize {
        let (word, key) = (word(Kind::Triple, label), key(Kind::Triple, label));
        // A caller can ask for the second triple by its three parts without any word that tells where the
        // triple is.
        let object = if subject == COMMON { format!("{word} {key}") } else { SECOND_OBJECT.to_owned() };
        let arguments = json!({
            "scope": scope, "subject": subject, "predicate": predicate, "object": object, "source": word,
        });
        let related = self.write("relate", arguments);
        self.mark(Kind::Triple, label, scope, &related)
    }

    fn mark(&mut self, kind: Kind, label: &str, scope: &str, written: &Value) -> usize {
        self.mark_id(kind, label, scope, text(&written["id"]).to_owned())
    }

    fn mark_id(&mut self, kind: Kind, label: &str, scope: &str, id: String) -> usize {
        let life = Life { scope: self.scope(scope), from: self.world.head, to: None, is_suppressed: false };
        self.world.marks.push(Mark {
            word: word(kind, label),
            key: key(kind, label),
            kind,
            id,
            lives: vec![life],
        });
        self.world.marks.len() - 1
    }

    /// Moves the entry to another scope and rewrites it there.
    fn move_and_rewrite(&mut self, mark: usize, scope: &str, label: &str) {
        let mut arguments = fields(label);
        arguments["scope"] = json!(scope);
        arguments["id"] = json!(self.world.marks[mark].id);
        let updated = self.write("update", arguments);
        self.end(mark);
        self.mark(Kind::Entry, label, scope, &updated);
    }

    /// Moves the entry to another scope without changing it.
    fn carry(&mut self, mark: usize, scope: &str) {
        self.write("update_knowledge", json!({"id": self.world.marks[mark].id, "scope": scope}));
        self.end(mark);
        let life = Life { scope: self.scope(scope), from: self.world.head, to: None, is_suppressed: false };
        self.world.marks[mark].lives.push(life);
    }

    fn suppress(&mut self, active: usize, suppressed: usize) {
        let [active_id, suppressed_id] = [active, suppressed].map(|mark| self.world.marks[mark].id.clone());
        self.write(
            "resolve_knowledge_collision",
            json!({"active_id": active_id, "suppressed_ids": [suppressed_id]}),
        );
        let scope = self.world.marks[suppressed].lives[0].scope;
        self.end(suppressed);
        let life = Life { scope, from: self.world.head, to: None, is_suppressed: true };
        self.world.marks[suppressed].lives.push(life);
    }

    fn delete(&mut self, tool: &str, mut arguments: Value, mark: usize) {
        arguments["id"] = json!(self.world.marks[mark].id);
        self.write(tool, arguments);
        self.end(mark);
    }

    /// Undoes the transaction that wrote this text.
    fn undo(&mut self, mark: usize) {
        let tx = self.world.marks[mark].lives[0].from;
        self.write("undo", json!({"tx_id": tx}));
        self.end(mark);
    }

    fn end(&mut self, mark: usize) {
        let last = self.world.marks[mark].lives.last_mut().expect("it was somewhere");
        last.to = Some(self.world.head);
    }
}

fn word(kind: Kind, label: &str) -> String {
    format!("{MARKER}{}", joined(kind, label))
}

fn key(kind: Kind, label: &str) -> String {
    format!("key{}", joined(kind, label))
}

fn joined(kind: Kind, label: &str) -> String {
    format!("{kind:?}{label}").to_lowercase().replace([':', ' '], "")
}

/// The fields of an entry that resembles all others, with its word in every field that can have one.
fn fields(label: &str) -> Value {
    let (word, key) = (word(Kind::Entry, label), key(Kind::Entry, label));
    json!({
        "topic": format!("{COMMON} {word}"),
        "content": format!("{SENTENCE} {word} {key}"),
        "tags": [TAG, key, word],
        "context": format!("tower lamp {word}"),
        "source": word,
    })
}

/// The file of a document that resembles all others and is also a pattern.
fn file(label: &str) -> String {
    let [document, section] = [Kind::Document, Kind::Section].map(|kind| word(kind, label));
    let (pattern, key) = (key(Kind::Document, label), key(Kind::Section, label));
    format!(
        "---\nid: {pattern}\ncategory: {pattern}\ndifficulty: beginner\nrelated: [{document}]\nuseWhen: {document}\ntitle: {COMMON} {document}\ndoc_tag: {document}\nrepository: {REPOSITORY}\nenvironment: {ENVIRONMENT}\n\
         tags: [{TAG}, {document}]\nupdated: 2026-01-02\n---\n# {COMMON} {section}\n\n{SENTENCE} {section} {key}. See `{COMMON}` and `{section}`.\n"
    )
}

pub const REPOSITORY: &str = "coast";
pub const ENVIRONMENT: &str = "night";

pub const SENTENCE: &str =
    "Keepers of the lighthouse write each ship that passes by night into the big log on the upper floor:";
