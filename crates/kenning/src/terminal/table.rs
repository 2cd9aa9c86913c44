//! Tables: aligned columns with a heading and without borders, so that other programs can cut and sort the
//! lines too.

use unicode_width::UnicodeWidthStr;

use super::{BOLD, PLAIN, Text, width};

/// The blanks between two columns.
const GAP: &str = "  ";
/// A column is not made narrower than this, even if the table then does not fit.
const NARROWEST: usize = 8;

pub struct Table {
    heading: Vec<&'static str>,
    rows: Vec<Vec<Text>>,
    /// The columns with numbers, which are aligned to the right.
    numbers: Vec<usize>,
}

impl Table {
    pub fn new(heading: &[&'static str]) -> Table {
        Table { heading: heading.to_vec(), rows: Vec::new(), numbers: Vec::new() }
    }

    pub fn numbers(mut self, columns: &[usize]) -> Table {
        self.numbers = columns.to_vec();
        self
    }

    /// One cell for each column; a cell is one line.
    pub fn row(&mut self, cells: Vec<Text>) {
        debug_assert_eq!(cells.len(), self.heading.len());
        self.rows.push(cells);
    }

    /// The whole table. A column whose cells are all empty is left out.
    pub fn text(self) -> Text {
        self.text_within(width())
    }

    fn text_within(mut self, columns: Option<usize>) -> Text {
        let is_used: Vec<bool> =
            (0..self.heading.len()).map(|at| self.rows.iter().any(|row| !row[at].is_empty())).collect();
        let numbers: Vec<bool> = (0..self.heading.len()).map(|at| self.numbers.contains(&at)).collect();
        let kept = |at: &usize| is_used[*at];
        let numbers: Vec<bool> = (0..self.heading.len()).filter(kept).map(|at| numbers[at]).collect();
        let heading: Vec<&str> = (0..self.heading.len()).filter(kept).map(|at| self.heading[at]).collect();
        for row in &mut self.rows {
            let mut at = 0;
            row.retain(|_| {
                at += 1;
                is_used[at - 1]
            });
        }
        let wide = |at: usize| {
            let cells = self.rows.iter().map(|row| row[at].width());
            cells.chain([heading[at].width()]).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..heading.len()).map(wide).collect();
        if let Some(columns) = columns {
            narrow(&mut widths, columns);
        }
        let mut shown = Text::new();
        let heading = heading.into_iter().map(|name| Text::styled(BOLD, name)).collect();
        for (number, row) in std::iter::once(heading).chain(self.rows).enumerate() {
            if number > 0 {
                shown.push(PLAIN, "\n");
            }
            let last = row.len() - 1;
            for (at, cell) in row.into_iter().enumerate() {
                let cell = if columns.is_some() { cell.cut(widths[at]) } else { cell };
                let blanks = " ".repeat(widths[at].saturating_sub(cell.width()));
                if numbers[at] {
                    shown.push(PLAIN, &blanks);
                }
                shown.append(cell);
                if at < last {
                    shown.push(PLAIN, if numbers[at] { GAP.to_owned() } else { format!("{blanks}{GAP}") });
                }
            }
        }
        shown
    }
}

/// Narrows the widest columns until all columns fit.
fn narrow(widths: &mut [usize], columns: usize) {
    let gaps = GAP.len() * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > columns {
        let Some(widest) = widths.iter_mut().max().filter(|widest| **widest > NARROWEST) else { return };
        *widest -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(columns: Option<usize>) -> String {
        let mut table = Table::new(&["ID", "TX", "SCOPE", "CONTENT"]).numbers(&[1]);
        table.row(vec![
            Text::plain("a"),
            Text::plain("9"),
            Text::new(),
            Text::plain("Blue-green; never on Fridays."),
        ]);
        table.row(vec![Text::plain("日本"), Text::plain("10"), Text::new(), Text::plain("Short.")]);
        anstream::adapter::strip_str(&table.text_within(columns).to_string()).to_string()
    }

    #[test]
    fn columns_are_aligned_and_empty_ones_left_out() {
        let expected = "ID    TX  CONTENT\na      9  Blue-green; never on Fridays.\n日本  10  Short.";
        assert_eq!(shown(None), expected);
    }

    #[test]
    fn the_widest_column_gives_way() {
        assert_eq!(shown(Some(24)), "ID    TX  CONTENT\na      9  Blue-green; n…\n日本  10  Short.");
    }
}
