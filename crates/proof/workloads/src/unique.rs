//! Values that are never written twice, so that a read names the transaction that it reads from.

/// The most clients that can draw unique values side by side.
pub const CLIENTS_MAX: u64 = 1 << 16;

/// Gives one client values that no other client draws; below 2^53, as histories need it, for 2^37 values per client.
#[derive(Clone, Debug)]
pub struct UniqueValues {
    client: u64,
    drawn: u64,
}

impl UniqueValues {
    /// No value that was drawn is less.
    pub const FIRST: i64 = CLIENTS_MAX as i64;

    /// The values of client number `client`, which must lie below [`CLIENTS_MAX`].
    pub fn new(client: u64) -> Self {
        assert!(client < CLIENTS_MAX, "at most {CLIENTS_MAX} clients draw unique values");
        UniqueValues { client, drawn: 0 }
    }

    /// The values of a client that has drawn so many before.
    pub fn after(client: u64, drawn: u64) -> Self {
        UniqueValues { drawn, ..UniqueValues::new(client) }
    }

    /// How many were drawn.
    pub fn drawn(&self) -> u64 {
        self.drawn
    }

    /// A value that was never drawn before. Positive.
    pub fn draw(&mut self) -> i64 {
        self.drawn += 1;
        let value = self.drawn * CLIENTS_MAX + self.client;
        assert!(value < 1 << 53, "a client draws at most 2^37 values");
        value as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_never_draw_the_same_value() {
        let mut drawn = std::collections::BTreeSet::new();
        for client in [0, 1, 2, CLIENTS_MAX - 1] {
            let mut values = UniqueValues::new(client);
            for _ in 0..1_000 {
                assert!(drawn.insert(values.draw()));
            }
        }
        assert!(drawn.first().is_some_and(|smallest| *smallest == UniqueValues::FIRST));
    }
}
