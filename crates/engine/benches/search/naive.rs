//! The simplest search: visit every word of every visible text and score it by BM25, without rounding.

use std::collections::HashMap;
use std::sync::Arc;

use kenning_retrieval::lex;

use crate::exact::best10;
use kenning_testkit::corpus::{SCOPES, Text};

const K1: f32 = 1.2;
const B: f32 = 0.75;

#[derive(Default)]
pub struct Naive {
    ids: HashMap<Arc<str>, u32>,
    /// The number of texts that contain each term.
    df: Vec<u32>,
    /// The terms of all texts, one text after the other.
    terms: Vec<u32>,
    texts: Vec<Place>,
}

struct Place {
    end: usize,
    scope: u32,
}

impl Naive {
    pub fn new(texts: impl Iterator<Item = Text>) -> Naive {
        let mut naive = Naive::default();
        texts.for_each(|text| naive.add(&text));
        naive
    }

    fn add(&mut self, text: &Text) {
        let from = self.terms.len();
        for term in lex::terms(&text.title).into_iter().chain(lex::terms(&text.body)) {
            let next = self.ids.len() as u32;
            self.terms.push(*self.ids.entry(term).or_insert(next));
        }
        self.texts.push(Place { end: self.terms.len(), scope: text.scope });
        let mut distinct = self.terms[from..].to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        self.df.resize(self.ids.len(), 0);
        distinct.iter().for_each(|id| self.df[*id as usize] += 1);
    }

    pub fn top10_in(&self, question: &str, scopes: &[u32]) -> Vec<u32> {
        let mut visible = [false; SCOPES];
        scopes.iter().for_each(|scope| visible[*scope as usize] = true);
        let many = self.texts.len() as f32;
        let mean_length = self.terms.len() as f32 / many;
        let ids = lex::question_terms(question).into_iter().filter_map(|term| self.ids.get(&term));
        let asked: Vec<(u32, f32)> = ids.map(|id| (*id, idf(many, self.df[*id as usize] as f32))).collect();
        let mut from = 0;
        let scored = self.texts.iter().zip(0..).filter_map(|(text, number)| {
            let terms = &self.terms[from..text.end];
            from = text.end;
            let score = visible[text.scope as usize].then(|| score(terms, &asked, mean_length))?;
            (score > 0.0).then_some((score, number))
        });
        best10(scored)
    }
}

fn idf(many: f32, df: f32) -> f32 {
    (1.0 + (many - df + 0.5) / (df + 0.5)).ln()
}

fn score(terms: &[u32], asked: &[(u32, f32)], mean_length: f32) -> f32 {
    let length = terms.len() as f32 / mean_length;
    let each = asked.iter().map(|(id, idf)| {
        let frequency = terms.iter().filter(|term| *term == id).count() as f32;
        idf * frequency * (K1 + 1.0) / (frequency + K1 * (1.0 - B + B * length))
    });
    each.sum()
}
