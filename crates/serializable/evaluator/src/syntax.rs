//! The parts of a script once its names are resolved.
//!
//! Each function has a register for every local variable that it declares. A variable that a function within uses too lives in a cell instead, which its register
//! names; a new one each time that it is declared.

use std::sync::Arc;

use crate::natives::{Library, Native};

/// A register of a function.
pub(crate) type Register = usize;

/// A function.
#[derive(Debug, Default)]
pub(crate) struct Function {
    pub(crate) parameters: usize,
    pub(crate) is_variadic: bool,
    /// For each register whether its variable lives in a cell.
    pub(crate) in_cell: Vec<bool>,
    /// Where the variables of functions around it come from, when it is made.
    pub(crate) captures: Vec<Capture>,
    pub(crate) body: Block,
}

/// A variable of a function around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capture {
    /// The cell in a register of the function that makes it.
    Register(Register),
    /// One that this function has captured itself.
    Captured(usize),
}

pub(crate) type Block = Vec<Statement>;

#[derive(Debug)]
pub(crate) enum Statement {
    /// `local a, b = …`
    Local(Vec<Register>, Vec<Expression>),
    /// `local function f … end`
    LocalFunction(Register, usize),
    /// `a, t[1] = …`
    Assign(Vec<Expression>, Vec<Expression>),
    Call(Expression),
    Do(Block),
    While(Expression, Block),
    Repeat(Block, Expression),
    /// The conditions with their blocks, and what is done else.
    If(Vec<(Expression, Block)>, Block),
    /// `for i = first, last, step do`
    Count {
        register: Register,
        first: Expression,
        last: Expression,
        step: Option<Expression>,
        body: Block,
    },
    /// `for a, b in … do`
    Each {
        registers: Vec<Register>,
        from: Vec<Expression>,
        body: Block,
    },
    Return(Vec<Expression>),
    Break,
}

#[derive(Debug)]
pub(crate) enum Expression {
    Nil,
    Boolean(bool),
    Number(f64),
    String(Arc<[u8]>),
    /// All further arguments; the first one, where one value is wanted.
    Variadic,
    Local(Register),
    Captured(usize),
    Keys,
    Arguments,
    /// The null of JSON.
    Null,
    /// A global variable, or a field of a library, that shards do not know, or that is not there.
    Unknown,
    Native(Native),
    Library(Library),
    Index(Box<(Expression, Expression)>),
    Call(Box<Expression>, Vec<Expression>),
    /// `object:name(…)`
    Method(Box<Expression>, Arc<[u8]>, Vec<Expression>),
    /// A function, by its number.
    Function(usize),
    Binary(Binary, Box<(Expression, Expression)>),
    And(Box<(Expression, Expression)>),
    Or(Box<(Expression, Expression)>),
    Not(Box<Expression>),
    Minus(Box<Expression>),
    Length(Box<Expression>),
    /// `(…)`: one value.
    Only(Box<Expression>),
    /// Values in their order, and values with their keys.
    Table(Vec<Expression>, Vec<(Expression, Expression)>),
}

impl Expression {
    /// True if it may have any number of values.
    pub(crate) fn is_many(&self) -> bool {
        matches!(self, Expression::Call(..) | Expression::Method(..) | Expression::Variadic)
    }

    /// True if a call may be made while this is evaluated.
    pub(crate) fn has_call(&self) -> bool {
        match self {
            Expression::Call(..) | Expression::Method(..) => true,
            Expression::Index(both)
            | Expression::Binary(_, both)
            | Expression::And(both)
            | Expression::Or(both) => both.0.has_call() || both.1.has_call(),
            Expression::Not(one)
            | Expression::Minus(one)
            | Expression::Length(one)
            | Expression::Only(one) => one.has_call(),
            Expression::Table(values, pairs) => {
                values.iter().any(Expression::has_call)
                    || pairs.iter().any(|(key, value)| key.has_call() || value.has_call())
            }
            _ => false,
        }
    }

    pub(crate) fn is_call(&self) -> bool {
        matches!(self, Expression::Call(..) | Expression::Method(..))
    }
}

/// An operator between two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Power,
    Concatenate,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// How tightly an operator binds to its left, and to its right.
pub(crate) fn binding(sign: &str) -> Option<(u8, u8)> {
    Some(match sign {
        "or" => (1, 1),
        "and" => (2, 2),
        "<" | ">" | "<=" | ">=" | "~=" | "==" => (3, 3),
        ".." => (5, 4),
        "+" | "-" => (6, 6),
        "*" | "/" | "%" => (7, 7),
        "^" => (10, 9),
        _ => return None,
    })
}

pub(crate) fn binary(sign: &str) -> Option<Binary> {
    Some(match sign {
        "+" => Binary::Add,
        "-" => Binary::Subtract,
        "*" => Binary::Multiply,
        "/" => Binary::Divide,
        "%" => Binary::Modulo,
        "^" => Binary::Power,
        ".." => Binary::Concatenate,
        "==" => Binary::Equal,
        "~=" => Binary::Unequal,
        "<" => Binary::Less,
        "<=" => Binary::LessOrEqual,
        ">" => Binary::Greater,
        ">=" => Binary::GreaterOrEqual,
        _ => return None,
    })
}
