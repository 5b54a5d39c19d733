//! Procedures for tests: one that is linked, and modules that are deployed as a line of text.

use quorate_procedure::{Answer, Direction, Footprint, Procedure, Stop, Store};
use quorate_serializable_shard::{Library, ShardWith};

/// The procedures that the tests call.
#[derive(Debug)]
pub(crate) enum Tested {}

pub(crate) type TestedShard = ShardWith<Tested>;

/// `count`: counts the keys below `x`, and writes how many there are into `x`.
struct Count;

impl Procedure for Count {
    fn call(&self, store: &mut dyn Store, _: &[u8]) -> Result<Answer, Stop> {
        let count = store.scan(b"", b"x", 100, Direction::Descending)?.len().to_string().into_bytes();
        store.put(b"x", &count)?;
        Ok(Answer::Done(count))
    }
}

/// `stubborn`: it says that it has done its work, even if the store fails.
struct Stubborn;

impl Procedure for Stubborn {
    fn call(&self, store: &mut dyn Store, arguments: &[u8]) -> Result<Answer, Stop> {
        let found = store.get(arguments);
        let _ = store.put(arguments, b"stubborn");
        let _ = store.scan(arguments, b"~", 9, Direction::Ascending);
        Ok(Answer::Done(format!("{found:?}").into_bytes()))
    }

    fn footprint(&self, arguments: &[u8]) -> Footprint {
        Footprint::Keys { keys: Vec::new(), ranges: vec![(arguments.to_vec(), b"~".to_vec())] }
    }
}

/// `when`: writes the timestamp of its transaction into `when`, or that it has none.
struct When;

impl Procedure for When {
    fn call(&self, store: &mut dyn Store, _: &[u8]) -> Result<Answer, Stop> {
        let when = store.timestamp().map_or("never".to_owned(), |micros| micros.to_string());
        store.put(b"when", when.as_bytes())?;
        Ok(Answer::Done(when.into_bytes()))
    }

    fn footprint(&self, _: &[u8]) -> Footprint {
        Footprint::Keys { keys: vec![b"when".to_vec()], ranges: Vec::new() }
    }
}

/// `KEY SUFFIX`: adds the suffix and the arguments to a key and answers with what it held; refuses once that
/// is long, after it has written.
#[derive(Debug)]
pub(crate) struct Appends {
    key: String,
    suffix: String,
}

impl Procedure for Appends {
    fn call(&self, store: &mut dyn Store, arguments: &[u8]) -> Result<Answer, Stop> {
        let held = store.get(self.key.as_bytes())?.unwrap_or_default();
        store.put(self.key.as_bytes(), &[&held, self.suffix.as_bytes(), arguments].concat())?;
        match held.len() {
            0..=5 => Ok(Answer::Done(held)),
            6..=9 => Ok(Answer::Refused(b"full".to_vec())),
            _ => Err(Stop::Failed),
        }
    }

    fn footprint(&self, _: &[u8]) -> Footprint {
        Footprint::Keys { keys: vec![self.key.as_bytes().to_vec()], ranges: Vec::new() }
    }
}

impl Library for Tested {
    type Module = Appends;

    fn find(name: &str) -> Option<&'static (dyn Procedure + Sync)> {
        match name {
            "count" => Some(&Count),
            "stubborn" => Some(&Stubborn),
            "when" => Some(&When),
            _ => None,
        }
    }

    fn compile(code: &[u8]) -> Result<Appends, String> {
        let line = str::from_utf8(code).map_err(|_| "this is no text".to_owned())?;
        let (key, suffix) = line.split_once(' ').ok_or("this is no line")?;
        Ok(Appends { key: key.to_owned(), suffix: suffix.to_owned() })
    }

    fn failure(_: &Appends) -> Option<String> {
        Some("overfull".to_owned())
    }

    fn footprint(module: &Appends, arguments: &[u8]) -> Result<Footprint, String> {
        match arguments {
            b"fail" => Err("it does not say".to_owned()),
            b"much" => Ok(Footprint::Keys { keys: vec![vec![b'k'; 4_000]; 2_600], ranges: Vec::new() }),
            _ => Ok(module.footprint(arguments)),
        }
    }
}
