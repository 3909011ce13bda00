// SPDX-License-Identifier: GPL-2.0-only
//! A histogram that never allocates after it was made, and the median of a few numbers.
//!
//! Values below 128 have a bucket each; above, every power of two is cut into 128 buckets, so a bucket is
//! less than 0.8 % wide. Percentiles are a bucket's upper end (never below the true value), bounded by the
//! exact maximum.

const SUB_BITS: u32 = 7;
const SUB: usize = 1 << SUB_BITS;
const NR_BUCKETS: usize = (64 - SUB_BITS as usize + 1) * SUB;

pub struct Hist {
    counts: Box<[u64]>,
    total: u64,
    sum: u64,
    max: u64,
}

fn bucket_of(value: u64) -> usize {
    let bits = 64 - value.leading_zeros();
    let shift = bits.saturating_sub(SUB_BITS + 1);
    (shift as usize) * SUB + (value >> shift) as usize
}

fn bucket_end(bucket: usize) -> u64 {
    if bucket < 2 * SUB {
        return bucket as u64;
    }
    let shift = bucket / SUB - 1;
    let low = ((bucket % SUB + SUB) as u64) << shift;
    low + ((1u64 << shift) - 1)
}

impl Hist {
    pub fn new() -> Self {
        Hist {
            counts: vec![0; NR_BUCKETS].into_boxed_slice(),
            total: 0,
            sum: 0,
            max: 0,
        }
    }

    pub fn record(&mut self, value: u64) {
        self.counts[bucket_of(value)] += 1;
        self.total += 1;
        self.sum = self.sum.saturating_add(value);
        self.max = self.max.max(value);
    }

    pub fn add(&mut self, other: &Hist) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    pub fn max(&self) -> u64 {
        self.max
    }

    pub fn mean(&self) -> u64 {
        self.sum.checked_div(self.total).unwrap_or(0)
    }

    /// The smallest value that at least `percent` of the samples do not exceed; 0 without samples.
    pub fn percentile(&self, percent: f64) -> u64 {
        let rank = ((percent / 100.0 * self.total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return bucket_end(bucket).min(self.max);
            }
        }
        self.max
    }

    /// "sum max bucket:count ..." for the way from a child to its parent.
    pub fn to_text(&self) -> String {
        let mut text = format!("{} {}", self.sum, self.max);
        for (bucket, count) in self
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
        {
            text += &format!(" {bucket}:{count}");
        }
        text
    }

    /// Reads what `to_text` wrote.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut hist = Hist::new();
        let mut words = text.split_whitespace();
        hist.sum = words.next()?.parse().ok()?;
        hist.max = words.next()?.parse().ok()?;
        for word in words {
            let (bucket, count) = word.split_once(':')?;
            let count: u64 = count.parse().ok()?;
            *hist.counts.get_mut(bucket.parse::<usize>().ok()?)? += count;
            hist.total += count;
        }
        Some(hist)
    }
}

/// Nanoseconds as microseconds, for output.
pub fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

/// The middle value, or the mean of the two middle ones; NaN for an empty list.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_narrow() {
        for value in (0..100_000).chain([u64::MAX / 3, u64::MAX - 1, u64::MAX]) {
            let bucket = bucket_of(value);
            let end = bucket_end(bucket);
            assert!(end >= value, "{value} {bucket} {end}");
            assert!((end - value) as f64 <= value as f64 * 0.01, "{value} {end}");
            assert_eq!(bucket_of(end), bucket);
            if end < u64::MAX {
                assert_eq!(bucket_of(end + 1), bucket + 1);
            }
        }
    }

    #[test]
    fn percentiles() {
        let mut hist = Hist::new();
        assert_eq!((hist.percentile(99.0), hist.mean()), (0, 0));
        (1..=100).for_each(|v| hist.record(v));
        assert_eq!(hist.percentile(50.0), 50);
        assert_eq!(hist.percentile(99.0), 99);
        assert_eq!(
            (hist.percentile(100.0), hist.max(), hist.mean()),
            (100, 100, 50)
        );
        hist.record(1_000_003);
        assert_eq!(hist.percentile(100.0), 1_000_003);
    }

    #[test]
    fn text_keeps_everything() {
        let mut hist = Hist::new();
        [3, 3, 70_000, 9_999_999_999]
            .iter()
            .for_each(|&v| hist.record(v));
        let copy = Hist::from_text(&hist.to_text()).unwrap();
        assert_eq!(copy.to_text(), hist.to_text());
        assert_eq!((copy.total(), copy.max()), (4, 9_999_999_999));
        assert!(Hist::from_text("1 2 x").is_none());
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
        assert!(median(&[]).is_nan());
    }
}
