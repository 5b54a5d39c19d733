//! Random commands, from templates of each family.
//!
//! A word of a template stands for itself, or for one of many: `K` a key, `V` a value, `T` one that is no longer than a key may be, `I` a number, `F` a number with a fraction, `N` a field, `O` an offset
//! of bits, `B` a bit, `S` seconds, `M` milliseconds, `P` a pattern, `W` a width of bits, `E` an element, `Z` a score, `L` a bound of scores, `X` a bound of
//! elements, `A` a longitude, `U` a latitude, `R` a radius, `D` a unit, `Y` a key of its own for a HyperLogLog, `J` the id of an entry, `Q` a bound of ids, `G` a group, `C` a consumer, `H` a key of its own for what is sorted: a Redis keeps a sorted set otherwise from then on.
//! A word behind `?` is there now and then.

mod ordered;
mod plain;

/// Numbers that follow from a seed.
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Draw(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    pub(crate) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub(crate) fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// The name of a family, and its templates.
pub(crate) type Family = (&'static str, &'static [&'static str]);

/// The families.
pub(crate) fn families() -> Vec<Family> {
    [plain::PLAIN, ordered::ORDERED].concat()
}

fn key(draw: &mut Draw) -> String {
    let number = draw.below(6);
    match draw.below(3) {
        0 => format!("{{tag}}:{number}"),
        _ => format!("key:{number}"),
    }
}

fn value(draw: &mut Draw) -> Vec<u8> {
    match draw.below(10) {
        0 => Vec::new(),
        1 => draw.choose(&["hello world", "foobar", "\u{0}\r\n", "ohmytext", "mynewtext"]).into(),
        2 => draw.next().to_string().into(),
        3 => draw.choose(&["0", "1", "-1", "10", "007", " 1", "1 ", "9223372036854775807"]).into(),
        4 => draw.choose(&["1.5", "3e2", "-0.25", "nan", "inf", "1e5"]).into(),
        5 => vec![draw.next() as u8; draw.choose(&[1, 20, 44, 45, 64, 65, 300])],
        6 => (0..draw.choose(&[1, 3, 8, 1_100, 70_000])).map(|_| draw.next() as u8).collect(),
        _ => draw.choose(&["a", "b", "ab", "abc", "value"]).into(),
    }
}

/// The meaning of a word of a template now.
fn word(word: &str, draw: &mut Draw) -> Vec<u8> {
    match word {
        "K" => key(draw).into(),
        "V" => value(draw),
        "T" => match value(draw) {
            // A key that is longer than keys may be is another error here.
            long if long.len() > 4_000 => b"short".to_vec(),
            short => short,
        },
        "I" => match draw.below(8) {
            0 => draw
                .choose(&[
                    "9223372036854775807",
                    "-9223372036854775808",
                    "x",
                    "1.5",
                    "",
                    "9223372036854775808",
                ])
                .into(),
            1 => (draw.next() as i64 % 100_000).to_string().into(),
            _ => (draw.below(20) as i64 - 8).to_string().into(),
        },
        "F" => draw
            .choose(&["0.1", "0.2", "1.5", "-2.75", "3", "1e3", "5.0e-3", "x", "", "100.1", "1000.7"])
            .into(),
        "N" => draw.choose(&["f1", "f2", "f3", "field", "", "7"]).into(),
        "O" => match draw.below(12) {
            0 => draw.choose(&["-1", "x", "99999999999"]).into(),
            1 => draw.choose(&["8191", "8192", "9000", "524287", "524288", "600000"]).into(),
            _ => draw.below(70).to_string().into(),
        },
        "B" => draw.choose(&["0", "1", "0", "1", "0", "1", "2", "x"]).into(),
        "S" => {
            draw.choose(&["1000", "2000", "4000000000", "1000", "0", "-5", "x", "9223372036854775807"]).into()
        }
        "M" => draw
            .choose(&["1000000", "2000000", "4000000000000", "0", "-5", "x", "9223372036854775807"])
            .into(),
        "P" => draw.choose(&["*", "key:*", "*[0-3]", "{tag}:?", "nothing", "f?", "*\\*", "[^k]*"]).into(),
        "E" => draw.choose(&["a", "b", "c", "ab", "abc", "1", "2", "", "value"]).into(),
        "Z" => draw
            .choose(&["0", "1", "2", "-1", "1.5", "3.1", "1e3", "inf", "-inf", "x", "nan", "2", "1", "-0"])
            .into(),
        "L" => {
            draw.choose(&["0", "1", "(1", "2", "-inf", "+inf", "inf", "(2", "x", "(x", "1.5", "-1"]).into()
        }
        "X" => draw.choose(&["-", "+", "[a", "(a", "[b", "(ab", "[abc", "x", "[", "("]).into(),
        "W" => draw.choose(&["u1", "u8", "i8", "i16", "u13", "i64", "u63", "i5", "u0", "i65", "x"]).into(),
        "A" => match draw.below(12) {
            0 => draw.choose(&["180", "-180", "180.0001", "x", "0", "inf"]).into(),
            1 => coordinate(draw, 180),
            _ => coordinate(draw, 3),
        },
        "U" => match draw.below(12) {
            0 => draw.choose(&["85.05112878", "-85.05112878", "86", "x", "0", "-inf"]).into(),
            1 => coordinate(draw, 85),
            _ => coordinate(draw, 3),
        },
        "R" => {
            draw.choose(&["0", "1", "50", "200.5", "400", "1e3", "300000", "1e8", "-1", "x", "inf"]).into()
        }
        "D" => draw.choose(&["km", "km", "km", "m", "mi", "ft", "KM", "parsec"]).into(),
        "Y" => format!("hll:{}", draw.below(4)).into(),
        "H" => format!("sorted:{}", draw.below(3)).into(),
        "J" => match draw.below(16) {
            0 => draw
                .choose(&[
                    "0-0",
                    "x",
                    "-",
                    "+",
                    "5-",
                    "18446744073709551615",
                    "1-18446744073709551615",
                    "007",
                    "",
                ])
                .into(),
            1 => "50-*".into(),
            2..6 => format!("50-{}", draw.below(8)).into(),
            6 => draw.below(60).to_string().into(),
            _ => format!("{}-{}", draw.below(60), draw.below(3)).into(),
        },
        "Q" => match draw.below(8) {
            0 | 1 => "-".into(),
            2 | 3 => "+".into(),
            4 => format!("(50-{}", draw.below(6)).into(),
            5 => draw.choose(&["(", "(-", "(0", "(18446744073709551615-18446744073709551615", "(x"]).into(),
            _ => format!("{}-{}", draw.below(60), draw.below(3)).into(),
        },
        "G" => draw.choose(&["g1", "g2", "g1", "group", ""]).into(),
        "C" => draw.choose(&["alice", "bob", "carol", "alice", ""]).into(),
        literal => literal.into(),
    }
}

/// A number of degrees up to so many on either side: places rarely have the same distance.
fn coordinate(draw: &mut Draw, most: i64) -> Vec<u8> {
    let millionths = draw.next() as i64 % (most * 1_000_000);
    format!("{}.{:06}", millionths / 1_000_000, (millionths % 1_000_000).abs()).into()
}

/// A command of a family, now and then with a word too many or too few, or with one that makes no sense.
pub(crate) fn command(templates: &[&str], draw: &mut Draw) -> Vec<Vec<u8>> {
    let template = draw.choose(templates);
    let mut words = Vec::new();
    for part in template.split(' ') {
        match part.strip_prefix('?') {
            Some(_) if draw.one_in(2) => {}
            Some(maybe) => words.push(word(maybe, draw)),
            None => words.push(word(part, draw)),
        }
    }
    match draw.below(40) {
        0 if words.len() > 1 => drop(words.pop()),
        1 => words.push(word("T", draw)),
        2 if words.len() > 2 => {
            let at = 1 + draw.below(words.len() - 1);
            words[at] = word("T", draw);
        }
        3 => words[0].make_ascii_uppercase(),
        _ => {}
    }
    words
}
