// SPDX-License-Identifier: GPL-2.0-only
//! One metric in all arms, and what to say of it.
//!
//! The kernel's value is the mean of its first and last arm. An arm is "same" within the range of the two, made
//! 2 % wider at both ends; outside it is better or worse, and both are said. A row whose two in-kernel values
//! differ by more than 10 % is noisy: its ratio proves little. An arm of ours loses where it is behind the best of the
//! kernel and the schedulers of others by a larger part than the two in-kernel values are apart.

use super::cells::Metric;

const SAME: f64 = 0.02;
const NOISY: f64 = 0.10;

/// An arm that is not the in-kernel scheduler.
pub struct Column {
    pub name: String,
    pub ours: bool,
}

/// None where it was not measured.
pub struct Row<'a> {
    pub metric: &'a Metric,
    pub columns: &'a [Column],
    pub first: Option<f64>,
    pub last: Option<f64>,
    /// As many as columns.
    pub others: Vec<Option<f64>>,
}

#[derive(Debug, PartialEq)]
pub enum Verdict {
    Better,
    Same,
    Worse,
}

/// A loss of an arm of ours.
#[derive(Debug, PartialEq)]
pub struct Loss<'a> {
    pub rival: &'a str,
    pub best: f64,
    /// Part by which it is worse than that.
    pub behind: f64,
}

pub const KERNEL: &str = "in-kernel";

impl Row<'_> {
    pub fn kernel(&self) -> Option<f64> {
        Some((self.first? + self.last?) / 2.0)
    }

    /// Distance of the two in-kernel values as a part of their mean.
    pub fn spread(&self) -> Option<f64> {
        let mean = self.kernel().filter(|mean| *mean > 0.0)?;
        Some((self.first? - self.last?).abs() / mean)
    }

    pub fn noisy(&self) -> bool {
        self.spread().is_some_and(|spread| spread > NOISY)
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

    /// The best of the kernel and the columns that `counts` admits: its name and value.
    fn best_of(&self, counts: impl Fn(&Column) -> bool) -> Option<(&str, f64)> {
        let columns = self.columns.iter().zip(&self.others);
        let others = columns
            .filter(|(column, _)| counts(column))
            .map(|(column, value)| (column.name.as_str(), *value));
        let all = std::iter::once((KERNEL, self.kernel())).chain(others);
        let measured = all.filter_map(|(name, value)| Some((name, value?)));
        measured.reduce(|best, next| match self.is_worse(best.1, next.1) {
            true => next,
            false => best,
        })
    }

    fn is_worse(&self, value: f64, than: f64) -> bool {
        if self.metric.lower_is_better {
            value > than
        } else {
            value < than
        }
    }

    /// The name of the best arm.
    pub fn best(&self) -> Option<&str> {
        self.best_of(|_| true).map(|(name, _)| name)
    }

    pub fn loss(&self, other: usize) -> Option<Loss<'_>> {
        let value = self.others[other].filter(|_| self.columns[other].ours)?;
        let (rival, best) = self.best_of(|column| !column.ours)?;
        let behind = (value - best).abs() / best;
        let lost = self.is_worse(value, best) && behind > self.spread().unwrap_or(0.0);
        lost.then_some(Loss {
            rival,
            best,
            behind,
        })
    }
}

#[cfg(test)]
pub mod tests {
    use super::super::cells::Cell;
    use super::*;

    pub fn columns() -> Vec<Column> {
        [("ours", true), ("peer", false)]
            .map(|(name, ours)| Column {
                name: name.into(),
                ours,
            })
            .into()
    }

    pub fn row<'a>(
        metric: &'a Metric,
        columns: &'a [Column],
        [first, last]: [f64; 2],
        others: [f64; 2],
    ) -> Row<'a> {
        Row {
            metric,
            columns,
            first: Some(first),
            last: Some(last),
            // NaN stands for nothing.
            others: others.map(|v| Some(v).filter(|v| !v.is_nan())).into(),
        }
    }

    #[test]
    fn worse_than_the_kernel_is_worse() {
        let (time, rate) = (&Cell::Hackbench.metrics()[0], &Cell::Full.metrics()[0]);
        let columns = columns();
        let verdict = |metric, kernel, ours| {
            row(metric, &columns, kernel, [ours, f64::NAN])
                .verdict(0)
                .unwrap()
        };
        assert_eq!(verdict(time, [0.66, 0.70], 0.52), Verdict::Better);
        assert_eq!(verdict(time, [0.66, 0.70], 0.80), Verdict::Worse);
        assert_eq!(verdict(time, [0.66, 0.70], 0.71), Verdict::Same);
        assert_eq!(verdict(rate, [312.0, 312.0], 290.0), Verdict::Worse);
        assert_eq!(verdict(rate, [312.0, 312.0], 340.0), Verdict::Better);
        let noisy = |kernel| row(time, &columns, kernel, [1.0, 1.0]).noisy();
        assert!(!noisy([0.66, 0.70]) && noisy([0.60, 0.70]));
    }

    #[test]
    fn ours_loses_to_the_best_of_the_others_beyond_the_spread() {
        let (time, rate) = (&Cell::Hackbench.metrics()[0], &Cell::Full.metrics()[0]);
        let columns = columns();
        // Ahead of the kernel, and yet behind the peer.
        let behind = row(time, &columns, [0.99, 1.01], [0.9, 0.8]);
        assert_eq!(behind.best(), Some("peer"));
        let loss = behind.loss(0).unwrap();
        assert_eq!((loss.rival, loss.best), ("peer", 0.8));
        assert!((loss.behind - 0.125).abs() < 1e-9);
        assert_eq!(behind.loss(1), None);
        // The same, but the kernel's own values are as far apart.
        assert_eq!(row(time, &columns, [0.9, 1.1], [0.9, 0.8]).loss(0), None);
        let ahead = row(rate, &columns, [300.0, 300.0], [310.0, 305.0]);
        assert_eq!((ahead.best(), ahead.loss(0)), (Some("ours"), None));
        let alone = row(rate, &columns, [300.0, 300.0], [290.0, f64::NAN]);
        assert_eq!(alone.loss(0).unwrap().rival, KERNEL);
    }
}
