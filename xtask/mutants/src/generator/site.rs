//! Sites, and the text that is written in their place.

use std::ops::Range;

/// A change of one site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mutant {
    /// The kind of the change, in words that do not change when lines move.
    pub(crate) kind: &'static str,
    /// The text that takes the place of the site. Empty if the site is deleted.
    pub(crate) text: String,
}

/// How a choice is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Form {
    /// Between bodies of a function, at its begin: the site is empty.
    Begin,
    /// Whether a statement is executed.
    Statement,
    /// Whether a condition with patterns is asked at all.
    Condition,
    /// Between values of an expression.
    Expression,
}

/// A stretch of the text that has mutants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    /// Where it is in the text, in bytes.
    pub(crate) range: Range<usize>,
    pub(crate) form: Form,
    /// The function it is in, such as `Replica::on_prepare`.
    pub(crate) function: String,
    pub(crate) mutants: Vec<Mutant>,
}

/// Sorts sites, outer ones first, and makes one of those that change the same expression.
pub(crate) fn merged(mut sites: Vec<Site>) -> Vec<Site> {
    sites.sort_by_key(|site| (site.range.start, std::cmp::Reverse(site.range.end), site.form));
    let mut merged: Vec<Site> = Vec::new();
    for site in sites {
        match merged.last_mut() {
            Some(last) if last.range == site.range && last.form == site.form => {
                for mutant in site.mutants {
                    if last.mutants.iter().all(|known| known.text != mutant.text) {
                        last.mutants.push(mutant);
                    }
                }
            }
            _ => merged.push(site),
        }
    }
    merged
}

/// A file with all its mutants in it.
#[derive(Debug, Default)]
pub(crate) struct Rendered {
    pub(crate) text: String,
    /// Where each site has come to be, with the index of the site.
    pub(crate) sites: Vec<(Range<usize>, usize)>,
    /// Where each mutant has come to be: the index of its site, and its own there.
    pub(crate) mutants: Vec<(Range<usize>, usize, usize)>,
}

/// Writes a file in which the mutants of these sites can be chosen; `first` gives the number of a site's first mutant, or nothing if the
/// site is to stay as it is, and then `keeps` which of its mutants are written.
pub(crate) fn render(
    text: &str,
    sites: &[Site],
    numbers: &[Option<u32>],
    keeps: &dyn Fn(usize, usize) -> bool,
) -> Rendered {
    let mut rendered = Rendered::default();
    let mut renderer = Renderer { text, sites, numbers, keeps, next: 0, out: &mut rendered };
    renderer.stretch(0..text.len());
    rendered
}

struct Renderer<'a> {
    text: &'a str,
    sites: &'a [Site],
    numbers: &'a [Option<u32>],
    keeps: &'a dyn Fn(usize, usize) -> bool,
    /// The next site to be written.
    next: usize,
    out: &'a mut Rendered,
}

impl Renderer<'_> {
    /// Writes a stretch of the text with all sites that are inside of it.
    fn stretch(&mut self, range: Range<usize>) {
        let mut at = range.start;
        while let Some(site) = self.sites.get(self.next)
            && site.range.end <= range.end
            && site.range.start < range.end
        {
            self.out.text.push_str(&self.text[at..site.range.start]);
            at = site.range.end;
            self.site(self.next);
        }
        self.out.text.push_str(&self.text[at..range.end]);
    }

    /// Writes a site, and with it all that are inside of it.
    fn site(&mut self, index: usize) {
        self.next = index + 1;
        let site = &self.sites[index];
        let Some(first) = self.numbers[index] else { return self.stretch(site.range.clone()) };
        let begin = self.out.text.len();
        let at = format!("quorate_core::mutant::at({first})");
        match site.form {
            Form::Begin => {
                self.push(&format!("match {at} {{ "));
                self.arms(index, "return ");
                self.push("_ => () }");
            }
            Form::Statement => {
                self.push(&format!("if {at} != 0 {{ "));
                self.stretch(site.range.clone());
                self.push(" }");
                self.out.mutants.push((begin..self.out.text.len(), index, 0));
            }
            Form::Condition => {
                self.push(&format!("{at} != 0 && "));
                self.out.mutants.push((begin..self.out.text.len(), index, 0));
                self.stretch(site.range.clone());
            }
            Form::Expression => {
                self.push(&format!("(match {at} {{ "));
                self.arms(index, "");
                self.push("_ => (");
                self.stretch(site.range.clone());
                self.push(") })");
            }
        }
        self.out.sites.push((begin..self.out.text.len(), index));
    }

    fn arms(&mut self, index: usize, before: &str) {
        for (own, mutant) in self.sites[index].mutants.iter().enumerate() {
            if (self.keeps)(index, own) {
                self.push(&format!("{own} => "));
                let begin = self.out.text.len();
                self.push(&format!("({before}{})", mutant.text));
                self.out.mutants.push((begin..self.out.text.len(), index, own));
                self.push(", ");
            }
        }
    }

    fn push(&mut self, text: &str) {
        self.out.text.push_str(text);
    }
}

/// The lines that hold a site, as they are and as a mutant has them, each drawn together into one.
pub(crate) fn lines(text: &str, site: &Site, mutant: &Mutant) -> (String, String) {
    let begin = text[..site.range.start].rfind('\n').map_or(0, |at| at + 1);
    let end = text[site.range.end..].find('\n').map_or(text.len(), |at| site.range.end + at);
    let (before, after) = (&text[begin..site.range.start], &text[site.range.end..end]);
    let original = squeezed(&text[begin..end]);
    let changed = match site.form {
        Form::Begin => format!("{} return {};{}", before, mutant.text, after),
        Form::Condition => format!("{before}false && {}{after}", &text[site.range.clone()]),
        Form::Statement if !text[..site.range.end].ends_with(';') => format!("{before}(){after}"),
        Form::Statement | Form::Expression => format!("{before}{}{after}", mutant.text),
    };
    (original, squeezed(&changed))
}

/// A text in one line, without comments at its ends of lines.
pub(crate) fn squeezed(text: &str) -> String {
    let without = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    without.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}
