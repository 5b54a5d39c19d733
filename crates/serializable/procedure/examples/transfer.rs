//! Moves an amount from one account to another, and refuses an overdraft.
//!
//! The arguments are the names of both accounts, each after a byte with its length, and the amount in eight
//! bytes, little endian. The answer is what the first account holds afterwards. Both accounts are held by one
//! shard.
//!
//! `cargo build --release --target wasm32-unknown-unknown --example transfer -p quorate-procedure` makes the
//! module.

#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use alloc::vec::Vec;

use quorate_procedure::{Answer, Footprint, Procedure, Stop, Store};

/// The procedure.
pub struct Transfer;

/// The arguments of a call.
struct Request<'a> {
    from: &'a [u8],
    to: &'a [u8],
    amount: u64,
}

impl<'a> Request<'a> {
    /// Reads the arguments; none if they are not what was agreed.
    fn decode(arguments: &'a [u8]) -> Option<Self> {
        let (from, rest) = name(arguments)?;
        let (to, rest) = name(rest)?;
        let amount = u64::from_le_bytes(rest.try_into().ok()?);
        Some(Request { from, to, amount })
    }
}

fn name(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(*length))
}

fn balance(store: &mut dyn Store, account: &[u8]) -> Result<Option<u64>, Stop> {
    let value = store.get(account)?;
    Ok(value.and_then(|value| value.try_into().ok()).map(u64::from_le_bytes))
}

fn refused(why: &str) -> Result<Answer, Stop> {
    Ok(Answer::Refused(why.as_bytes().to_vec()))
}

impl Procedure for Transfer {
    fn call(&self, store: &mut dyn Store, arguments: &[u8]) -> Result<Answer, Stop> {
        let Some(Request { from, to, amount }) = Request::decode(arguments) else {
            return refused("the arguments are no transfer");
        };
        let (Some(source), Some(target)) = (balance(store, from)?, balance(store, to)?) else {
            return refused("there is no such account");
        };
        let Some(rest) = source.checked_sub(amount) else {
            return refused("the account does not hold that much");
        };
        if from != to {
            let Some(sum) = target.checked_add(amount) else {
                return refused("the account cannot hold that much");
            };
            store.put(from, &rest.to_le_bytes())?;
            store.put(to, &sum.to_le_bytes())?;
        }
        let left = if from == to { source } else { rest };
        Ok(Answer::Done(left.to_le_bytes().to_vec()))
    }

    fn footprint(&self, arguments: &[u8]) -> Footprint {
        let keys = Request::decode(arguments).map(|request| [request.from, request.to].map(<[u8]>::to_vec));
        Footprint::Keys { keys: keys.into_iter().flatten().collect(), ranges: Vec::new() }
    }
}

quorate_procedure::export!(Transfer);
