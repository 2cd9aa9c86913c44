//! MDX without its `import` and `export` statements, which are program code and not text.

use crate::fence::Fences;

/// The most lines of a statement. A longer one is probably a sentence with a stray bracket that only begins
/// like a statement.
const STATEMENT_LINES_MAX: usize = 400;

/// Removes the statements. A statement begins a block, and ends with the line on which all its brackets are
/// closed.
pub(crate) fn without_modules(text: &str) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut kept = String::with_capacity(text.len());
    let mut fences = Fences::default();
    let mut begins = true;
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let is_code = fences.hold(line);
        if begins
            && !is_code
            && let Some(many) = statement(&lines[at..])
        {
            at += many;
            continue;
        }
        kept.push_str(line);
        begins = !is_code && line.trim().is_empty();
        at += 1;
    }
    kept
}

/// The number of lines of the statement at the beginning of these lines.
fn statement(lines: &[&str]) -> Option<usize> {
    let first = lines.first()?;
    let is_import = is_import(first);
    if !is_import && !is_export(first) {
        return None;
    }
    let mut program = Program::default();
    for (at, line) in lines.iter().take(STATEMENT_LINES_MAX).enumerate() {
        program.read(line);
        let has_ended = match is_import {
            // After `import x` the part with `from` may follow on the next line.
            true => program.has_text,
            false => {
                let line = line.trim_end();
                !line.ends_with(['=', '?', ':', '+', ',', '&', '|']) && !line.ends_with("=>")
            }
        };
        if program.is_balanced() && has_ended {
            return Some(at + 1);
        }
        if program.is_balanced() && line.trim().is_empty() {
            return None;
        }
    }
    None
}

fn is_import(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("import") else { return false };
    let has_source = |rest: &str| {
        rest.split_once(" from ").is_some_and(|(_, source)| source.trim_start().starts_with(['"', '\'']))
    };
    rest.trim_start().starts_with(['{', '*', '"', '\'']) || rest.starts_with(' ') && has_source(rest)
}

fn is_export(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("export") else { return false };
    let what = rest.split_whitespace().next().unwrap_or_default();
    let is_declared =
        ["default", "const", "let", "var", "function", "async", "class", "type", "interface", "enum"]
            .contains(&what);
    rest.trim_start().starts_with(['{', '*']) || rest.starts_with(' ') && is_declared
}

/// The brackets that are open, outside of strings and comments.
#[derive(Default)]
struct Program {
    depth: usize,
    quote: Option<char>,
    is_remark: bool,
    has_text: bool,
}

impl Program {
    fn read(&mut self, line: &str) {
        let mut characters = line.chars().peekable();
        while let Some(c) = characters.next() {
            match (self.quote, c) {
                _ if self.is_remark => self.is_remark = !(c == '*' && characters.next_if_eq(&'/').is_some()),
                (Some(_), '\\') => drop(characters.next()),
                (Some(quote), c) if c == quote => self.quote = None,
                (Some(_), _) => {}
                (None, '/') if characters.next_if_eq(&'/').is_some() => break,
                (None, '/') if characters.next_if_eq(&'*').is_some() => self.is_remark = true,
                (None, '"' | '\'' | '`') => {
                    self.quote = Some(c);
                    self.has_text = true;
                }
                (None, '(' | '[' | '{') => self.depth += 1,
                (None, ')' | ']' | '}') => self.depth = self.depth.saturating_sub(1),
                (None, _) => {}
            }
        }
        // Only a template string extends over the end of a line.
        self.quote = self.quote.filter(|quote| *quote == '`');
    }

    fn is_balanced(&self) -> bool {
        self.depth == 0 && self.quote.is_none() && !self.is_remark
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_go_and_sentences_stay() {
        let text = "import A from './a'\nimport {\n  B,\n} from \"b\";\n\nexport const meta = {\n  title: 'a } b',\n\n  // }\n  tags: [`x\n}`],\n}\n\n# T\n\nWe\nimport orders from 'them' and\nexport const rates.\n\nexport them all.\n\nimport duties apply.\n\n```js\n\nimport c from 'c'\n```\n\nexport default ({children}) =>\n  <div>{children}</div>\n\nEnd.";
        assert_eq!(
            without_modules(text),
            "\n\n# T\n\nWe\nimport orders from 'them' and\nexport const rates.\n\nexport them all.\n\nimport duties apply.\n\n```js\n\nimport c from 'c'\n```\n\n\nEnd."
        );
        assert_eq!(without_modules("export const a = {\n\nText"), "export const a = {\n\nText");
    }
}
