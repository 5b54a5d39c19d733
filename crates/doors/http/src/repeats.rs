//! Requests that are repeated: an `Idempotency-Key` names one, and its answer is given again.
//!
//! A transaction's token is chosen by the client that coordinates it, which is the gateway, so a key from outside cannot be one. In its place the door remembers
//! keys and answers in the memory of its node, for a while and up to a bound. A repeat at another node, or after a restart, is a new request. The work of a request with a key
//! goes on if its connection breaks, so that a repeat finds the answer.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::answer::Answer;
use crate::problem::{Kind, Problem};
use crate::request::{IDEMPOTENCY_KEY, Request};

/// The longest key, in bytes.
const KEY_BYTES_MAX: usize = 256;

/// The memory of an entry beside its key and its answer, in bytes.
const ENTRY_BYTES: usize = 256;

/// The bounds of what is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepeatLimits {
    /// How long an answer is remembered.
    pub retention: Duration,
    /// How many requests are remembered.
    pub requests_max: usize,
    /// How many bytes they take.
    pub bytes_max: usize,
}

impl Default for RepeatLimits {
    fn default() -> Self {
        RepeatLimits {
            retention: Duration::from_secs(600),
            requests_max: 10_000,
            bytes_max: 32 * 1024 * 1024,
        }
    }
}

/// The state of a request.
#[derive(Clone, Debug, PartialEq)]
enum State {
    /// It is carried out.
    Running,
    /// It was, and this was answered.
    Done(Answer),
    /// The outcome of this transaction was not known.
    Unknown(String),
}

#[derive(Debug)]
struct Remembered {
    /// Tells requests of one key apart.
    fingerprint: u64,
    state: State,
    bytes: usize,
    began: Instant,
}

/// The requests that a door remembers.
#[derive(Debug)]
pub(crate) struct Repeats {
    limits: RepeatLimits,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    requests: BTreeMap<String, Remembered>,
    /// Their keys, oldest first. A key may stand there twice, with the instants of both its lives.
    order: VecDeque<(String, Instant)>,
    bytes: usize,
}

/// The step to take with a request that has a key.
#[derive(Debug, PartialEq)]
pub(crate) enum Repeat {
    /// It is carried out: nobody knows it.
    New,
    /// This was answered before.
    Answered(Answer),
    /// The outcome of this transaction is to be asked for first.
    Settle(String),
}

/// The key of a request that is remembered; none if it has none.
///
/// # Errors
/// It is no key.
pub(crate) fn key_of(request: &Request) -> Result<Option<String>, Problem> {
    let Some(value) = request.headers.get(IDEMPOTENCY_KEY).filter(|_| request.route.is_remembered) else {
        return Ok(None);
    };
    let text = value.to_str().ok().filter(|text| !text.is_empty() && text.len() <= KEY_BYTES_MAX);
    let wrong = || {
        let detail = format!("{IDEMPOTENCY_KEY} is not 1 to {KEY_BYTES_MAX} printable characters");
        Problem::new(Kind::BadRequest, detail)
    };
    text.map(|text| Some(text.to_owned())).ok_or_else(wrong)
}

/// Tells requests apart.
pub(crate) fn fingerprint(request: &Request) -> u64 {
    let mut hasher = DefaultHasher::new();
    (request.route.method, &request.address, request.content_type(), &request.body).hash(&mut hasher);
    for name in [hyper::header::IF_MATCH, hyper::header::IF_NONE_MATCH] {
        request.headers.get(name).map(|value| value.as_bytes()).hash(&mut hasher);
    }
    hasher.finish()
}

impl Repeats {
    pub(crate) fn new(limits: RepeatLimits) -> Self {
        Repeats { limits, inner: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No thread can fail while it holds this: nothing is called within.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a request.
    ///
    /// # Errors
    /// It is under way already, another request has its key, or more of them are under way than can be remembered.
    pub(crate) fn begin(&self, key: &str, fingerprint: u64, now: Instant) -> Result<Repeat, Problem> {
        let inner = &mut *self.lock();
        inner.forget(&self.limits, now);
        if let Some(known) = inner.requests.get_mut(key) {
            if known.fingerprint != fingerprint {
                return Err(Problem::new(
                    Kind::Refused,
                    "another request had this idempotency key: nothing was done now",
                ));
            }
            return match &known.state {
                State::Running => Err(Problem::new(
                    Kind::InProgress,
                    "the first request with this idempotency key is under way",
                )
                .committed(crate::problem::Committed::Unknown)
                .retry_after(Duration::from_secs(1))),
                State::Done(answer) => Ok(Repeat::Answered(answer.clone())),
                State::Unknown(token) => {
                    let token = token.clone();
                    known.state = State::Running;
                    Ok(Repeat::Settle(token))
                }
            };
        }
        if inner.requests.len() >= self.limits.requests_max {
            return Err(Problem::new(
                Kind::Overloaded,
                "too many requests with idempotency keys are under way",
            )
            .retry_after(Duration::from_secs(1)));
        }
        let bytes = 2 * key.len() + ENTRY_BYTES;
        let remembered = Remembered { fingerprint, state: State::Running, bytes, began: now };
        inner.bytes += bytes;
        inner.requests.insert(key.to_owned(), remembered);
        inner.order.push_back((key.to_owned(), now));
        Ok(Repeat::New)
    }

    /// Ends a request that has begun.
    pub(crate) fn end(&self, key: &str, ended: &Result<Answer, Problem>) {
        let inner = &mut *self.lock();
        let Some(known) = inner.requests.get_mut(key) else { return };
        let (state, bytes) = match ended {
            Ok(answer) => (State::Done(answer.clone()), answer.bytes()),
            // It can be carried out as if it had never been asked for.
            Err(problem) if problem.is_without_effect() => return inner.remove(key),
            Err(problem) => match problem.token().filter(|_| problem.kind == Kind::Unknown) {
                Some(token) => (State::Unknown(token.to_owned()), token.len()),
                None => {
                    let answer = problem.clone().into_answer();
                    let bytes = answer.bytes();
                    (State::Done(answer), bytes)
                }
            },
        };
        known.state = state;
        known.bytes += bytes;
        inner.bytes += bytes;
        inner.forget(&self.limits, Instant::now());
    }
}

impl Inner {
    fn remove(&mut self, key: &str) {
        if let Some(removed) = self.requests.remove(key) {
            self.bytes -= removed.bytes;
        }
    }

    /// Forgets old answers, and the oldest where there are too many. Requests under way stay.
    fn forget(&mut self, limits: &RepeatLimits, now: Instant) {
        let mut running = Vec::new();
        while let Some((key, began)) = self.order.front() {
            let is_old = now.saturating_duration_since(*began) > limits.retention;
            let is_too_much = self.bytes > limits.bytes_max || self.requests.len() >= limits.requests_max;
            let known = self.requests.get(key).filter(|known| known.began == *began);
            let is_gone = known.is_none();
            if !is_old && !is_too_much && !is_gone {
                break;
            }
            let is_running = known.is_some_and(|known| known.state == State::Running);
            let Some((key, began)) = self.order.pop_front() else { break };
            if is_running {
                running.push((key, began));
            } else if !is_gone {
                self.remove(&key);
            }
        }
        for entry in running.into_iter().rev() {
            self.order.push_front(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::StatusCode;

    use super::*;
    use crate::problem::Committed;

    fn answer(text: &'static str) -> Answer {
        Answer::new(StatusCode::OK, text.into())
    }

    fn repeats(requests_max: usize, bytes_max: usize) -> Repeats {
        Repeats::new(RepeatLimits { retention: Duration::from_secs(60), requests_max, bytes_max })
    }

    #[test]
    fn a_repeat_has_the_first_answer() {
        let (repeats, now) = (repeats(10, 1 << 20), Instant::now());
        assert_eq!(repeats.begin("a", 1, now), Ok(Repeat::New));
        assert_eq!(repeats.begin("a", 1, now).unwrap_err().kind, Kind::InProgress);
        repeats.end("a", &Ok(answer("one")));
        assert_eq!(repeats.begin("a", 1, now), Ok(Repeat::Answered(answer("one"))));
        assert_eq!(repeats.begin("a", 2, now).unwrap_err().kind, Kind::Refused);
        let later = now + Duration::from_secs(61);
        assert_eq!(repeats.begin("a", 2, later), Ok(Repeat::New));
    }

    #[test]
    fn what_had_no_effect_is_carried_out_again() {
        let (repeats, now) = (repeats(10, 1 << 20), Instant::now());
        repeats.begin("a", 1, now).unwrap();
        repeats.end("a", &Err(Problem::new(Kind::Conflict, "")));
        assert_eq!(repeats.begin("a", 2, now), Ok(Repeat::New));
        let unknown = Problem::new(Kind::Unknown, "").committed(Committed::Unknown).with("token", "t");
        repeats.end("a", &Err(unknown));
        assert_eq!(repeats.begin("a", 2, now), Ok(Repeat::Settle("t".to_owned())));
        assert_eq!(repeats.begin("a", 2, now).unwrap_err().kind, Kind::InProgress);
    }

    #[test]
    fn the_oldest_is_forgotten_first_and_what_runs_stays() {
        let (repeats, now) = (repeats(3, 1 << 20), Instant::now());
        for key in ["running", "old", "new"] {
            repeats.begin(key, 1, now).unwrap();
        }
        assert_eq!(repeats.begin("more", 1, now).unwrap_err().kind, Kind::Overloaded);
        repeats.end("old", &Ok(answer("")));
        repeats.end("new", &Ok(answer("")));
        assert_eq!(repeats.begin("more", 1, now), Ok(Repeat::New));
        assert_eq!(repeats.begin("running", 1, now).unwrap_err().kind, Kind::InProgress);
        let held = repeats.lock().bytes;
        assert!(held < 4 * (ENTRY_BYTES + 20), "{held}");
    }

    #[test]
    fn answers_are_forgotten_once_they_take_too_much() {
        let (repeats, now) = (repeats(1_000, 10_000), Instant::now());
        let large = Answer::new(StatusCode::OK, vec![b'x'; 2_000].into());
        for number in 0..100 {
            let key = number.to_string();
            assert_eq!(repeats.begin(&key, 1, now), Ok(Repeat::New));
            repeats.end(&key, &Ok(large.clone()));
            let inner = repeats.lock();
            assert!(inner.bytes <= 10_000 && inner.order.len() < 10, "{}", inner.bytes);
        }
        assert_eq!(repeats.begin("99", 1, now), Ok(Repeat::Answered(large)));
    }
}
