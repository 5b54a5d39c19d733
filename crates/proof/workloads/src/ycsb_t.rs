//! `ycsb-t`: the closed economy of YCSB+T, the transactional extension of the Yahoo! cloud serving benchmark (Dey et al.,
//! 2014).
//!
//! Keys are accounts, and no money enters or leaves. Accounts are as popular as the records of YCSB:
//!
//! | transaction | share | operations |
//! |---|---|---|
//! | `balance` | 90% | read an account |
//! | `transfer` | 10% | read and write two accounts |
//!
//! The benchmark counts anomalies by how far the sum of all accounts has moved. Here every written value is fresh, so that a
//! checker finds each of them by what was read.

use quorate_core::Random;

use crate::key::numbered;
use crate::operation::{Operation, Plan};
use crate::zipf::Distribution;

/// The fewest keys that a transaction may need to tell apart.
pub const KEYS_MIN: u64 = 2;

/// The next transaction.
pub fn draw(keys: &Distribution, random: &mut Random) -> Plan {
    if random.below(100) < 90 {
        let account = numbered(keys.draw(random));
        return Plan { kind: "balance", operations: vec![Operation::Get(account)] };
    }
    let accounts = keys.draw_distinct(random, 2);
    let operations = accounts.into_iter().map(|account| Operation::Update(numbered(account))).collect();
    Plan { kind: "transfer", operations }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zipf::Popularity;

    #[test]
    fn one_in_ten_moves_money_between_two_accounts() {
        let keys = Distribution::new(KEYS_MIN, Popularity::Zipf(0.99));
        let mut random = Random::new(5);
        let plans: Vec<Plan> = (0..10_000).map(|_| draw(&keys, &mut random)).collect();
        let transfers: Vec<&Plan> = plans.iter().filter(|plan| plan.kind == "transfer").collect();
        assert!((900..1_100).contains(&transfers.len()), "{}", transfers.len());
        for transfer in transfers {
            let [one, other] = transfer.operations.as_slice() else { panic!("{transfer:?}") };
            assert!(one.key_written().is_some() && one.key_written() != other.key_written());
        }
        assert!(plans.iter().filter(|plan| plan.kind == "balance").all(|plan| plan.keys_read().is_some()));
    }
}
