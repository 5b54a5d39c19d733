//! Small sources in, their mutants out.

use super::{modules_of_tests, render, site, sites};

/// The mutants of a text: of each its kind, and the line that it changes.
fn mutants(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    for site in sites(text).unwrap() {
        all.extend(site.mutants.iter().map(|mutant| {
            let (_, changed) = site::lines(text, &site, mutant);
            format!("{}: {changed}", mutant.kind)
        }));
    }
    all
}

/// The mutants of a statement inside of a function.
fn of(statement: &str) -> Vec<String> {
    mutants(&format!("fn f() {{\n    {statement}\n    last\n}}"))
}

#[test]
fn comparisons_move_their_bounds_and_turn_around() {
    let table = [
        ("let x = a < b;", ["bound-moved: let x = a <= b;", "comparison-reversed: let x = a > b;"]),
        ("let x = a >= b;", ["bound-moved: let x = a > b;", "comparison-reversed: let x = a <= b;"]),
        ("let x = a == b;", ["equality-inverted: let x = a != b;", "equality-widened: let x = a >= b;"]),
        (
            "let x = a as u8 != b;",
            ["equality-inverted: let x = (a as u8) == b;", "equality-narrowed: let x = (a as u8) < b;"],
        ),
    ];
    for (statement, expected) in table {
        assert_eq!(of(statement), expected);
    }
}

#[test]
fn each_operand_of_a_connective_is_left_out() {
    let expected =
        ["connective-swapped: let x = a || b;", "operand-removed: let x = a;", "operand-removed: let x = b;"];
    assert_eq!(of("let x = a && b;"), expected);
    // The first two of three are an expression of their own.
    let expected = [
        "connective-swapped: let x = (a || b) && c;",
        "operand-removed: let x = a || b;",
        "connective-swapped: let x = a && b || c;",
        "operand-removed: let x = a || c;",
        "operand-removed: let x = b || c;",
    ];
    assert_eq!(of("let x = a || b || c;"), expected);
}

#[test]
fn conditions_are_true_or_false_and_those_of_loops_only_false() {
    assert_eq!(of("if a { b; }"), ["condition-false: if false { b; }", "condition-true: if true { b; }"]);
    assert_eq!(of("while a { b; }"), ["condition-false: while false { b; }"]);
    assert_eq!(
        of("let x = a.then_some(b);"),
        ["condition-true: let x = true.then_some(b);", "condition-false: let x = false.then_some(b);"]
    );
    let expected = [
        "never-matches: if false && let Some(a) = b && c {}",
        "condition-true: if let Some(a) = b && true {}",
    ];
    assert_eq!(of("if let Some(a) = b && c {}"), expected);
    assert_eq!(
        of("match a { b if c => d, _ => e }"),
        [
            "guard-false: match a { b if false => d, _ => e }",
            "guard-true: match a { b if true => d, _ => e }"
        ]
    );
    assert_eq!(
        of("let x = a.retain(|b| c);"),
        ["answer-false: let x = a.retain(|b| false);", "answer-true: let x = a.retain(|b| true);"]
    );
}

#[test]
fn statements_are_left_out() {
    for (statement, kind) in [
        ("self.a();", "call-deleted"),
        ("a()?;", "call-deleted"),
        ("self.a = b;", "assignment-deleted"),
        ("a |= b;", "assignment-deleted"),
        ("continue;", "exit-deleted"),
        ("return a;", "exit-deleted"),
    ] {
        assert_eq!(of(statement), [format!("{kind}: ")], "{statement}");
    }
    assert_eq!(of("match a { b => c(), _ => return }"), ["call-deleted: match a { b => (), _ => return }"]);
    // A way out alone in its block is a guard, whose condition has mutants.
    assert_eq!(
        of("if let Some(a) = b { return; }"),
        ["never-matches: if false && let Some(a) = b { return; }"]
    );
    assert_eq!(of("a += b;"), ["assignment-deleted: ", "sum-swapped: a -= b;"]);
}

#[test]
fn values_are_changed_by_one() {
    assert_eq!(
        of("let x = a + 5u8;"),
        ["sum-swapped: let x = a - 5u8;", "one-more: let x = a + 6u8;", "one-less: let x = a + 4u8;"]
    );
    assert_eq!(of("let x = a[0];"), ["one-more: let x = a[1];"]);
    assert_eq!(
        of("let x = a..b;"),
        [
            "bound-moved: let x = (a) + 1..b;",
            "bound-moved: let x = a..(b) + 1;",
            "bound-moved: let x = a..(b) - 1;"
        ]
    );
    assert_eq!(of("let x = Bound::Excluded(a);"), ["bound-moved: let x = Bound::Included(a);"]);
    assert_eq!(
        of("let x = a.min(b).is_some();"),
        ["method-swapped: let x = a.min(b).is_none();", "method-swapped: let x = a.max(b).is_some();"]
    );
    assert_eq!(of("let x = !a;"), ["not-removed: let x = a;"]);
}

#[test]
fn functions_give_something_else() {
    let expected =
        ["gives-true: fn f() -> bool { return true; a }", "gives-false: fn f() -> bool { return false; a }"];
    assert_eq!(mutants("fn f() -> bool { a }"), expected);
    assert_eq!(mutants("fn f() -> bool { true }"), ["gives-false: fn f() -> bool { return false; true }"]);
    let text = "fn f() -> Option<u8> {\n    match a {\n        b => Some(c),\n        _ => return Some(d),\n    }\n}";
    assert_eq!(mutants(text), ["gives-none: b => None,", "gives-none: _ => return None,"]);
    assert_eq!(mutants("fn f() { a() }"), ["call-deleted: fn f() { () }"]);
}

#[test]
fn what_says_something_to_people_or_tests_has_no_mutants() {
    for text in [
        "#[cfg(test)]\nmod tests { fn f() { a(); } }",
        "#[test]\nfn f() { a(); }",
        "impl fmt::Debug for A { fn fmt(&self) { a(); } }",
        "impl A { fn describe(&self) { a(); } }",
        "const fn f() -> bool { a < b }",
        "const A: u8 = 5 + 1;",
        "enum A { B = 1 }",
        "fn f() { let x = [a; 5]; last }",
        "fn f() { assert!(a < b); debug_assert_eq!(a, b); last }",
        "fn f() { outbox.ignored(if a { b } else { c }); last }",
        "fn f() { let x = Vec::with_capacity(5 + 1); last }",
        "fn f(a: [u8; 5]) { match a { 0..5 => b, 7 => c } last }",
        "fn f() { if rules.has(Plant::Late) { return a < b; } last }",
        "fn f() { if self.makes(Mistake::Late) { b += 1; } last }",
    ] {
        assert_eq!(mutants(text), [] as [&str; 0], "{text}");
    }
    // The rule beside a planted bug has some, and the bug has none.
    assert_eq!(of("if !rules.has(Plant::Late) { a(); }"), ["call-deleted: if !rules.has(Plant::Late) { }"]);
    let statement = "if rules.has(Plant::Late) { a(); } else { b(); }";
    assert_eq!(of(statement), ["call-deleted: if rules.has(Plant::Late) { a(); } else { }"]);
    assert_eq!(
        of("let x = a && !rules.has(Plant::Late);"),
        ["operand-removed: let x = !rules.has(Plant::Late);"]
    );
}

#[test]
fn modules_of_tests_are_found() {
    assert_eq!(
        modules_of_tests("mod a;\n#[cfg(test)]\nmod checks;\n#[cfg(test)]\nmod tests {}\n"),
        ["checks"]
    );
}

#[test]
fn a_text_with_a_choice_of_mutants_still_is_rust() {
    let text = "fn f(a: u8) -> bool {\n    if a < 5 {\n        self.g(a - 1);\n    }\n    h(a) || b\n}\n";
    let sites = sites(text).unwrap();
    let mut first = 0;
    let numbers: Vec<Option<u32>> = sites
        .iter()
        .map(|site| {
            let number = first;
            first += site.mutants.len() as u32;
            Some(number)
        })
        .collect();
    let rendered = render(text, &sites, &numbers, &|_, _| true);
    syn::parse_file(&rendered.text).unwrap();
    assert_eq!(rendered.mutants.len(), first as usize);
    // Mutants hold what was there, and no other mutants.
    let texts = rendered
        .mutants
        .iter()
        .map(|(range, site, own)| (&rendered.text[range.clone()], &sites[*site].mutants[*own]));
    for (written, mutant) in texts.filter(|(_, mutant)| !mutant.text.is_empty()) {
        assert!(
            written == format!("({})", mutant.text) || written == format!("(return {})", mutant.text),
            "{written}"
        );
    }
    // Those that are not kept are not written, and a site without any is as it was.
    let numbers = vec![None; sites.len()];
    assert_eq!(render(text, &sites, &numbers, &|_, _| true).text, text);
    let numbers: Vec<Option<u32>> = (0..sites.len() as u32).map(Some).collect();
    let rendered = render(text, &sites, &numbers, &|_, own| own == 0);
    assert_eq!(rendered.mutants.len(), sites.len());
}

#[test]
fn names_hold_while_lines_move() {
    let text = "fn f() { a(b < c); }\nfn g() { a(b < c); a(b < c); }\n";
    let ids = |text: &str| {
        let mut catalogue = crate::catalogue::Catalogue::default();
        catalogue.add("x.rs".to_owned(), &crate::targets::TARGETS[0], text.to_owned()).unwrap();
        catalogue.mutants.iter().map(|mutant| mutant.id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&format!("// A comment.\n\n{text}")), ids(text));
    let distinct: std::collections::BTreeSet<String> = ids(text).into_iter().collect();
    assert_eq!(distinct.len(), 9);
}
