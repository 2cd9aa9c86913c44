//! tantivy over the same terms, in files: a search engine that other programs embed.

use std::sync::Arc;

use kenning_retrieval::lex;
use kenning_testkit::TempStore;
use tantivy::collector::{Count, TopDocs};
use tantivy::columnar::Column;
use tantivy::indexer::NoMergePolicy;
use tantivy::query::{BooleanQuery, Occur, Query, TermQuery, TermSetQuery};
use tantivy::schema::{FAST, Field, INDEXED, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::{DocAddress, Index, IndexWriter, ReloadPolicy, Searcher, TantivyDocument, Term};

use kenning_testkit::corpus::Text;

const SEGMENTS: usize = 8;
/// Enough for an eighth of a million texts, so that tantivy writes a segment only when `commit` is called.
const WRITER_BYTES: usize = 1 << 30;

type Clause = (Occur, Box<dyn Query>);

pub struct Tantivy {
    searcher: Searcher,
    fields: Fields,
    /// For each segment the column that maps a document of tantivy to the number of the text.
    numbers: Vec<Column<u64>>,
    _dir: TempStore,
}

#[derive(Clone, Copy)]
struct Fields {
    terms: Field,
    scope: Field,
    number: Field,
}

impl Tantivy {
    /// All texts, merged into one segment.
    pub fn merged(texts: impl ExactSizeIterator<Item = Text>) -> Tantivy {
        Tantivy::new(texts).expect("files that can be written")
    }

    fn new(texts: impl ExactSizeIterator<Item = Text>) -> tantivy::Result<Tantivy> {
        let dir = TempStore::new();
        let (schema, fields) = schema();
        let index = Index::create_in_dir(dir.path(), schema)?;
        let mut writer: IndexWriter = index.writer_with_num_threads(1, WRITER_BYTES)?;
        writer.set_merge_policy(Box::new(NoMergePolicy));
        let per_segment = texts.len().div_ceil(SEGMENTS);
        for (number, text) in texts.enumerate() {
            if number > 0 && number % per_segment == 0 {
                writer.commit()?;
            }
            writer.add_document(document(fields, number, &text))?;
        }
        writer.commit()?;
        writer.merge(&index.searchable_segment_ids()?).wait()?;
        writer.wait_merging_threads()?;
        let searcher = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?.searcher();
        let columns = searcher.segment_readers().iter().map(|segment| segment.fast_fields().u64("number"));
        let numbers = columns.collect::<tantivy::Result<_>>()?;
        Ok(Tantivy { searcher, fields, numbers, _dir: dir })
    }

    /// The best ten of all texts, by block-max WAND, which skips texts that can't be among the ten.
    pub fn top10(&self, question: &str) -> Vec<u32> {
        self.best(BooleanQuery::new(self.any_word(question)))
    }

    /// The best ten and the number of matches, which a reply of Kenning also states. Counting rules out
    /// skipping.
    pub fn top10_counted(&self, question: &str) -> (Vec<u32>, usize) {
        let query = BooleanQuery::new(self.any_word(question));
        let wanted = (TopDocs::with_limit(10).order_by_score(), Count);
        let (best, many) = self.searcher.search(&query, &wanted).expect("an index that can be read");
        (self.numbers(best), many)
    }

    /// The usual way to search some scopes only: a text must be in one of the scopes and contain one of the
    /// words.
    pub fn top10_in(&self, question: &str, scopes: &[u32]) -> Vec<u32> {
        let set = TermSetQuery::new(scopes.iter().map(|scope| self.scope_term(*scope)));
        self.best_in(question, Box::new(set))
    }

    fn best_in(&self, question: &str, scopes: Box<dyn Query>) -> Vec<u32> {
        let mut clauses = self.any_word(question);
        clauses.push((Occur::Must, scopes));
        self.best(BooleanQuery::with_minimum_required_clauses(clauses, 1))
    }

    fn scope_term(&self, scope: u32) -> Term {
        Term::from_field_u64(self.fields.scope, u64::from(scope))
    }

    fn any_word(&self, question: &str) -> Vec<Clause> {
        let clause = |word: Arc<str>| -> Clause {
            let term = Term::from_field_text(self.fields.terms, &word);
            (Occur::Should, Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs)))
        };
        lex::question_terms(question).into_iter().map(clause).collect()
    }

    fn best(&self, query: BooleanQuery) -> Vec<u32> {
        let best = self.searcher.search(&query, &TopDocs::with_limit(10).order_by_score());
        self.numbers(best.expect("an index that can be read"))
    }

    fn numbers(&self, best: Vec<(f32, DocAddress)>) -> Vec<u32> {
        let number = |segment: u32, doc| self.numbers[segment as usize].first(doc).expect("a number each");
        best.into_iter().map(|(_, at)| number(at.segment_ord, at.doc_id) as u32).collect()
    }
}

fn schema() -> (Schema, Fields) {
    let mut schema = Schema::builder();
    let indexing = TextFieldIndexing::default()
        .set_tokenizer("whitespace")
        .set_index_option(IndexRecordOption::WithFreqs);
    let terms = schema.add_text_field("terms", TextOptions::default().set_indexing_options(indexing));
    let scope = schema.add_u64_field("scope", INDEXED);
    let number = schema.add_u64_field("number", FAST);
    (schema.build(), Fields { terms, scope, number })
}

fn document(fields: Fields, number: usize, text: &Text) -> TantivyDocument {
    let mut document = TantivyDocument::default();
    let terms = [lex::terms(&text.title), lex::terms(&text.body)].concat();
    document.add_text(fields.terms, terms.join(" "));
    document.add_u64(fields.scope, u64::from(text.scope));
    document.add_u64(fields.number, number as u64);
    document
}
