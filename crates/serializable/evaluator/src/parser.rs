//! Tokens to a [`Program`].
//!
//! It takes less than Lua does, and nothing that Lua does not: what it refuses, the interpreter of the door looks at, which knows the words for what is wrong.

use std::mem::take;
use std::sync::Arc;

use crate::lexer::{Lexer, Token};
use crate::natives::{self, Named};
use crate::syntax::{Block, Capture, Expression, Function, Register, Statement, binary, binding};
use crate::{Program, Unfit};

/// How deep blocks and expressions nest.
const DEPTH_MAX: usize = 60;

/// So many variables a function may have at a time, and so many of functions around it it may use: a few less than in Lua.
const VARIABLES_MAX: usize = 150;
const CAPTURES_MAX: usize = 50;

/// So many expressions stand in a list at most: Lua has 250 registers.
const LIST_MAX: usize = 100;

/// Reads a script.
pub(crate) fn parse(text: &[u8]) -> Result<Program, Unfit> {
    let mut lexer = Lexer::new(text);
    let (token, line) = lexer.next()?;
    let scopes = vec![Scope { is_variadic: true, ..Scope::default() }];
    let mut parser = Parser { lexer, token, line, line_before: 1, scopes, functions: Vec::new(), depth: 0 };
    let body = parser.block()?;
    if parser.token != Token::End {
        return Err(Unfit("something stands behind the end"));
    }
    let main = parser.close(0, body)?;
    Ok(Program { functions: parser.functions, main })
}

/// A function while it is read.
#[derive(Default)]
struct Scope {
    is_variadic: bool,
    /// The names that are visible, the latest last.
    visible: Vec<(Arc<str>, Register)>,
    in_cell: Vec<bool>,
    captures: Vec<(Arc<str>, Capture)>,
    /// How many loops are around.
    loops: usize,
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Token,
    /// The line of the token, and of the one before.
    line: u32,
    line_before: u32,
    /// The functions around, the innermost last.
    scopes: Vec<Scope>,
    functions: Vec<Function>,
    depth: usize,
}

const UNEXPECTED: Unfit = Unfit("this is no Lua, or a part of it that shards do not know");

type Parsed<T> = Result<T, Unfit>;

impl Parser<'_> {
    fn advance(&mut self) -> Parsed<Token> {
        let (next, line) = self.lexer.next()?;
        self.line_before = std::mem::replace(&mut self.line, line);
        Ok(std::mem::replace(&mut self.token, next))
    }

    fn is(&self, sign: &str) -> bool {
        matches!(&self.token, Token::Sign(here) if *here == sign)
    }

    /// Passes over a sign, if it stands here.
    fn accept(&mut self, sign: &str) -> Parsed<bool> {
        let is_here = self.is(sign);
        if is_here {
            self.advance()?;
        }
        Ok(is_here)
    }

    fn expect(&mut self, sign: &str) -> Parsed<()> {
        if self.accept(sign)? { Ok(()) } else { Err(UNEXPECTED) }
    }

    fn name(&mut self) -> Parsed<Arc<str>> {
        match self.advance()? {
            Token::Name(name) => Ok(name),
            _ => Err(UNEXPECTED),
        }
    }

    fn scope(&mut self) -> &mut Scope {
        self.scopes.last_mut().expect("the script itself is a function")
    }

    /// One level deeper while this is read.
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Unfit("it nests too deep"));
        }
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// A new variable; it is visible at once.
    fn declare(&mut self, name: Arc<str>) -> Parsed<Register> {
        let scope = self.scope();
        if scope.visible.len() >= VARIABLES_MAX {
            return Err(Unfit("a function has too many variables"));
        }
        let register = scope.in_cell.len();
        scope.in_cell.push(false);
        scope.visible.push((name, register));
        Ok(register)
    }

    /// The variable of this name as the function at this level sees it.
    fn resolve(&mut self, level: usize, name: &str) -> Parsed<Option<Capture>> {
        let scope = &mut self.scopes[level];
        if let Some((_, register)) = scope.visible.iter().rev().find(|(known, _)| **known == *name) {
            return Ok(Some(Capture::Register(*register)));
        }
        if let Some(at) = scope.captures.iter().position(|(known, _)| **known == *name) {
            return Ok(Some(Capture::Captured(at)));
        }
        if level == 0 {
            return Ok(None);
        }
        let Some(found) = self.resolve(level - 1, name)? else { return Ok(None) };
        if let Capture::Register(register) = found {
            self.scopes[level - 1].in_cell[register] = true;
        }
        let captures = &mut self.scopes[level].captures;
        if captures.len() >= CAPTURES_MAX {
            return Err(Unfit("a function uses too many variables of others"));
        }
        captures.push((name.into(), found));
        Ok(Some(Capture::Captured(captures.len() - 1)))
    }

    /// Ends the innermost function, and gives its number.
    fn close(&mut self, parameters: usize, body: Block) -> Parsed<usize> {
        let scope = take(self.scope());
        self.scopes.pop();
        let captures = scope.captures.into_iter().map(|(_, capture)| capture).collect();
        let Scope { is_variadic, in_cell, .. } = scope;
        self.functions.push(Function { parameters, is_variadic, in_cell, captures, body });
        Ok(self.functions.len() - 1)
    }

    /// A block, whose variables are not visible behind it.
    fn block(&mut self) -> Parsed<Block> {
        let visible = self.scope().visible.len();
        let block = self.open_block()?;
        self.scope().visible.truncate(visible);
        Ok(block)
    }

    fn open_block(&mut self) -> Parsed<Block> {
        self.deeper(|parser| {
            let mut block = Vec::new();
            loop {
                let is_over = match &parser.token {
                    Token::End => true,
                    Token::Sign(sign) => matches!(*sign, "end" | "else" | "elseif" | "until"),
                    _ => false,
                };
                if is_over {
                    return Ok(block);
                }
                let statement = parser.statement()?;
                let is_last = matches!(statement, Statement::Return(_) | Statement::Break);
                block.push(statement);
                parser.accept(";")?;
                if is_last {
                    return Ok(block);
                }
            }
        })
    }

    fn block_of_loop(&mut self) -> Parsed<Block> {
        self.scope().loops += 1;
        let block = self.block()?;
        self.scope().loops -= 1;
        Ok(block)
    }

    fn statement(&mut self) -> Parsed<Statement> {
        let Token::Sign(sign) = self.token else { return self.call_or_assign() };
        match sign {
            "(" => return self.call_or_assign(),
            // A function with a name is a global variable, or a field of a table.
            "function" => return self.named_function(),
            _ => drop(self.advance()?),
        }
        match sign {
            "local" => self.local(),
            "if" => self.conditional(),
            "for" => self.for_loop(),
            "while" => {
                let condition = self.expression()?;
                self.expect("do")?;
                let block = self.block_of_loop()?;
                self.expect("end")?;
                Ok(Statement::While(condition, block))
            }
            "repeat" => {
                let visible = self.scope().visible.len();
                self.scope().loops += 1;
                let block = self.open_block()?;
                self.scope().loops -= 1;
                self.expect("until")?;
                let condition = self.expression()?;
                self.scope().visible.truncate(visible);
                Ok(Statement::Repeat(block, condition))
            }
            "do" => {
                let block = self.block()?;
                self.expect("end")?;
                Ok(Statement::Do(block))
            }
            "return" => {
                let ends = match &self.token {
                    Token::End => true,
                    Token::Sign(sign) => matches!(*sign, "end" | "else" | "elseif" | "until" | ";"),
                    _ => false,
                };
                Ok(Statement::Return(if ends { Vec::new() } else { self.list()? }))
            }
            "break" if self.scope().loops > 0 => Ok(Statement::Break),
            _ => Err(UNEXPECTED),
        }
    }

    fn local(&mut self) -> Parsed<Statement> {
        if self.accept("function")? {
            let name = self.name()?;
            let register = self.declare(name)?;
            return Ok(Statement::LocalFunction(register, self.function(false)?));
        }
        let mut names = vec![self.name()?];
        while self.accept(",")? {
            names.push(self.name()?);
        }
        let values = if self.accept("=")? { self.list()? } else { Vec::new() };
        let registers = names.into_iter().map(|name| self.declare(name)).collect::<Parsed<_>>()?;
        Ok(Statement::Local(registers, values))
    }

    fn named_function(&mut self) -> Parsed<Statement> {
        self.advance()?;
        let name = self.name()?;
        let mut target = self.variable(&name)?;
        let mut is_method = false;
        while !is_method && (self.is(".") || self.is(":")) {
            is_method = self.is(":");
            self.advance()?;
            let key = Expression::String(self.name()?.as_bytes().into());
            target = Expression::Index(Box::new((target, key)));
        }
        check_target(&target)?;
        let function = self.function(is_method)?;
        Ok(Statement::Assign(vec![target], vec![Expression::Function(function)]))
    }

    /// The parameters and the body of a function.
    fn function(&mut self, is_method: bool) -> Parsed<usize> {
        self.scopes.push(Scope::default());
        if is_method {
            self.declare("self".into())?;
        }
        self.expect("(")?;
        while !self.is(")") {
            if self.accept("...")? {
                self.scope().is_variadic = true;
                break;
            }
            let name = self.name()?;
            self.declare(name)?;
            if !self.accept(",")? {
                break;
            }
            if self.is(")") {
                return Err(UNEXPECTED);
            }
        }
        self.expect(")")?;
        let parameters = self.scope().in_cell.len();
        let body = self.block()?;
        self.expect("end")?;
        self.close(parameters, body)
    }

    fn conditional(&mut self) -> Parsed<Statement> {
        let mut branches = Vec::new();
        loop {
            let condition = self.expression()?;
            self.expect("then")?;
            branches.push((condition, self.block()?));
            if !self.accept("elseif")? {
                break;
            }
        }
        let otherwise = if self.accept("else")? { self.block()? } else { Vec::new() };
        self.expect("end")?;
        Ok(Statement::If(branches, otherwise))
    }

    fn for_loop(&mut self) -> Parsed<Statement> {
        let mut names = vec![self.name()?];
        let visible = self.scope().visible.len();
        let statement = if self.accept("=")? {
            let first = self.expression()?;
            self.expect(",")?;
            let last = self.expression()?;
            let step = if self.accept(",")? { Some(self.expression()?) } else { None };
            self.expect("do")?;
            let register = self.declare(names.remove(0))?;
            Statement::Count { register, first, last, step, body: self.block_of_loop()? }
        } else {
            while self.accept(",")? {
                names.push(self.name()?);
            }
            self.expect("in")?;
            let from = self.list()?;
            self.expect("do")?;
            let registers = names.into_iter().map(|name| self.declare(name)).collect::<Parsed<_>>()?;
            Statement::Each { registers, from, body: self.block_of_loop()? }
        };
        self.expect("end")?;
        self.scope().visible.truncate(visible);
        Ok(statement)
    }

    fn call_or_assign(&mut self) -> Parsed<Statement> {
        let first = self.suffixed()?;
        if first.is_call() {
            return if self.is("=") || self.is(",") { Err(UNEXPECTED) } else { Ok(Statement::Call(first)) };
        }
        let mut targets = vec![first];
        while self.accept(",")? {
            targets.push(self.suffixed()?);
        }
        targets.iter().try_for_each(check_target)?;
        self.expect("=")?;
        let values = self.list()?;
        // Where a call changes what tables and keys are named by, Lua looks at these once it is over.
        let is_late =
            targets.len() > 1 && targets.iter().any(|target| matches!(target, Expression::Index(_)));
        if is_late && values.iter().any(Expression::has_call) {
            return Err(Unfit("several variables, fields among them, are assigned what calls return"));
        }
        Ok(Statement::Assign(targets, values))
    }

    fn list(&mut self) -> Parsed<Vec<Expression>> {
        let mut list = vec![self.expression()?];
        while self.accept(",")? {
            if list.len() >= LIST_MAX {
                return Err(Unfit("a list is too long"));
            }
            list.push(self.expression()?);
        }
        Ok(list)
    }

    fn variable(&mut self, name: &str) -> Parsed<Expression> {
        Ok(match self.resolve(self.scopes.len() - 1, name)? {
            Some(Capture::Register(register)) => Expression::Local(register),
            Some(Capture::Captured(at)) => Expression::Captured(at),
            None => match name {
                "KEYS" => Expression::Keys,
                "ARGV" => Expression::Arguments,
                _ => match natives::global(name) {
                    Some(Named::Native(native)) => Expression::Native(native),
                    Some(Named::Library(library)) => Expression::Library(library),
                    Some(Named::Number(_) | Named::Null) | None => Expression::Unknown,
                },
            },
        })
    }

    /// An expression in front of brackets, points and arguments, with these.
    fn suffixed(&mut self) -> Parsed<Expression> {
        let mut expression = if self.accept("(")? {
            let inner = self.expression()?;
            self.expect(")")?;
            Expression::Only(Box::new(inner))
        } else {
            let name = self.name()?;
            self.variable(&name)?
        };
        let mut count = 0;
        loop {
            count += 1;
            if count > DEPTH_MAX {
                return Err(Unfit("it nests too deep"));
            }
            let is_string = matches!(self.token, Token::String(_));
            expression = if self.accept(".")? {
                let name = self.name()?;
                index(expression, Expression::String(name.as_bytes().into()))
            } else if self.accept("[")? {
                let key = self.expression()?;
                self.expect("]")?;
                index(expression, key)
            } else if self.accept(":")? {
                let name = self.name()?;
                Expression::Method(Box::new(expression), name.as_bytes().into(), self.arguments()?)
            } else if is_string || self.is("(") || self.is("{") {
                // Lua refuses to guess whether a new statement begins.
                if self.is("(") && self.line != self.line_before {
                    return Err(UNEXPECTED);
                }
                Expression::Call(Box::new(expression), self.arguments()?)
            } else {
                return Ok(expression);
            };
        }
    }

    fn arguments(&mut self) -> Parsed<Vec<Expression>> {
        if let Token::String(_) | Token::Sign("{") = self.token {
            return Ok(vec![self.simple()?]);
        }
        self.expect("(")?;
        if self.accept(")")? {
            return Ok(Vec::new());
        }
        let list = self.list()?;
        self.expect(")")?;
        Ok(list)
    }

    fn simple(&mut self) -> Parsed<Expression> {
        let Token::Sign(sign) = self.token else {
            if let Token::Name(_) = self.token {
                return self.suffixed();
            }
            return match self.advance()? {
                Token::Number(number) => Ok(Expression::Number(number)),
                Token::String(string) => Ok(Expression::String(string)),
                _ => Err(UNEXPECTED),
            };
        };
        if sign == "(" {
            return self.suffixed();
        }
        if sign == "{" {
            return self.deeper(Self::table);
        }
        self.advance()?;
        match sign {
            "nil" => Ok(Expression::Nil),
            "true" => Ok(Expression::Boolean(true)),
            "false" => Ok(Expression::Boolean(false)),
            "..." if self.scope().is_variadic => Ok(Expression::Variadic),
            "function" => Ok(Expression::Function(self.function(false)?)),
            _ => Err(UNEXPECTED),
        }
    }

    fn table(&mut self) -> Parsed<Expression> {
        self.expect("{")?;
        let (mut values, mut pairs) = (Vec::new(), Vec::new());
        let mut has_brackets = false;
        while !self.is("}") {
            if self.accept("[")? {
                let key = self.expression()?;
                has_brackets |= !matches!(key, Expression::String(_));
                self.expect("]")?;
                self.expect("=")?;
                pairs.push((key, self.expression()?));
            } else {
                // A name may be a key, or the beginning of a value.
                let value = self.expression_or_key()?;
                match value {
                    Ok(value) => values.push(value),
                    Err(name) => {
                        let key = Expression::String(name.as_bytes().into());
                        pairs.push((key, self.expression()?));
                    }
                }
            }
            if !self.accept(",")? && !self.accept(";")? {
                break;
            }
        }
        self.expect("}")?;
        // One calls after the other, as they stand.
        let call_both = values.iter().any(Expression::has_call)
            && pairs.iter().any(|(key, value)| key.has_call() || value.has_call());
        if call_both {
            return Err(Unfit("a table has calls among its values, and among its fields"));
        }
        if has_brackets && !values.is_empty() {
            return Err(Unfit("a table has keys in brackets, and values without keys"));
        }
        Ok(Expression::Table(values, pairs))
    }

    /// A value, or the name behind which `=` stood.
    fn expression_or_key(&mut self) -> Parsed<Result<Expression, Arc<str>>> {
        let Token::Name(name) = &self.token else { return self.expression().map(Ok) };
        let name = Arc::clone(name);
        if self.lexer.is_assigned() {
            self.advance()?;
            self.expect("=")?;
            return Ok(Err(name));
        }
        self.expression().map(Ok)
    }

    fn expression(&mut self) -> Parsed<Expression> {
        self.operation(0)
    }

    /// An expression of operators that bind more tightly than this.
    fn operation(&mut self, limit: u8) -> Parsed<Expression> {
        self.deeper(|parser| {
            /// How tightly what stands before one value binds.
            const UNARY: u8 = 8;
            let mut left = if parser.accept("not")? {
                Expression::Not(Box::new(parser.operation(UNARY)?))
            } else if parser.accept("-")? {
                match parser.operation(UNARY)? {
                    // Lua takes it for the constant zero, or zero for it, whichever came first.
                    Expression::Number(0.0) => return Err(Unfit("zero has a sign")),
                    operand => Expression::Minus(Box::new(operand)),
                }
            } else if parser.accept("#")? {
                Expression::Length(Box::new(parser.operation(UNARY)?))
            } else {
                parser.simple()?
            };
            let mut count = 0;
            while let Token::Sign(sign) = parser.token {
                let Some((_, binds_right)) = binding(sign).filter(|(binds, _)| *binds > limit) else { break };
                count += 1;
                if count > DEPTH_MAX {
                    return Err(Unfit("it nests too deep"));
                }
                parser.advance()?;
                let both = Box::new((left, parser.operation(binds_right)?));
                left = match sign {
                    "and" => Expression::And(both),
                    "or" => Expression::Or(both),
                    _ => Expression::Binary(binary(sign).ok_or(UNEXPECTED)?, both),
                };
            }
            Ok(left)
        })
    }
}

/// The field of a table; that of a library is known already.
fn index(object: Expression, key: Expression) -> Expression {
    let Expression::Library(library) = object else { return Expression::Index(Box::new((object, key))) };
    let Expression::String(name) = key else { return Expression::Unknown };
    match natives::field(library, &name) {
        Some(Named::Native(native)) => Expression::Native(native),
        Some(Named::Number(number)) => Expression::Number(number),
        Some(Named::Null) => Expression::Null,
        Some(Named::Library(_)) | None => Expression::Unknown,
    }
}

fn check_target(target: &Expression) -> Parsed<()> {
    match target {
        Expression::Local(_) | Expression::Captured(_) | Expression::Index(_) | Expression::Unknown => Ok(()),
        _ => Err(Unfit("it assigns to what cannot be assigned")),
    }
}
