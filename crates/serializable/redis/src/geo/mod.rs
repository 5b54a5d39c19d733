//! Places: `GEOADD`, `GEOSEARCH` and their kin. A member of a sorted set whose score is the number of a cell lies there; so places are sorted sets, and commands of these work on them.
//!
//! Sines and cosines are those of `libm`, the same at all replicas, because distances can be stored.

mod cells;
mod search;

use std::collections::BTreeMap;

use cells::Place;
use search::{Form, Found, Region};

use crate::database::Database;
use crate::parse::{float, float_argument, integer_argument, is_word};
use crate::reply::{Fail, Replied, Reply, fail, text};
use crate::sorted_sets::{Ranking, store, zadd};

/// The place that two arguments give: longitude and latitude.
fn place_argument(arguments: &[&[u8]]) -> Result<Place, Fail> {
    let place = Place { longitude: float_argument(arguments[0])?, latitude: float_argument(arguments[1])? };
    if !place.is_on_grid() {
        let Place { longitude, latitude } = place;
        return fail(format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}"));
    }
    Ok(place)
}

/// A unit of lengths, in metres.
fn unit_argument(word: &[u8]) -> Result<f64, Fail> {
    const UNITS: [(&str, f64); 4] = [("m", 1.0), ("km", 1_000.0), ("ft", 0.304_8), ("mi", 1_609.34)];
    match UNITS.into_iter().find(|(name, _)| is_word(word, name)) {
        Some((_, metres)) => Ok(metres),
        None => fail("ERR unsupported unit provided. please use M, KM, FT, MI"),
    }
}

/// A length that an argument has to be.
fn length_argument(word: &[u8], name: &str) -> Result<f64, Fail> {
    float(word).map_or_else(|| fail(format!("ERR need numeric {name}")), Ok)
}

/// A circle, with its unit.
fn circle(arguments: &[&[u8]]) -> Result<(Form, f64), Fail> {
    let radius = length_argument(arguments[0], "radius")?;
    if radius < 0.0 {
        return fail("ERR radius cannot be negative");
    }
    Ok((Form::Circle(radius), unit_argument(arguments[1])?))
}

/// A box, with its unit.
fn rectangle(arguments: &[&[u8]]) -> Result<(Form, f64), Fail> {
    let (width, height) = (length_argument(arguments[0], "width")?, length_argument(arguments[1], "height")?);
    if width < 0.0 || height < 0.0 {
        return fail("ERR height or width cannot be negative");
    }
    Ok((Form::Box(width, height), unit_argument(arguments[2])?))
}

/// A length with four digits behind the point.
fn print_length(length: f64) -> Reply {
    const SCALE: f64 = 10_000.0;
    let scaled = (length * SCALE).round_ties_even() as i64;
    Reply::bulk(format!("{}.{:04}", scaled / 10_000, scaled % 10_000))
}

fn show_place(place: Place) -> Reply {
    Reply::Array(vec![Reply::Decimal(place.longitude), Reply::Decimal(place.latitude)])
}

pub(crate) fn geoadd(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let is_option = |word: &&&[u8]| ["NX", "XX", "CH"].iter().any(|name| is_word(word, name));
    let options = arguments[2..].iter().take_while(is_option).count();
    let (options, triples) = arguments[2..].split_at(options);
    let has = |name: &str| options.iter().any(|word| is_word(word, name));
    if !triples.len().is_multiple_of(3) || has("NX") && has("XX") {
        return fail(text::SYNTAX);
    }
    let mut scores = Vec::with_capacity(triples.len() / 3);
    for triple in triples.chunks_exact(3) {
        scores.push(place_argument(triple)?.score().to_string().into_bytes());
    }
    let mut words: Vec<&[u8]> = vec![b"zadd", arguments[1]];
    words.extend(options);
    for (score, triple) in scores.iter().zip(triples.chunks_exact(3)) {
        words.extend([score.as_slice(), triple[2]]);
    }
    zadd(database, &words)
}

/// The places of members; none for those that are not there.
fn places(database: &mut Database<'_>, key: &[u8], members: &[&[u8]]) -> Result<Vec<Option<Place>>, Fail> {
    let Some(ranking) = Ranking::find(database, key)? else { return Ok(vec![None; members.len()]) };
    let place = |member: &&[u8]| Ok(ranking.score(database, member)?.map(Place::of_score));
    members.iter().map(place).collect()
}

pub(crate) fn geopos(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let places = places(database, arguments[1], &arguments[2..])?.into_iter();
    Ok(Reply::Array(places.map(|place| place.map_or(Reply::NullArray, show_place)).collect()))
}

pub(crate) fn geohash(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let places = places(database, arguments[1], &arguments[2..])?.into_iter();
    Ok(Reply::Array(places.map(|place| place.map_or(Reply::Null, |at| Reply::bulk(at.name()))).collect()))
}

pub(crate) fn geodist(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let unit = match &arguments[4..] {
        [] => 1.0,
        [unit] => unit_argument(unit)?,
        _ => return fail(text::SYNTAX),
    };
    Ok(match places(database, arguments[1], &arguments[2..4])?[..] {
        [Some(one), Some(other)] => print_length(one.distance(other) / unit),
        _ => Reply::Null,
    })
}

/// The variants of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    /// `GEORADIUS`: around a place.
    Around { stores: bool },
    /// `GEORADIUSBYMEMBER`: around a member.
    AroundMember { stores: bool },
    /// `GEOSEARCH`: the options say where.
    Search,
    /// `GEOSEARCHSTORE`: the same, and where the result goes.
    SearchStore,
}

impl Variant {
    fn is_search(self) -> bool {
        matches!(self, Variant::Search | Variant::SearchStore)
    }

    /// True if options may say where the result goes.
    fn may_store(self) -> bool {
        matches!(self, Variant::Around { stores: true } | Variant::AroundMember { stores: true })
    }
}

/// The options of a search: where, how much, and in which form.
#[derive(Debug, Default)]
struct Options<'a> {
    centre: Option<Place>,
    /// The centre was given as a member, perhaps of a key that is not there,
    is_from_member: bool,
    /// or as a place.
    is_from_place: bool,
    form: Option<(Form, f64)>,
    with_distance: bool,
    with_score: bool,
    with_place: bool,
    direction: Option<quorate_procedure::Direction>,
    count: Option<usize>,
    is_any: bool,
    target: Option<&'a [u8]>,
    stores_distance: bool,
}

impl<'a> Options<'a> {
    /// Reads the options.
    fn read(
        &mut self,
        database: &mut Database<'_>,
        ranking: Option<&Ranking<'_>>,
        variant: Variant,
        mut rest: &[&'a [u8]],
    ) -> Result<(), Fail> {
        use quorate_procedure::Direction::{Ascending, Descending};
        while let [word, behind @ ..] = rest {
            let is = |name: &str| is_word(word, name);
            let mut taken = 0;
            if is("WITHDIST") {
                self.with_distance = true;
            } else if is("WITHHASH") {
                self.with_score = true;
            } else if is("WITHCOORD") {
                self.with_place = true;
            } else if is("ANY") {
                self.is_any = true;
            } else if is("ASC") {
                self.direction = Some(Ascending);
            } else if is("DESC") {
                self.direction = Some(Descending);
            } else if is("COUNT") && !behind.is_empty() {
                match usize::try_from(integer_argument(behind[0])?) {
                    Ok(count @ 1..) => self.count = Some(count),
                    _ => return fail("ERR COUNT must be > 0"),
                }
                taken = 1;
            } else if (is("STORE") || is("STOREDIST")) && !behind.is_empty() && variant.may_store() {
                (self.target, self.stores_distance) = (Some(behind[0]), is("STOREDIST"));
                taken = 1;
            } else if is("STOREDIST") && variant == Variant::SearchStore {
                self.stores_distance = true;
            } else if variant.is_search() {
                taken = self.read_region(database, ranking, word, behind)?;
            } else {
                return fail(text::SYNTAX);
            }
            rest = &behind[taken..];
        }
        Ok(())
    }

    /// Reads a word that says where to search, and tells how many behind it belong to it.
    fn read_region(
        &mut self,
        database: &mut Database<'_>,
        ranking: Option<&Ranking<'_>>,
        word: &[u8],
        behind: &[&[u8]],
    ) -> Result<usize, Fail> {
        let is = |name: &str, words: usize| is_word(word, name) && behind.len() >= words;
        let is_circle = matches!(self.form, Some((Form::Circle(_), _)));
        let is_box = matches!(self.form, Some((Form::Box(..), _)));
        if is("FROMMEMBER", 1) && !self.is_from_place {
            if let Some(ranking) = ranking {
                self.centre = Some(place_of(database, ranking, behind[0])?);
            }
            self.is_from_member = true;
            return Ok(1);
        }
        if is("FROMLONLAT", 2) && !self.is_from_member {
            (self.centre, self.is_from_place) = (Some(place_argument(behind)?), true);
            return Ok(2);
        }
        if is("BYRADIUS", 2) && !is_box {
            self.form = Some(circle(behind)?);
            return Ok(2);
        }
        if is("BYBOX", 3) && !is_circle {
            self.form = Some(rectangle(behind)?);
            return Ok(3);
        }
        fail(text::SYNTAX)
    }

    /// Refuses what does not go together.
    fn check(&self, variant: Variant, name: &[u8]) -> Result<(), Fail> {
        let name = crate::shown(name);
        if self.target.is_some() && (self.with_distance || self.with_score || self.with_place) {
            let what = if variant.is_search() { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
            return fail(format!(
                "ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            ));
        }
        if variant.is_search() && !self.is_from_member && !self.is_from_place {
            return fail(format!("ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for {name}"));
        }
        if variant.is_search() && self.form.is_none() {
            return fail(format!("ERR exactly one of BYRADIUS and BYBOX can be specified for {name}"));
        }
        if self.is_any && self.count.is_none() {
            return fail("ERR the ANY argument requires COUNT argument");
        }
        Ok(())
    }

    /// A member with all that is told of it. Lengths are in this unit.
    fn show(&self, found: Found, unit: f64) -> Reply {
        let member = Reply::Bulk(found.member);
        if !self.with_distance && !self.with_score && !self.with_place {
            return member;
        }
        let distance = self.with_distance.then(|| print_length(found.distance / unit));
        let score = self.with_score.then_some(Reply::Integer(found.score as i64));
        let place = self.with_place.then(|| show_place(found.place));
        Reply::Array([Some(member), distance, score, place].into_iter().flatten().collect())
    }
}

/// The place of a member that has to be there.
fn place_of(database: &mut Database<'_>, ranking: &Ranking<'_>, member: &[u8]) -> Result<Place, Fail> {
    match ranking.score(database, member)? {
        Some(score) => Ok(Place::of_score(score)),
        None => fail("ERR could not decode requested zset member"),
    }
}

fn search(database: &mut Database<'_>, arguments: &[&[u8]], variant: Variant) -> Replied {
    let key = arguments[if variant == Variant::SearchStore { 2 } else { 1 }];
    let ranking = Ranking::find(database, key)?;
    let mut options = Options::default();
    let first = match (variant, &ranking) {
        (Variant::Around { .. }, _) => {
            options.centre = Some(place_argument(&arguments[2..])?);
            options.form = Some(circle(&arguments[4..])?);
            6
        }
        (Variant::AroundMember { .. }, Some(ranking)) => {
            options.centre = Some(place_of(database, ranking, arguments[2])?);
            options.form = Some(circle(&arguments[3..])?);
            5
        }
        (Variant::AroundMember { .. }, None) => 5,
        (Variant::Search, _) => 2,
        (Variant::SearchStore, _) => {
            options.target = Some(arguments[1]);
            3
        }
    };
    options.read(database, ranking.as_ref(), variant, &arguments[first..])?;
    options.check(variant, arguments[0])?;
    let (found, unit) = match (ranking, options.centre, options.form) {
        (Some(ranking), Some(centre), Some((form, unit))) => {
            let limit = options.count.filter(|_| options.is_any).unwrap_or(usize::MAX);
            let found = Region { centre, form, unit }.members(database, &ranking, limit)?;
            (in_order(found, &options), unit)
        }
        _ => (Vec::new(), 1.0),
    };
    let Some(target) = options.target else {
        return Ok(Reply::Array(found.into_iter().map(|one| options.show(one, unit)).collect()));
    };
    // On a coarse grid a cell may have been searched twice.
    let score = |one: &Found| if options.stores_distance { one.distance / unit } else { one.score };
    let scored: BTreeMap<Vec<u8>, f64> = found
        .into_iter()
        .map(|one| {
            let score = score(&one);
            (one.member, score)
        })
        .collect();
    store(database, target, scored.into_iter().collect())
}

/// As many as are wanted, in the order that is wanted. The nearest ones are meant where nothing else is said.
fn in_order(mut found: Vec<Found>, options: &Options<'_>) -> Vec<Found> {
    use quorate_procedure::Direction::{Ascending, Descending};
    let is_nearest = options.count.is_some() && !options.is_any;
    let by_distance = |one: &Found, other: &Found| one.distance.total_cmp(&other.distance);
    match options.direction.or(is_nearest.then_some(Ascending)) {
        Some(Ascending) => found.sort_by(by_distance),
        Some(Descending) => found.sort_by(|one, other| by_distance(other, one)),
        None => {}
    }
    found.truncate(options.count.unwrap_or(usize::MAX));
    found
}

pub(crate) fn georadius(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    search(database, arguments, Variant::Around { stores: true })
}

pub(crate) fn georadius_ro(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    search(database, arguments, Variant::Around { stores: false })
}

pub(crate) fn georadiusbymember(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    search(database, arguments, Variant::AroundMember { stores: true })
}

pub(crate) fn georadiusbymember_ro(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    search(database, arguments, Variant::AroundMember { stores: false })
}

pub(crate) fn geosearch(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    search(database, arguments, Variant::Search)
}

pub(crate) fn geosearchstore(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    search(database, arguments, Variant::SearchStore)
}
