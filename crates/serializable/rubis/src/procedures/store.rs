//! The interactions that update.

use quorate_procedure::{Answer, Stop, Store};

use super::{NICKNAME_TAKEN, Page, must_get};
use crate::interaction::{RegisterItem, RegisterUser, StoreBid, StoreBuyNow, StoreComment};
use crate::key::{self, Id, Table};
use crate::row::{Bid, Comment, Counter, Item, Note, Purchase, Text, User};

/// Takes the next number of a table of a market.
fn next_number(store: &mut dyn Store, market: u32, table: Table) -> Result<u32, Stop> {
    let key = key::counter(market, table);
    let mut counter = Counter::of(must_get(store, &key)?)?;
    let number = counter.next();
    counter.set_next(number.checked_add(1).ok_or(Stop::Failed)?);
    store.put(&key, counter.as_bytes())?;
    Ok(number)
}

pub(super) fn register_user(store: &mut dyn Store, register: &RegisterUser) -> Result<Answer, Stop> {
    let RegisterUser { market, nickname, password, region, date } = register;
    let by_name = key::user_by_name(*market, nickname);
    if store.get(&by_name)?.is_some() {
        return Ok(Answer::Refused(NICKNAME_TAKEN.to_vec()));
    }
    let id = Id { market: *market, number: next_number(store, *market, Table::User)? };
    let mut user = User::new();
    user.set_region(*region);
    user.set_created(*date);
    user.set_nickname(Text::new(nickname));
    user.set_password(Text::new(password));
    user.set_first(Text::new(nickname));
    user.set_last(Text::new(nickname));
    user.set_email(Text::new(nickname));
    store.put(&by_name, &id.number.to_be_bytes())?;
    store.put(&key::user(id), user.as_bytes())?;
    let mut page = Page::default();
    page.show(user.as_bytes());
    Ok(Answer::Done(page.encode()))
}

pub(super) fn register_item(store: &mut dyn Store, register: &RegisterItem) -> Result<Page, Stop> {
    let RegisterItem { seller, category, .. } = register;
    let region = User::of(must_get(store, &key::user(*seller))?)?.region();
    let id = Id { market: seller.market, number: next_number(store, seller.market, Table::Item)? };
    let mut item = Item::new();
    item.set_seller(seller.number);
    item.set_category(*category);
    item.set_region(region);
    item.set_offered(register.quantity);
    item.set_quantity(register.quantity);
    item.set_initial_price(register.initial_price);
    item.set_reserve_price(register.reserve_price);
    item.set_buy_now_price(register.buy_now_price);
    item.set_started(register.date);
    item.set_ends(register.ends);
    item.set_name(Text::new(&register.name));
    item.set_data(&register.description);
    store.put(&key::item(id), item.as_bytes())?;
    store.put(&key::item_by_category(id, *category), b"")?;
    store.put(&key::item_by_region(id, region, *category), b"")?;
    store.put(&key::item_by_seller(id, seller.number), b"")?;
    let mut page = Page::default();
    page.show(item.as_bytes());
    Ok(page)
}

pub(super) fn store_bid(store: &mut dyn Store, local: &[u32], asked: &StoreBid) -> Result<Page, Stop> {
    let StoreBid { bidder, item: id, quantity, amount, date, .. } = asked;
    let mut page = Page::default();
    if local.contains(&id.market) {
        let item_key = key::item(*id);
        let mut item = Item::of(must_get(store, &item_key)?)?;
        let number = next_number(store, id.market, Table::Bid)?;
        item.set_bids(item.bids().wrapping_add(1));
        item.set_max_bid(item.max_bid().max(*amount));
        store.put(&item_key, item.as_bytes())?;

        let mut bid = Bid::new();
        bid.set_bidder_market(bidder.market);
        bid.set_bidder(bidder.number);
        bid.set_nickname(Text::new(&asked.nickname));
        bid.set_quantity(*quantity);
        bid.set_amount(*amount);
        bid.set_amount_max(asked.amount_max);
        bid.set_date(*date);
        store.put(&key::bid(*id, number), bid.as_bytes())?;
        page.show(item.as_bytes());
        page.show(bid.as_bytes());
    }
    if local.contains(&bidder.market) {
        // A later bid for the same item takes the place of the note on an earlier one.
        store.put(&key::bid_by_user(*bidder, *id), note(*quantity, *amount, *date).as_bytes())?;
    }
    Ok(page)
}

pub(super) fn store_buy_now(store: &mut dyn Store, local: &[u32], asked: &StoreBuyNow) -> Result<Page, Stop> {
    let StoreBuyNow { buyer, item: id, quantity, date } = asked;
    let mut page = Page::default();
    if local.contains(&id.market) {
        let item_key = key::item(*id);
        let mut item = Item::of(must_get(store, &item_key)?)?;
        let number = next_number(store, id.market, Table::Purchase)?;
        let sold = item.quantity().min(*quantity);
        item.set_quantity(item.quantity() - sold);
        if item.quantity() == 0 {
            item.set_ends(item.ends().min(*date));
        }
        store.put(&item_key, item.as_bytes())?;

        let mut purchase = Purchase::new();
        purchase.set_buyer_market(buyer.market);
        purchase.set_buyer(buyer.number);
        purchase.set_wanted(*quantity);
        purchase.set_sold(sold);
        purchase.set_date(*date);
        store.put(&key::purchase(*id, number), purchase.as_bytes())?;
        page.show(item.as_bytes());
        page.show(purchase.as_bytes());
    }
    if local.contains(&buyer.market) {
        store.put(&key::purchase_by_user(*buyer, *id, *date), note(*quantity, 0, *date).as_bytes())?;
    }
    Ok(page)
}

fn note(quantity: u32, amount: i64, date: u64) -> Note {
    let mut note = Note::new();
    note.set_quantity(quantity);
    note.set_amount(amount);
    note.set_date(date);
    note
}

pub(super) fn store_comment(store: &mut dyn Store, asked: &StoreComment) -> Result<Page, Stop> {
    let StoreComment { author, about, item, rating, .. } = asked;
    let user_key = key::user(*about);
    let mut user = User::of(must_get(store, &user_key)?)?;
    let number = next_number(store, about.market, Table::Comment)?;
    user.set_rating(user.rating().wrapping_add(*rating));
    store.put(&user_key, user.as_bytes())?;

    let mut comment = Comment::new();
    comment.set_author_market(author.market);
    comment.set_author(author.number);
    comment.set_nickname(Text::new(&asked.nickname));
    comment.set_item_market(item.market);
    comment.set_item(item.number);
    comment.set_rating(*rating);
    comment.set_date(asked.date);
    comment.set_data(&asked.text);
    store.put(&key::comment(*about, number), comment.as_bytes())?;
    let mut page = Page::default();
    page.show(user.as_bytes());
    page.show(comment.as_bytes());
    Ok(page)
}
