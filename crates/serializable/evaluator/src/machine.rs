//! Runs a [`Program`], step by step counted.
//!
//! A run owns its tables, functions and cells, and drops all of them at its end: so nothing is collected meanwhile, and what it makes is bounded instead.

use std::rc::Rc;
use std::sync::Arc;

use crate::library::{Matches, Random};
use crate::natives::{self, Library, Named};
use crate::numbers;
use crate::syntax::{Binary, Capture, Expression, Register, Statement};
use crate::table::Table;
use crate::values::Value;
use crate::{Halt, Host, Limits, Program};

/// How deep expressions, blocks and calls nest while they run.
const DEPTH_MAX: usize = 150;

/// So many values a call passes or returns at most.
const VALUES_MAX: usize = 5_000;

/// The cost of a table, of a value, and of a string beside its bytes, in bytes: what they take with room to spare, the same on every machine.
pub(crate) const TABLE_BYTES: usize = 200;
pub(crate) const VALUE_BYTES: usize = 24;
pub(crate) const STRING_BYTES: usize = 32;

const UNKNOWN: Halt = Halt::Unfit("it uses a function or a variable that shards do not know");

type Ran<T> = Result<T, Halt>;

/// A function with the variables that it has captured.
pub(crate) struct Closure {
    function: usize,
    cells: Rc<[usize]>,
}

/// The variables of a call.
pub(crate) struct Frame {
    registers: Vec<Value>,
    variadic: Vec<Value>,
    cells: Rc<[usize]>,
}

/// How a block has ended.
enum Flow {
    Next,
    Break,
    Return(Vec<Value>),
}

/// One run of a program.
pub(crate) struct Machine<'p, 'h> {
    program: &'p Program,
    pub(crate) host: &'h mut dyn Host,
    pub(crate) is_read_only: bool,
    pub(crate) tables: Vec<Table>,
    closures: Vec<Closure>,
    cells: Vec<Value>,
    pub(crate) matches: Vec<Matches>,
    keys: Value,
    arguments: Value,
    pub(crate) random: Random,
    pub(crate) steps_left: u64,
    bytes_left: usize,
    depth: usize,
    /// How many lines it has logged.
    pub(crate) logged: usize,
}

impl<'p, 'h> Machine<'p, 'h> {
    pub(crate) fn new(
        program: &'p Program,
        host: &'h mut dyn Host,
        limits: Limits,
        is_read_only: bool,
    ) -> Self {
        Machine {
            program,
            host,
            is_read_only,
            tables: Vec::new(),
            closures: Vec::new(),
            cells: Vec::new(),
            matches: Vec::new(),
            keys: Value::Nil,
            arguments: Value::Nil,
            random: Random::default(),
            steps_left: limits.steps_max,
            bytes_left: limits.memory_bytes_max,
            depth: 0,
            logged: 0,
        }
    }

    /// Runs the script, and gives the first value that it returns.
    pub(crate) fn run(&mut self, keys: &[&[u8]], arguments: &[&[u8]]) -> Ran<Value> {
        self.keys = self.list_of(keys)?;
        self.arguments = self.list_of(arguments)?;
        let main = self.program.main;
        let cells = Rc::from([]);
        let values = self.enter(main, cells, Vec::new())?;
        Ok(values.into_iter().next().unwrap_or(Value::Nil))
    }

    fn list_of(&mut self, words: &[&[u8]]) -> Ran<Value> {
        let values = words.iter().map(|word| self.string(word)).collect::<Ran<Vec<Value>>>()?;
        self.table(Table::of_list(values))
    }

    /// Counts work.
    pub(crate) fn spend(&mut self, steps: u64) -> Ran<()> {
        self.steps_left =
            self.steps_left.checked_sub(steps).ok_or(Halt::Unfit("it takes more steps than at a shard"))?;
        Ok(())
    }

    /// Counts memory.
    pub(crate) fn take(&mut self, bytes: usize) -> Ran<()> {
        self.bytes_left =
            self.bytes_left.checked_sub(bytes).ok_or(Halt::Unfit("it takes more memory than at a shard"))?;
        Ok(())
    }

    pub(crate) fn string(&mut self, bytes: impl AsRef<[u8]>) -> Ran<Value> {
        let bytes = bytes.as_ref();
        self.take(bytes.len() + STRING_BYTES)?;
        // To copy bytes is work as well.
        self.spend(bytes.len() as u64 / 256)?;
        Ok(Value::string(bytes))
    }

    pub(crate) fn table(&mut self, table: Table) -> Ran<Value> {
        self.take(TABLE_BYTES + table.bytes())?;
        self.tables.push(table);
        Ok(Value::Table(self.tables.len() - 1))
    }

    pub(crate) fn set(&mut self, table: usize, key: &Value, value: Value) -> Ran<()> {
        let grown = self.tables[table].set(key, value)?;
        // To divide a table anew is work.
        self.spend(grown as u64 / 64)?;
        self.take(grown)
    }

    /// One level deeper.
    fn descend(&mut self) -> Ran<()> {
        self.spend(1)?;
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(Halt::Unfit("it nests too deep")) } else { Ok(()) }
    }

    /// Calls a function.
    pub(crate) fn call(&mut self, callee: &Value, arguments: Vec<Value>) -> Ran<Vec<Value>> {
        if arguments.len() > VALUES_MAX {
            return Err(Halt::Unfit("a call has too many arguments"));
        }
        match callee {
            Value::Function(number) => {
                let closure = &self.closures[*number];
                let (function, cells) = (closure.function, Rc::clone(&closure.cells));
                self.enter(function, cells, arguments)
            }
            Value::Native(native) => {
                self.descend()?;
                let values = self.call_native(*native, arguments)?;
                self.depth -= 1;
                if values.len() > VALUES_MAX {
                    Err(Halt::Unfit("a call returns too many values"))
                } else {
                    Ok(values)
                }
            }
            Value::Matches(number) => self.next_match(*number),
            Value::IpairsStep => self.ipairs_step(&arguments),
            _ => Err(Halt::Unfit("something is called that is no function")),
        }
    }

    /// Runs a function of the script.
    fn enter(&mut self, function: usize, cells: Rc<[usize]>, mut arguments: Vec<Value>) -> Ran<Vec<Value>> {
        self.descend()?;
        let program = self.program;
        let function = &program.functions[function];
        self.take((function.in_cell.len() + arguments.len()) * VALUE_BYTES)?;
        let behind = arguments.len().min(function.parameters);
        let variadic = if function.is_variadic { arguments.split_off(behind) } else { Vec::new() };
        arguments.truncate(function.parameters);
        arguments.resize(function.in_cell.len(), Value::Nil);
        let mut frame = Frame { registers: arguments, variadic, cells };
        for register in (0..function.parameters).filter(|register| function.in_cell[*register]) {
            let value = std::mem::replace(&mut frame.registers[register], Value::Nil);
            frame.registers[register] = self.cell(value)?;
        }
        let flow = self.block(&mut frame, function.in_cell.as_slice(), &function.body)?;
        self.depth -= 1;
        Ok(if let Flow::Return(values) = flow { values } else { Vec::new() })
    }

    fn cell(&mut self, value: Value) -> Ran<Value> {
        self.take(VALUE_BYTES)?;
        self.cells.push(value);
        Ok(Value::Cell(self.cells.len() - 1))
    }

    /// Gives a variable that is declared its value.
    fn declare(&mut self, frame: &mut Frame, in_cell: &[bool], register: Register, value: Value) -> Ran<()> {
        frame.registers[register] = if in_cell[register] { self.cell(value)? } else { value };
        Ok(())
    }

    fn block(&mut self, frame: &mut Frame, in_cell: &[bool], block: &'p [Statement]) -> Ran<Flow> {
        self.descend()?;
        for statement in block {
            self.spend(1)?;
            match self.statement(frame, in_cell, statement)? {
                Flow::Next => {}
                flow => {
                    self.depth -= 1;
                    return Ok(flow);
                }
            }
        }
        self.depth -= 1;
        Ok(Flow::Next)
    }

    fn statement(&mut self, frame: &mut Frame, in_cell: &[bool], statement: &'p Statement) -> Ran<Flow> {
        match statement {
            Statement::Local(registers, values) => {
                if let ([register], [value]) = (registers.as_slice(), values.as_slice()) {
                    let value = self.value(frame, value)?;
                    self.declare(frame, in_cell, *register, value)?;
                    return Ok(Flow::Next);
                }
                let mut values = self.values(frame, values)?.into_iter();
                for register in registers {
                    self.declare(frame, in_cell, *register, values.next().unwrap_or(Value::Nil))?;
                }
            }
            Statement::LocalFunction(register, function) => {
                self.declare(frame, in_cell, *register, Value::Nil)?;
                let value = self.closure(frame, *function)?;
                self.assign_register(frame, *register, value);
            }
            Statement::Assign(targets, values) => self.assign(frame, targets, values)?,
            Statement::Call(call) => drop(self.many(frame, call)?),
            Statement::Do(block) => return self.block(frame, in_cell, block),
            Statement::If(branches, otherwise) => {
                for (condition, block) in branches {
                    if self.value(frame, condition)?.is_true() {
                        return self.block(frame, in_cell, block);
                    }
                }
                return self.block(frame, in_cell, otherwise);
            }
            Statement::While(condition, block) => {
                while self.value(frame, condition)?.is_true() {
                    match self.block(frame, in_cell, block)? {
                        Flow::Next => {}
                        Flow::Break => break,
                        flow => return Ok(flow),
                    }
                }
            }
            Statement::Repeat(block, condition) => loop {
                match self.block(frame, in_cell, block)? {
                    Flow::Next => {}
                    Flow::Break => break,
                    flow => return Ok(flow),
                }
                if self.value(frame, condition)?.is_true() {
                    break;
                }
            },
            Statement::Count { register, first, last, step, body } => {
                let (first, last) = (self.value(frame, first)?, self.value(frame, last)?);
                let step = match step {
                    Some(step) => self.value(frame, step)?,
                    None => Value::Number(1.0),
                };
                let (first, last, step) = (self.number(&first)?, self.number(&last)?, self.number(&step)?);
                let mut at = first - step;
                loop {
                    at += step;
                    if !(if step > 0.0 { at <= last } else { last <= at }) {
                        break;
                    }
                    self.declare(frame, in_cell, *register, Value::Number(at))?;
                    match self.block(frame, in_cell, body)? {
                        Flow::Next => {}
                        Flow::Break => break,
                        flow => return Ok(flow),
                    }
                }
            }
            Statement::Each { registers, from, body } => {
                return self.each(frame, in_cell, (registers, from, body));
            }
            Statement::Return(values) => {
                return Ok(Flow::Return(match values.as_slice() {
                    [one] if !one.is_many() => vec![self.value(frame, one)?],
                    values => self.values(frame, values)?,
                }));
            }
            Statement::Break => return Ok(Flow::Break),
        }
        Ok(Flow::Next)
    }

    fn each(
        &mut self,
        frame: &mut Frame,
        in_cell: &[bool],
        (registers, from, body): (&'p [Register], &'p [Expression], &'p [Statement]),
    ) -> Ran<Flow> {
        let mut values = self.values(frame, from)?.into_iter();
        let mut next = || values.next().unwrap_or(Value::Nil);
        let (step, state, mut control) = (next(), next(), next());
        loop {
            self.spend(1)?;
            let mut values = self.call(&step, vec![state.clone(), control])?.into_iter();
            let first = values.next().unwrap_or(Value::Nil);
            if first.is_nil() {
                return Ok(Flow::Next);
            }
            control = first.clone();
            let values = std::iter::once(first).chain(values).chain(std::iter::repeat(Value::Nil));
            for (register, value) in registers.iter().zip(values) {
                self.declare(frame, in_cell, *register, value)?;
            }
            match self.block(frame, in_cell, body)? {
                Flow::Next => {}
                Flow::Break => return Ok(Flow::Next),
                flow => return Ok(flow),
            }
        }
    }

    fn assign(&mut self, frame: &mut Frame, targets: &'p [Expression], values: &'p [Expression]) -> Ran<()> {
        if let ([target], [value]) = (targets, values) {
            let place = self.place(frame, target, true)?;
            let value = self.value(frame, value)?;
            return self.store(frame, target, place, value);
        }
        let places =
            targets.iter().map(|target| self.place(frame, target, false)).collect::<Ran<Vec<_>>>()?;
        let mut values = self.values(frame, values)?;
        values.resize(targets.len(), Value::Nil);
        // The last one first, as Lua does.
        for ((target, place), value) in targets.iter().zip(places).zip(values).rev() {
            self.store(frame, target, place, value)?;
        }
        Ok(())
    }

    /// The table and the key that are assigned to. Lua looks at those in variables once the value is known, where it is the only one.
    fn place(
        &mut self,
        frame: &mut Frame,
        target: &'p Expression,
        is_late: bool,
    ) -> Ran<(Option<Value>, Option<Value>)> {
        let Expression::Index(both) = target else { return Ok((None, None)) };
        let mut part = |part: &'p Expression| -> Ran<Option<Value>> {
            if is_late && matches!(part, Expression::Local(_)) {
                Ok(None)
            } else {
                self.value(frame, part).map(Some)
            }
        };
        Ok((part(&both.0)?, part(&both.1)?))
    }

    fn store(
        &mut self,
        frame: &mut Frame,
        target: &'p Expression,
        (object, key): (Option<Value>, Option<Value>),
        value: Value,
    ) -> Ran<()> {
        match target {
            Expression::Local(register) => self.assign_register(frame, *register, value),
            Expression::Captured(at) => self.cells[frame.cells[*at]] = value,
            Expression::Index(both) => {
                let object = object.map_or_else(|| self.value(frame, &both.0), Ok)?;
                let key = key.map_or_else(|| self.value(frame, &both.1), Ok)?;
                let Value::Table(table) = object else {
                    return Err(Halt::Unfit("what is no table is assigned to"));
                };
                self.set(table, &key, value)?;
            }
            _ => return Err(Halt::Unfit("it assigns to what cannot be assigned")),
        }
        Ok(())
    }

    fn assign_register(&mut self, frame: &mut Frame, register: Register, value: Value) {
        match frame.registers[register] {
            Value::Cell(cell) => self.cells[cell] = value,
            _ => frame.registers[register] = value,
        }
    }

    fn closure(&mut self, frame: &Frame, function: usize) -> Ran<Value> {
        let program = self.program;
        let captures = &program.functions[function].captures;
        self.take(TABLE_BYTES + captures.len() * VALUE_BYTES)?;
        let cell = |capture: &Capture| match *capture {
            Capture::Captured(at) => Ok(frame.cells[at]),
            Capture::Register(register) => match frame.registers[register] {
                Value::Cell(cell) => Ok(cell),
                _ => Err(Halt::Unfit("a variable is captured before it is declared")),
            },
        };
        let cells = captures.iter().map(cell).collect::<Ran<Rc<[usize]>>>()?;
        self.closures.push(Closure { function, cells });
        Ok(Value::Function(self.closures.len() - 1))
    }

    /// The values of a list, whose last expression may have any number of them.
    fn values(&mut self, frame: &mut Frame, list: &'p [Expression]) -> Ran<Vec<Value>> {
        let Some((last, others)) = list.split_last() else { return Ok(Vec::new()) };
        let mut values = Vec::with_capacity(list.len());
        for other in others {
            values.push(self.value(frame, other)?);
        }
        if last.is_many() {
            values.append(&mut self.many(frame, last)?);
        } else {
            values.push(self.value(frame, last)?);
        }
        self.take(values.len() * VALUE_BYTES)?;
        Ok(values)
    }

    /// All values of an expression.
    fn many(&mut self, frame: &mut Frame, expression: &'p Expression) -> Ran<Vec<Value>> {
        match expression {
            Expression::Variadic => {
                self.spend(frame.variadic.len() as u64)?;
                Ok(frame.variadic.clone())
            }
            Expression::Call(callee, arguments) => {
                let callee = self.value(frame, callee)?;
                let arguments = self.values(frame, arguments)?;
                self.call(&callee, arguments)
            }
            Expression::Method(object, name, arguments) => {
                let object = self.value(frame, object)?;
                let callee = self.index(&object, &Value::String(Arc::clone(name)))?;
                let mut all = vec![object];
                all.append(&mut self.values(frame, arguments)?);
                self.call(&callee, all)
            }
            other => Ok(vec![self.value(frame, other)?]),
        }
    }

    /// The value of an expression: the first one, if there are several.
    fn value(&mut self, frame: &mut Frame, expression: &'p Expression) -> Ran<Value> {
        self.descend()?;
        let value = match expression {
            Expression::Nil => Value::Nil,
            Expression::Boolean(flag) => Value::Boolean(*flag),
            Expression::Number(number) => Value::Number(*number),
            Expression::String(string) => Value::String(Arc::clone(string)),
            Expression::Variadic => frame.variadic.first().cloned().unwrap_or(Value::Nil),
            Expression::Local(register) => match &frame.registers[*register] {
                Value::Cell(cell) => self.cells[*cell].clone(),
                value => value.clone(),
            },
            Expression::Captured(at) => self.cells[frame.cells[*at]].clone(),
            Expression::Keys => self.keys.clone(),
            Expression::Arguments => self.arguments.clone(),
            Expression::Null => Value::Null,
            Expression::Unknown => return Err(UNKNOWN),
            Expression::Native(native) => Value::Native(*native),
            Expression::Library(library) => Value::Library(*library),
            Expression::Index(both) => {
                let (object, key) = self.both(frame, both)?;
                self.index(&object, &key)?
            }
            Expression::Call(..) | Expression::Method(..) => {
                self.many(frame, expression)?.into_iter().next().unwrap_or(Value::Nil)
            }
            Expression::Function(function) => self.closure(frame, *function)?,
            Expression::Binary(Binary::Concatenate, both) => self.concatenation(frame, both)?,
            Expression::Binary(operator, both) => {
                let (left, right) = self.both(frame, both)?;
                self.binary(*operator, &left, &right)?
            }
            Expression::And(both) => match self.value(frame, &both.0)? {
                left if left.is_true() => self.value(frame, &both.1)?,
                left => left,
            },
            Expression::Or(both) => match self.value(frame, &both.0)? {
                left if left.is_true() => left,
                _ => self.value(frame, &both.1)?,
            },
            Expression::Not(operand) => Value::Boolean(!self.value(frame, operand)?.is_true()),
            Expression::Minus(operand) => {
                let operand = self.value(frame, operand)?;
                Value::Number(-self.number(&operand)?)
            }
            Expression::Length(operand) => match self.value(frame, operand)? {
                Value::String(string) => Value::Number(string.len() as f64),
                Value::Table(table) => Value::Number(self.tables[table].length()? as f64),
                _ => return Err(Halt::Unfit("the length of what has none is asked for")),
            },
            Expression::Only(inner) => self.value(frame, inner)?,
            Expression::Table(values, pairs) => {
                // A call at the end may return any number of values, for which there is no room before.
                let written = values.len() - usize::from(values.last().is_some_and(Expression::is_many));
                let table = Table::of_expression(self.values(frame, values)?, written, pairs.len());
                let value = self.table(table)?;
                for (key, field) in pairs {
                    let (key, field) = (self.value(frame, key)?, self.value(frame, field)?);
                    let Value::Table(table) = value else { continue };
                    self.set(table, &key, field)?;
                }
                value
            }
        };
        self.depth -= 1;
        Ok(value)
    }

    /// Two operands. Lua looks at a variable on the left once the right one is known.
    fn both(&mut self, frame: &mut Frame, both: &'p (Expression, Expression)) -> Ran<(Value, Value)> {
        if let (Expression::Local(_), right) = both {
            let right = self.value(frame, right)?;
            return Ok((self.value(frame, &both.0)?, right));
        }
        Ok((self.value(frame, &both.0)?, self.value(frame, &both.1)?))
    }

    fn concatenation(&mut self, frame: &mut Frame, both: &'p (Expression, Expression)) -> Ran<Value> {
        // All operands first, from the left, as Lua does; then the whole at once.
        let (mut parts, mut rest) = (vec![self.value(frame, &both.0)?], &both.1);
        while let Expression::Binary(Binary::Concatenate, further) = rest {
            parts.push(self.value(frame, &further.0)?);
            rest = &further.1;
        }
        parts.push(self.value(frame, rest)?);
        let mut bytes = Vec::new();
        for part in &parts {
            match part {
                Value::String(string) => bytes.extend_from_slice(string),
                Value::Number(number) => bytes.extend_from_slice(numbers::text(*number)?.as_bytes()),
                _ => return Err(Halt::Unfit("what is no text is concatenated")),
            }
            self.check_bytes(bytes.len())?;
            self.spend(1)?;
        }
        self.string(bytes)
    }

    /// The field of a table, or of the library of strings.
    fn index(&mut self, object: &Value, key: &Value) -> Ran<Value> {
        match (object, key) {
            (Value::Table(table), key) => Ok(self.tables[*table].get(key)),
            (Value::String(_), Value::String(name)) => library_field(Library::String, name),
            (Value::Library(library), Value::String(name)) => library_field(*library, name),
            _ => Err(Halt::Unfit("what is no table is indexed")),
        }
    }

    fn ipairs_step(&mut self, arguments: &[Value]) -> Ran<Vec<Value>> {
        let [Value::Table(table), Value::Number(at), ..] = arguments else {
            return Err(Halt::Unfit("a list is gone through in a way of its own"));
        };
        let at = Value::Number(at + 1.0);
        let value = self.tables[*table].get(&at);
        Ok(if value.is_nil() { vec![Value::Nil] } else { vec![at, value] })
    }
}

fn library_field(library: Library, name: &[u8]) -> Ran<Value> {
    match natives::field(library, name) {
        Some(Named::Native(native)) => Ok(Value::Native(native)),
        Some(Named::Number(number)) => Ok(Value::Number(number)),
        Some(Named::Null) => Ok(Value::Null),
        Some(Named::Library(_)) | None => Err(UNKNOWN),
    }
}
