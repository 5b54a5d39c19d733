//! The names of choices, as users write them.

/// Writes and reads the names of a choice. Its type has all values in an array `ALL`, and each of them a `name`.
#[macro_export]
macro_rules! names {
    ($choice:ty, $what:literal) => {
        impl ::std::fmt::Display for $choice {
            fn fmt(&self, formatter: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                formatter.pad(self.name())
            }
        }

        impl ::std::str::FromStr for $choice {
            type Err = $crate::topology::UnknownName;

            fn from_str(name: &str) -> ::std::result::Result<Self, Self::Err> {
                <$choice>::ALL.into_iter().find(|choice| choice.name() == name).ok_or_else(|| Self::Err {
                    what: $what,
                    given: name.to_owned(),
                    choices: <$choice>::ALL.map(<$choice>::name).join(", "),
                })
            }
        }
    };
}
