//! Inputs that machines drop: a script strikes them out, with the reason.

/// Inputs that machines have dropped and that no script has struck out yet: the machine, and its reason.
#[derive(Debug, Default)]
pub struct Ignored(Vec<(String, &'static str)>);

impl Ignored {
    /// A machine has dropped what it was given, for these reasons.
    pub fn note(&mut self, reasons: Vec<&'static str>, who: impl Fn() -> String) {
        self.0.extend(reasons.into_iter().map(|reason| (who(), reason)));
    }

    /// Strikes out the message that stands in this line of what was told, if it was dropped.
    pub fn strike_out(&mut self, line: usize, told: &mut [String]) {
        let reasons: Vec<&str> = std::mem::take(&mut self.0).into_iter().map(|(_, why)| why).collect();
        if !reasons.is_empty() {
            told[line] = format!("✗ {} ({})", told[line], reasons.join(", "));
        }
    }

    /// Tells what was dropped that was no message: a command, or what a timer has led to.
    pub fn tell(&mut self, told: &mut Vec<String>) {
        told.extend(std::mem::take(&mut self.0).into_iter().map(|(who, why)| format!("✗ {who} ({why})")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_told_once() {
        let mut ignored = Ignored::default();
        let mut told = vec!["c1 → r0: READ".to_owned(), "r0 → c1: REPLY".to_owned()];
        ignored.strike_out(1, &mut told);
        ignored.note(vec!["late", "again"], || "c1".to_owned());
        ignored.strike_out(1, &mut told);
        ignored.tell(&mut told);
        ignored.note(vec!["no member"], || "r0".to_owned());
        ignored.tell(&mut told);
        assert_eq!(told, ["c1 → r0: READ", "✗ r0 → c1: REPLY (late, again)", "✗ r0 (no member)"]);
    }
}
