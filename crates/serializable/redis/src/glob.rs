//! Patterns of `KEYS` and `MATCH`.

/// How many steps of matching a pattern against one key may take: what takes more does not match.
const STEPS_MAX: u32 = 100_000;

/// True if a pattern matches: `*`, `?`, `[a-z]`, `[^a]`, and `\` before a byte that stands for itself.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let mut steps = 0;
    // Where to go on if what follows the last star does not match: one byte later.
    let (mut pattern, mut text) = (pattern, text);
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        steps += 1;
        if steps > STEPS_MAX {
            return false;
        }
        let matched = match (pattern, text) {
            ([b'*', rest @ ..], _) => {
                retry = Some((rest, text));
                pattern = rest;
                continue;
            }
            ([], []) => return true,
            ([], _) | (_, []) => None,
            (_, [byte, text_rest @ ..]) => one(pattern, *byte).map(|pattern_rest| (pattern_rest, text_rest)),
        };
        (pattern, text) = match (matched, retry) {
            (Some(rest), _) => rest,
            (None, Some((after_star, from))) if !from.is_empty() => {
                retry = Some((after_star, &from[1..]));
                (after_star, &from[1..])
            }
            (None, _) => return false,
        };
    }
}

/// The rest of a pattern whose first item matches this byte.
fn one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [b'?', rest @ ..] => Some(rest),
        [b'[', rest @ ..] => class(rest, byte),
        [b'\\', literal, rest @ ..] => (*literal == byte).then_some(rest),
        [literal, rest @ ..] => (*literal == byte).then_some(rest),
        [] => None,
    }
}

/// The same for a class of bytes, behind its bracket. One that does not end goes on to the end of the pattern.
fn class(mut pattern: &[u8], byte: u8) -> Option<&[u8]> {
    let is_negated = pattern.first() == Some(&b'^');
    if is_negated {
        pattern = &pattern[1..];
    }
    let mut found = false;
    loop {
        pattern = match pattern {
            [] | [b']', ..] => break,
            [b'\\', literal, rest @ ..] => {
                found |= *literal == byte;
                rest
            }
            [from, b'-', to, rest @ ..] => {
                found |= (*from.min(to)..=*from.max(to)).contains(&byte);
                rest
            }
            [literal, rest @ ..] => {
                found |= *literal == byte;
                rest
            }
        };
    }
    (found != is_negated).then(|| pattern.strip_prefix(b"]").unwrap_or(pattern))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("h?llo", "hello", true),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hbllo", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("*a*b*", "xxaxxbxx", true),
            ("[", "a", false),
            ("a", "ab", false),
            ("", "", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_end_soon() {
        let pattern = b"*a".repeat(1_000);
        assert!(!matches(&pattern, &b"a".repeat(900)));
    }
}
