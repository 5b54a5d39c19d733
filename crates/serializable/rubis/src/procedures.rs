//! The interactions.
//!
//! Each is called at every shard that takes part, acts there for the markets that its arguments name, and answers with the rows that its page shows from
//! there. Rows that do not depend on each other are asked for before the first is looked at: where they have to be fetched, they are fetched together.

mod browse;
mod named;
mod store;

use alloc::vec::Vec;

use quorate_procedure::{Answer, Footprint, Needs, Procedure, Stop, Store};
use quorate_tpcc::bytes::{Reader, put};

use crate::interaction::Interaction;
use crate::key;

/// All interactions, told apart by their arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rubis;

/// The answer to arguments that are not those of an interaction.
pub const MALFORMED: &[u8] = b"the arguments are no interaction of RUBiS";

/// The answer where another user has the nickname that a new one wants.
pub const NICKNAME_TAKEN: &[u8] = b"another user has this nickname";

/// The answer to a user that does not prove to be the one.
pub const NOT_THE_USER: &[u8] = b"there is no user of this nickname with this password";

impl Procedure for Rubis {
    fn call(&self, store: &mut dyn Store, arguments: &[u8]) -> Result<Answer, Stop> {
        let Some((local, interaction)) = Interaction::decode(arguments) else {
            return Ok(Answer::Refused(MALFORMED.to_vec()));
        };
        let page = match &interaction {
            Interaction::RegisterUser(register) => return store::register_user(store, register),
            Interaction::StoreBuyNow(buy) => store::store_buy_now(store, &local, buy)?,
            Interaction::StoreBid(bid) => store::store_bid(store, &local, bid)?,
            Interaction::StoreComment(comment) => store::store_comment(store, comment)?,
            Interaction::RegisterItem(register) => store::register_item(store, register)?,
            read => match browse::page(store, &local, read)? {
                Some(page) => page,
                None => return Ok(Answer::Refused(NOT_THE_USER.to_vec())),
            },
        };
        Ok(Answer::Done(page.encode()))
    }

    /// The markets that it acts for.
    fn footprint(&self, arguments: &[u8]) -> Footprint {
        let local = Interaction::decode(arguments).map_or(Vec::new(), |(local, _)| local);
        let ranges = local.into_iter().map(key::of_market).collect();
        Footprint::Keys { keys: Vec::new(), ranges }
    }

    fn named(&self, arguments: &[u8]) -> Needs {
        let decoded = Interaction::decode(arguments);
        decoded.map_or(Needs::default(), |(local, interaction)| named::needs(&local, &interaction))
    }
}

/// The part of a page that comes from one shard: rows, as they are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The rows, in the order in which they are shown.
    pub rows: Vec<Vec<u8>>,
}

impl Page {
    fn show(&mut self, row: &[u8]) {
        self.rows.push(row.to_vec());
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(2 + self.rows.iter().map(|row| 4 + row.len()).sum::<usize>());
        put(&mut bytes, self.rows.len() as u16);
        for row in &self.rows {
            put(&mut bytes, row.len() as u32);
            bytes.extend_from_slice(row);
        }
        bytes
    }

    /// Reads an answer; none if it is none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let count = reader.take::<u16>()?;
        let mut rows = Vec::new();
        for _ in 0..count {
            let length = reader.take::<u32>()? as usize;
            let (row, rest) = reader.0.split_at_checked(length)?;
            rows.push(row.to_vec());
            reader.0 = rest;
        }
        reader.is_done().then_some(Page { rows })
    }
}

/// The bytes of a row that must be there: the population has it, and nothing takes it away.
fn must_get(store: &mut dyn Store, key: &[u8]) -> Result<Vec<u8>, Stop> {
    store.get(key)?.ok_or(Stop::Failed)
}
