//! Which mutants an expression has, whatever is around it.

use syn::spanned::Spanned;
use syn::{Attribute, BinOp, Expr, ExprBinary, ExprMethodCall, ExprRange, Lit, RangeLimits, UnOp};

use super::site::Mutant;
use super::skip;
use super::walk::Walk;

/// Methods that are mistaken for each other.
const SWAPPED: [(&str, &str); 14] = [
    ("min", "max"),
    ("first", "last"),
    ("is_some", "is_none"),
    ("is_ok", "is_err"),
    ("any", "all"),
    ("pop_first", "pop_last"),
    ("first_key_value", "last_key_value"),
    ("pop_front", "pop_back"),
    ("push_front", "push_back"),
    ("min_by_key", "max_by_key"),
    ("saturating_add", "saturating_sub"),
    ("checked_add", "checked_sub"),
    ("wrapping_add", "wrapping_sub"),
    ("is_some_and", "is_none_or"),
];

/// Methods that ask a closure of each element.
const ASKING: [&str; 15] = [
    "filter",
    "any",
    "all",
    "find",
    "position",
    "retain",
    "take_while",
    "skip_while",
    "is_some_and",
    "is_none_or",
    "partition",
    "extract_if",
    "is_ok_and",
    "partition_point",
    "rposition",
];

/// Adds the mutants of an expression to its site.
pub(super) fn mutate(walk: &mut Walk<'_>, expression: &Expr) {
    match expression {
        Expr::Binary(binary) => {
            let mutants = of_binary(walk, binary);
            walk.expression(binary, mutants);
        }
        Expr::Unary(unary)
            if matches!(unary.op, UnOp::Not(_)) && !skip::asks_for_plant(walk.text, &unary.expr) =>
        {
            let text = walk.text_of(&unary.expr).to_owned();
            walk.expression(unary, vec![Mutant { kind: "not-removed", text }]);
        }
        Expr::Lit(literal) => {
            if let Lit::Int(number) = &literal.lit
                && let Ok(value) = number.base10_parse::<u64>()
            {
                let mut mutants = Vec::new();
                let mut to = |kind, value: u64| {
                    mutants.push(Mutant { kind, text: format!("{value}{}", number.suffix()) });
                };
                to("one-more", value.saturating_add(1));
                if value > 0 {
                    to("one-less", value - 1);
                }
                walk.expression(literal, mutants);
            }
        }
        Expr::MethodCall(call) => of_method(walk, call),
        Expr::Call(call) => {
            let swapped = match skip::called(expression).as_deref() {
                Some("Included") => "Excluded",
                Some("Excluded") => "Included",
                _ => return,
            };
            let function = walk.text_of(&call.func);
            let arguments = &walk.text[call.func.span().byte_range().end..call.span().byte_range().end];
            let kept = function.rfind("::").map_or("", |at| &function[..at + 2]);
            walk.expression(
                call,
                vec![Mutant { kind: "bound-moved", text: format!("{kept}{swapped}{arguments}") }],
            );
        }
        Expr::Range(range) => {
            let mutants = of_range(walk, range);
            walk.expression(range, mutants);
        }
        _ => {}
    }
}

fn of_binary(walk: &Walk<'_>, binary: &ExprBinary) -> Vec<Mutant> {
    let (left, right) = (operand(walk, &binary.left), operand(walk, &binary.right));
    let with = |kind, operator: &str| Mutant { kind, text: format!("{left} {operator} {right}") };
    match binary.op {
        BinOp::Lt(_) => vec![with("bound-moved", "<="), with("comparison-reversed", ">")],
        BinOp::Le(_) => vec![with("bound-moved", "<"), with("comparison-reversed", ">=")],
        BinOp::Gt(_) => vec![with("bound-moved", ">="), with("comparison-reversed", "<")],
        BinOp::Ge(_) => vec![with("bound-moved", ">"), with("comparison-reversed", "<=")],
        BinOp::Eq(_) => vec![with("equality-inverted", "!="), with("equality-widened", ">=")],
        BinOp::Ne(_) => vec![with("equality-inverted", "=="), with("equality-narrowed", "<")],
        BinOp::Add(_) => vec![with("sum-swapped", "-")],
        BinOp::Sub(_) => vec![with("sum-swapped", "+")],
        BinOp::AddAssign(_) => vec![with("sum-swapped", "-=")],
        BinOp::SubAssign(_) => vec![with("sum-swapped", "+=")],
        BinOp::And(_) if ![&binary.left, &binary.right].into_iter().any(|operand| has_pattern(operand)) => {
            of_connective(walk, binary, with("connective-swapped", "||"))
        }
        BinOp::Or(_) => of_connective(walk, binary, with("connective-swapped", "&&")),
        _ => Vec::new(),
    }
}

/// The other connective, and each operand left out. Where one only asks for a planted bug, it stays.
fn of_connective(walk: &Walk<'_>, binary: &ExprBinary, swapped: Mutant) -> Vec<Mutant> {
    let asks = [&binary.left, &binary.right].map(|operand| skip::asks_for_plant(walk.text, operand));
    let without = |kept: &Expr| Mutant { kind: "operand-removed", text: walk.text_of(kept).to_owned() };
    let mut mutants = Vec::new();
    if asks == [false, false] {
        mutants.push(swapped);
    }
    if !asks[1] {
        mutants.push(without(&binary.left));
    }
    // Of three operands the first two are an expression of their own, whose mutants leave them out one by one.
    let is_chain = matches!(&*binary.left, Expr::Binary(left) if left.op == binary.op);
    if !asks[0] && !is_chain {
        mutants.push(without(&binary.right));
    }
    mutants
}

/// The text of an operand, such that any operator may stand beside it.
fn operand(walk: &Walk<'_>, operand: &Expr) -> String {
    let text = walk.text_of(operand);
    let binds_loosely = match operand {
        Expr::Cast(_) | Expr::Closure(_) | Expr::Range(_) => true,
        Expr::Binary(binary) => matches!(binary.op, BinOp::And(_) | BinOp::Or(_)),
        _ => false,
    };
    if binds_loosely { format!("({text})") } else { text.to_owned() }
}

fn of_method(walk: &mut Walk<'_>, call: &ExprMethodCall) {
    let name = call.method.to_string();
    let swapped = SWAPPED.iter().find_map(|(one, other)| match name.as_str() {
        name if name == *one => Some(*other),
        name if name == *other => Some(*one),
        _ => None,
    });
    if let Some(swapped) = swapped {
        let (whole, method) = (call.span().byte_range(), call.method.span().byte_range());
        let text = format!(
            "{}{swapped}{}",
            &walk.text[whole.start..method.start],
            &walk.text[method.end..whole.end]
        );
        walk.expression(call, vec![Mutant { kind: "method-swapped", text }]);
    }
    if ASKING.contains(&name.as_str())
        && let Some(closure) = call.args.last()
    {
        walk.answer(closure);
    }
    if matches!(name.as_str(), "then_some" | "then")
        && call.args.len() == 1
        && !skip::asks_for_plant(walk.text, &call.receiver)
    {
        let mutants = [("condition-true", "true"), ("condition-false", "false")];
        let mutants = mutants.map(|(kind, text)| Mutant { kind, text: text.to_owned() });
        // A receiver that is an ordering and no truth does not compile, and is dropped.
        walk.expression(&call.receiver, mutants.into());
    }
}

/// A range that begins one later, or ends one earlier or later.
fn of_range(walk: &Walk<'_>, range: &ExprRange) -> Vec<Mutant> {
    let part = |part: &Option<Box<Expr>>| part.as_ref().map(|part| operand(walk, part));
    let (start, end) = (part(&range.start), part(&range.end));
    let dots = if matches!(range.limits, RangeLimits::HalfOpen(_)) { ".." } else { "..=" };
    let text = |start: &str, end: &str| Mutant { kind: "bound-moved", text: format!("{start}{dots}{end}") };
    let mut mutants = Vec::new();
    let (begins, ends) = (start.clone().unwrap_or_default(), end.clone().unwrap_or_default());
    if start.is_some() {
        mutants.push(text(&format!("({begins}) + 1"), &ends));
    }
    if end.is_some() {
        mutants.push(text(&begins, &format!("({ends}) + 1")));
        mutants.push(text(&begins, &format!("({ends}) - 1")));
    }
    mutants
}

/// True if a condition binds a pattern somewhere.
pub(super) fn has_pattern(condition: &Expr) -> bool {
    conjuncts(condition).into_iter().any(|operand| matches!(operand, Expr::Let(_)))
}

/// The operands that a condition joins by `&&`.
pub(super) fn conjuncts(condition: &Expr) -> Vec<&Expr> {
    match condition {
        Expr::Binary(binary) if matches!(binary.op, BinOp::And(_)) => {
            let mut all = conjuncts(&binary.left);
            all.extend(conjuncts(&binary.right));
            all
        }
        _ => vec![condition],
    }
}

pub(super) fn assigns(operator: &BinOp) -> bool {
    matches!(
        operator,
        BinOp::AddAssign(_)
            | BinOp::SubAssign(_)
            | BinOp::MulAssign(_)
            | BinOp::DivAssign(_)
            | BinOp::RemAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitOrAssign(_)
            | BinOp::BitXorAssign(_)
            | BinOp::ShlAssign(_)
            | BinOp::ShrAssign(_)
    )
}

/// The attributes of an expression that may be a site.
pub(super) fn attributes(expression: &Expr) -> &[Attribute] {
    match expression {
        Expr::MethodCall(node) => &node.attrs,
        Expr::Call(node) => &node.attrs,
        Expr::Assign(node) => &node.attrs,
        Expr::Binary(node) => &node.attrs,
        Expr::Unary(node) => &node.attrs,
        Expr::Return(node) => &node.attrs,
        Expr::Range(node) => &node.attrs,
        Expr::Lit(node) => &node.attrs,
        _ => &[],
    }
}
