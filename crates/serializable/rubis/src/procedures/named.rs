//! The keys and ranges that the arguments of an interaction name.

use alloc::vec::Vec;

use quorate_procedure::{Direction, Needs};

use super::browse::LISTED;
use crate::interaction::{Interaction, Login};
use crate::key::{self, Id, Table};

/// The reads of an interaction that follow from its arguments, for the markets that it acts for. Those that update have no others.
pub(super) fn needs(local: &[u32], interaction: &Interaction) -> Needs {
    let mut needs = Needs::default();
    let is_here = |market: u32| local.contains(&market);
    match interaction {
        Interaction::Form { .. } => {}
        Interaction::RegisterUser(register) => {
            needs.key(&key::user_by_name(register.market, &register.nickname));
            needs.key(&key::counter(register.market, Table::User));
        }
        Interaction::BrowseCategories { market, region } => {
            region.iter().for_each(|region| needs.key(&key::region(*market, *region)));
            all(key::categories(*market), &mut needs);
        }
        Interaction::BrowseRegions { market } => all(key::regions(*market), &mut needs),
        Interaction::SearchItemsInCategory { market, category, from } => {
            let range = key::items_of_category(*market, *category, *from);
            needs.range(range, LISTED, Direction::Ascending);
        }
        Interaction::SearchItemsInRegion { market, region, category, from } => {
            let range = key::items_of_region(*market, *region, *category, *from);
            needs.range(range, LISTED, Direction::Ascending);
        }
        Interaction::ViewItem { item } => needs.key(&key::item(*item)),
        Interaction::ViewUserInfo { user } => {
            needs.key(&key::user(*user));
            needs.range(key::comments_about(*user), LISTED, Direction::Descending);
        }
        Interaction::ViewBidHistory { item } => {
            needs.key(&key::item(*item));
            needs.range(key::bids_of(*item), LISTED, Direction::Descending);
        }
        Interaction::BuyNow { login, item } | Interaction::PutBid { login, item } => {
            if is_here(login.market) {
                of_login(login, &mut needs);
            }
            if is_here(item.market) {
                needs.key(&key::item(*item));
            }
        }
        Interaction::PutComment { login, about } => {
            if is_here(login.market) {
                of_login(login, &mut needs);
            }
            if is_here(about.market) {
                needs.key(&key::user(*about));
            }
        }
        Interaction::SelectCategoryToSellItem { login } => {
            of_login(login, &mut needs);
            all(key::categories(login.market), &mut needs);
        }
        Interaction::AboutMe { login } => of_login(login, &mut needs),
        Interaction::StoreBuyNow(buy) if is_here(buy.item.market) => {
            of_item(buy.item, Table::Purchase, &mut needs);
        }
        Interaction::StoreBid(bid) if is_here(bid.item.market) => of_item(bid.item, Table::Bid, &mut needs),
        // The market of the buyer or bidder alone writes a note, and reads nothing.
        Interaction::StoreBuyNow(_) | Interaction::StoreBid(_) => {}
        Interaction::StoreComment(comment) => {
            needs.key(&key::user(comment.about));
            needs.key(&key::counter(comment.about.market, Table::Comment));
        }
        Interaction::RegisterItem(register) => {
            needs.key(&key::user(register.seller));
            needs.key(&key::counter(register.seller.market, Table::Item));
        }
    }
    needs
}

fn of_login(login: &Login, needs: &mut Needs) {
    needs.key(&key::user_by_name(login.market, &login.nickname));
}

/// An item, and what numbers that which is inserted for it.
fn of_item(item: Id, inserted: Table, needs: &mut Needs) {
    needs.key(&key::item(item));
    needs.key(&key::counter(item.market, inserted));
}

fn all(range: (Vec<u8>, Vec<u8>), needs: &mut Needs) {
    needs.range(range, usize::MAX, Direction::Ascending);
}
