//! Cuts text into the words and word pieces of an uncased BERT vocabulary. The caller supplies the vocabulary, and decides
//! what to do with a word that has no pieces in it.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// The longest word that BERT looks up.
const WORD_CHARS_MAX: usize = 100;

/// Cuts as BERT does: lower case, without accents, at blanks, punctuation and CJK characters.
pub fn each_word(text: &str, found: &mut dyn FnMut(&str)) {
    let mut word = String::new();
    let mut each = |c: char| {
        let alone = is_punctuation(c) || is_cjk(c);
        if alone || c.is_whitespace() || c.is_control() {
            if !word.is_empty() {
                found(&word);
                word.clear();
            }
            if alone {
                found(c.encode_utf8(&mut [0; 4]));
            }
        } else if c != '\u{fffd}' {
            word.push(c);
        }
    };
    if text.is_ascii() {
        text.bytes().for_each(|byte| each(byte.to_ascii_lowercase() as char));
    } else {
        let chars = text.chars().flat_map(char::to_lowercase).nfd();
        chars.filter(|c| !is_combining_mark(*c)).for_each(&mut each);
    }
    each(' ');
}

fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation()
        || matches!(c, '\u{a1}' | '\u{a7}' | '\u{ab}' | '\u{b6}' | '\u{b7}' | '\u{bb}' | '\u{bf}')
        || matches!(c, '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205e}' | '\u{3001}'..='\u{3003}')
        || matches!(c, '\u{3008}'..='\u{3011}' | '\u{ff01}'..='\u{ff0f}' | '\u{ff1a}'..='\u{ff20}')
}

fn is_cjk(c: char) -> bool {
    matches!(c, '\u{4e00}'..='\u{9fff}' | '\u{3400}'..='\u{4dbf}' | '\u{20000}'..='\u{2fa1f}' | '\u{f900}'..='\u{faff}')
}

/// Adds the ids of the pieces of a word, always taking the longest piece that the vocabulary has. If the rest of the word
/// has no piece, no id is added and the result is false. Example: `unaffable` gives `una`, `##ffa`, `##ble`.
pub fn pieces<Id>(word: &str, look_up: impl Fn(&str) -> Option<Id>, ids: &mut Vec<Id>) -> bool {
    let before = ids.len();
    if word.chars().count() > WORD_CHARS_MAX {
        return false;
    }
    if let Some(id) = look_up(word) {
        ids.push(id);
        return true;
    }
    let mut rest = word;
    let mut key = String::new();
    while !rest.is_empty() {
        let mut end = rest.len();
        let found = loop {
            key.clear();
            if rest.len() < word.len() {
                key.push_str("##");
            }
            key.push_str(&rest[..end]);
            if let Some(id) = look_up(&key) {
                break Some(id);
            }
            match rest[..end].char_indices().next_back() {
                Some((at, _)) if at > 0 => end = at,
                _ => break None,
            }
        };
        match found {
            Some(id) => ids.push(id),
            None => {
                ids.truncate(before);
                return false;
            }
        }
        rest = &rest[end..];
    }
    true
}
