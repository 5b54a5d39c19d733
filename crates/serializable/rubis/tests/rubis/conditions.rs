//! The conditions hold, and notice what is broken.

use quorate_procedure::{Answer, Procedure, Stop, Store};
use quorate_rubis::interaction::{StoreBid, StoreBuyNow};
use quorate_rubis::key::{self, Id, Table};
use quorate_rubis::row;
use quorate_rubis::{Interaction, Kind, Mix, Rubis};

use crate::world::{NOW, SMALL, World, row};

#[test]
fn the_population_is_consistent() {
    for shards in [1, 2, 3] {
        assert_eq!(World::new(SMALL, shards, 7).violations(), [""; 0]);
    }
}

#[test]
fn the_conditions_hold_after_any_run() {
    for (shards, seed) in [(1, 1), (2, 2), (3, 3)] {
        let mut world = World::new(SMALL, shards, seed);
        let before = world.all();
        let mix = Mix { update_percent: 50, remote_percent: 30 };
        let kinds = world.run_many(&Rubis, mix, 4_000, seed);
        assert_eq!(world.violations(), [""; 0], "on {shards} shards");
        assert_ne!(world.all(), before);
        let updates = Kind::ALL.into_iter().filter(|kind| kind.is_update());
        assert!(updates.into_iter().all(|kind| kinds.get(kind.name()) > Some(&20)), "{kinds:?}");
    }
}

#[test]
fn where_markets_lie_changes_nothing() {
    let worlds = [1, 2, 3].map(|shards| {
        let mut all = World::new(SMALL, 1, 9);
        // The same population, dealt out.
        let pairs = std::mem::take(&mut all.shards[0].pairs);
        let mut world = World { scale: SMALL, shards: vec![quorate_procedure::Memory::default(); shards] };
        for (key, value) in pairs {
            let (market, ..) = key::split(&key).unwrap();
            world.shards[market as usize % shards].pairs.insert(key, value);
        }
        world.run_many(&Rubis, Mix { update_percent: 50, remote_percent: 50 }, 1_500, 9);
        world.all()
    });
    assert_eq!(worlds[0], worlds[1]);
    assert_eq!(worlds[0], worlds[2]);
}

/// Leaves out what an interaction of two markets does at the second of them.
struct ByHalf;

impl Procedure for ByHalf {
    fn call(&self, store: &mut dyn Store, arguments: &[u8]) -> Result<Answer, Stop> {
        let (local, interaction) = Interaction::decode(arguments).expect("the generator makes no mistakes");
        let markets = interaction.markets();
        if interaction.kind().is_update() && markets.len() == 2 && local == markets[1..] {
            return Ok(Answer::Done(vec![0, 0]));
        }
        Rubis.call(store, arguments)
    }
}

#[test]
fn an_interaction_that_is_carried_out_by_half_is_noticed() {
    let mut world = World::new(SMALL, 3, 5);
    world.run_many(&ByHalf, Mix { update_percent: 60, remote_percent: 60 }, 500, 5);
    let violations = world.violations();
    assert!(
        !violations.is_empty() && violations.iter().all(|line| line.starts_with("notes: ")),
        "{violations:?}"
    );
}

const ITEM: Id = Id { market: 1, number: 3 };
const USER: Id = Id { market: 1, number: 5 };

fn bid(amount: i64) -> Interaction {
    Interaction::StoreBid(StoreBid {
        bidder: USER,
        nickname: b"m1u5".to_vec(),
        item: ITEM,
        quantity: 1,
        amount,
        amount_max: amount,
        date: NOW,
    })
}

fn buy(quantity: u32, date: u64) -> Interaction {
    Interaction::StoreBuyNow(StoreBuyNow { buyer: USER, item: ITEM, quantity, date })
}

#[test]
fn a_lost_update_is_noticed() {
    let run_twice_from_one_state = |first: &Interaction, second: &Interaction, lost: &[Vec<u8>]| {
        let mut world = World::new(SMALL, 1, 7);
        let before = world.shards[0].clone();
        world.run(&Rubis, first).unwrap();
        for key in lost {
            world.shards[0].pairs.insert(key.clone(), before.pairs[key].clone());
        }
        world.run(&Rubis, second).unwrap();
        world.violations()
    };
    let of_item = run_twice_from_one_state(&bid(2_000_000), &bid(1_000), &[key::item(ITEM)]);
    assert_eq!(of_item.len(), 2, "{of_item:?}");
    assert!(of_item.iter().all(|line| line.starts_with("bids: ")), "{of_item:?}");
    let of_stock = run_twice_from_one_state(&buy(1, NOW), &buy(1, NOW + 1), &[key::item(ITEM)]);
    assert!(of_stock[0].starts_with("quantities: "), "{of_stock:?}");
    // Two of the same number overwrite each other, unless they are for two items.
    let other = Id { number: 4, ..ITEM };
    let Interaction::StoreBid(of_other) = bid(5) else { unreachable!("it is a bid") };
    let of_other = Interaction::StoreBid(StoreBid { item: other, ..of_other });
    let of_counter = run_twice_from_one_state(&bid(5), &of_other, &[key::counter(1, Table::Bid)]);
    assert!(of_counter[0].starts_with("numbers: "), "{of_counter:?}");
}

/// The row that takes the place of one; none takes it away.
type Change<'a> = &'a dyn Fn(Vec<u8>) -> Option<Vec<u8>>;

#[test]
fn each_condition_notices_what_it_is_about() {
    let changed = |bytes: &[u8]| Some(bytes.to_vec());
    let table: [(&str, Table, Change<'_>); 14] = [
        ("rows", Table::Category, &|_| None),
        ("rows", Table::Region, &|_| None),
        ("rows", Table::Counter, &|_| None),
        ("numbers", Table::Counter, &|bytes| {
            let mut counter = row(row::Counter::of(bytes));
            counter.set_next(counter.next() + 1);
            changed(counter.as_bytes())
        }),
        ("numbers", Table::Comment, &|_| None),
        ("rows", Table::Item, &|_| Some(vec![1])),
        ("bids", Table::Item, &|bytes| {
            let mut item = row(row::Item::of(bytes));
            item.set_max_bid(item.max_bid() + 1);
            changed(item.as_bytes())
        }),
        ("quantities", Table::Item, &|bytes| {
            let mut item = row(row::Item::of(bytes));
            item.set_quantity(item.quantity() + 1);
            changed(item.as_bytes())
        }),
        ("ratings", Table::User, &|bytes| {
            let mut user = row(row::User::of(bytes));
            user.set_rating(user.rating() - 1);
            changed(user.as_bytes())
        }),
        ("names", Table::UserByName, &|_| None),
        ("names", Table::ItemByCategory, &|_| None),
        ("names", Table::ItemByRegion, &|_| None),
        ("names", Table::ItemBySeller, &|_| None),
        ("notes", Table::BidByUser, &|_| None),
    ];
    for (condition, of, change) in table {
        let mut world = World::new(SMALL, 1, 7);
        world.tamper(of, change);
        let violations = world.violations();
        let begins = format!("{condition}: ");
        assert!(violations.iter().any(|line| line.starts_with(&begins)), "{of:?}: {violations:?}");
    }
    let mut world = World::new(SMALL, 1, 7);
    world.run(&Rubis, &buy(2, NOW)).unwrap();
    assert_eq!(world.violations(), [""; 0]);
    world.tamper(Table::PurchaseByUser, |_| None);
    assert!(world.violations()[0].starts_with("notes: "), "{:?}", world.violations());
    world.shards[0].pairs.insert(b"stray".to_vec(), Vec::new());
    assert!(world.violations().iter().any(|line| line.contains("none of RUBiS's")));
}
