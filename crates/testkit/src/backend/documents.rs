//! The contract of backends for documents.

use kenning_model::{Document, Pattern, Record, ScopeId, Section, TxId};
use kenning_storage::{Backend, DocumentKind, DocumentKinds, DocumentSource};

use super::scopes::Log;
use super::{ELSEWHERE, HERE, id, moment, reader};

pub fn sources_are_what_their_newest_document_says(backend: &dyn Backend) {
    let mut log = Log::new(backend);
    log.write(&[
        (1, Some(document(HERE, "docs", "a.md", "old"))),
        (2, Some(document(HERE, "wiki", "a", ""))),
    ]);
    log.write(&[(3, Some(document(ELSEWHERE, "docs", "a.md", "other")))]);
    log.write(&[(4, Some(document(HERE, "docs", "b.md", "new")))]);
    // The newest document is closed, but its facts still count as the newest.
    log.write(&[(4, None), (2, None)]);
    log.write(&[(1, None)]);
    let reader = reader(backend);
    let check = |scope, expected: [&[(&str, u64, &str, i64)]; 6]| {
        for (at, expected) in (0..).zip(expected) {
            let source = |(name, documents, root, changed): &(&str, u64, &str, i64)| DocumentSource {
                name: (*name).to_owned(),
                documents: *documents,
                root: (*root).to_owned(),
                default_tag: format!("{name} tag"),
                kind: if *name == "wiki" { DocumentKind::Pattern } else { DocumentKind::Plain },
                changed_at: moment(*changed),
            };
            let expected: Vec<DocumentSource> = expected.iter().map(source).collect();
            let sources = reader.document_sources(scope, TxId(at)).expect("sources");
            assert_eq!(sources, expected, "of {scope:?} as of {at}");
        }
    };
    let first = [("docs", 1, "old", 1), ("wiki", 1, "", 1)];
    check(
        HERE,
        [&[], &first, &first, &[("docs", 2, "new", 3), ("wiki", 1, "", 1)], &[("docs", 1, "new", 3)], &[]],
    );
    let other = [("docs", 1, "other", 2)];
    check(ELSEWHERE, [&[], &[], &other, &other, &other, &other]);
}

pub fn a_section_knows_its_document(backend: &dyn Backend) {
    let mut log = Log::new(backend);
    log.write(&[(1, Some(document(HERE, "docs", "a.md", ""))), (2, Some(section(1)))]);
    log.write(&[(3, Some(document(HERE, "docs", "b.md", ""))), (2, Some(section(3)))]);
    log.write(&[(2, None)]);
    let reader = reader(backend);
    let of = |section, at| reader.document_of(id(section), TxId(at)).expect("a document or none");
    assert_eq!([0, 1, 2, 3].map(|at| of(2, at)), [None, Some(id(1)), Some(id(3)), None]);
    assert_eq!(of(1, 2), None, "it is no section");
}

pub fn patterns_are_told_from_other_documents(backend: &dyn Backend) {
    let mut log = Log::new(backend);
    log.write(&[(1, Some(document(HERE, "docs", "a.md", "")))]);
    log.write(&[(1, Some(pattern(document(HERE, "docs", "a.md", ""))))]);
    log.write(&[(2, Some(document(ELSEWHERE, "docs", "b.md", "")))]);
    log.write(&[(1, None)]);
    log.write(&[(2, None), (3, Some(document(HERE, "wiki", "README.md", "")))]);
    let reader = reader(backend);
    let kinds = |at| reader.document_kinds(TxId(at), None).expect("it is known");
    let expected = [
        (false, false, false),
        (true, false, false),
        (false, true, false),
        (true, true, false),
        (true, false, false),
        (false, false, true),
    ];
    for (at, (plain, patterns, beside_patterns)) in (0..).zip(expected) {
        assert_eq!(kinds(at), DocumentKinds { plain, patterns, beside_patterns }, "as of {at}");
    }
}

fn pattern(record: Record) -> Record {
    let Record::Document(document) = record else { return record };
    let [id, summary, description, category] =
        ["retry", "Try again.", "Try again.", "errors"].map(str::to_owned);
    let (difficulty, related, use_when, avoid_when) = (None, Vec::new(), None, None);
    let pattern = Pattern { id, summary, description, category, difficulty, related, use_when, avoid_when };
    Record::Document(Document { pattern: Some(Box::new(pattern)), ..document })
}

pub(super) fn section(document: u64) -> Record {
    Record::Section(Section {
        scope: HERE,
        document: id(document),
        position: 0,
        level: 1,
        heading_path: vec!["Title".to_owned()],
        anchor: "title".to_owned(),
        text: "A text.".to_owned(),
        parent: None,
        doc_tag: "docs".to_owned(),
        tags: Vec::new(),
        repository: None,
        environment: None,
        links: Vec::new(),
        mentions: Vec::new(),
        actor: "tester".to_owned(),
        version: 1,
        recorded_at: moment(0),
        updated_at: None,
        purged: None,
    })
}

pub(super) fn document(scope: ScopeId, source: &str, path: &str, root: &str) -> Record {
    Record::Document(Document {
        scope,
        source: source.to_owned(),
        path: path.to_owned(),
        title: path.to_owned(),
        doc_tag: source.to_owned(),
        tags: Vec::new(),
        repository: None,
        environment: None,
        updated: None,
        root: root.to_owned(),
        default_tag: format!("{source} tag"),
        catalogue: source == "wiki",
        pattern: None,
        hash: "hash".to_owned(),
        actor: "tester".to_owned(),
        version: 1,
        recorded_at: moment(0),
        updated_at: None,
        purged: None,
    })
}
