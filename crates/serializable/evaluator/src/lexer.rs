//! A text in Lua as tokens.

use std::sync::Arc;

use crate::Unfit;
use crate::numbers;

/// A word, a sign, a name or a constant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    /// A name that is no keyword.
    Name(Arc<str>),
    /// A keyword, or a sign.
    Sign(&'static str),
    Number(f64),
    String(Arc<[u8]>),
    End,
}

const KEYWORDS: [&str; 21] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local", "nil",
    "not", "or", "repeat", "return", "then", "true", "until", "while",
];

/// The longer ones first.
const SIGNS: [&str; 26] = [
    "...", "..", "==", "~=", "<=", ">=", "+", "-", "*", "/", "%", "^", "#", "<", ">", "=", "(", ")", "{",
    "}", "[", "]", ";", ":", ",", ".",
];

/// Reads tokens from the front of a text.
#[derive(Debug)]
pub(crate) struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    line: u32,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Lexer { text, at: 0, line: 1 }
    }

    fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// The next token, and the line that it ends in.
    pub(crate) fn next(&mut self) -> Result<(Token, u32), Unfit> {
        self.skip()?;
        let token = self.token()?;
        Ok((token, self.line))
    }

    /// Passes over space and comments.
    fn skip(&mut self) -> Result<(), Unfit> {
        while let Some(byte) = self.peek() {
            match byte {
                b'\n' => {
                    self.line += 1;
                    self.at += 1;
                }
                b' ' | b'\t' | b'\r' | 0x0b | 0x0c => self.at += 1,
                b'-' if self.rest().starts_with(b"--") => {
                    self.at += 2;
                    match self.long_bracket() {
                        Some(level) => drop(self.long_string(level)?),
                        None => self.at += self.rest().iter().take_while(|byte| **byte != b'\n').count(),
                    }
                }
                _ => break,
            }
        }
        Ok(())
    }

    fn token(&mut self) -> Result<Token, Unfit> {
        let Some(first) = self.peek() else { return Ok(Token::End) };
        match first {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => Ok(self.name()),
            b'0'..=b'9' => self.number(),
            b'.' if self.text.get(self.at + 1).is_some_and(u8::is_ascii_digit) => self.number(),
            b'"' | b'\'' => self.string(first),
            b'[' => match self.long_bracket() {
                Some(level) => self.long_string(level).map(Token::String),
                None => self.sign(),
            },
            _ => self.sign(),
        }
    }

    fn sign(&mut self) -> Result<Token, Unfit> {
        let sign = SIGNS.into_iter().find(|sign| self.rest().starts_with(sign.as_bytes()));
        let sign = sign.ok_or(Unfit("a character means nothing in Lua"))?;
        self.at += sign.len();
        Ok(Token::Sign(sign))
    }

    fn name(&mut self) -> Token {
        let length =
            self.rest().iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
        let name = String::from_utf8_lossy(&self.rest()[..length]).into_owned();
        self.at += length;
        match KEYWORDS.into_iter().find(|keyword| *keyword == name) {
            Some(keyword) => Token::Sign(keyword),
            None => Token::Name(name.into()),
        }
    }

    fn number(&mut self) -> Result<Token, Unfit> {
        let rest = self.rest();
        let mut length = 0;
        while let Some(byte) = rest.get(length) {
            let is_sign = matches!(byte, b'+' | b'-') && matches!(rest[..length].last(), Some(b'e' | b'E'));
            // An exponent has a sign; a hexadecimal number has no exponent.
            let is_sign = is_sign && !rest.starts_with(b"0x") && !rest.starts_with(b"0X");
            if !byte.is_ascii_alphanumeric() && *byte != b'.' && *byte != b'_' && !is_sign {
                break;
            }
            length += 1;
        }
        let number = numbers::literal(&rest[..length]).ok_or(Unfit("a number is malformed"))?;
        self.at += length;
        Ok(Token::Number(number))
    }

    fn string(&mut self, quote: u8) -> Result<Token, Unfit> {
        const UNFINISHED: Unfit = Unfit("a string does not end");
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            let byte = self.peek().ok_or(UNFINISHED)?;
            self.at += 1;
            match byte {
                b'\n' | b'\r' => return Err(UNFINISHED),
                b'\\' => self.escape(&mut bytes)?,
                byte if byte == quote => return Ok(Token::String(bytes.into())),
                byte => bytes.push(byte),
            }
        }
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), Unfit> {
        let byte = self.peek().ok_or(Unfit("a string does not end"))?;
        self.at += 1;
        bytes.push(match byte {
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'\n' => {
                self.line += 1;
                b'\n'
            }
            // How lines end otherwise is a matter that few scripts depend on.
            b'\r' => return Err(Unfit("a string holds a carriage return")),
            b'0'..=b'9' => {
                let mut code = u32::from(byte - b'0');
                for _ in 0..2 {
                    let Some(digit) = self.peek().filter(u8::is_ascii_digit) else { break };
                    code = code * 10 + u32::from(digit - b'0');
                    self.at += 1;
                }
                u8::try_from(code).map_err(|_| Unfit("an escape sequence is too large"))?
            }
            other => other,
        });
        Ok(())
    }

    /// The level of a long bracket that opens here, if one does.
    fn long_bracket(&self) -> Option<usize> {
        let rest = self.rest().strip_prefix(b"[")?;
        let level = rest.iter().take_while(|byte| **byte == b'=').count();
        (rest.get(level) == Some(&b'[')).then_some(level)
    }

    /// The text in a long bracket of this level.
    fn long_string(&mut self, level: usize) -> Result<Arc<[u8]>, Unfit> {
        let close = [b"]".as_slice(), &vec![b'='; level], b"]"].concat();
        let inside = &self.rest()[level + 2..];
        let length = inside.windows(close.len()).position(|window| window == close);
        let inside = &inside[..length.ok_or(Unfit("a long bracket does not end"))?];
        if level == 0 && inside.windows(2).any(|two| two == b"[[") {
            return Err(Unfit("long brackets nest"));
        }
        if inside.contains(&b'\r') {
            return Err(Unfit("a long bracket holds a carriage return"));
        }
        self.at += inside.len() + 2 * (level + 2);
        self.line += inside.iter().filter(|byte| **byte == b'\n').count() as u32;
        Ok(inside.strip_prefix(b"\n").unwrap_or(inside).into())
    }
}

impl Lexer<'_> {
    /// True if `=` stands next, and not `==`.
    pub(crate) fn is_assigned(&self) -> bool {
        let mut ahead = Lexer { text: self.text, ..*self };
        matches!(ahead.next(), Ok((Token::Sign("="), _)))
    }
}
