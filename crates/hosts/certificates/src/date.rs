//! A moment of the civil calendar, as certificates have it.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// A moment, in seconds since 1970. Prints as `2026-11-29 12:00:00 UTC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date(pub i64);

impl Date {
    /// The present; of a clock that stands before 1970, that year.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Date(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
    }

    /// A date of the calendar with a time of the day; none if there is no such day or time.
    pub(crate) fn from_civil(date: [i64; 3], time: [i64; 3]) -> Option<Self> {
        let ([year, month, day], [hour, minute, second]) = (date, time);
        let is_date = (1..=12).contains(&month) && (1..=31).contains(&day);
        let is_time = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..=60).contains(&second);
        if !is_date || !is_time {
            return None;
        }
        // Years begin in March here, so that the day of a leap year is the last one.
        let year = if month <= 2 { year - 1 } else { year };
        let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
        Some(Date(days * 86_400 + hour * 3_600 + minute * 60 + second))
    }

    /// Year, month and day.
    fn civil(self) -> (i64, i64, i64) {
        let days = self.0.div_euclid(86_400) + 719_468;
        let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let shifted = (5 * of_year + 2) / 153;
        let (day, month) = (of_year - (153 * shifted + 2) / 5 + 1, (shifted + 2) % 12 + 1);
        (year + era * 400 + i64::from(month <= 2), month, day)
    }
}

impl fmt::Display for Date {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.civil();
        let second = self.0.rem_euclid(86_400);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        write!(formatter, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_the_calendar_and_seconds_agree() {
        let table = [
            (0, [1970, 1, 1], [0, 0, 0], "1970-01-01 00:00:00 UTC"),
            (951_782_400, [2000, 2, 29], [0, 0, 0], "2000-02-29 00:00:00 UTC"),
            (1_795_953_599, [2026, 11, 29], [11, 59, 59], "2026-11-29 11:59:59 UTC"),
            (4_107_542_400, [2100, 3, 1], [0, 0, 0], "2100-03-01 00:00:00 UTC"),
            (-1, [1969, 12, 31], [23, 59, 59], "1969-12-31 23:59:59 UTC"),
        ];
        for (seconds, date, time, text) in table {
            assert_eq!(Date::from_civil(date, time), Some(Date(seconds)), "{text}");
            assert_eq!(Date(seconds).to_string(), text);
        }
        assert_eq!(Date::from_civil([2026, 13, 1], [0, 0, 0]), None);
        assert_eq!(Date::from_civil([2026, 1, 1], [24, 0, 0]), None);
    }
}
