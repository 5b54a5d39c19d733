//! The 26 interactions by name, how often there is which, and how long users think after each.
//!
//! Source: the table of transitions that the benchmark's own client walks through by default (`default_transitions.txt` of RUBiS 1.4, which is its
//! bidding mix). A walk of two million steps through that table, with its steps back and its ends of sessions, passes through interactions as often as
//! told here, out of ten thousand; the home page, where sessions begin, is no interaction. `put-comment-auth` is on no path of the table, and occurs once
//! here. Times to think are that table's too.
//!
//! Five of the interactions update. They are 9.5 % of that walk, where papers speak of the mix as of one with 15 %: so the
//! [generator](crate::generator) takes the share of the updating ones as a parameter, and these numbers within them and within the others.

/// Which interaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A form, to become a user.
    Register,
    /// Somebody becomes a user.
    RegisterUser,
    /// A menu.
    Browse,
    /// All categories are listed.
    BrowseCategories,
    /// Items of a category are listed.
    SearchItemsInCategory,
    /// All regions are listed.
    BrowseRegions,
    /// All categories are listed, for a region.
    BrowseCategoriesInRegion,
    /// Items of a category and a region are listed.
    SearchItemsInRegion,
    /// An item is shown.
    ViewItem,
    /// A user is shown, with the comments on it.
    ViewUserInfo,
    /// The bids for an item are shown.
    ViewBidHistory,
    /// A form, in which a user proves to be the one before it buys.
    BuyNowAuth,
    /// An item is shown to a user that may buy it.
    BuyNow,
    /// A user buys.
    StoreBuyNow,
    /// A form, in which a user proves to be the one before it bids.
    PutBidAuth,
    /// An item is shown to a user that may bid for it.
    PutBid,
    /// A user bids.
    StoreBid,
    /// A form, in which a user proves to be the one before it comments.
    PutCommentAuth,
    /// A user is shown to one that may comment on it.
    PutComment,
    /// A user comments on another one.
    StoreComment,
    /// A form, in which a user proves to be the one before it sells.
    Sell,
    /// All categories are listed for a user that may sell.
    SelectCategoryToSellItem,
    /// A form, to describe an item.
    SellItemForm,
    /// A user offers an item for sale.
    RegisterItem,
    /// A form, in which a user proves to be the one before it sees what concerns it.
    AboutMeAuth,
    /// A user sees what concerns it.
    AboutMe,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 26] = [
        Kind::Register,
        Kind::RegisterUser,
        Kind::Browse,
        Kind::BrowseCategories,
        Kind::SearchItemsInCategory,
        Kind::BrowseRegions,
        Kind::BrowseCategoriesInRegion,
        Kind::SearchItemsInRegion,
        Kind::ViewItem,
        Kind::ViewUserInfo,
        Kind::ViewBidHistory,
        Kind::BuyNowAuth,
        Kind::BuyNow,
        Kind::StoreBuyNow,
        Kind::PutBidAuth,
        Kind::PutBid,
        Kind::StoreBid,
        Kind::PutCommentAuth,
        Kind::PutComment,
        Kind::StoreComment,
        Kind::Sell,
        Kind::SelectCategoryToSellItem,
        Kind::SellItemForm,
        Kind::RegisterItem,
        Kind::AboutMeAuth,
        Kind::AboutMe,
    ];

    /// The forms: pages that are the same for everybody, and so read nothing.
    pub const FORMS: [Kind; 8] = [
        Kind::Register,
        Kind::Browse,
        Kind::BuyNowAuth,
        Kind::PutBidAuth,
        Kind::PutCommentAuth,
        Kind::Sell,
        Kind::SellItemForm,
        Kind::AboutMeAuth,
    ];

    /// Its row in the one table of them: its name, its share out of ten thousand, and how long users think after it, in milliseconds.
    const fn row(self) -> (&'static str, u32, u32) {
        match self {
            Kind::Register => ("register", 115, 10_000),
            Kind::RegisterUser => ("register-user", 114, 3_000),
            Kind::Browse => ("browse", 781, 2_000),
            Kind::BrowseCategories => ("browse-categories", 547, 3_000),
            Kind::SearchItemsInCategory => ("search-items-in-category", 1_728, 7_000),
            Kind::BrowseRegions => ("browse-regions", 222, 3_000),
            Kind::BrowseCategoriesInRegion => ("browse-categories-in-region", 218, 3_000),
            Kind::SearchItemsInRegion => ("search-items-in-region", 689, 7_000),
            Kind::ViewItem => ("view-item", 1_656, 7_000),
            Kind::ViewUserInfo => ("view-user-info", 423, 7_000),
            Kind::ViewBidHistory => ("view-bid-history", 239, 7_000),
            Kind::BuyNowAuth => ("buy-now-auth", 166, 5_000),
            Kind::BuyNow => ("buy-now", 163, 5_000),
            Kind::StoreBuyNow => ("store-buy-now", 161, 2_000),
            Kind::PutBidAuth => ("put-bid-auth", 599, 5_000),
            Kind::PutBid => ("put-bid", 733, 5_000),
            Kind::StoreBid => ("store-bid", 541, 2_000),
            Kind::PutCommentAuth => ("put-comment-auth", 1, 5_000),
            Kind::PutComment => ("put-comment", 66, 5_000),
            Kind::StoreComment => ("store-comment", 65, 2_000),
            Kind::Sell => ("sell", 68, 5_000),
            Kind::SelectCategoryToSellItem => ("select-category-to-sell-item", 67, 3_000),
            Kind::SellItemForm => ("sell-item-form", 66, 7_000),
            Kind::RegisterItem => ("register-item", 65, 2_000),
            Kind::AboutMeAuth => ("about-me-auth", 187, 3_000),
            Kind::AboutMe => ("about-me", 318, 7_000),
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// How often it occurs among ten thousand steps of the benchmark's own walk.
    pub const fn share(self) -> u32 {
        self.row().1
    }

    /// How long users think after it, in milliseconds.
    pub const fn thinking_ms(self) -> u32 {
        self.row().2
    }

    /// True if it changes something.
    pub const fn is_update(self) -> bool {
        matches!(
            self,
            Kind::RegisterUser | Kind::StoreBuyNow | Kind::StoreBid | Kind::StoreComment | Kind::RegisterItem
        )
    }
}
