//! The interactions that only read.

use alloc::vec::Vec;

use quorate_procedure::{Direction, Pair, Stop, Store};

use super::{Page, must_get};
use crate::interaction::{Interaction, Login};
use crate::key::{self, Id};
use crate::row::{Item, User};

/// A page shows so many rows of a list.
pub(super) const LISTED: usize = 25;

/// A page; none if it is for a user that does not prove to be the one.
pub(super) fn page(
    store: &mut dyn Store,
    local: &[u32],
    interaction: &Interaction,
) -> Result<Option<Page>, Stop> {
    let mut page = Page::default();
    match interaction {
        Interaction::BrowseCategories { market, region } => {
            let region = region.map(|region| must_get(store, &key::region(*market, region)));
            let categories = list(store, key::categories(*market));
            if let Some(region) = region {
                page.show(&region?);
            }
            page.rows.extend(categories?);
        }
        Interaction::BrowseRegions { market } => page.rows = list(store, key::regions(*market))?,
        Interaction::SearchItemsInCategory { market, category, from } => {
            let range = key::items_of_category(*market, *category, *from);
            page.rows = items(store, *market, range, Direction::Ascending)?;
        }
        Interaction::SearchItemsInRegion { market, region, category, from } => {
            let range = key::items_of_region(*market, *region, *category, *from);
            page.rows = items(store, *market, range, Direction::Ascending)?;
        }
        Interaction::ViewItem { item } => show_item(store, *item, &mut page)?,
        Interaction::ViewUserInfo { user } => {
            let shown = must_get(store, &key::user(*user));
            let comments = latest(store, key::comments_about(*user));
            page.show(&shown?);
            page.rows.extend(values(comments?));
        }
        Interaction::ViewBidHistory { item } => {
            let shown = must_get(store, &key::item(*item));
            let bids = latest(store, key::bids_of(*item));
            page.show(&shown?);
            page.rows.extend(values(bids?));
        }
        Interaction::BuyNow { login, item } | Interaction::PutBid { login, item } => {
            let user = here(local, login.market).then(|| find(store, login));
            let shown = here(local, item.market).then(|| show_item(store, *item, &mut page));
            if let Some(None) = user.transpose()? {
                return Ok(None);
            }
            shown.transpose()?;
        }
        Interaction::PutComment { login, about } => {
            let user = here(local, login.market).then(|| find(store, login));
            let shown = here(local, about.market).then(|| must_get(store, &key::user(*about)));
            if let Some(None) = user.transpose()? {
                return Ok(None);
            }
            page.rows.extend(shown.transpose()?);
        }
        Interaction::SelectCategoryToSellItem { login } => {
            let user = find(store, login);
            let categories = list(store, key::categories(login.market));
            if user?.is_none() {
                return Ok(None);
            }
            page.rows = categories?;
        }
        Interaction::AboutMe { login } => {
            let Some((id, user)) = find(store, login)? else { return Ok(None) };
            page.show(user.as_bytes());
            about(store, id, &mut page)?;
        }
        // A form is the same for everybody, and the others update.
        Interaction::Form { .. }
        | Interaction::RegisterUser(_)
        | Interaction::StoreBuyNow(_)
        | Interaction::StoreBid(_)
        | Interaction::StoreComment(_)
        | Interaction::RegisterItem(_) => {}
    }
    Ok(Some(page))
}

fn here(local: &[u32], market: u32) -> bool {
    local.contains(&market)
}

/// A user that proves to be the one; none if there is no such user.
fn find(store: &mut dyn Store, login: &Login) -> Result<Option<(Id, User)>, Stop> {
    let Some(number) = store.get(&key::user_by_name(login.market, &login.nickname))? else { return Ok(None) };
    let number = key::last_number(&number).ok_or(Stop::Failed)?;
    let id = Id { market: login.market, number };
    let user = User::of(must_get(store, &key::user(id))?)?;
    let is_the_one = user.password().as_bytes() == login.password;
    Ok(is_the_one.then_some((id, user)))
}

/// An item, and the user that sells it.
fn show_item(store: &mut dyn Store, id: Id, page: &mut Page) -> Result<(), Stop> {
    let item = Item::of(must_get(store, &key::item(id))?)?;
    let seller = must_get(store, &key::user(Id { market: id.market, number: item.seller() }))?;
    page.show(item.as_bytes());
    page.show(&seller);
    Ok(())
}

/// Everything that concerns a user: items that it sells, what it has bid for and bought, and comments on it.
fn about(store: &mut dyn Store, user: Id, page: &mut Page) -> Result<(), Stop> {
    let sold = items(store, user.market, key::items_of_seller(user), Direction::Descending);
    let ranges = [key::bids_by(user), key::purchases_by(user), key::comments_about(user)];
    let lists = ranges.map(|range| latest(store, range));
    page.rows.extend(sold?);
    for list in lists {
        page.rows.extend(values(list?));
    }
    Ok(())
}

/// The items that the keys of a range lead to, as many as a page shows.
fn items(
    store: &mut dyn Store,
    market: u32,
    (from, to): (Vec<u8>, Vec<u8>),
    direction: Direction,
) -> Result<Vec<Vec<u8>>, Stop> {
    let found = store.scan(&from, &to, LISTED, direction)?;
    let numbers = found.iter().map(|(key, _)| key::last_number(key));
    let rows: Vec<_> = numbers
        .map(|number| {
            let number = number.ok_or(Stop::Failed)?;
            must_get(store, &key::item(Id { market, number }))
        })
        .collect();
    rows.into_iter().collect()
}

/// The rows of a range, all of them.
fn list(store: &mut dyn Store, (from, to): (Vec<u8>, Vec<u8>)) -> Result<Vec<Vec<u8>>, Stop> {
    store.scan(&from, &to, usize::MAX, Direction::Ascending).map(|pairs| values(pairs).collect())
}

/// The rows of a range with the greatest keys, as many as a page shows.
fn latest(store: &mut dyn Store, (from, to): (Vec<u8>, Vec<u8>)) -> Result<Vec<Pair>, Stop> {
    store.scan(&from, &to, LISTED, Direction::Descending)
}

fn values(pairs: Vec<Pair>) -> impl Iterator<Item = Vec<u8>> {
    pairs.into_iter().map(|(_, value)| value)
}
