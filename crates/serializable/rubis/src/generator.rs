//! The mix.

use alloc::format;

use quorate_tpcc::random::{Source, between, percent, text};

use crate::interaction::{
    Interaction, Login, RegisterItem, RegisterUser, StoreBid, StoreBuyNow, StoreComment,
};
use crate::key::Id;
use crate::kind::Kind;
use crate::population::{AUCTION_US, RATINGS, nickname, password};
use crate::scale::{CATEGORIES, REGIONS, Scale};

/// How often what is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Out of a hundred interactions, those that update.
    pub update_percent: u32,
    /// Out of a hundred interactions with an item or with another user, those with one of another market.
    pub remote_percent: u32,
}

impl Default for Mix {
    /// The benchmark's bidding mix. How much concerns other markets is nobody's number but ours.
    fn default() -> Self {
        Mix { update_percent: 15, remote_percent: 10 }
    }
}

/// Draws interactions.
#[derive(Clone, Debug)]
pub struct Generator {
    scale: Scale,
    mix: Mix,
}

impl Generator {
    /// Interactions over a population. The users and items that they name belong to it; items and users that were registered since are found by searching.
    pub fn new(scale: Scale, mix: Mix) -> Self {
        Generator { scale, mix }
    }

    /// The next interaction of a user at this market, at this time, in microseconds; not zero.
    pub fn next_at(&self, random: &mut dyn Source, home: u32, now: u64) -> Interaction {
        let kind = self.kind(random);
        let user = Id { market: home, number: self.user(random) };
        let login = || {
            let nickname = nickname(user);
            Login { market: home, password: password(&nickname), nickname }
        };
        match kind {
            Kind::RegisterUser => {
                // A second user that draws the same one is refused, once in a very long time.
                let nickname = format!("n{:016x}", random.next_u64()).into_bytes();
                let (password, region) = (password(&nickname), region(random));
                Interaction::RegisterUser(RegisterUser {
                    market: home,
                    password,
                    nickname,
                    region,
                    date: now,
                })
            }
            Kind::BrowseCategories => Interaction::BrowseCategories { market: home, region: None },
            Kind::BrowseCategoriesInRegion => {
                Interaction::BrowseCategories { market: home, region: Some(region(random)) }
            }
            Kind::BrowseRegions => Interaction::BrowseRegions { market: home },
            Kind::SearchItemsInCategory => {
                let (market, category) = (self.market(random, home), category(random));
                Interaction::SearchItemsInCategory { market, category, from: self.item(random) }
            }
            Kind::SearchItemsInRegion => {
                let (market, region, category) =
                    (self.market(random, home), region(random), category(random));
                Interaction::SearchItemsInRegion { market, region, category, from: self.item(random) }
            }
            Kind::ViewItem => Interaction::ViewItem { item: self.any_item(random, home) },
            Kind::ViewUserInfo => Interaction::ViewUserInfo { user: self.any_user(random, home) },
            Kind::ViewBidHistory => Interaction::ViewBidHistory { item: self.any_item(random, home) },
            Kind::BuyNow => Interaction::BuyNow { login: login(), item: self.any_item(random, home) },
            Kind::PutBid => Interaction::PutBid { login: login(), item: self.any_item(random, home) },
            Kind::PutComment => {
                Interaction::PutComment { login: login(), about: self.any_user(random, home) }
            }
            Kind::SelectCategoryToSellItem => Interaction::SelectCategoryToSellItem { login: login() },
            Kind::AboutMe => Interaction::AboutMe { login: login() },
            Kind::StoreBuyNow => Interaction::StoreBuyNow(StoreBuyNow {
                buyer: user,
                item: self.any_item(random, home),
                quantity: between(random, 1, 3),
                date: now,
            }),
            Kind::StoreBid => {
                let amount = i64::from(between(random, 100, 1_000_000));
                Interaction::StoreBid(StoreBid {
                    bidder: user,
                    nickname: nickname(user),
                    item: self.any_item(random, home),
                    quantity: between(random, 1, 3),
                    amount,
                    amount_max: amount + i64::from(between(random, 0, 10_000)),
                    date: now,
                })
            }
            Kind::StoreComment => Interaction::StoreComment(StoreComment {
                author: user,
                nickname: nickname(user),
                about: self.any_user(random, home),
                item: self.any_item(random, home),
                rating: RATINGS[between(random, 0, RATINGS.len() as u32 - 1) as usize],
                text: text(random, 20, 150),
                date: now,
            }),
            Kind::RegisterItem => {
                let initial_price = i64::from(between(random, 100, 500_000));
                let reserve_price = initial_price + i64::from(between(random, 0, 100_000));
                Interaction::RegisterItem(RegisterItem {
                    seller: user,
                    name: text(random, 10, 100),
                    category: category(random),
                    quantity: between(random, 1, 10),
                    initial_price,
                    reserve_price,
                    buy_now_price: reserve_price + i64::from(between(random, 0, 100_000)),
                    description: text(random, 50, 250),
                    date: now,
                    ends: now + AUCTION_US,
                })
            }
            form => Interaction::Form { form, market: home },
        }
    }

    /// One of the 26, as often as its share says among those that update, or among those that do not.
    fn kind(&self, random: &mut dyn Source) -> Kind {
        let is_update = percent(random, self.mix.update_percent);
        let kinds = || Kind::ALL.into_iter().filter(move |kind| kind.is_update() == is_update);
        let mut drawn = between(random, 1, kinds().map(Kind::share).sum());
        for kind in kinds() {
            match drawn.checked_sub(kind.share()) {
                None | Some(0) => return kind,
                Some(rest) => drawn = rest,
            }
        }
        unreachable!("a number up to the sum of the shares lies in one of them")
    }

    fn user(&self, random: &mut dyn Source) -> u32 {
        between(random, 1, self.scale.users)
    }

    fn item(&self, random: &mut dyn Source) -> u32 {
        between(random, 1, self.scale.items)
    }

    /// Home, or another market, if there is one.
    fn market(&self, random: &mut dyn Source, home: u32) -> u32 {
        if self.scale.markets < 2 || !percent(random, self.mix.remote_percent) {
            return home;
        }
        let other = between(random, 1, self.scale.markets - 1);
        if other < home { other } else { other + 1 }
    }

    fn any_item(&self, random: &mut dyn Source, home: u32) -> Id {
        Id { market: self.market(random, home), number: self.item(random) }
    }

    fn any_user(&self, random: &mut dyn Source, home: u32) -> Id {
        Id { market: self.market(random, home), number: self.user(random) }
    }
}

fn category(random: &mut dyn Source) -> u16 {
    between(random, 1, u32::from(CATEGORIES)) as u16
}

fn region(random: &mut dyn Source) -> u16 {
    between(random, 1, u32::from(REGIONS)) as u16
}
