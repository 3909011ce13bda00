// SPDX-License-Identifier: GPL-2.0-only
//! The work of a request.

/// Three square matrices; together they are the footprint.
pub struct Matrices {
    side: usize,
    left: Vec<u64>,
    right: Vec<u64>,
    product: Vec<u64>,
}

impl Matrices {
    pub fn new(footprint_kib: usize) -> Self {
        let side = ((footprint_kib * 1024 / 3 / size_of::<u64>()) as f64).sqrt() as usize;
        Matrices {
            side,
            left: vec![3; side * side],
            right: vec![5; side * side],
            product: vec![0; side * side],
        }
    }

    /// The product by its definition. A step costs nine instructions; schbench's costs eight (gcc -O2), and the
    /// number is what counts under icount. The index check is two of the nine and also keeps the compiler from
    /// unrolling the loop, so do not take it out.
    pub fn multiply(&mut self) {
        let side = self.side;
        for (row, out) in self
            .left
            .chunks_exact(side)
            .zip(self.product.chunks_exact_mut(side))
        {
            for (j, cell) in out.iter_mut().enumerate() {
                let (mut sum, mut at) = (0, j);
                for &a in row {
                    sum += a * self.right[at];
                    at += side;
                }
                *cell = sum;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn product_is_right() {
        let mut matrices = Matrices::new(1);
        let cells = matrices.side * matrices.side;
        assert_eq!(cells, 36);
        // Times the unit matrix, but for one cell.
        matrices.left = (0..36).collect();
        matrices.right = (0..36).map(|i| u64::from(i % 7 == 0)).collect();
        matrices.right[1] = 2;
        matrices.multiply();
        let expected = (0..36).map(|i| if i % 6 == 1 { i + 2 * (i - 1) } else { i });
        assert_eq!(matrices.product, expected.collect::<Vec<u64>>());
        assert_eq!(Matrices::new(128).side, 73);
    }
}
