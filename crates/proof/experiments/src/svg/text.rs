//! Text in a picture whose fonts are not known: widths are estimated, rather too wide than too narrow.

/// The width of text, in units of the picture, at this size of letters.
pub(super) fn width_of(text: &str, size: f64) -> f64 {
    let width = |character: char| match character {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' => 0.32,
        ' ' | 'f' | 't' | 'r' | '(' | ')' | '-' | '/' => 0.42,
        'm' | 'w' | 'M' | 'W' | '%' | '…' => 0.95,
        'A'..='Z' => 0.72,
        _ => 0.62,
    };
    text.chars().map(width).sum::<f64>() * size
}

/// Text in lines that are no wider than this, broken between words.
pub(super) fn lines(text: &str, size: f64, width_max: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if width_of(line, size) + width_of(word, size) + width_of(" ", size) <= width_max => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The beginning and the end of a text that is too long, with dots between: names often differ at the end.
pub(super) fn clipped(text: &str, characters_max: usize) -> String {
    if text.chars().count() <= characters_max {
        return text.to_owned();
    }
    let end = characters_max / 3;
    let skipped = text.chars().count() - end;
    text.chars().take(characters_max - 1 - end).chain(['…']).chain(text.chars().skip(skipped)).collect()
}

/// Text as it may stand in XML.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Places of labels that are at least `distance` apart and between the two ends, each as near to where it is wanted as the others allow. If there is no
/// room for all, they go beyond the greater end.
pub(super) fn apart(wanted: &[f64], distance: f64, least: f64, greatest: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|one, other| wanted[*one].total_cmp(&wanted[*other]));
    // Labels that touch move as one block, whose middle is where its labels want to be on average.
    let mut blocks: Vec<(Vec<usize>, f64)> = Vec::new();
    for label in order {
        blocks.push((vec![label], wanted[label]));
        settle(&mut blocks, wanted, distance, least, greatest);
    }
    let mut places = vec![0.0; wanted.len()];
    for (labels, begin) in &blocks {
        for (at, label) in labels.iter().enumerate() {
            places[*label] = begin + distance * at as f64;
        }
    }
    places
}

/// Joins the last block with those before it until it touches none of them.
fn settle(blocks: &mut Vec<(Vec<usize>, f64)>, wanted: &[f64], distance: f64, least: f64, greatest: f64) {
    while let Some((labels, _)) = blocks.pop() {
        let offset = |at: usize| distance * at as f64;
        let sum: f64 = labels.iter().enumerate().map(|(at, label)| wanted[*label] - offset(at)).sum();
        let last = (greatest - offset(labels.len() - 1)).max(least);
        let begin = (sum / labels.len() as f64).clamp(least, last);
        match blocks.last_mut() {
            Some((before, at)) if *at + offset(before.len()) > begin => before.extend(labels),
            _ => return blocks.push((labels, begin)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_apart_and_stay_near() {
        let table: [(&[f64], &[f64]); 6] = [
            (&[10.0, 100.0], &[10.0, 100.0]),
            (&[50.0, 50.0], &[45.0, 55.0]),
            (&[50.0, 52.0, 48.0], &[50.0, 60.0, 40.0]),
            (&[0.0, 1.0], &[0.0, 10.0]),
            (&[100.0, 99.0], &[100.0, 90.0]),
            (&[], &[]),
        ];
        for (wanted, expected) in table {
            assert_eq!(apart(wanted, 10.0, 0.0, 100.0), expected, "{wanted:?}");
        }
        let mut crowded = apart(&[40.0; 8], 10.0, 0.0, 100.0);
        crowded.sort_by(f64::total_cmp);
        assert!(crowded.windows(2).all(|pair| pair[1] - pair[0] >= 10.0 - 1e-9), "{crowded:?}");
        assert!(crowded[0] >= 0.0 && crowded[7] <= 100.0, "{crowded:?}");
    }

    #[test]
    fn a_long_text_is_broken_between_words() {
        let text = "one two three four five";
        let broken = lines(text, 10.0, 80.0);
        assert!(broken.len() > 1 && broken.join(" ") == text, "{broken:?}");
        assert!(broken.iter().all(|line| width_of(line, 10.0) <= 80.0), "{broken:?}");
        assert_eq!(lines("unbreakable", 10.0, 5.0), ["unbreakable"]);
        assert_eq!(clipped("abcdefgh", 6), "abc…gh");
    }
}
