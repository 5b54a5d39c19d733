//! The effects and answers of interactions.

use quorate_procedure::{Answer, Memory, Procedure, Stop};
use quorate_rubis::interaction::{Login, RegisterItem, RegisterUser, StoreBid, StoreBuyNow, StoreComment};
use quorate_rubis::key::{self, Id};
use quorate_rubis::population::{nickname, password};
use quorate_rubis::procedures::{MALFORMED, NICKNAME_TAKEN, NOT_THE_USER, Page};
use quorate_rubis::{Interaction, Kind, Rubis, row};

use crate::world::{NOW, SMALL, World, row};

const SELLER: Id = Id { market: 1, number: 7 };
const STRANGER: Id = Id { market: 2, number: 9 };

fn login(user: Id) -> Login {
    let nickname = nickname(user);
    Login { market: user.market, password: password(&nickname), nickname }
}

/// The page that an interaction shows, from all its markets.
fn page(world: &mut World, interaction: &Interaction) -> Vec<Vec<u8>> {
    let answers = world.run(&Rubis, interaction).expect("nobody refuses");
    answers.iter().flat_map(|answer| Page::decode(answer).expect("it is a page").rows).collect()
}

#[test]
fn an_item_is_offered_found_bid_for_bought_and_commented_on() {
    let mut world = World::new(SMALL, 3, 7);
    let offer = RegisterItem {
        seller: SELLER,
        name: b"a clock".to_vec(),
        category: 4,
        quantity: 2,
        initial_price: 1_000,
        reserve_price: 1_500,
        buy_now_price: 3_000,
        description: b"it ticks".to_vec(),
        date: NOW,
        ends: NOW + 9,
    };
    page(&mut world, &Interaction::RegisterItem(offer));
    let id = Id { market: 1, number: SMALL.items + 1 };
    let search = Interaction::SearchItemsInCategory { market: 1, category: 4, from: id.number };
    let found = page(&mut world, &search);
    assert_eq!(found.len(), 1);
    let item = row(row::Item::of(found[0].clone()));
    assert_eq!(
        (item.name().as_bytes(), item.data(), item.quantity()),
        (&b"a clock"[..], &b"it ticks"[..], 2)
    );
    let region = item.region();
    let here = Interaction::SearchItemsInRegion { market: 1, region, category: 4, from: id.number };
    assert_eq!(page(&mut world, &here), found);

    for (amount, date) in [(1_200, 1), (1_900, 2), (1_500, 3)] {
        let bid = StoreBid {
            bidder: STRANGER,
            nickname: nickname(STRANGER),
            item: id,
            quantity: 1,
            amount,
            amount_max: amount,
            date,
        };
        let bid = Interaction::StoreBid(bid);
        assert_eq!(bid.markets(), [1, 2]);
        page(&mut world, &bid);
    }
    let history = page(&mut world, &Interaction::ViewBidHistory { item: id });
    let item = row(row::Item::of(history[0].clone()));
    assert_eq!((item.bids(), item.max_bid()), (3, 1_900));
    let amounts: Vec<i64> = history[1..].iter().map(|bid| row(row::Bid::of(bid.clone())).amount()).collect();
    assert_eq!(amounts, [1_500, 1_900, 1_200], "the latest comes first");

    // There are two: the first buyer gets both, the second none.
    for (quantity, date, left) in [(3, 4, 0), (1, 5, 0)] {
        let buy = StoreBuyNow { buyer: STRANGER, item: id, quantity, date };
        let shown = page(&mut world, &Interaction::StoreBuyNow(buy));
        let (item, purchase) =
            (row(row::Item::of(shown[0].clone())), row(row::Purchase::of(shown[1].clone())));
        assert_eq!(item.quantity(), left);
        assert_eq!((purchase.wanted(), purchase.sold()), (quantity, if date == 4 { 2 } else { 0 }));
        assert_eq!(item.ends(), 4, "the auction ends with the last piece");
    }
    let about_me = page(&mut world, &Interaction::AboutMe { login: login(STRANGER) });
    let notes = about_me.iter().filter(|row| row.len() == row::Note::ROOM).count();
    assert!(notes >= 3, "a bid and two purchases are noted: {notes}");

    let rating = |world: &mut World| {
        let shown = page(world, &Interaction::ViewUserInfo { user: SELLER });
        (row(row::User::of(shown[0].clone())).rating(), shown.len())
    };
    let (before, shown) = rating(&mut world);
    let comment = StoreComment {
        author: STRANGER,
        nickname: nickname(STRANGER),
        about: SELLER,
        item: id,
        rating: -3,
        text: b"it does not tick".to_vec(),
        date: NOW,
    };
    page(&mut world, &Interaction::StoreComment(comment));
    assert_eq!(rating(&mut world), (before - 3, shown + 1));
    assert_eq!(world.violations(), [""; 0]);
}

#[test]
fn a_nickname_belongs_to_one_user_of_a_market() {
    let mut world = World::new(SMALL, 3, 7);
    let register = |market| {
        Interaction::RegisterUser(RegisterUser {
            market,
            nickname: b"ada".to_vec(),
            password: b"secret".to_vec(),
            region: 3,
            date: NOW,
        })
    };
    assert!(world.run(&Rubis, &register(1)).is_ok());
    assert!(world.run(&Rubis, &register(2)).is_ok(), "another market knows nothing of it");
    assert_eq!(world.run(&Rubis, &register(1)), Err(NICKNAME_TAKEN.to_vec()));
    assert_eq!(world.violations(), [""; 0]);
    let ada = |password: &[u8]| Login { market: 1, nickname: b"ada".to_vec(), password: password.to_vec() };
    let sell = |login| Interaction::SelectCategoryToSellItem { login };
    assert_eq!(page(&mut world, &sell(ada(b"secret"))).len(), 20);
    for login in [ada(b"guess"), Login { nickname: b"bob".to_vec(), ..ada(b"secret") }] {
        let item = Id { market: 1, number: 1 };
        for interaction in [
            sell(login.clone()),
            Interaction::AboutMe { login: login.clone() },
            Interaction::BuyNow { login: login.clone(), item },
            Interaction::PutBid { login: login.clone(), item },
            Interaction::PutComment { login: login.clone(), about: SELLER },
        ] {
            assert_eq!(world.run(&Rubis, &interaction), Err(NOT_THE_USER.to_vec()), "{interaction:?}");
        }
    }
}

#[test]
fn pages_show_what_they_are_for() {
    let mut world = World::new(SMALL, 3, 7);
    let item = Id { market: 1, number: 2 };
    let login = || login(STRANGER);
    let table = [
        (Interaction::BrowseCategories { market: 2, region: None }, 20),
        (Interaction::BrowseCategories { market: 2, region: Some(7) }, 21),
        (Interaction::BrowseRegions { market: 2 }, 62),
        (Interaction::ViewItem { item }, 2),
        (Interaction::BuyNow { login: login(), item }, 2),
        (Interaction::PutBid { login: login(), item }, 2),
        (Interaction::PutComment { login: login(), about: SELLER }, 1),
        (Interaction::SelectCategoryToSellItem { login: login() }, 20),
    ];
    for (interaction, rows) in table {
        assert_eq!(page(&mut world, &interaction).len(), rows, "{interaction:?}");
    }
    for form in Kind::FORMS {
        let form = Interaction::Form { form, market: 1 };
        assert_eq!((page(&mut world, &form).len(), form.markets()), (0, vec![1]));
    }
}

#[test]
fn arguments_out_of_bounds_are_none() {
    let item = Id { market: 1, number: 1 };
    let search = |category| Interaction::SearchItemsInCategory { market: 1, category, from: 1 };
    let region = |region| Interaction::BrowseCategories { market: 1, region: Some(region) };
    let buy = |quantity, date| Interaction::StoreBuyNow(StoreBuyNow { buyer: SELLER, item, quantity, date });
    let comment = |rating, nickname: &[u8]| {
        Interaction::StoreComment(StoreComment {
            author: STRANGER,
            nickname: nickname.to_vec(),
            about: SELLER,
            item,
            rating,
            text: Vec::new(),
            date: NOW,
        })
    };
    let good = [search(20), region(62), buy(1, 1), comment(-5, b"a")];
    let wrong = [
        search(0),
        search(21),
        region(0),
        region(63),
        buy(0, 1),
        buy(1, 0),
        comment(6, b"a"),
        comment(1, b""),
        comment(1, &[b'a'; 21]),
    ];
    let decodes = |interaction: &Interaction| {
        let arguments = interaction.arguments(&interaction.markets());
        Interaction::decode(&arguments).is_some()
    };
    assert!(good.iter().all(decodes));
    for interaction in wrong {
        assert!(!decodes(&interaction), "{interaction:?}");
        let arguments = interaction.arguments(&[1]);
        let refused = Answer::Refused(MALFORMED.to_vec());
        assert_eq!(Rubis.call(&mut Memory::default(), &arguments), Ok(refused));
    }
    // Where somebody else has written, it fails and does not panic.
    let mut shard = Memory::default();
    shard.pairs.insert(key::item(item), vec![1]);
    let view = Interaction::ViewItem { item };
    assert_eq!(Rubis.call(&mut shard, &view.arguments(&[1])), Err(Stop::Failed));
}
