//! The interactions that a user asks for, and their arguments.

use alloc::vec::Vec;

use quorate_tpcc::bytes::{Reader, put, put_text};
use quorate_tpcc::row::Field;

use crate::key::Id;
use crate::kind::Kind;
use crate::scale::{CATEGORIES, REGIONS};

/// An interaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interaction {
    /// One of the eight forms. Nothing is read.
    Form {
        /// Which one; one of [`Kind::FORMS`].
        form: Kind,
        /// The market whose user asks for it.
        market: u32,
    },
    /// Somebody becomes a user.
    RegisterUser(RegisterUser),
    /// All categories are listed.
    BrowseCategories {
        /// As this market knows them.
        market: u32,
        /// For this region; none for all.
        region: Option<u16>,
    },
    /// All regions are listed.
    BrowseRegions {
        /// As this market knows them.
        market: u32,
    },
    /// Items of a category are listed.
    SearchItemsInCategory {
        /// Of this market.
        market: u32,
        /// Which category.
        category: u16,
        /// From this number on.
        from: u32,
    },
    /// Items of a category and a region are listed.
    SearchItemsInRegion {
        /// Of this market.
        market: u32,
        /// Which region.
        region: u16,
        /// Which category.
        category: u16,
        /// From this number on.
        from: u32,
    },
    /// An item is shown.
    ViewItem {
        /// Which item.
        item: Id,
    },
    /// A user is shown, with the comments on it.
    ViewUserInfo {
        /// Which user.
        user: Id,
    },
    /// The bids for an item are shown.
    ViewBidHistory {
        /// Which item.
        item: Id,
    },
    /// An item is shown to a user that may buy it.
    BuyNow {
        /// The user.
        login: Login,
        /// The item.
        item: Id,
    },
    /// An item is shown to a user that may bid for it.
    PutBid {
        /// The user.
        login: Login,
        /// The item.
        item: Id,
    },
    /// A user is shown to one that may comment on it.
    PutComment {
        /// The author.
        login: Login,
        /// The user that it would be about.
        about: Id,
    },
    /// All categories are listed for a user that may sell.
    SelectCategoryToSellItem {
        /// The user.
        login: Login,
    },
    /// A user sees what concerns it.
    AboutMe {
        /// The user.
        login: Login,
    },
    /// A user buys.
    StoreBuyNow(StoreBuyNow),
    /// A user bids.
    StoreBid(StoreBid),
    /// A user comments on another one.
    StoreComment(StoreComment),
    /// A user offers an item for sale.
    RegisterItem(RegisterItem),
}

/// A user that proves to be the one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The market of the user.
    pub market: u32,
    /// Its nickname.
    pub nickname: Vec<u8>,
    /// Its password.
    pub password: Vec<u8>,
}

/// Somebody becomes a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterUser {
    /// At which market.
    pub market: u32,
    /// Under which nickname, which nobody of the market must have.
    pub nickname: Vec<u8>,
    /// The password.
    pub password: Vec<u8>,
    /// The region.
    pub region: u16,
    /// When, in microseconds; not zero.
    pub date: u64,
}

/// A user buys an item without an auction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreBuyNow {
    /// The user.
    pub buyer: Id,
    /// The item.
    pub item: Id,
    /// How many; not zero.
    pub quantity: u32,
    /// When, in microseconds; not zero.
    pub date: u64,
}

/// A user bids for an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreBid {
    /// The user.
    pub bidder: Id,
    /// Its nickname.
    pub nickname: Vec<u8>,
    /// The item.
    pub item: Id,
    /// How many; not zero.
    pub quantity: u32,
    /// How much, in cents, for each; not zero.
    pub amount: i64,
    /// At most, in cents, for each.
    pub amount_max: i64,
    /// When, in microseconds; not zero.
    pub date: u64,
}

/// A user comments on another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreComment {
    /// The author.
    pub author: Id,
    /// Its nickname.
    pub nickname: Vec<u8>,
    /// The user that it is about.
    pub about: Id,
    /// The item that was dealt with.
    pub item: Id,
    /// From minus five to five.
    pub rating: i64,
    /// The text of the comment.
    pub text: Vec<u8>,
    /// When, in microseconds; not zero.
    pub date: u64,
}

/// A user offers an item for sale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterItem {
    /// The seller. The item is of the same market.
    pub seller: Id,
    /// Its name.
    pub name: Vec<u8>,
    /// Its category.
    pub category: u16,
    /// How many there are; not zero.
    pub quantity: u32,
    /// The price at which the auction begins, in cents.
    pub initial_price: i64,
    /// The least price for which it is sold in the auction, in cents; zero if any will do.
    pub reserve_price: i64,
    /// The price for which it is sold at once, in cents; zero if it is not.
    pub buy_now_price: i64,
    /// The text that describes it.
    pub description: Vec<u8>,
    /// When, in microseconds; not zero.
    pub date: u64,
    /// When the auction ends, in microseconds.
    pub ends: u64,
}

impl Interaction {
    /// Which one it is.
    pub fn kind(&self) -> Kind {
        match self {
            Interaction::Form { form, .. } => *form,
            Interaction::RegisterUser(_) => Kind::RegisterUser,
            Interaction::BrowseCategories { region: None, .. } => Kind::BrowseCategories,
            Interaction::BrowseCategories { region: Some(_), .. } => Kind::BrowseCategoriesInRegion,
            Interaction::BrowseRegions { .. } => Kind::BrowseRegions,
            Interaction::SearchItemsInCategory { .. } => Kind::SearchItemsInCategory,
            Interaction::SearchItemsInRegion { .. } => Kind::SearchItemsInRegion,
            Interaction::ViewItem { .. } => Kind::ViewItem,
            Interaction::ViewUserInfo { .. } => Kind::ViewUserInfo,
            Interaction::ViewBidHistory { .. } => Kind::ViewBidHistory,
            Interaction::BuyNow { .. } => Kind::BuyNow,
            Interaction::PutBid { .. } => Kind::PutBid,
            Interaction::PutComment { .. } => Kind::PutComment,
            Interaction::SelectCategoryToSellItem { .. } => Kind::SelectCategoryToSellItem,
            Interaction::AboutMe { .. } => Kind::AboutMe,
            Interaction::StoreBuyNow(_) => Kind::StoreBuyNow,
            Interaction::StoreBid(_) => Kind::StoreBid,
            Interaction::StoreComment(_) => Kind::StoreComment,
            Interaction::RegisterItem(_) => Kind::RegisterItem,
        }
    }

    /// The markets that it touches, each once, in the order of their numbers.
    pub fn markets(&self) -> Vec<u32> {
        let (one, other) = match self {
            Interaction::Form { market, .. }
            | Interaction::RegisterUser(RegisterUser { market, .. })
            | Interaction::BrowseCategories { market, .. }
            | Interaction::BrowseRegions { market }
            | Interaction::SearchItemsInCategory { market, .. }
            | Interaction::SearchItemsInRegion { market, .. } => (*market, *market),
            Interaction::ViewItem { item: id }
            | Interaction::ViewBidHistory { item: id }
            | Interaction::ViewUserInfo { user: id }
            | Interaction::StoreComment(StoreComment { about: id, .. })
            | Interaction::RegisterItem(RegisterItem { seller: id, .. }) => (id.market, id.market),
            Interaction::SelectCategoryToSellItem { login } | Interaction::AboutMe { login } => {
                (login.market, login.market)
            }
            Interaction::BuyNow { login, item: id }
            | Interaction::PutBid { login, item: id }
            | Interaction::PutComment { login, about: id } => (login.market, id.market),
            Interaction::StoreBuyNow(StoreBuyNow { buyer: id, item, .. })
            | Interaction::StoreBid(StoreBid { bidder: id, item, .. }) => (id.market, item.market),
        };
        let mut markets = Vec::from([one.min(other), one.max(other)]);
        markets.dedup();
        markets
    }

    /// The arguments of its call at a shard: the same everywhere, but for the markets that it acts for there. These are those of
    /// [`Interaction::markets`] that the shard holds.
    pub fn arguments(&self, local: &[u32]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        put(&mut bytes, local.len() as u8);
        local.iter().for_each(|market| put(&mut bytes, *market));
        put(&mut bytes, self.kind() as u8);
        self.encode(&mut bytes);
        bytes
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        match self {
            Interaction::Form { market, .. } | Interaction::BrowseRegions { market } => put(bytes, *market),
            Interaction::BrowseCategories { market, region } => {
                put(bytes, *market);
                region.iter().for_each(|region| put(bytes, *region));
            }
            Interaction::SearchItemsInCategory { market, category, from } => {
                put(bytes, *market);
                put(bytes, *category);
                put(bytes, *from);
            }
            Interaction::SearchItemsInRegion { market, region, category, from } => {
                put(bytes, *market);
                put(bytes, *region);
                put(bytes, *category);
                put(bytes, *from);
            }
            Interaction::ViewItem { item: id }
            | Interaction::ViewUserInfo { user: id }
            | Interaction::ViewBidHistory { item: id } => put(bytes, *id),
            Interaction::BuyNow { login, item: id }
            | Interaction::PutBid { login, item: id }
            | Interaction::PutComment { login, about: id } => {
                login.encode(bytes);
                put(bytes, *id);
            }
            Interaction::SelectCategoryToSellItem { login } | Interaction::AboutMe { login } => {
                login.encode(bytes);
            }
            Interaction::RegisterUser(register) => register.encode(bytes),
            Interaction::StoreBuyNow(store) => store.encode(bytes),
            Interaction::StoreBid(store) => store.encode(bytes),
            Interaction::StoreComment(store) => store.encode(bytes),
            Interaction::RegisterItem(register) => register.encode(bytes),
        }
    }

    /// Reads arguments: the markets to act for, and the interaction. None if they are none.
    pub fn decode(arguments: &[u8]) -> Option<(Vec<u32>, Interaction)> {
        let mut reader = Reader(arguments);
        let count = reader.take::<u8>()?;
        let local = reader.take_many(usize::from(count), Reader::take)?;
        let number = reader.take::<u8>()?;
        let kind = Kind::ALL.into_iter().find(|kind| *kind as u8 == number)?;
        let interaction = Interaction::decode_one(kind, &mut reader)?;
        let is_touched = |market: &u32| interaction.markets().contains(market);
        (reader.is_done() && !local.is_empty() && local.iter().all(is_touched))
            .then_some((local, interaction))
    }

    fn decode_one(kind: Kind, reader: &mut Reader<'_>) -> Option<Interaction> {
        Some(match kind {
            form if Kind::FORMS.contains(&form) => Interaction::Form { form, market: reader.take()? },
            Kind::BrowseCategories => Interaction::BrowseCategories { market: reader.take()?, region: None },
            Kind::BrowseCategoriesInRegion => {
                Interaction::BrowseCategories { market: reader.take()?, region: Some(region(reader)?) }
            }
            Kind::BrowseRegions => Interaction::BrowseRegions { market: reader.take()? },
            Kind::SearchItemsInCategory => {
                let (market, category) = (reader.take()?, category(reader)?);
                Interaction::SearchItemsInCategory { market, category, from: reader.take()? }
            }
            Kind::SearchItemsInRegion => {
                let (market, region, category) = (reader.take()?, region(reader)?, category(reader)?);
                Interaction::SearchItemsInRegion { market, region, category, from: reader.take()? }
            }
            Kind::ViewItem => Interaction::ViewItem { item: reader.take()? },
            Kind::ViewUserInfo => Interaction::ViewUserInfo { user: reader.take()? },
            Kind::ViewBidHistory => Interaction::ViewBidHistory { item: reader.take()? },
            Kind::BuyNow => Interaction::BuyNow { login: Login::decode(reader)?, item: reader.take()? },
            Kind::PutBid => Interaction::PutBid { login: Login::decode(reader)?, item: reader.take()? },
            Kind::PutComment => {
                Interaction::PutComment { login: Login::decode(reader)?, about: reader.take()? }
            }
            Kind::SelectCategoryToSellItem => {
                Interaction::SelectCategoryToSellItem { login: Login::decode(reader)? }
            }
            Kind::AboutMe => Interaction::AboutMe { login: Login::decode(reader)? },
            Kind::RegisterUser => Interaction::RegisterUser(RegisterUser::decode(reader)?),
            Kind::StoreBuyNow => Interaction::StoreBuyNow(StoreBuyNow::decode(reader)?),
            Kind::StoreBid => Interaction::StoreBid(StoreBid::decode(reader)?),
            Kind::StoreComment => Interaction::StoreComment(StoreComment::decode(reader)?),
            Kind::RegisterItem => Interaction::RegisterItem(RegisterItem::decode(reader)?),
            // Only forms are left, and they were the first.
            _ => return None,
        })
    }
}

impl Field for Id {
    const ROOM: usize = 8;

    fn read(bytes: &[u8]) -> Self {
        Id { market: u32::read(bytes), number: u32::read(&bytes[4..]) }
    }

    fn write(&self, bytes: &mut [u8]) {
        self.market.write(bytes);
        self.number.write(&mut bytes[4..]);
    }
}

fn category(reader: &mut Reader<'_>) -> Option<u16> {
    reader.take().filter(|category| (1..=CATEGORIES).contains(category))
}

fn region(reader: &mut Reader<'_>) -> Option<u16> {
    reader.take().filter(|region| (1..=REGIONS).contains(region))
}

/// How many are dealt with: at least one.
fn quantity(reader: &mut Reader<'_>) -> Option<u32> {
    reader.take().filter(|quantity| *quantity > 0)
}

/// A date; not zero.
fn date(reader: &mut Reader<'_>) -> Option<u64> {
    reader.take().filter(|date| *date > 0)
}

/// A price, in cents, which may be zero.
fn price(reader: &mut Reader<'_>) -> Option<i64> {
    reader.take().filter(|price| *price >= 0)
}

/// A nickname or a password. Longer ones would be cut off, and then others could have the same.
fn name(reader: &mut Reader<'_>) -> Option<Vec<u8>> {
    const BYTES_MAX: usize = 20;
    reader.take_text().filter(|name| (1..=BYTES_MAX).contains(&name.len())).map(<[u8]>::to_vec)
}

fn text(reader: &mut Reader<'_>) -> Option<Vec<u8>> {
    reader.take_text().map(<[u8]>::to_vec)
}

impl Login {
    fn encode(&self, bytes: &mut Vec<u8>) {
        put(bytes, self.market);
        put_text(bytes, &self.nickname);
        put_text(bytes, &self.password);
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Login { market: reader.take()?, nickname: name(reader)?, password: name(reader)? })
    }
}

impl RegisterUser {
    fn encode(&self, bytes: &mut Vec<u8>) {
        put(bytes, self.market);
        put_text(bytes, &self.nickname);
        put_text(bytes, &self.password);
        put(bytes, self.region);
        put(bytes, self.date);
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let (market, nickname, password) = (reader.take()?, name(reader)?, name(reader)?);
        Some(RegisterUser { market, nickname, password, region: region(reader)?, date: date(reader)? })
    }
}

impl StoreBuyNow {
    fn encode(&self, bytes: &mut Vec<u8>) {
        put(bytes, self.buyer);
        put(bytes, self.item);
        put(bytes, self.quantity);
        put(bytes, self.date);
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let (buyer, item) = (reader.take()?, reader.take()?);
        Some(StoreBuyNow { buyer, item, quantity: quantity(reader)?, date: date(reader)? })
    }
}

impl StoreBid {
    fn encode(&self, bytes: &mut Vec<u8>) {
        put(bytes, self.bidder);
        put_text(bytes, &self.nickname);
        put(bytes, self.item);
        put(bytes, self.quantity);
        put(bytes, self.amount);
        put(bytes, self.amount_max);
        put(bytes, self.date);
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let (bidder, nickname, item) = (reader.take()?, name(reader)?, reader.take()?);
        let (quantity, amount) = (quantity(reader)?, price(reader).filter(|amount| *amount > 0)?);
        let amount_max = price(reader)?;
        Some(StoreBid { bidder, nickname, item, quantity, amount, amount_max, date: date(reader)? })
    }
}

impl StoreComment {
    fn encode(&self, bytes: &mut Vec<u8>) {
        put(bytes, self.author);
        put_text(bytes, &self.nickname);
        put(bytes, self.about);
        put(bytes, self.item);
        put(bytes, self.rating);
        put_text(bytes, &self.text);
        put(bytes, self.date);
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let (author, nickname) = (reader.take()?, name(reader)?);
        let (about, item) = (reader.take()?, reader.take()?);
        let rating = reader.take().filter(|rating| (-5..=5).contains(rating))?;
        Some(StoreComment { author, nickname, about, item, rating, text: text(reader)?, date: date(reader)? })
    }
}

impl RegisterItem {
    fn encode(&self, bytes: &mut Vec<u8>) {
        put(bytes, self.seller);
        put_text(bytes, &self.name);
        put(bytes, self.category);
        put(bytes, self.quantity);
        put(bytes, self.initial_price);
        put(bytes, self.reserve_price);
        put(bytes, self.buy_now_price);
        put_text(bytes, &self.description);
        put(bytes, self.date);
        put(bytes, self.ends);
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let (seller, name) = (reader.take()?, text(reader)?);
        let (category, quantity) = (category(reader)?, quantity(reader)?);
        let (initial_price, reserve_price) = (price(reader)?, price(reader)?);
        let (buy_now_price, description) = (price(reader)?, text(reader)?);
        let (date, ends) = (date(reader)?, date(reader)?);
        Some(RegisterItem {
            seller,
            name,
            category,
            quantity,
            initial_price,
            reserve_price,
            buy_now_price,
            description,
            date,
            ends,
        })
    }
}
