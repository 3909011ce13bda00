// SPDX-License-Identifier: GPL-2.0-only
//! The table of a demo, and the same as JSON.
//!
//! The kernel's value is the mean of its first and last arm. An arm is "same" within the range of the two, made
//! 2 % wider at both ends; outside it is better or worse, and both are said. A row whose two in-kernel values
//! differ by more than 10 % is marked noisy: its ratio proves little.

use super::cells::Metric;

const SAME: f64 = 0.02;
const NOISY: f64 = 0.10;

/// One metric in every arm: in-kernel first, in-kernel last, then the others; None where it was not measured.
pub struct Row<'a> {
    pub metric: &'a Metric,
    pub first: Option<f64>,
    pub last: Option<f64>,
    pub others: Vec<Option<f64>>,
}

#[derive(Debug, PartialEq)]
pub enum Verdict {
    Better,
    Same,
    Worse,
}

impl Row<'_> {
    fn kernel(&self) -> Option<f64> {
        Some((self.first? + self.last?) / 2.0)
    }

    pub fn noisy(&self) -> bool {
        match (self.first, self.last, self.kernel()) {
            (Some(first), Some(last), Some(mean)) => (first - last).abs() > NOISY * mean,
            _ => false,
        }
    }

    pub fn ratio(&self, other: usize) -> Option<f64> {
        let kernel = self.kernel().filter(|mean| *mean > 0.0)?;
        Some(self.others[other]? / kernel)
    }

    pub fn verdict(&self, other: usize) -> Option<Verdict> {
        let (first, last, value) = (self.first?, self.last?, self.others[other]?);
        let (low, high) = (
            first.min(last) * (1.0 - SAME),
            first.max(last) * (1.0 + SAME),
        );
        Some(if (low..=high).contains(&value) {
            Verdict::Same
        } else if (value < low) == self.metric.lower_is_better {
            Verdict::Better
        } else {
            Verdict::Worse
        })
    }
}

fn number(value: Option<f64>) -> String {
    match value {
        None => "-".into(),
        Some(value) if value.abs() >= 1000.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 100.0 => format!("{value:.1}"),
        Some(value) if value.abs() >= 10.0 => format!("{value:.2}"),
        Some(value) => format!("{value:.3}"),
    }
}

fn judgement(row: &Row, other: usize) -> String {
    let word = match row.verdict(other) {
        Some(Verdict::Better) => "better",
        Some(Verdict::Same) => "same",
        Some(Verdict::Worse) => "WORSE",
        None => "",
    };
    match row.ratio(other) {
        Some(ratio) => format!("{ratio:.2} {word}"),
        None => "-".into(),
    }
}

/// The aligned table; `names` are those of the other arms.
pub fn table(rows: &[Row], names: &[String]) -> String {
    let mut head = vec![
        "metric".to_string(),
        "better".into(),
        "in-kernel first".into(),
        "in-kernel last".into(),
    ];
    for name in names {
        head.push(name.clone());
        head.push(format!("{name}/kernel"));
    }
    head.push(String::new());
    let mut lines = vec![head];
    for row in rows {
        let better = if row.metric.lower_is_better {
            "lower"
        } else {
            "higher"
        };
        let mut line = vec![
            row.metric.label.to_string(),
            better.into(),
            number(row.first),
            number(row.last),
        ];
        for other in 0..names.len() {
            line.push(number(row.others[other]));
            line.push(judgement(row, other));
        }
        line.push(if row.noisy() {
            "noisy".into()
        } else {
            String::new()
        });
        lines.push(line);
    }
    align(&lines)
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

/// The rows as a JSON array.
pub fn json(rows: &[Row]) -> String {
    let list = |values: Vec<String>| format!("[{}]", values.join(", "));
    let lines = rows.iter().map(|row| {
        let others = 0..row.others.len();
        format!(
            "    {{\"metric\": {}, \"better\": {}, \"kernel_first\": {}, \"kernel_last\": {}, \"arms\": {}, \
             \"ratios\": {}, \"noisy\": {}}}",
            quote(row.metric.key),
            quote(if row.metric.lower_is_better { "lower" } else { "higher" }),
            json_number(row.first),
            json_number(row.last),
            list(row.others.iter().map(|value| json_number(*value)).collect()),
            list(others.map(|other| json_number(row.ratio(other))).collect()),
            row.noisy()
        )
    });
    format!("[\n{}\n  ]", lines.collect::<Vec<_>>().join(",\n"))
}

#[cfg(test)]
mod tests {
    use super::super::cells::Cell;
    use super::*;

    fn row(metric: &Metric, first: f64, last: f64, other: f64) -> Row<'_> {
        Row {
            metric,
            first: Some(first),
            last: Some(last),
            others: vec![Some(other)],
        }
    }

    #[test]
    fn losses_are_losses() {
        let time = &Cell::Hackbench.metrics()[0];
        let rate = &Cell::Full.metrics()[0];
        assert_eq!(
            row(time, 0.66, 0.70, 0.52).verdict(0),
            Some(Verdict::Better)
        );
        assert_eq!(row(time, 0.66, 0.70, 0.80).verdict(0), Some(Verdict::Worse));
        assert_eq!(row(time, 0.66, 0.70, 0.71).verdict(0), Some(Verdict::Same));
        assert_eq!(
            row(rate, 312.0, 312.0, 290.0).verdict(0),
            Some(Verdict::Worse)
        );
        assert_eq!(
            row(rate, 312.0, 312.0, 340.0).verdict(0),
            Some(Verdict::Better)
        );
        assert!(!row(time, 0.66, 0.70, 1.0).noisy());
        assert!(row(time, 0.60, 0.70, 1.0).noisy());
    }

    #[test]
    fn columns_line_up() {
        let time = &Cell::Hackbench.metrics()[0];
        let missing = Row {
            metric: time,
            first: Some(0.6),
            last: Some(0.7),
            others: vec![None],
        };
        let text = table(
            &[row(time, 1234.0, 1234.0, 2468.0), missing],
            &["eevdfx".into()],
        );
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(
            lines[1],
            "hackbench, s  lower              1234            1234    2468  2.00 WORSE"
        );
        assert!(lines[2].ends_with("-  -              noisy"), "{text}");
        assert_eq!(
            lines[0].find("in-kernel last").map(|at| at + 14),
            lines[1].find("1234    2468").map(|at| at + 4)
        );
    }

    #[test]
    fn json_is_json() {
        let time = &Cell::Hackbench.metrics()[0];
        let text = json(&[Row {
            metric: time,
            first: Some(0.5),
            last: Some(0.5),
            others: vec![Some(1.0), None],
        }]);
        assert!(
            text.contains("\"arms\": [1, null], \"ratios\": [2, null], \"noisy\": false"),
            "{text}"
        );
        assert_eq!(quote("a\"b\\\n"), "\"a\\\"b\\\\\\u000a\"");
    }
}
