//! Instants for people.

/// An instant in microseconds since 1970, as RFC 3339 has it: `2026-11-29T10:15:00.123456Z`.
pub fn rfc3339(micros: u64) -> String {
    let [year, month, day, hour, minute, second] = civil(micros / 1_000_000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:06}Z", micros % 1_000_000)
}

/// The same as a part of a name: `20261129T101500Z`.
pub(crate) fn compact(micros: u64) -> String {
    let [year, month, day, hour, minute, second] = civil(micros / 1_000_000);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// Year, month, day, hour, minute and second of seconds since 1970, in the calendar that holds for all time.
fn civil(seconds: u64) -> [u64; 6] {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March have their leap day at the end; 400 of them have 146,097 days.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    [year, month, day, rest / 3_600, rest / 60 % 60, rest % 60]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_as_a_table() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000Z"),
            (951_868_799, "2000-02-29T23:59:59.000000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000000Z"),
            (1_709_251_200, "2024-03-01T00:00:00.000000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000Z"),
        ] {
            assert_eq!(rfc3339(seconds * 1_000_000), expected);
        }
        assert_eq!(rfc3339(1_000_000_000_123_456), "2001-09-09T01:46:40.123456Z");
        assert_eq!(compact(1_000_000_000_123_456), "20010909T014640Z");
    }
}
