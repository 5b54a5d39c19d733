//! Least squares: which costs explain what was measured.

/// How often each kind occurred, and what they took together.
pub(super) type Sample = (Vec<f64>, f64);

/// The result of a fit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fit {
    /// The cost of one of each, never negative.
    pub(super) costs: Vec<f64>,
    /// The median of how far off the fit is, as a share of what was measured.
    pub(super) error: f64,
}

/// Finds the costs of each kind from samples: how often each kind occurred, and what they took together. Every sample
/// counts alike, whatever it took; a kind that would cost less than nothing costs nothing.
pub(super) fn fit(samples: &[Sample]) -> Fit {
    let kinds = samples.first().map_or(0, |(counts, _)| counts.len());
    let mut free: Vec<usize> = (0..kinds).collect();
    let mut costs = vec![0.0; kinds];
    loop {
        let found = solve(samples, &free);
        costs.fill(0.0);
        for (kind, cost) in free.iter().zip(&found) {
            costs[*kind] = *cost;
        }
        match free.iter().position(|kind| costs[*kind] < 0.0) {
            Some(_) => {
                // The worst first: without it the others may be right.
                let worst = free.iter().copied().min_by(|one, other| costs[*one].total_cmp(&costs[*other]));
                free.retain(|kind| Some(*kind) != worst);
            }
            None => break,
        }
    }
    let mut errors: Vec<f64> = samples
        .iter()
        .map(|(counts, took)| {
            let explained: f64 = counts.iter().zip(&costs).map(|(count, cost)| count * cost).sum();
            (explained - took).abs() / took
        })
        .collect();
    errors.sort_unstable_by(f64::total_cmp);
    let error = errors.get(errors.len() / 2).copied().unwrap_or(0.0);
    Fit { costs, error }
}

/// Solves the normal equations for some of the kinds; a kind that never occurs costs nothing.
fn solve(samples: &[Sample], kinds: &[usize]) -> Vec<f64> {
    let size = kinds.len();
    let mut rows = vec![vec![0.0; size + 1]; size];
    for (counts, took) in samples {
        // As shares of what was measured, so that short samples say as much as long ones.
        let count = |kind: usize| counts[kinds[kind]] / took;
        for (one, row) in rows.iter_mut().enumerate() {
            for (other, cell) in row.iter_mut().take(size).enumerate() {
                *cell += count(one) * count(other);
            }
            row[size] += count(one);
        }
    }
    for pivot in 0..size {
        let best =
            (pivot..size).max_by(|one, other| rows[*one][pivot].abs().total_cmp(&rows[*other][pivot].abs()));
        rows.swap(pivot, best.unwrap_or(pivot));
        let row = rows[pivot].clone();
        if row[pivot].abs() < 1e-30 {
            continue;
        }
        for (_, cells) in rows.iter_mut().enumerate().filter(|(other, _)| *other != pivot) {
            let factor = cells[pivot] / row[pivot];
            for (cell, by) in cells.iter_mut().zip(&row) {
                *cell -= factor * by;
            }
        }
    }
    (0..size)
        .map(|kind| if rows[kind][kind].abs() < 1e-30 { 0.0 } else { rows[kind][size] / rows[kind][kind] })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_that_were_put_in_come_out() {
        let costs = [7.0, 0.25, 30.0];
        let mut samples = Vec::new();
        for (one, two, three) in [(1.0, 10.0, 0.0), (2.0, 500.0, 1.0), (3.0, 0.0, 5.0), (10.0, 4.0, 2.0)] {
            samples.push((vec![one, two, three], one * costs[0] + two * costs[1] + three * costs[2]));
        }
        let found = fit(&samples);
        for (found, put_in) in found.costs.iter().zip(costs) {
            assert!((found - put_in).abs() < 1e-6, "{found} {put_in}");
        }
        assert!(found.error < 1e-9);
    }

    #[test]
    fn nothing_costs_less_than_nothing() {
        let samples = vec![(vec![1.0, 1.0], 9.0), (vec![1.0, 5.0], 8.0), (vec![2.0, 3.0], 17.0)];
        let found = fit(&samples);
        assert_eq!(found.costs[1], 0.0);
        assert!((found.costs[0] - 8.5).abs() < 0.5 && found.error > 0.0, "{found:?}");
    }

    #[test]
    fn what_never_occurs_costs_nothing() {
        let samples = vec![(vec![1.0, 0.0], 5.0), (vec![3.0, 0.0], 15.0)];
        let costs = fit(&samples).costs;
        assert!((costs[0] - 5.0).abs() < 1e-9 && costs[1] == 0.0, "{costs:?}");
    }
}
