// SPDX-License-Identifier: GPL-2.0-only
//! The table of a demo, what ours lost, and the same as JSON.

use super::row::{Column, KERNEL, Row, Verdict};

fn number(value: Option<f64>) -> String {
    match value {
        None => "-".into(),
        Some(value) if value.abs() >= 1000.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 100.0 => format!("{value:.1}"),
        Some(value) if value.abs() >= 10.0 => format!("{value:.2}"),
        Some(value) => format!("{value:.3}"),
    }
}

fn percent(part: Option<f64>) -> String {
    part.map_or("-".into(), |part| format!("{:.1}", part * 100.0))
}

/// Ratio to the kernel, what that means, and a star for the best of all.
fn judgement(row: &Row, other: usize) -> String {
    let word = match (row.loss(other), row.verdict(other)) {
        (Some(_), _) => "LOST",
        (None, Some(Verdict::Better)) => "better",
        (None, Some(Verdict::Same)) => "same",
        (None, Some(Verdict::Worse)) => "worse",
        (None, None) => "",
    };
    let star = match row.best() == Some(&row.columns[other].name) {
        true => " *",
        false => "",
    };
    let ratio = match row.ratio(other) {
        Some(ratio) => format!("{ratio:.2} "),
        // Nothing is the kernel's value or the arm's.
        None => "- ".into(),
    };
    format!("{ratio}{word}{star}").trim_end().into()
}

/// The aligned table.
pub fn table(rows: &[Row], columns: &[Column]) -> String {
    let mut head = vec![
        "metric".to_string(),
        "better".into(),
        KERNEL.into(),
        String::new(),
        "spread, %".into(),
    ];
    for column in columns {
        head.push(column.name.clone());
        head.push("/kernel".into());
    }
    head.push(String::new());
    let mut lines = vec![head];
    lines.extend(rows.iter().map(line));
    align(&lines)
}

fn line(row: &Row) -> Vec<String> {
    let choose = |yes, text: &str, other: &str| if yes { text.to_string() } else { other.into() };
    let mut line = vec![
        row.metric.label.to_string(),
        choose(row.metric.lower_is_better, "lower", "higher"),
        number(row.kernel()),
        choose(row.best() == Some(KERNEL), "*", ""),
        percent(row.spread()),
    ];
    for (other, value) in row.others.iter().enumerate() {
        line.push(number(*value));
        line.push(judgement(row, other));
    }
    line.push(choose(row.noisy(), "noisy", ""));
    line
}

/// What each arm of ours lost, to whom, and by how much.
pub fn losses(rows: &[Row], columns: &[Column]) -> String {
    let mut text = String::new();
    for (other, column) in columns.iter().enumerate().filter(|(_, c)| c.ours) {
        let lost: Vec<String> = rows
            .iter()
            .filter_map(|row| {
                let loss = row.loss(other)?;
                Some(format!(
                    "  {}: {}, {:.1} % behind {} with {} (spread {} %)\n",
                    row.metric.label,
                    number(row.others[other]),
                    loss.behind * 100.0,
                    loss.rival,
                    number(Some(loss.best)),
                    percent(row.spread())
                ))
            })
            .collect();
        let nr = rows.iter().filter(|row| row.others[other].is_some());
        text += &format!("{} lost {} of {}", column.name, lost.len(), nr.count());
        text += if lost.is_empty() { "\n" } else { ":\n" };
        text += &lost.concat();
    }
    text
}

/// Columns as wide as their widest cell; numbers to the right, words to the left.
fn align(lines: &[Vec<String>]) -> String {
    let nr_columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines
            .iter()
            .filter_map(|line| line.get(column))
            .map(|s| s.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..nr_columns)
        .map(|column| width(column).unwrap_or(0))
        .collect();
    let is_number = |column: usize| {
        lines
            .iter()
            .skip(1)
            .all(|l| l[column] == "-" || l[column].parse::<f64>().is_ok())
    };
    let right: Vec<bool> = (0..nr_columns).map(is_number).collect();
    let mut text = String::new();
    for line in lines {
        let mut row = String::new();
        for (column, cell) in line.iter().enumerate() {
            let width = widths[column];
            row += &if right[column] {
                format!("{cell:>width$}  ")
            } else {
                format!("{cell:<width$}  ")
            };
        }
        text += row.trim_end();
        text.push('\n');
    }
    text
}

/// `text` as a JSON string.
pub fn quote(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if u32::from(c) < 0x20 => quoted += &format!("\\u{:04x}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

fn json_number(value: Option<f64>) -> String {
    value
        .filter(|v| v.is_finite())
        .map_or("null".into(), |v| v.to_string())
}

/// The rows as a JSON array; `behind`: the part by which an arm of ours is behind the best of the others, where it lost.
pub fn json(rows: &[Row]) -> String {
    let lines = rows.iter().map(|row| {
        let list = |value: &dyn Fn(usize) -> Option<f64>| {
            let numbers = (0..row.others.len()).map(|other| json_number(value(other)));
            format!("[{}]", numbers.collect::<Vec<_>>().join(", "))
        };
        format!(
            "    {{\"metric\": {}, \"better\": {}, \"kernel_first\": {}, \"kernel_last\": {}, \"arms\": {}, \
             \"ratios\": {}, \"best\": {}, \"behind\": {}, \"noisy\": {}}}",
            quote(row.metric.key),
            quote(if row.metric.lower_is_better { "lower" } else { "higher" }),
            json_number(row.first),
            json_number(row.last),
            list(&|other| row.others[other]),
            list(&|other| row.ratio(other)),
            row.best().map_or("null".into(), quote),
            list(&|other| Some(row.loss(other)?.behind)),
            row.noisy()
        )
    });
    format!("[\n{}\n  ]", lines.collect::<Vec<_>>().join(",\n"))
}

#[cfg(test)]
mod tests {
    use super::super::cells::Cell;
    use super::super::row::tests::{columns, row};
    use super::*;

    #[test]
    fn columns_line_up() {
        let time = &Cell::Hackbench.metrics()[0];
        let columns = columns();
        let rows = [
            row(time, &columns, [1234.0, 1234.0], [2468.0, 617.0]),
            row(time, &columns, [0.6, 0.7], [f64::NAN, 0.7]),
        ];
        let text = table(&rows, &columns);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(
            lines[1],
            "hackbench, s  lower        1234           0.0  2468  2.00 LOST  617.0  0.50 better *"
        );
        assert_eq!(
            lines[2],
            "hackbench, s  lower       0.650  *       15.4     -  -          0.700  1.08 same      noisy"
        );
        let end = |line: &str, word: &str| line.find(word).map(|at| at + word.len());
        assert_eq!(end(lines[0], KERNEL), end(lines[1], "1234"));
    }

    #[test]
    fn losses_are_listed() {
        let time = &Cell::Hackbench.metrics()[0];
        let columns = columns();
        let lost = [row(time, &columns, [1.0, 1.0], [0.9, 0.6])];
        assert_eq!(
            losses(&lost, &columns),
            "ours lost 1 of 1:\n  hackbench, s: 0.900, 50.0 % behind peer with 0.600 (spread 0.0 %)\n"
        );
        let won = [
            row(time, &columns, [1.0, 1.0], [0.9, 0.95]),
            row(time, &columns, [1.0, 1.0], [f64::NAN, 0.5]),
        ];
        assert_eq!(losses(&won, &columns), "ours lost 0 of 1\n");
    }

    #[test]
    fn json_is_json() {
        let time = &Cell::Hackbench.metrics()[0];
        let columns = columns();
        let text = json(&[row(time, &columns, [0.5, 0.5], [1.0, f64::NAN])]);
        assert!(
            text.contains(
                "\"arms\": [1, null], \"ratios\": [2, null], \"best\": \"in-kernel\", \
                 \"behind\": [1, null], \"noisy\": false"
            ),
            "{text}"
        );
        assert_eq!(quote("a\"b\\\n"), "\"a\\\"b\\\\\\u000a\"");
    }
}
