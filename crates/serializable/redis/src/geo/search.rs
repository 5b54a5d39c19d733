//! The members of a sorted set whose places lie in a circle or in a box.
//!
//! The cell of the centre and the eight around it cover what is searched; so nine ranges of scores are read at most, whatever the size of the set. Their order is that of the reply where none is
//! asked for, so it is that of Redis.

use quorate_procedure::Direction;

use super::cells::{Area, Cell, EARTH_RADIUS, Place, degrees, radians, steps_of};
use crate::database::Database;
use crate::reply::Fail;
use crate::sorted_sets::Ranking;

/// The form of what is searched, in a unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Form {
    /// A circle with this radius.
    Circle(f64),
    /// A box with this width and height.
    Box(f64, f64),
}

/// Where members are searched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    pub(super) centre: Place,
    pub(super) form: Form,
    /// The unit of lengths, in metres.
    pub(super) unit: f64,
}

/// A member that was found.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) member: Vec<u8>,
    pub(super) score: f64,
    pub(super) place: Place,
    /// From the centre, in metres.
    pub(super) distance: f64,
}

impl Region {
    /// The distance of a place from the centre, in metres, if it lies within.
    fn distance(&self, place: Place) -> Option<f64> {
        match self.form {
            Form::Circle(radius) => {
                let distance = self.centre.distance(place);
                // A distance that is no number is not further away, as for Redis.
                let is_beyond = distance > radius * self.unit;
                (!is_beyond).then_some(distance)
            }
            Form::Box(width, height) => {
                if place.distance_of_latitudes(self.centre) > height * self.unit / 2.0 {
                    return None;
                }
                let below = Place { longitude: self.centre.longitude, latitude: place.latitude };
                let is_beyond = place.distance(below) > width * self.unit / 2.0;
                (!is_beyond).then(|| self.centre.distance(place))
            }
        }
    }

    /// The edges of an area that covers it. Degrees of longitude are shorter towards the poles.
    fn bounds(&self) -> Area {
        let (width, height) = match self.form {
            Form::Circle(radius) => (radius, radius),
            Form::Box(width, height) => (width / 2.0, height / 2.0),
        };
        let Place { longitude, latitude } = self.centre;
        let tall = degrees(height * self.unit / EARTH_RADIUS);
        let wide_at = if latitude < 0.0 { latitude - tall } else { latitude + tall };
        let wide = degrees(width * self.unit / EARTH_RADIUS / libm::cos(radians(wide_at)));
        Area {
            west: longitude - wide,
            south: latitude - tall,
            east: longitude + wide,
            north: latitude + tall,
        }
    }

    /// The cells that cover it, in the order in which they are searched.
    fn cells(&self) -> Vec<Cell> {
        let bounds = self.bounds();
        let reach = match self.form {
            Form::Circle(radius) => radius,
            Form::Box(width, height) => (width / 2.0 * (width / 2.0) + height / 2.0 * (height / 2.0)).sqrt(),
        };
        let mut steps = steps_of(reach * self.unit, self.centre.latitude);
        let mut cell = Cell::of(self.centre, steps);
        let is_uncovered = cell.beside(0, 1).area().north < bounds.north
            || cell.beside(0, -1).area().south > bounds.south
            || cell.beside(1, 0).area().east < bounds.east
            || cell.beside(-1, 0).area().west > bounds.west;
        if steps > 1 && is_uncovered {
            steps -= 1;
            cell = Cell::of(self.centre, steps);
        }
        let area = cell.area();
        // Of two steps on, the neighbours on a side are of no use if the cell reaches beyond the area there.
        let is_wanted = |(east, north): (i32, i32)| {
            steps < 2
                || !(north < 0 && area.south < bounds.south
                    || north > 0 && area.north > bounds.north
                    || east < 0 && area.west < bounds.west
                    || east > 0 && area.east > bounds.east)
        };
        const AROUND: [(i32, i32); 8] =
            [(0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        let mut cells = vec![cell];
        for (east, north) in AROUND.into_iter().filter(|side| is_wanted(*side)) {
            let beside = cell.beside(east, north);
            // On a coarse grid neighbours are the same; as Redis does, only the last one is looked at, and not the cell in the middle.
            if cells.len() == 1 || cells.last() != Some(&beside) {
                cells.push(beside);
            }
        }
        cells
    }

    /// The members in it, at most so many.
    pub(super) fn members(
        &self,
        database: &mut Database<'_>,
        ranking: &Ranking<'_>,
        limit: usize,
    ) -> Result<Vec<Found>, Fail> {
        let mut found = Vec::new();
        for cell in self.cells() {
            let (from, to) = cell.scores();
            for (member, score) in ranking.between(database, (from, to), usize::MAX, Direction::Ascending)? {
                if found.len() >= limit {
                    return Ok(found);
                }
                let place = Place::of_score(score);
                if score < to
                    && let Some(distance) = self.distance(place)
                {
                    found.push(Found { member, score, place, distance });
                }
            }
        }
        Ok(found)
    }
}
