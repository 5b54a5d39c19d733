//! The layout of rows: fields one after the other at fixed places, numbers little endian, texts of fixed room
//! after a byte with their length. The one text of which most rows have much less than they may have stands
//! at the end, without room to spare.

/// A value that a field can hold.
pub trait Field: Sized {
    /// The room that it takes, in bytes.
    const ROOM: usize;
    /// Reads it from the beginning of these bytes, of which there are enough.
    fn read(bytes: &[u8]) -> Self;
    /// Writes it.
    fn write(&self, bytes: &mut [u8]);
}

macro_rules! number {
    ($($of:ty),*) => {$(
        impl Field for $of {
            const ROOM: usize = size_of::<$of>();
            fn read(bytes: &[u8]) -> Self {
                let mut number = [0; size_of::<$of>()];
                number.copy_from_slice(&bytes[..size_of::<$of>()]);
                <$of>::from_le_bytes(number)
            }
            fn write(&self, bytes: &mut [u8]) {
                bytes[..size_of::<$of>()].copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

number!(u8, u16, u32, u64, i64);

/// A text of at most so many bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text<const MAX: usize> {
    length: u8,
    bytes: [u8; MAX],
}

impl<const MAX: usize> Text<MAX> {
    /// A text, cut off where it would be too long.
    pub fn new(text: &[u8]) -> Self {
        let length = text.len().min(MAX);
        let mut bytes = [0; MAX];
        bytes[..length].copy_from_slice(&text[..length]);
        Text { length: length as u8, bytes }
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length).min(MAX)]
    }
}

impl<const MAX: usize> core::fmt::Debug for Text<MAX> {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(formatter, "{:?}", alloc::string::String::from_utf8_lossy(self.as_bytes()))
    }
}

impl<const MAX: usize> Field for Text<MAX> {
    const ROOM: usize = 1 + MAX;
    fn read(bytes: &[u8]) -> Self {
        Text::new(&bytes[1..1 + usize::from(bytes[0]).min(MAX)])
    }
    fn write(&self, bytes: &mut [u8]) {
        bytes[0] = self.length;
        bytes[1..1 + MAX].copy_from_slice(&self.bytes);
    }
}

/// The items that the code made by [`row!`](crate::row!) needs.
#[doc(hidden)]
pub mod parts {
    pub use alloc::vec;
    pub use alloc::vec::Vec;
    pub use quorate_procedure::Stop;
}

/// Defines a row: functions that read and write its fields in place.
#[macro_export]
macro_rules! row {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $field:ident / $set:ident: $of:ty,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            bytes: $crate::row::parts::Vec<u8>,
        }

        impl $name {
            /// The room of all fields, in bytes.
            pub const ROOM: usize = 0 $(+ <$of as $crate::row::Field>::ROOM)*;

            /// A row in which everything is zero or empty.
            #[expect(clippy::new_without_default, reason = "a row of zeros is where one begins to fill it")]
            pub fn new() -> Self {
                $name { bytes: $crate::row::parts::vec![0; Self::ROOM] }
            }

            /// A row as it was stored.
            ///
            /// # Errors
            /// If there are too few bytes: somebody else has written there.
            pub fn of(bytes: $crate::row::parts::Vec<u8>) -> Result<Self, $crate::row::parts::Stop> {
                if bytes.len() < Self::ROOM {
                    Err($crate::row::parts::Stop::Failed)
                } else {
                    Ok($name { bytes })
                }
            }

            /// The stored bytes.
            pub fn as_bytes(&self) -> &[u8] {
                &self.bytes
            }

            /// The text at the end.
            pub fn data(&self) -> &[u8] {
                &self.bytes[Self::ROOM..]
            }

            /// Sets the text at the end.
            pub fn set_data(&mut self, data: &[u8]) {
                self.bytes.truncate(Self::ROOM);
                self.bytes.extend_from_slice(data);
            }

            $crate::row!(@fields (0) $($(#[$doc])* $field / $set: $of,)*);
        }
    };
    (@fields ($at:expr)) => {};
    (@fields ($at:expr) $(#[$doc:meta])* $field:ident / $set:ident: $of:ty, $($rest:tt)*) => {
        $(#[$doc])*
        pub fn $field(&self) -> $of {
            <$of as $crate::row::Field>::read(&self.bytes[$at..])
        }

        /// Sets it.
        pub fn $set(&mut self, value: $of) {
            $crate::row::Field::write(&value, &mut self.bytes[$at..]);
        }

        $crate::row!(@fields ($at + <$of as $crate::row::Field>::ROOM) $($rest)*);
    };
}

row! {
    /// A warehouse.
    Warehouse {
        /// The payments to it, in cents.
        paid / set_paid: i64,
        /// In hundredths of a percent.
        tax / set_tax: u16,
        /// Its name.
        name / set_name: Text<10>,
        /// Its address.
        street / set_street: Text<20>,
        /// The second line of it.
        street_2 / set_street_2: Text<20>,
        /// The city.
        city / set_city: Text<20>,
        /// The state.
        state / set_state: Text<2>,
        /// The zip code.
        zip / set_zip: Text<9>,
    }
}

row! {
    /// A district.
    District {
        /// The payments to it, in cents.
        paid / set_paid: i64,
        /// The number that its next order will have.
        next_order / set_next_order: u32,
        /// In hundredths of a percent.
        tax / set_tax: u16,
        /// Its name.
        name / set_name: Text<10>,
        /// Its address.
        street / set_street: Text<20>,
        /// The second line of it.
        street_2 / set_street_2: Text<20>,
        /// The city.
        city / set_city: Text<20>,
        /// The state.
        state / set_state: Text<2>,
        /// The zip code.
        zip / set_zip: Text<9>,
    }
}

row! {
    /// A customer. The text at the end is what is known of it.
    Customer {
        /// Its balance, in cents.
        balance / set_balance: i64,
        /// The payments that it has made, in cents.
        paid / set_paid: i64,
        /// How often it has paid.
        payments / set_payments: u32,
        /// How many of its orders were delivered while the benchmark runs.
        deliveries / set_deliveries: u32,
        /// In hundredths of a percent.
        discount / set_discount: u16,
        /// `GC` for good, `BC` for bad.
        credit / set_credit: Text<2>,
        /// Its last name.
        last / set_last: Text<16>,
        /// Its first name.
        first / set_first: Text<16>,
        /// Its middle name.
        middle / set_middle: Text<2>,
        /// How much it may owe, in cents.
        credit_limit / set_credit_limit: i64,
        /// Since when it is a customer.
        since / set_since: u64,
        /// Its address.
        street / set_street: Text<20>,
        /// The second line of it.
        street_2 / set_street_2: Text<20>,
        /// The city.
        city / set_city: Text<20>,
        /// The state.
        state / set_state: Text<2>,
        /// The zip code.
        zip / set_zip: Text<9>,
        /// The telephone number.
        phone / set_phone: Text<16>,
    }
}

row! {
    /// A payment. Of which customer says its key.
    History {
        /// In cents.
        amount / set_amount: i64,
        /// To which warehouse.
        warehouse / set_warehouse: u32,
        /// To which of its districts.
        district / set_district: u8,
        /// When.
        date / set_date: u64,
    }
}

row! {
    /// An order.
    Order {
        /// Of whom.
        customer / set_customer: u32,
        /// When it was entered.
        entered / set_entered: u64,
        /// Its carrier; zero if it was not delivered yet.
        carrier / set_carrier: u8,
        /// How many lines it has.
        lines / set_lines: u8,
        /// One if all its lines come from its own warehouse.
        is_local / set_is_local: u8,
    }
}

row! {
    /// A line of an order.
    OrderLine {
        /// Which item.
        item / set_item: u32,
        /// Which warehouse supplies it.
        supplier / set_supplier: u32,
        /// When it was delivered; zero if it was not.
        delivered / set_delivered: u64,
        /// How many.
        quantity / set_quantity: u8,
        /// In cents, for all of them.
        amount / set_amount: i64,
        /// The note of the supplier for the district, if it is the warehouse of the order.
        district_text / set_district_text: Text<24>,
    }
}

row! {
    /// An item. The text at the end describes it.
    Item {
        /// In cents.
        price / set_price: i64,
        /// Its picture.
        image / set_image: u32,
        /// Its name.
        name / set_name: Text<24>,
    }
}

row! {
    /// The stock of an item. The text at the end describes it.
    Stock {
        /// How many there are.
        quantity / set_quantity: i64,
        /// How many were ordered.
        ordered / set_ordered: u32,
        /// In how many lines.
        lines / set_lines: u32,
        /// In how many lines of orders of other warehouses.
        remote_lines / set_remote_lines: u32,
        /// Notes for the districts, one after the other.
        districts / set_districts: Text<240>,
    }
}

impl Stock {
    /// The note for a district.
    pub fn district_text(&self, district: u8) -> Text<24> {
        let districts = self.districts();
        let at = usize::from(district.saturating_sub(1)) * 24;
        Text::new(districts.as_bytes().get(at..at + 24).unwrap_or_default())
    }
}
