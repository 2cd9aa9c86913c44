//! Patterns are found as a whole, counted, distinguished by scope, and available as of any transaction.

use kenning_engine::{DocumentKind, Engine, FoundPatterns, Intake, PatternQuestion, Sight, Snapshot};
use kenning_model::ScopeId;
use kenning_storage::{Request, UndoTarget, UndoWish, Write};
use kenning_testkit::{fixed_sources, intake, make_scopes, take_in, take_in_pattern, take_in_with};

const HERE: &[ScopeId] = &[ScopeId::GLOBAL_DEFAULT];

fn engine(dir: &tempfile::TempDir) -> Engine {
    Engine::new(dir.path().to_owned(), fixed_sources())
}

fn pattern(id: &str, category: &str, difficulty: &str, text: &str) -> String {
    format!(
        "---\nid: {id}\ntitle: {id} of {category}\ncategory: {category}\ndifficulty: {difficulty}\ntags: [shared]\n---\n{text}\n"
    )
}

fn found(engine: &Engine, asked: &PatternSearch) -> Vec<String> {
    let snapshot = engine.snapshot(&kenning_testkit::owner()).expect("a snapshot");
    let found = search(&snapshot, HERE, asked);
    let id = |id| {
        let stored = snapshot.document(id).expect("it can be read").expect("it is there");
        let document = stored.record.as_document().expect("a document").clone();
        document.pattern.expect("a pattern").id
    };
    found.ids.into_iter().map(id).collect()
}

/// A question without its transaction and scopes.
#[derive(Default)]
struct PatternSearch {
    text: &'static str,
    category: Option<&'static str>,
    difficulty: Option<&'static str>,
    loosely: bool,
}

fn asked(text: &'static str) -> PatternSearch {
    PatternSearch { text, ..PatternSearch::default() }
}

fn sight(snapshot: &Snapshot<'_>, scopes: &[ScopeId]) -> Sight {
    snapshot.sight_of(scopes.to_vec())
}

fn search(snapshot: &Snapshot<'_>, scopes: &[ScopeId], asked: &PatternSearch) -> FoundPatterns {
    let PatternSearch { text, category, difficulty, loosely } = *asked;
    let sight = sight(snapshot, scopes);
    let question = PatternQuestion { sight: &sight, text, category, difficulty, loosely };
    snapshot.search_patterns(&question).expect("an answer")
}

#[test]
fn half_of_the_question_is_a_match_wherever_the_words_stand() {
    let dir = tempfile::tempdir().expect("a directory");
    let engine = engine(&dir);
    take_in_pattern(
        &engine,
        "c",
        "a.md",
        &pattern(
            "retry",
            "errors",
            "beginner",
            "# Retry\n\nWait longer each time.\n\n## Example\n\n```ts\nSchedule.exponential()\n```\n",
        ),
    );
    take_in_pattern(
        &engine,
        "c",
        "b.md",
        &pattern("queue", "streams", "advanced", "Hand over between fibers."),
    );
    take_in(&engine, "docs", "c.md", "# Retry\n\nNo pattern, but it says exponential too.\n");
    assert_eq!(found(&engine, &asked("exponential errors")), ["retry"]);
    assert_eq!(found(&engine, &asked("exponential zebra unicorn giraffe")), [""; 0]);
    assert_eq!(
        found(&engine, &PatternSearch { loosely: true, ..asked("exponential zebra unicorn giraffe") }),
        ["retry"]
    );
    assert_eq!(found(&engine, &asked("shared")).len(), 2);
    assert_eq!(found(&engine, &PatternSearch { category: Some("Streams"), ..asked("shared") }), ["queue"]);
    assert_eq!(found(&engine, &PatternSearch { difficulty: Some("beginner"), ..asked("shared") }), ["retry"]);
    let snapshot = engine.snapshot(&kenning_testkit::owner()).expect("a snapshot");
    let counted = search(&snapshot, HERE, &asked("shared"));
    assert_eq!(counted.categories, [("errors".to_owned(), 1), ("streams".to_owned(), 1)]);
    let overview = snapshot.catalogue(&sight(&snapshot, HERE), None).expect("an overview");
    assert_eq!((overview.patterns, overview.tags), (2, vec![("shared".to_owned(), 2)]));
    assert_eq!(snapshot.catalogue(&sight(&snapshot, HERE), Some("ERRORS")).expect("an overview").patterns, 1);
}

#[test]
fn the_nearest_of_one_id_is_the_pattern() {
    let dir = tempfile::tempdir().expect("a directory");
    let engine = engine(&dir);
    make_scopes(&engine, 3);
    let near = Intake { kind: DocumentKind::Pattern, scope: ScopeId(3), ..intake("near") };
    take_in_pattern(&engine, "far", "a.md", &pattern("retry", "far", "beginner", "Try again."));
    take_in_with(&engine, &near, "a.md", &pattern("retry", "near", "beginner", "Try again."));
    take_in_with(&engine, &near, "b.md", &pattern("retry", "hidden", "beginner", "Try again."));
    let both = [ScopeId(3), ScopeId::GLOBAL_DEFAULT];
    let snapshot = engine.snapshot(&kenning_testkit::owner()).expect("a snapshot");
    let counted = |scopes: &[ScopeId]| search(&snapshot, scopes, &asked("try again")).categories;
    assert_eq!(counted(&both[..]), [("near".to_owned(), 1)]);
    assert_eq!(counted(HERE), [("far".to_owned(), 1)]);
    let both = sight(&snapshot, &both);
    let stored = snapshot.pattern(&both, "retry").expect("it can be read").expect("it is there");
    assert_eq!(stored.record.as_document().map(|document| document.path.as_str()), Some("a.md"));
    let hidden = snapshot.patterns_of_one_id(ScopeId(3), "near").expect("it is known");
    let [hidden] = &hidden[..] else { panic!("one is hidden") };
    assert_eq!((hidden.path.as_str(), hidden.other.as_str(), hidden.is_found), ("b.md", "a.md", false));
    assert!(snapshot.pattern(&both, "Retry").expect("it can be read").is_none());
}

#[test]
fn a_pattern_is_as_it_was_and_can_be_taken_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = engine(&dir);
    take_in_pattern(&first, "c", "a.md", &pattern("retry", "errors", "beginner", "Wait longer each time."));
    let before = first.snapshot(&kenning_testkit::owner()).expect("a snapshot");
    take_in_pattern(
        &first,
        "c",
        "a.md",
        &pattern("again", "errors", "beginner", "Use a budget of attempts."),
    );
    // A new engine reads the log alone, as another process does.
    let engine = engine(&dir);
    assert_eq!(found(&engine, &asked("attempts")), ["again"]);
    assert_eq!(found(&engine, &asked("longer")), [""; 0]);
    let then = engine.snapshot_at(&kenning_testkit::owner(), Some(before.at())).expect("a snapshot");
    assert_eq!(search(&then, HERE, &asked("longer")).ids.len(), 1);
    assert!(then.pattern(&sight(&then, HERE), "retry").expect("it can be read").is_some());
    assert!(then.pattern(&sight(&then, HERE), "again").expect("it can be read").is_none());
    let wish = UndoWish { target: UndoTarget::Newest(1), any_actor: true, within: None };
    let (principal, tool) = (kenning_model::Principal::owner("me", "here").into(), "undo".to_owned());
    engine.commit(Request { principal, tool, write: Write::Undo(wish), keyed: None }).expect("it is undone");
    assert_eq!(found(&engine, &asked("longer")), ["retry"]);
    assert_eq!(found(&engine, &asked("attempts")), [""; 0]);
    assert!(engine.content(&kenning_testkit::owner(), None).expect("content").patterns);
    engine.rebuild().expect("it is made again");
    assert_eq!(found(&engine, &asked("longer")), ["retry"]);
}
