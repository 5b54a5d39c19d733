//! The table between the shared messages and records and those of a protocol.
//!
//! A protocol has one enum of messages and one of records, whose variants are named in its own words and numbered on its own wire. A table
//! translates those that every member says or keeps: [`FloorMessage`](crate::FloorMessage) and [`Fact`](crate::Fact).

/// Translates between a shared enum and that of a protocol:
/// `counterparts!(Fact<Tapir> = Record { ViewEntered (view) = ViewEntered { view }, … })`.
///
/// Rows hold both ways. Behind them may stand arms that hold in one direction: `to own { … }` from the shared enum,
/// `to shared { … }` from that of the protocol. `own other` says, at the end, that the protocol has variants of its own, which are given
/// back.
#[macro_export]
macro_rules! counterparts {
    ($shared:ident<$operations:ty> = $own:ident {
        $($theirs:ident $their_fields:tt = $ours:ident $our_fields:tt,)*
    } $(to own { $($given:pat => $made:expr,)* })? $(to shared { $($taken:pat => $found:expr,)* })? $(own $other:ident)?) => {
        impl From<$shared<$operations>> for $own {
            fn from(shared: $shared<$operations>) -> Self {
                match shared {
                    $($shared::$theirs $their_fields => $own::$ours $our_fields,)*
                    $($($given => $made,)*)?
                }
            }
        }

        impl TryFrom<$own> for $shared<$operations> {
            type Error = $own;

            fn try_from(own: $own) -> Result<Self, $own> {
                match own {
                    $($own::$ours $our_fields => Ok($shared::$theirs $their_fields),)*
                    $($($taken => Ok($found),)*)?
                    $($other => Err($other),)?
                }
            }
        }
    };
}
