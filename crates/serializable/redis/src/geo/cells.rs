//! Cells of a grid over the earth, as Redis numbers them.
//!
//! A step halves the range of longitudes and that of latitudes. The number of a cell has a bit of its column and one of its row for each step in turn, the column
//! first; so cells that are divided further stand beside each other. The score of a member is the number of its cell after 26 steps.

/// Longitudes end here, in degrees, on both sides.
const LONGITUDE_MAX: f64 = 180.0;

/// Latitudes end here, in degrees, on both sides: the square of the Mercator projection.
const LATITUDE_MAX: f64 = 85.051_128_78;

/// The steps of a score.
pub(super) const STEPS_MAX: u32 = 26;

/// The radius of the earth that Redis reckons with, in metres.
pub(super) const EARTH_RADIUS: f64 = 6_372_797.560_856;

/// Half the circumference of the Mercator projection, in metres, as far as Redis goes.
const MERCATOR_MAX: f64 = 20_037_726.37;

/// A place on the earth, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) longitude: f64,
    pub(super) latitude: f64,
}

/// Radians of degrees.
pub(super) fn radians(degrees: f64) -> f64 {
    degrees * (std::f64::consts::PI / 180.0)
}

/// Degrees of radians.
pub(super) fn degrees(radians: f64) -> f64 {
    radians / (std::f64::consts::PI / 180.0)
}

impl Place {
    /// True if it lies on the grid.
    pub(super) fn is_on_grid(self) -> bool {
        self.longitude.abs() <= LONGITUDE_MAX && self.latitude.abs() <= LATITUDE_MAX
    }

    /// The place that a score stands for: the middle of its cell.
    pub(super) fn of_score(score: f64) -> Self {
        let bits = whole(score);
        let cell = Cell { column: every_other(bits >> 1), row: every_other(bits), steps: STEPS_MAX };
        let area = cell.area();
        Place {
            longitude: ((area.west + area.east) / 2.0).clamp(-LONGITUDE_MAX, LONGITUDE_MAX),
            latitude: ((area.south + area.north) / 2.0).clamp(-LATITUDE_MAX, LATITUDE_MAX),
        }
    }

    /// The score of the place.
    pub(super) fn score(self) -> f64 {
        Cell::of(self, STEPS_MAX).number() as f64
    }

    /// Eleven letters as other programs name places: their grid has latitudes up to the poles. 52 bits give ten of them, and the last one is zero.
    pub(super) fn name(self) -> String {
        const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        const POLE: f64 = 90.0;
        let number = Cell::within(self, STEPS_MAX, POLE).number();
        let letter = |at: u32| LETTERS[(number >> (2 * STEPS_MAX - 5 * (at + 1)) & 31) as usize];
        (0..10).map(letter).chain([LETTERS[0]]).map(char::from).collect()
    }

    /// The distance along a meridian to another latitude, in metres.
    pub(super) fn distance_of_latitudes(self, other: Place) -> f64 {
        EARTH_RADIUS * (radians(self.latitude) - radians(other.latitude)).abs()
    }

    /// The distance along a great circle, in metres: the haversine formula.
    pub(super) fn distance(self, other: Place) -> f64 {
        let half_sine = |one: f64, other: f64| libm::sin((radians(other) - radians(one)) / 2.0);
        let of_longitudes = half_sine(self.longitude, other.longitude);
        if of_longitudes == 0.0 {
            return self.distance_of_latitudes(other);
        }
        let of_latitudes = half_sine(self.latitude, other.latitude);
        let cosines = libm::cos(radians(self.latitude)) * libm::cos(radians(other.latitude));
        let square = of_latitudes * of_latitudes + cosines * of_longitudes * of_longitudes;
        2.0 * EARTH_RADIUS * libm::asin(square.sqrt())
    }
}

/// The whole number below a score, as processors of the x86 family convert it where it has no 64 bits or is negative: any member of a sorted set may be asked for its place.
fn whole(score: f64) -> u64 {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    const TOP: u64 = 1 << 63;
    if score < HALF {
        return score as i64 as u64;
    }
    let above = score - HALF;
    if above < HALF { above as i64 as u64 ^ TOP } else { 0 }
}

/// Every other bit of a number, from the lowest on.
fn every_other(bits: u64) -> u32 {
    (0..32).fold(0, |found, at| found | ((bits >> (2 * at) & 1) as u32) << at)
}

/// The bits of a number, with a zero above each.
fn spaced(number: u32) -> u64 {
    (0..32).fold(0, |found, at| found | u64::from(number >> at & 1) << (2 * at))
}

/// A cell: columns count from the west, rows from the south.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    column: u32,
    row: u32,
    steps: u32,
}

/// The edges of a cell, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    pub(super) west: f64,
    pub(super) south: f64,
    pub(super) east: f64,
    pub(super) north: f64,
}

impl Cell {
    /// The cell of a place.
    pub(super) fn of(place: Place, steps: u32) -> Self {
        Cell::within(place, steps, LATITUDE_MAX)
    }

    /// The cell of a place on a grid with these latitudes.
    fn within(place: Place, steps: u32, latitude_max: f64) -> Self {
        let count = f64::from(1_u32 << steps);
        let part = |degrees: f64, most: f64| ((degrees + most) / (most + most) * count) as u32;
        Cell { column: part(place.longitude, LONGITUDE_MAX), row: part(place.latitude, latitude_max), steps }
    }

    /// Its number. On the edge in the east or in the north it is beyond that of all others.
    pub(super) fn number(self) -> u64 {
        spaced(self.row) | spaced(self.column) << 1
    }

    /// The scores of the places in it: from the first up to, and without, the second.
    pub(super) fn scores(self) -> (f64, f64) {
        let shift = 2 * (STEPS_MAX - self.steps);
        ((self.number() << shift) as f64, (self.number().wrapping_add(1) << shift) as f64)
    }

    /// The cell so many columns to the east and rows to the north; the grid is round both ways.
    pub(super) fn beside(self, east: i32, north: i32) -> Self {
        let moved = |at: u32, by: i32| match by {
            0 => at,
            by => at.wrapping_add_signed(by) & ((1 << self.steps) - 1),
        };
        Cell { column: moved(self.column, east), row: moved(self.row, north), steps: self.steps }
    }

    pub(super) fn area(self) -> Area {
        let count = f64::from(1_u32 << self.steps);
        let edge = |at: u32, most: f64| -most + f64::from(at) / count * (most + most);
        Area {
            west: edge(self.column, LONGITUDE_MAX),
            south: edge(self.row, LATITUDE_MAX),
            east: edge(self.column.wrapping_add(1), LONGITUDE_MAX),
            north: edge(self.row.wrapping_add(1), LATITUDE_MAX),
        }
    }
}

/// After how many steps a cell is as large as a circle of this radius, in metres, around this latitude.
pub(super) fn steps_of(mut radius: f64, latitude: f64) -> u32 {
    /// Beyond these latitudes cells are narrower by a step each.
    const NARROW: f64 = 66.0;
    const NARROWER: f64 = 80.0;
    if radius == 0.0 {
        return STEPS_MAX;
    }
    let mut steps = -1_i32;
    while radius < MERCATOR_MAX {
        radius *= 2.0;
        steps += 1;
    }
    steps -= i32::from(latitude.abs() > NARROW) + i32::from(latitude.abs() > NARROWER);
    steps.clamp(1, STEPS_MAX as i32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const PALERMO: Place = Place { longitude: 13.361_389, latitude: 38.115_556 };
    const CATANIA: Place = Place { longitude: 15.087_269, latitude: 37.502_669 };

    #[test]
    fn places_have_the_scores_names_and_distances_of_redis() {
        assert_eq!(PALERMO.score(), 3_479_099_956_230_698.0);
        assert_eq!(CATANIA.score(), 3_479_447_370_796_909.0);
        let found = Place::of_score(PALERMO.score());
        assert_eq!(format!("{:.17}", found.longitude), "13.36138933897018433");
        assert_eq!(format!("{:.17}", found.latitude), "38.11555639549629859");
        assert_eq!(found.name(), "sqc8b49rny0");
        let distance = found.distance(Place::of_score(CATANIA.score()));
        assert_eq!(format!("{distance:.4}"), "166274.1516");
        let north = Place { latitude: 39.0, ..PALERMO };
        assert_eq!(PALERMO.distance(north), PALERMO.distance_of_latitudes(north));
    }

    #[test]
    fn a_cell_and_those_beside_it_are_round_the_earth() {
        let corner = Cell::of(Place { longitude: -180.0, latitude: -85.0 }, 3);
        assert_eq!(corner.number(), 0);
        assert_eq!(corner.beside(-1, 0), Cell { column: 7, row: 0, steps: 3 });
        assert_eq!(corner.beside(0, -1).beside(0, 1), corner);
        assert_eq!(corner.beside(1, 1).number(), 3);
        let (from, to) = corner.beside(1, 1).scores();
        assert_eq!((from, to), (3.0 * 2_f64.powi(46), 4.0 * 2_f64.powi(46)));
        let area = corner.area();
        assert_eq!((area.west, area.east), (-180.0, -135.0));
        let edge = Cell::of(Place { longitude: 180.0, latitude: 0.0 }, 3);
        assert_eq!(edge.beside(1, 0).column, 1, "the edge is one column further than the last");
    }

    #[test]
    fn any_score_has_a_place() {
        for score in [f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.5, 1e19, 1e18, -1e300] {
            let place = Place::of_score(score);
            assert!(place.is_on_grid(), "{score}");
        }
        assert_eq!((whole(-1.0), whole(1.9), whole(f64::INFINITY)), (u64::MAX, 1, 0));
        assert_eq!((whole(9.3e18), whole(f64::NEG_INFINITY)), (9_300_000_000_000_000_000, 1 << 63));
    }

    #[test]
    fn greater_circles_take_greater_cells() {
        for ((radius, latitude), steps) in [
            ((0.0, 0.0), 26),
            ((200_000.0, 37.0), 6),
            ((200_000.0, 67.0), 5),
            ((200_000.0, -81.0), 4),
            ((1e9, 0.0), 1),
            ((f64::INFINITY, 0.0), 1),
            ((0.000_1, 0.0), 26),
        ] {
            assert_eq!(steps_of(radius, latitude), steps, "{radius} {latitude}");
        }
    }
}
