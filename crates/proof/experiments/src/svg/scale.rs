//! Scales: where a value stands on an axis, and at which round numbers the axis has ticks.

/// A linear scale has so many parts, at least and at most.
const PARTS_MIN: f64 = 4.0;
const PARTS_MAX: f64 = 7.0;

/// Values that differ by this factor share an axis only if it is logarithmic.
const SPAN_LINEAR_MAX: f64 = 50.0;

/// A logarithmic scale of so few decades has ticks at 1, 2 and 5 times a power of ten; others have them at the powers alone.
const DECADES_FINE_MAX: f64 = 2.5;

/// On an axis of places zero stands so far before the others if these are at least as many, and differ by such a factor.
const BESIDE_ZERO: f64 = 0.13;
const FACTORS_MIN: usize = 3;
const SPAN_BESIDE_ZERO_MIN: f64 = 100.0;

/// A scale from values to places between zero and one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    is_logarithmic: bool,
    /// The share of the axis between zero and the least of the values, where a logarithmic axis has both.
    beside_zero: f64,
    /// The values that have a tick, ascending.
    pub(super) ticks: Vec<f64>,
}

impl Scale {
    /// A scale of amounts, which holds all of these and ends at round numbers. It begins at zero, unless some are negative or they differ too much.
    pub(super) fn of_amounts(values: &[f64]) -> Self {
        let greatest = values.iter().copied().fold(0.0, f64::max);
        let least = values.iter().copied().fold(0.0, f64::min);
        let smallest = values.iter().copied().filter(|value| *value > 0.0).fold(f64::MAX, f64::min);
        let all_positive = values.iter().all(|value| *value > 0.0);
        if all_positive && greatest / smallest > SPAN_LINEAR_MAX {
            return Self::logarithmic(smallest, greatest);
        }
        if greatest == least {
            // There is nothing but zeros.
            return Self::linear(0.0, 1.0, 0.5);
        }
        let ends = |step: f64| ((least / step + 1e-9).floor() * step, (greatest / step - 1e-9).ceil() * step);
        let length = |step: f64| ends(step).1 - ends(step).0;
        let fits = |step: &f64| (PARTS_MIN..=PARTS_MAX).contains(&(length(*step) / step).round());
        // That which ends nearest to the values, and of several the one with the fewest parts.
        let steps = round_steps((greatest - least) / PARTS_MAX).filter(fits);
        let step =
            steps.min_by(|one, other| length(*one).total_cmp(&length(*other)).then(other.total_cmp(one)));
        let step = step.unwrap_or_else(|| round_step((greatest - least) / PARTS_MIN));
        let (low, high) = ends(step);
        Self::linear(low, high, step)
    }

    /// A scale of places, which spans these and nothing else; ticks stand at the places themselves where there are few. Zero stands before places that would
    /// lie on it, were their axis linear.
    pub(super) fn of_places(places: &[f64]) -> Self {
        /// More places than this have round numbers between them as ticks.
        const PLACES_MAX: usize = 12;
        let (low, high) = match (places.first(), places.last()) {
            (Some(low), Some(high)) if low < high => (*low, *high),
            (Some(only), _) => (only - 1.0, only + 1.0),
            (None, _) => (0.0, 1.0),
        };
        if let [0.0, further @ ..] = places
            && further.len() >= FACTORS_MIN
            && further[further.len() - 1] > SPAN_BESIDE_ZERO_MIN * further[0]
            && grows_by_factors(further)
        {
            let beyond = Self::of_places(further);
            let ticks = [0.0].into_iter().chain(beyond.ticks).collect();
            return Scale { beside_zero: BESIDE_ZERO, ticks, ..beyond };
        }
        let is_logarithmic = low > 0.0 && grows_by_factors(places);
        let ticks = if places.len() <= PLACES_MAX {
            places.to_vec()
        } else if is_logarithmic {
            Self::logarithmic(low, high)
                .ticks
                .into_iter()
                .filter(|tick| (low..=high).contains(tick))
                .collect()
        } else {
            let step = round_step((high - low) / PARTS_MAX);
            multiples((low / step).ceil() * step, high, step)
        };
        Scale { low, high, is_logarithmic, beside_zero: 0.0, ticks }
    }

    fn linear(low: f64, high: f64, step: f64) -> Self {
        Scale { low, high, is_logarithmic: false, beside_zero: 0.0, ticks: multiples(low, high, step) }
    }

    fn logarithmic(smallest: f64, greatest: f64) -> Self {
        let (first, last) = (smallest.log10().floor() as i32, greatest.log10().ceil() as i32);
        let round = |factors: &'static [f64]| {
            (first..=last).flat_map(move |power| factors.iter().map(move |factor| factor * 10f64.powi(power)))
        };
        // It ends at the nearest round numbers beyond the values.
        let below = |tick: &f64| *tick <= smallest * (1.0 + 1e-9);
        let low = round(&[1.0, 2.0, 5.0]).take_while(below).last().unwrap_or(smallest);
        let high = round(&[1.0, 2.0, 5.0]).find(|tick| *tick >= greatest * (1.0 - 1e-9)).unwrap_or(greatest);
        let is_fine = (greatest / smallest).log10() <= DECADES_FINE_MAX;
        let ticks = round(if is_fine { &[1.0, 2.0, 5.0] } else { &[1.0] });
        let ticks = ticks.filter(|tick| (low..=high).contains(tick)).collect();
        Scale { low, high, is_logarithmic: true, beside_zero: 0.0, ticks }
    }

    /// True if zero stands on the axis, above its beginning.
    pub(super) fn has_zero_inside(&self) -> bool {
        self.low < 0.0 && self.high > 0.0
    }

    /// Where a value stands; one beyond an end stands at the end.
    pub(super) fn place(&self, value: f64) -> f64 {
        if self.beside_zero > 0.0 && value <= 0.0 {
            return 0.0;
        }
        let place = match self.is_logarithmic {
            true => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        self.beside_zero + (1.0 - self.beside_zero) * place.clamp(0.0, 1.0)
    }
}

/// Those of 1, 2, 2.5 and 5 times a power of ten that are not less, ascending, up to twenty times as much.
fn round_steps(least: f64) -> impl Iterator<Item = f64> {
    let power = 10f64.powf(least.log10().floor());
    let factors = [1.0, 2.0, 2.5, 5.0, 10.0, 20.0];
    factors.into_iter().map(move |factor| factor * power).filter(move |step| *step >= least * (1.0 - 1e-9))
}

/// The least of them.
fn round_step(least: f64) -> f64 {
    round_steps(least).next().unwrap_or(least)
}

fn multiples(low: f64, high: f64, step: f64) -> Vec<f64> {
    let count = ((high - low) / step + 1e-6).floor() as usize;
    (0..=count).map(|part| low + step * part as f64).collect()
}

/// True if each place is a multiple of the one before, rather than so much more.
fn grows_by_factors(places: &[f64]) -> bool {
    let steps: Vec<(f64, f64)> =
        places.windows(2).map(|pair| (pair[1] - pair[0], pair[1] / pair[0])).collect();
    let spread = |values: Vec<f64>| {
        let (least, most) = values
            .iter()
            .fold((f64::MAX, 0.0f64), |(least, most), value| (least.min(*value), most.max(*value)));
        most / least
    };
    steps.len() >= 2
        && spread(steps.iter().map(|(_, factor)| factor.ln()).collect()) * 2.0
            < spread(steps.iter().map(|(difference, _)| *difference).collect())
}

/// A number as an axis shows it: three digits, with `k` and `M` for thousands and millions.
pub(super) fn shown(value: f64) -> String {
    let (scaled, suffix) = match value.abs() {
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    if scaled == 0.0 {
        return "0".to_owned();
    }
    let decimals = (3 - scaled.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{scaled:.decimals$}");
    let trimmed = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{trimmed}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(scale: &Scale) -> (f64, f64) {
        (scale.low, scale.high)
    }

    #[test]
    fn an_axis_ends_at_the_first_round_number_beyond_its_values() {
        for (values, low, high) in [
            (&[0.03, 0.9][..], 0.0, 1.0),
            (&[3.0, 7.3], 0.0, 8.0),
            (&[86.0], 0.0, 100.0),
            (&[130.0, 20.0], 0.0, 140.0),
            (&[163.0, 100.0], 0.0, 175.0),
            (&[410.0, 20.0], 0.0, 500.0),
            (&[640.0, 400.0], 0.0, 700.0),
            (&[-3.0, 5.0], -5.0, 5.0),
            (&[0.0, 0.0], 0.0, 1.0),
            (&[], 0.0, 1.0),
        ] {
            let scale = Scale::of_amounts(values);
            let (begins, ends) = ends(&scale);
            assert!((begins - low).abs() < 1e-9 && (ends - high).abs() < 1e-9, "{values:?}: {begins} {ends}");
            assert!((3..=8).contains(&scale.ticks.len()), "{values:?}: {:?}", scale.ticks);
        }
    }

    #[test]
    fn amounts_that_differ_by_orders_of_magnitude_stand_on_a_logarithmic_axis() {
        let scale = Scale::of_amounts(&[1.2, 40.0, 8_000.0]);
        assert_eq!(
            (ends(&scale), &scale.ticks[..]),
            ((1.0, 10_000.0), &[1.0, 10.0, 100.0, 1_000.0, 10_000.0][..])
        );
        assert!((scale.place(100.0) - 0.5).abs() < 1e-9);
        assert_eq!(ends(&Scale::of_amounts(&[0.95, 400.0])), (0.5, 500.0), "and not from 0.1 to 1000");
        let narrow = Scale::of_amounts(&[1.5, 90.0]);
        assert_eq!(ends(&narrow), (1.0, 100.0));
        assert!(narrow.ticks.contains(&20.0));
        assert!(!Scale::of_amounts(&[0.0, 8_000.0]).is_logarithmic, "zero has no logarithm");
    }

    #[test]
    fn places_stand_where_they_are_and_not_side_by_side() {
        let even = Scale::of_places(&[0.0, 1.0, 2.0, 10.0]);
        assert_eq!((even.place(1.0), &even.ticks[..]), (0.1, &[0.0, 1.0, 2.0, 10.0][..]));
        let doubling = Scale::of_places(&[1.0, 2.0, 4.0, 8.0, 16.0]);
        assert!((doubling.place(4.0) - 0.5).abs() < 1e-9);
        let from_zero = Scale::of_places(&[0.0, 0.3, 3.4, 10.0, 27.0, 100.0]);
        let stand = from_zero.ticks.iter().map(|tick| from_zero.place(*tick)).collect::<Vec<_>>();
        assert_eq!((stand[0], stand[1], stand[5]), (0.0, BESIDE_ZERO, 1.0));
        assert!(stand.windows(2).all(|pair| pair[1] - pair[0] > 0.1), "{stand:?}");
        assert_eq!(Scale::of_places(&[0.0, 5.0, 10.0, 25.0, 50.0, 100.0]).place(50.0), 0.5);
        let many: Vec<f64> = (0..40).map(|at| 0.3 + f64::from(at) * 0.25).collect();
        assert_eq!(Scale::of_places(&many).ticks, [2.0, 4.0, 6.0, 8.0, 10.0]);
        let near: Vec<f64> = (0..20).map(|at| f64::from(at) * 0.5).collect();
        assert_eq!(Scale::of_places(&near).ticks, [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(Scale::of_places(&[7.0]).place(7.0), 0.5);
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.1 + 0.2, "0.3"),
            (2.5, "2.5"),
            (1_200.0, "1200"),
            (12_500.0, "12.5k"),
            (2e6, "2M"),
            (-0.5, "-0.5"),
            (0.000_04, "0.00004"),
        ] {
            assert_eq!(shown(value), text);
        }
    }
}
