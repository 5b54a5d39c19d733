//! `string`.

use std::sync::Arc;

use super::{Values, WRONG, argument};
use crate::Halt;
use crate::machine::{Machine, TABLE_BYTES};
use crate::natives::Native;
use crate::numbers;
use crate::pattern::{Capture, Fail, Matcher};
use crate::values::Value;

/// A walk from match to match.
pub(crate) struct Matches {
    subject: Arc<[u8]>,
    pattern: Arc<[u8]>,
    next: usize,
}

/// A string that is made has at most so many bytes.
const STRING_BYTES_MAX: usize = 1024 * 1024;

fn failed(fail: Fail) -> Halt {
    match fail {
        Fail::Invalid(_) | Fail::Index => Halt::Unfit("a pattern makes no sense"),
        Fail::TooMuch => Halt::Unfit("it takes more steps than at a shard"),
    }
}

/// A position as Lua counts: from the end, if it is negative.
fn from_end(position: i64, length: usize) -> i64 {
    if position < 0 { (length as i64 + position + 1).max(0) } else { position }
}

impl Machine<'_, '_> {
    /// Refuses what is longer than a string may be.
    pub(crate) fn check_bytes(&self, bytes: usize) -> Result<(), Halt> {
        if bytes > STRING_BYTES_MAX {
            Err(Halt::Unfit("it makes a longer string than at a shard"))
        } else {
            Ok(())
        }
    }

    pub(super) fn strings(&mut self, native: Native, arguments: &[Value]) -> Values {
        if native == Native::Char {
            let bytes = (0..arguments.len()).map(|at| {
                let code = self.integer(arguments, at)?;
                u8::try_from(code).map_err(|_| WRONG)
            });
            let bytes = bytes.collect::<Result<Vec<u8>, Halt>>()?;
            return Ok(vec![self.string(bytes)?]);
        }
        let subject = self.text(arguments, 0)?;
        self.spend(subject.len() as u64 / 64)?;
        Ok(vec![match native {
            Native::Length => Value::Number(subject.len() as f64),
            Native::Lower => self.string(subject.to_ascii_lowercase())?,
            Native::Upper => self.string(subject.to_ascii_uppercase())?,
            Native::Reverse => self.string(subject.iter().rev().copied().collect::<Vec<u8>>())?,
            Native::Part => {
                self.integer(arguments, 1)?;
                let (from, to) = self.bounds(arguments, subject.len(), -1)?;
                self.string(&subject[from..to])?
            }
            Native::Byte => {
                let first = self.integer_or(arguments, 1, 1)?;
                let (from, to) = self.bounds_from(arguments, subject.len(), first, first)?;
                return Ok(subject[from..to].iter().map(|byte| Value::Number(f64::from(*byte))).collect());
            }
            Native::Repeat => {
                let count = usize::try_from(self.integer(arguments, 1)?).unwrap_or(0);
                self.check_bytes(subject.len().saturating_mul(count))?;
                self.string(subject.repeat(count))?
            }
            Native::Format => self.format(&subject, arguments)?,
            Native::Find => return self.find(&subject, arguments, true),
            Native::Match => return self.find(&subject, arguments, false),
            Native::EachMatch => {
                let pattern = self.text(arguments, 1)?;
                self.take(TABLE_BYTES)?;
                self.matches.push(Matches { subject, pattern, next: 0 });
                Value::Matches(self.matches.len() - 1)
            }
            Native::Replace => return self.replace(&subject, arguments),
            _ => return Err(WRONG),
        }])
    }

    /// The part of a string that two arguments name.
    fn bounds(&self, arguments: &[Value], length: usize, last: i64) -> Result<(usize, usize), Halt> {
        let first = self.integer_or(arguments, 1, 1)?;
        self.bounds_from(arguments, length, first, last)
    }

    fn bounds_from(
        &self,
        arguments: &[Value],
        length: usize,
        first: i64,
        last: i64,
    ) -> Result<(usize, usize), Halt> {
        let last = self.integer_or(arguments, 2, last)?;
        let from = from_end(first, length).max(1) - 1;
        let to = from_end(last, length).min(length as i64);
        Ok(if from < to { (from as usize, to as usize) } else { (0, 0) })
    }

    fn value_of(&mut self, subject: &[u8], capture: Capture) -> Result<Value, Halt> {
        match capture {
            Capture::Text(from, to) => self.string(&subject[from..to]),
            Capture::Position(at) => Ok(Value::Number((at + 1) as f64)),
        }
    }

    /// A match that begins at one of these positions: its bounds. The work is counted.
    fn search(
        &mut self,
        matcher: &mut Matcher<'_>,
        (first, last): (usize, usize),
        pattern_at: usize,
    ) -> Result<Option<(usize, usize)>, Halt> {
        let before = matcher.steps_left();
        let mut found = None;
        for at in first..=last {
            if let Some(end) = matcher.match_at(at, pattern_at).map_err(failed)? {
                found = Some((at, end));
                break;
            }
        }
        self.spend(before - matcher.steps_left())?;
        Ok(found)
    }

    fn find(&mut self, subject: &[u8], arguments: &[Value], is_find: bool) -> Values {
        let pattern = self.text(arguments, 1)?;
        let init = self.integer_or(arguments, 2, 1)?;
        let init = ((from_end(init, subject.len()) - 1).max(0) as usize).min(subject.len());
        let is_plain = is_find && argument(arguments, 3).is_true();
        let has_specials = pattern.iter().any(|byte| b"^$*+?.([%-".contains(byte));
        if is_find && (is_plain || !has_specials) {
            let rest = &subject[init..];
            self.spend((rest.len() as u64 / 16).saturating_mul(1 + pattern.len() as u64 / 16))?;
            let found = if pattern.is_empty() {
                Some(0)
            } else {
                rest.windows(pattern.len()).position(|window| *window == *pattern)
            };
            return Ok(found.map_or_else(
                || vec![Value::Nil],
                |at| {
                    vec![
                        Value::Number((init + at + 1) as f64),
                        Value::Number((init + at + pattern.len()) as f64),
                    ]
                },
            ));
        }
        let is_anchored = pattern.first() == Some(&b'^');
        let mut matcher = Matcher::new(subject, &pattern, self.steps_left);
        let last = if is_anchored { init } else { subject.len() };
        let Some((from, to)) = self.search(&mut matcher, (init, last), usize::from(is_anchored))? else {
            return Ok(vec![Value::Nil]);
        };
        let mut values = Vec::new();
        if is_find {
            values.extend([Value::Number((from + 1) as f64), Value::Number(to as f64)]);
        }
        for capture in matcher.captures((!is_find).then_some((from, to))).map_err(failed)? {
            values.push(self.value_of(subject, capture)?);
        }
        Ok(values)
    }

    /// The captures of the next match.
    pub(crate) fn next_match(&mut self, number: usize) -> Values {
        let Matches { subject, pattern, next } = &self.matches[number];
        let (subject, pattern, next) = (Arc::clone(subject), Arc::clone(pattern), *next);
        if next > subject.len() {
            return Ok(vec![Value::Nil]);
        }
        let mut matcher = Matcher::new(&subject, &pattern, self.steps_left);
        let Some((from, to)) = self.search(&mut matcher, (next, subject.len()), 0)? else {
            self.matches[number].next = subject.len() + 1;
            return Ok(vec![Value::Nil]);
        };
        self.matches[number].next = if to == from { to + 1 } else { to };
        let captures = matcher.captures(Some((from, to))).map_err(failed)?;
        captures.into_iter().map(|capture| self.value_of(&subject, capture)).collect()
    }

    fn replace(&mut self, subject: &[u8], arguments: &[Value]) -> Values {
        let pattern = self.text(arguments, 1)?;
        let replacement = match argument(arguments, 2) {
            Value::Number(_) => Value::String(self.text(arguments, 2)?),
            other => other.clone(),
        };
        let most = match argument(arguments, 3) {
            Value::Nil => i64::MAX,
            _ => self.integer(arguments, 3)?,
        };
        let is_anchored = pattern.first() == Some(&b'^');
        let (mut output, mut at, mut count) = (Vec::new(), 0, 0);
        while count < most {
            let mut matcher = Matcher::new(subject, &pattern, self.steps_left);
            let found = self.search(&mut matcher, (at, at), usize::from(is_anchored))?;
            if let Some((from, to)) = found {
                count += 1;
                let captures = matcher.captures(Some((from, to))).map_err(failed)?;
                self.substitute(&replacement, subject, (&captures, &subject[from..to]), &mut output)?;
                self.check_bytes(output.len())?;
            }
            match found {
                Some((from, to)) if to > from => at = to,
                _ if at < subject.len() => {
                    output.push(subject[at]);
                    at += 1;
                }
                _ => break,
            }
            if is_anchored {
                break;
            }
        }
        output.extend_from_slice(&subject[at.min(subject.len())..]);
        self.check_bytes(output.len())?;
        Ok(vec![self.string(output)?, Value::Number(count as f64)])
    }

    /// Writes what stands for a match.
    fn substitute(
        &mut self,
        replacement: &Value,
        subject: &[u8],
        (captures, matched): (&[Capture], &[u8]),
        output: &mut Vec<u8>,
    ) -> Result<(), Halt> {
        let first = captures.first().copied().ok_or(WRONG)?;
        let value = match replacement {
            Value::String(text) => return expand(text, subject, (captures, matched), output),
            Value::Table(table) => {
                let key = self.value_of(subject, first)?;
                self.tables[*table].get(&key)
            }
            Value::Function(_) | Value::Native(_) => {
                let mut values = Vec::new();
                for capture in captures {
                    values.push(self.value_of(subject, *capture)?);
                }
                self.call(replacement, values)?.into_iter().next().unwrap_or(Value::Nil)
            }
            _ => return Err(WRONG),
        };
        match value {
            Value::Nil | Value::Boolean(false) => output.extend_from_slice(matched),
            Value::String(text) => output.extend_from_slice(&text),
            Value::Number(number) => output.extend_from_slice(numbers::text(number)?.as_bytes()),
            _ => return Err(WRONG),
        }
        Ok(())
    }

    /// `string.format`: directives that C libraries agree on.
    fn format(&mut self, format: &[u8], arguments: &[Value]) -> Result<Value, Halt> {
        let (mut output, mut bytes, mut at) = (Vec::new(), format.iter().copied().peekable(), 0);
        while let Some(byte) = bytes.next() {
            if byte != b'%' {
                output.push(byte);
                continue;
            }
            if bytes.next_if_eq(&b'%').is_some() {
                output.push(b'%');
                continue;
            }
            let mut directive = Vec::new();
            let kind = loop {
                let byte = bytes.next().ok_or(WRONG)?;
                if !matches!(byte, b'0'..=b'9' | b'.' | b'-') {
                    break byte;
                }
                directive.push(byte);
            };
            at += 1;
            if at >= arguments.len() {
                return Err(WRONG);
            }
            let directive = Directive::read(&directive)?;
            let text = match kind {
                b'd' | b'i' => {
                    let number = self.number(&arguments[at])?;
                    if number.trunc() != number || number.abs() >= 1e15 {
                        return Err(WRONG);
                    }
                    directive.integer(number as i64)
                }
                b'x' | b'X' if directive.precision.is_none() => {
                    let number = u64::try_from(self.integer(arguments, at)?).map_err(|_| WRONG)?;
                    if kind == b'x' { format!("{number:x}") } else { format!("{number:X}") }.into_bytes()
                }
                b'f' => {
                    let number = self.number(&arguments[at])?;
                    if !number.is_finite() || number == 0.0 && number.is_sign_negative() {
                        return Err(WRONG);
                    }
                    format!("{number:.precision$}", precision = directive.precision.unwrap_or(6)).into_bytes()
                }
                b'g' => numbers::general(self.number(&arguments[at])?, directive.precision.unwrap_or(6))?
                    .into_bytes(),
                b's' => {
                    let text = self.text(arguments, at)?;
                    // C ends there, unless nothing is asked for but the string.
                    if text.contains(&0) && !directive.is_plain() {
                        return Err(WRONG);
                    }
                    text[..directive.precision.unwrap_or(text.len()).min(text.len())].to_vec()
                }
                _ => return Err(Halt::Unfit("a string is formatted in a way that shards do not know")),
            };
            directive.pad(&text, kind, &mut output);
            self.check_bytes(output.len())?;
        }
        self.string(output)
    }
}

/// The flags, the width and the precision of a directive.
struct Directive {
    is_left: bool,
    has_zeros: bool,
    width: usize,
    precision: Option<usize>,
}

impl Directive {
    fn read(text: &[u8]) -> Result<Self, Halt> {
        let is_flag = |byte: &&u8| matches!(**byte, b'-' | b'0');
        let flags = text.iter().take_while(is_flag).count();
        let (flags, rest) = text.split_at(flags);
        let mut parts = rest.splitn(2, |byte| *byte == b'.');
        let number = |digits: &[u8]| -> Result<usize, Halt> {
            // More than two digits are an error in Lua.
            let is_short = digits.len() <= 2 && digits.iter().all(u8::is_ascii_digit);
            if !is_short {
                Err(WRONG)
            } else {
                Ok(digits.iter().fold(0, |all, digit| all * 10 + usize::from(digit - b'0')))
            }
        };
        let width = number(parts.next().unwrap_or_default())?;
        let precision = parts.next().map(number).transpose()?;
        Ok(Directive { is_left: flags.contains(&b'-'), has_zeros: flags.contains(&b'0'), width, precision })
    }

    fn is_plain(&self) -> bool {
        self.width == 0 && self.precision.is_none()
    }

    fn integer(&self, number: i64) -> Vec<u8> {
        let sign = if number < 0 { "-" } else { "" };
        let digits = number.unsigned_abs();
        match self.precision {
            // No digits at all for zero.
            Some(0) if number == 0 => Vec::new(),
            Some(precision) => format!("{sign}{digits:0precision$}").into_bytes(),
            None => format!("{sign}{digits}").into_bytes(),
        }
    }

    fn pad(&self, text: &[u8], kind: u8, output: &mut Vec<u8>) {
        let missing = self.width.saturating_sub(text.len());
        // Zeros are not for strings, and not for numbers whose digits are counted.
        let takes_zeros = self.has_zeros
            && !self.is_left
            && kind != b's'
            && !(self.precision.is_some() && matches!(kind, b'd' | b'i'));
        if self.is_left {
            output.extend_from_slice(text);
            output.resize(output.len() + missing, b' ');
        } else if takes_zeros {
            let (sign, digits) = text.split_at(usize::from(text.first() == Some(&b'-')));
            output.extend_from_slice(sign);
            output.resize(output.len() + missing, b'0');
            output.extend_from_slice(digits);
        } else {
            output.resize(output.len() + missing, b' ');
            output.extend_from_slice(text);
        }
    }
}

/// Writes a text in which `%1` stands for the first capture.
fn expand(
    text: &[u8],
    subject: &[u8],
    (captures, matched): (&[Capture], &[u8]),
    output: &mut Vec<u8>,
) -> Result<(), Halt> {
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match (byte, if *byte == b'%' { bytes.next() } else { None }) {
            (b'%', Some(b'0')) => output.extend_from_slice(matched),
            (b'%', Some(digit)) if digit.is_ascii_digit() => match captures.get(usize::from(digit - b'1')) {
                Some(Capture::Text(from, to)) => output.extend_from_slice(&subject[*from..*to]),
                Some(Capture::Position(at)) => output.extend_from_slice((at + 1).to_string().as_bytes()),
                None => return Err(WRONG),
            },
            (b'%', Some(other)) => output.push(*other),
            (b'%', None) => return Err(WRONG),
            (other, _) => output.push(*other),
        }
    }
    Ok(())
}
