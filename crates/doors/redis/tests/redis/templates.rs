//! Random commands, from templates of each family.
//!
//! A word of a template stands for itself, or for one of many: `K` a key, `V` a value, `T` one that is no longer than a key may be, `I` a number, `F` a number with a fraction, `N` a field, `O` an offset
//! of bits, `B` a bit, `S` seconds, `M` milliseconds, `P` a pattern, `W` a width of bits, `E` an element, `Z` a score, `L` a bound of scores, `X` a bound of
//! elements, `A` a longitude, `U` a latitude, `R` a radius, `D` a unit, `Y` a key of its own for a HyperLogLog.
//! A word behind `?` is there now and then.

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

/// The families, each with its templates.
pub(crate) const FAMILIES: &[(&str, &[&str])] = &[
    (
        "connection",
        &[
            "ping",
            "ping V",
            "echo V",
            "select 0",
            "select 99",
            "select x",
            "ping V V",
            "echo",
            "client getname",
            "client setname V",
            "nothing V",
            "nothing",
            "client nothing",
            "wait 0 x",
            "auth V",
            "auth V V",
            "auth default V",
            "quit x y z 1 2",
            "config nothing",
            "command getkeys get K",
            "command getkeys mset K V K V",
            "command getkeys ping",
            "command getkeys V",
            "command getkeys get",
            "unwatch",
            "discard",
            "exec",
        ],
    ),
    (
        "strings",
        &[
            "get K",
            "set K V",
            "set K I",
            "set K V ?nx ?get",
            "set K V ?xx ?get",
            "set K V ex S",
            "set K V px M ?nx",
            "set K V keepttl",
            "set K V exat S",
            "set K V pxat M",
            "set K V ex S px M",
            "set K V ?keepttl ex S",
            "set K V nx xx",
            "set K V get",
            "setnx K V",
            "setex K S V",
            "psetex K M V",
            "mget K K K",
            "mset K V K V",
            "mset K V K",
            "msetnx K V K V",
            "getset K V",
            "getdel K",
            "getex K ?ex ?S",
            "getex K persist",
            "getex K px M",
            "getex K exat S",
            "append K V",
            "strlen K",
            "incr K",
            "decr K",
            "incrby K I",
            "decrby K I",
            "incrbyfloat K F",
            "set K F",
            "setrange K O V",
            "getrange K I I",
            "substr K I I",
            "lcs K K",
            "lcs K K len",
            "lcs K K idx ?minmatchlen ?I ?withmatchlen",
            "lcs K K idx len",
            "set K",
            "get",
            "set K I ?nothing",
        ],
    ),
    (
        "bits",
        &[
            "setbit K O B",
            "getbit K O",
            "bitcount K",
            "bitcount K I I",
            "bitcount K I I bit",
            "bitcount K I I byte",
            "bitcount K I",
            "bitcount K I I nothing",
            "bitpos K B",
            "bitpos K B I",
            "bitpos K B I I",
            "bitpos K B I I bit",
            "bitpos K 2",
            "bitpos K B I I x",
            "bitop and K K K",
            "bitop or K K K",
            "bitop xor K K K K",
            "bitop not K K",
            "bitop not K K K",
            "bitop nothing K K",
            "set K V",
            "bitfield K get W O set W O I",
            "bitfield K incrby W O I",
            "bitfield K overflow sat incrby W O I get W O",
            "bitfield K overflow fail incrby W O I set W O I",
            "bitfield K set W #1 I",
            "bitfield K overflow sat set W O I",
            "bitfield K get u64 0",
            "bitfield K nothing",
            "bitfield_ro K get W O",
            "bitfield_ro K set W O I",
            "bitfield K",
        ],
    ),
    (
        "keys",
        &[
            "del K",
            "del K K K",
            "unlink K K",
            "exists K K K",
            "touch K K",
            "type K",
            "rename K K",
            "renamenx K K",
            "copy K K",
            "copy K K replace",
            "copy K K nothing",
            "object encoding K",
            "object nothing K",
            "object freq K",
            "object encoding",
            "keys P",
            "dbsize",
            "set K V",
            "hset K N V",
            "dump",
            "restore K 0 V",
            "restore K x V",
            "restore K 0 V nothing",
            "scan x",
            "scan 0 nothing",
            "scan 0 count 0",
            "scan 0 count x",
        ],
    ),
    (
        "expiry",
        &[
            "expire K S",
            "expire K S nx",
            "expire K S xx",
            "expireat K 4100000000 gt",
            "expireat K 4100000000 lt",
            "expire K S nx xx",
            "expire K S gt lt",
            "expire K S nothing",
            "pexpire K M",
            "expireat K I",
            "pexpireat K I",
            "ttl K",
            "pttl K",
            "expiretime K",
            "pexpiretime K",
            "persist K",
            "set K V",
            "expire K I",
            "expire K -1",
            "expire K 99999999999999999",
            "expireat K 4000000000",
            "pexpireat K 4000000000000 gt",
            "pexpireat K 5000000000000 lt",
            "set K V ex 4000",
        ],
    ),
    (
        "hashes",
        &[
            "hset K N V",
            "hset K N V N V",
            "hset K N I",
            "hset K N",
            "hmset K N V N V",
            "hmset K N V N",
            "hsetnx K N V",
            "hget K N",
            "hmget K N N N",
            "hdel K N",
            "hdel K N N N",
            "hlen K",
            "hexists K N",
            "hstrlen K N",
            "hgetall K",
            "hkeys K",
            "hvals K",
            "hincrby K N I",
            "hincrbyfloat K N F",
            "hscan K 0",
            "hscan K 0 match P",
            "hscan K 0 count 1000",
            "hscan K x",
            "hscan K 0 count x",
            "hrandfield K 100",
            "hrandfield K 100 withvalues",
            "hrandfield K 0",
            "hrandfield K x",
            "hrandfield K 1 nothing",
        ],
    ),
    (
        "lists",
        &[
            "lpush K V",
            "rpush K V V V",
            "lpush K E E E",
            "rpush K E E",
            "lpushx K V",
            "rpushx K V",
            "lpop K",
            "rpop K",
            "lpop K I",
            "rpop K I",
            "lpop K 2 2",
            "llen K",
            "lindex K I",
            "lset K I V",
            "lrange K I I",
            "lrange K 0 -1",
            "ltrim K I I",
            "ltrim K 0 -2",
            "lrem K I E",
            "linsert K before E V",
            "linsert K after E V",
            "linsert K nothing E V",
            "lpos K E",
            "lpos K E rank I",
            "lpos K E count I",
            "lpos K E rank I count I maxlen I",
            "lpos K E rank 0",
            "lmove K K left right",
            "lmove K K right left",
            "lmove K K left nothing",
            "rpoplpush K K",
            "lmpop 2 K K left",
            "lmpop 2 K K right count I",
            "lmpop 0 K left",
            "lmpop 2 K left",
            "lmpop 1 K nothing",
            "blpop K K 0.01",
            "brpop K 0.01",
            "blmove K K left right 0.01",
            "blmove K K left nothing 0.01",
            "brpoplpush K K 0.01",
            "blmpop 0.01 2 K K left count I",
            "blmpop 0.01 0 K left",
            "blpop K x",
            "blpop K -1",
            "blpop K 1e20",
            "object encoding K",
        ],
    ),
    (
        "sets",
        &[
            "sadd K E",
            "sadd K E E E",
            "sadd K I I",
            "srem K E E",
            "scard K",
            "smembers K",
            "sismember K E",
            "smismember K E E",
            "smove K K E",
            "spop K 1000",
            "spop K 0",
            "spop K -1",
            "spop K x",
            "spop K 1 1",
            "srandmember K 1000",
            "srandmember K 0",
            "srandmember K x",
            "srandmember K 1 1",
            "sinter K K",
            "sinter K K K",
            "sunion K K",
            "sdiff K K",
            "sdiff K K K",
            "sinterstore K K K",
            "sunionstore K K K",
            "sdiffstore K K K",
            "sintercard 2 K K",
            "sintercard 2 K K limit I",
            "sintercard 0 K",
            "sintercard 3 K",
            "sintercard 1 K nothing",
            "sscan K 0",
            "sscan K 0 match P",
            "sadd K T",
            "copy K K replace",
            "rename K K",
        ],
    ),
    (
        "sorted sets",
        &[
            "zadd K Z E",
            "zadd K Z E Z E Z E",
            "zadd K nx Z E",
            "zadd K xx Z E",
            "zadd K gt Z E",
            "zadd K lt ch Z E Z E",
            "zadd K ch Z E Z E",
            "zadd K incr Z E",
            "zadd K xx incr Z E",
            "zadd K nx gt Z E",
            "zadd K nx xx Z E",
            "zadd K gt lt Z E",
            "zadd K incr Z E Z E",
            "zadd K Z",
            "zadd K Z E Z",
            "zincrby K Z E",
            "zrem K E E",
            "zcard K",
            "zscore K E",
            "zmscore K E E",
            "zrank K E",
            "zrevrank K E",
            "zpopmin K",
            "zpopmax K",
            "zpopmin K I",
            "zpopmax K I",
            "zpopmin K 1 1",
            "zmpop 2 K K min",
            "zmpop 2 K K max count I",
            "zmpop 0 K min",
            "zmpop 1 K nothing",
            "bzpopmin K K 0.01",
            "bzpopmax K 0.01",
            "bzmpop 0.01 2 K K min",
            "bzmpop 0.01 1 K max count I",
            "bzmpop 0.01 1 K nothing",
            "zrandmember K 1000",
            "zrandmember K 1000 withscores",
            "zrandmember K x",
            "zscan K 0",
            "zunion 2 K K",
            "zunion 2 K K withscores",
            "zunion 2 K K weights 2 3 aggregate max withscores",
            "zinter 2 K K withscores",
            "zinter 2 K K weights 2 x",
            "zinter 2 K K aggregate min withscores",
            "zinter 2 K K aggregate nothing",
            "zdiff 2 K K withscores",
            "zdiff 2 K K weights 1 1",
            "zunionstore K 2 K K",
            "zunionstore K 2 K K weights 2 -1",
            "zinterstore K 2 K K aggregate max",
            "zdiffstore K 2 K K",
            "zdiffstore K 0 K",
            "zunion 0 K",
            "zunion x K",
            "zunion 3 K",
            "zunionstore K 2 K K withscores",
            "zintercard 2 K K",
            "zintercard 2 K K limit I",
            "zadd K 0 a 0 b 0 c 0 d",
        ],
    ),
    (
        "ranges",
        &[
            "zadd K Z E Z E Z E",
            "zadd K 0 a 0 b 0 ab 0 abc",
            "zrange K I I",
            "zrange K 0 -1 withscores",
            "zrange K I I rev",
            "zrange K L L byscore",
            "zrange K L L byscore withscores limit I I",
            "zrange K L L byscore rev",
            "zrange K X X bylex",
            "zrange K X X bylex rev limit I I",
            "zrange K X X bylex withscores",
            "zrange K I I limit I I",
            "zrange K I I nothing",
            "zrangestore K K I I",
            "zrangestore K K L L byscore",
            "zrangestore K K I I withscores",
            "zrevrange K I I",
            "zrevrange K 0 -1 withscores",
            "zrangebyscore K L L",
            "zrangebyscore K L L withscores limit I I",
            "zrevrangebyscore K L L",
            "zrangebylex K X X",
            "zrangebylex K X X limit I I",
            "zrevrangebylex K X X",
            "zcount K L L",
            "zlexcount K X X",
            "zremrangebyrank K I I",
            "zremrangebyscore K L L",
            "zremrangebylex K X X",
            "zrangebyscore K L",
            "zrangebyscore K L L nothing",
        ],
    ),
    (
        "places",
        &[
            "geoadd K A U E",
            "geoadd K A U E A U E A U E",
            "geoadd K A U a A U b A U c A U ab A U abc",
            "geoadd K nx A U E",
            "geoadd K xx ch A U E A U E",
            "geoadd K ch nx A U E",
            "geoadd K nx xx A U E",
            "geoadd K nx ch xx",
            "geoadd K A U E A",
            "zadd K Z E",
            "geopos K E E E",
            "geohash K E E",
            "geodist K E E",
            "geodist K E E D",
            "geodist K E E m x",
            "georadius K A U R D",
            "georadius K A U R D withdist withcoord withhash asc",
            "georadius K A U R D withdist desc count I",
            "georadius K A U R D count 2 any ?withdist",
            "georadius K A U R D any",
            "georadius K A U R D store K ?asc",
            "georadius K A U R D asc count 2 store K",
            "georadius K A U R D store K withdist",
            "georadius K A U R D storedist dist",
            "georadius K A U R D nothing",
            "georadius_ro K A U R D asc ?withcoord",
            "georadius_ro K A U R D store K",
            "georadiusbymember K E R D",
            "georadiusbymember K E R D withdist asc",
            "georadiusbymember K E R D store K",
            "georadiusbymember_ro K E R D ?count ?2",
            "georadiusbymember_ro K E R D storedist K",
            "geosearch K fromlonlat A U byradius R D",
            "geosearch K fromlonlat A U bybox R R D ?withdist ?asc",
            "geosearch K frommember E bybox R R D desc count I",
            "geosearch K frommember E byradius R D asc withhash",
            "geosearch K frommember E fromlonlat A U byradius R D",
            "geosearch K frommember E byradius R D bybox R R D",
            "geosearch K byradius R D count 1 any asc",
            "geosearch K frommember E count 1 any asc",
            "GeoSearch K frommember E withdist withhash asc",
            "geosearch K fromlonlat A U byradius R D storedist",
            "geosearchstore K K fromlonlat A U byradius R D",
            "geosearchstore K K frommember E bybox R R D asc count 3",
            "geosearchstore dist K frommember E byradius R D storedist",
            "geosearchstore K K frommember E byradius R D withdist",
            "zcard dist",
            "zrange K 0 -1 withscores",
        ],
    ),
    (
        "counts",
        &[
            "pfadd Y E",
            "pfadd Y E E E E",
            "pfadd Y V V V",
            "pfadd Y I I I I I I",
            "pfadd Y",
            "pfcount Y",
            "pfcount Y Y Y",
            "pfcount K",
            "pfcount Y K",
            "pfmerge Y Y Y",
            "pfmerge Y",
            "pfmerge Y K",
            "pfmerge Y Y Y Y Y",
            "set Y V",
            "set Y HYLL",
            "lpush Y V",
            "del Y",
            "expire Y S",
            "ttl Y",
            "type Y",
            "object encoding Y",
            "rename Y Y",
            "copy Y Y replace",
        ],
    ),
];

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

/// What a word of a template stands for now.
fn word(word: &str, draw: &mut Draw) -> Vec<u8> {
    match word {
        "K" => key(draw).into(),
        "V" => value(draw),
        "T" => match value(draw) {
            // What is longer than a key may be is another error here.
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
