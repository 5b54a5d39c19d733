//! Trying all answers to questions that come up on the way, one run after another.

/// The answers of one run, in the order of the questions.
#[derive(Debug, Default)]
pub(super) struct Possibilities {
    answers: Vec<bool>,
    asked: usize,
}

impl Possibilities {
    /// The answer to the next question of this run: no, unless an earlier run has tried that.
    pub(super) fn ask(&mut self) -> bool {
        self.asked += 1;
        if self.answers.len() < self.asked {
            self.answers.push(false);
        }
        self.answers[self.asked - 1]
    }

    /// Prepares the next run; false if all have been.
    pub(super) fn advance(&mut self) -> bool {
        self.answers.truncate(self.asked);
        self.asked = 0;
        while self.answers.pop_if(|answer| *answer).is_some() {}
        match self.answers.last_mut() {
            Some(last) => {
                *last = true;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_is_tried_once() {
        let mut possibilities = Possibilities::default();
        let mut runs = Vec::new();
        loop {
            // The second question depends on the first one.
            let first = possibilities.ask();
            runs.push((first, first && possibilities.ask()));
            if !possibilities.advance() {
                break;
            }
        }
        assert_eq!(runs, [(false, false), (true, false), (true, true)]);
    }
}
