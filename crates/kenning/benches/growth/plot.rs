//! The table and the plot of `docs/performance.md`.

use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use super::Row;

const BEGIN: &str = "<!-- written by scripts/growth -->";
const END: &str = "<!-- end -->";

/// The table of the previous and the present build, with a column for each size.
pub fn table(sizes: &[usize], before: Option<&[Row]>, now: &[Row]) -> String {
    let mut table = String::from("| |");
    sizes.iter().for_each(|size| write!(table, " {} |", grouped(*size)).expect("a string"));
    writeln!(table, "\n|---|{}", "---|".repeat(sizes.len())).expect("a string");
    for (number, row) in now.iter().enumerate() {
        write!(table, "| {} |", row.name).expect("a string");
        for (at, value) in row.values.iter().enumerate() {
            match before.and_then(|before| before.get(number)) {
                Some(before) => {
                    write!(table, " {} → {} |", rounded(before.values[at]), rounded(*value))
                        .expect("a string");
                }
                None => write!(table, " {} |", rounded(*value)).expect("a string"),
            }
        }
        table.push('\n');
    }
    table
}

fn rounded(value: f64) -> String {
    if value < 10.0 { format!("{value:.1}") } else { grouped(value.round() as usize) }
}

fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Writes the table between its marks in `performance.md`, and the plot beside that file.
pub fn write(
    docs: &Path,
    table: &str,
    sizes: &[usize],
    before: Option<&[Row]>,
    now: &[Row],
) -> io::Result<()> {
    let path = docs.join("performance.md");
    let page = fs::read_to_string(&path)?;
    let marks = page.split_once(BEGIN).and_then(|(head, rest)| Some((head, rest.split_once(END)?.1)));
    let (head, tail) = marks.ok_or_else(|| io::Error::other("performance.md has lost its marks"))?;
    fs::write(&path, format!("{head}{BEGIN}\n{table}\n![p50 by size](performance.svg)\n{END}{tail}"))?;
    fs::write(docs.join("performance.svg"), svg(sizes, before, now))
}

const COLOURS: [&str; 11] = [
    "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22",
    "#17becf", "#444444",
];
const LEFT: f64 = 60.0;
const TOP: f64 = 30.0;
const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 320.0;
/// The scale of times, in milliseconds.
const TIMES: [f64; 7] = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0];

/// The plot. Both axes are logarithmic; a dashed line is the previous build.
fn svg(sizes: &[usize], before: Option<&[Row]>, now: &[Row]) -> String {
    let (least, most) = (sizes[0] as f64, sizes[sizes.len() - 1] as f64);
    let x = |size: usize| LEFT + WIDTH * (size as f64 / least).ln() / (most / least).ln().max(1e-9);
    let y = |time: f64| {
        let share = (time.max(TIMES[0]) / TIMES[0]).ln() / (TIMES[TIMES.len() - 1] / TIMES[0]).ln();
        TOP + HEIGHT * (1.0 - share.min(1.0))
    };
    let mut out = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"800\" height=\"400\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"800\" height=\"400\" fill=\"white\"/>\n",
    );
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    line(format!(
        "<text x=\"{LEFT}\" y=\"18\">p50 of a call in milliseconds, by the number of entries and triples</text>"
    ));
    for time in TIMES {
        let at = y(time);
        line(format!(
            "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{time}</text>",
            LEFT + WIDTH,
            LEFT - 6.0,
            at + 4.0,
        ));
    }
    for size in sizes {
        line(format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            x(*size),
            TOP + HEIGHT + 18.0,
            grouped(*size),
        ));
    }
    let points = |values: &[f64]| -> String {
        let each = sizes.iter().zip(values).map(|(size, value)| format!("{:.1},{:.1}", x(*size), y(*value)));
        each.collect::<Vec<_>>().join(" ")
    };
    for (number, row) in now.iter().enumerate().filter(|(_, row)| row.is_time) {
        let colour = COLOURS[number % COLOURS.len()];
        if let Some(before) = before.and_then(|before| before.get(number)) {
            line(format!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-dasharray=\"3 3\" opacity=\"0.6\"/>",
                points(&before.values),
            ));
        }
        line(format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            points(&row.values),
        ));
        let at = TOP + 10.0 + 20.0 * number as f64;
        line(format!(
            "<line x1=\"500\" y1=\"{:.1}\" x2=\"525\" y2=\"{:.1}\" stroke=\"{colour}\" stroke-width=\"2\"/><text x=\"532\" y=\"{at:.1}\">{}</text>",
            at - 4.0,
            at - 4.0,
            row.name.replace('`', ""),
        ));
    }
    if before.is_some() {
        line(format!("<text x=\"500\" y=\"{:.1}\">dashed: the build before</text>", TOP + HEIGHT));
    }
    line("</svg>".to_owned());
    out
}
