//! `table`.

use super::{Values, WRONG, argument, table};
use crate::Halt;
use crate::machine::{Machine, VALUE_BYTES};
use crate::natives::Native;
use crate::numbers;
use crate::values::Value;

impl Machine<'_, '_> {
    pub(super) fn list_function(&mut self, native: Native, arguments: &[Value]) -> Values {
        let of = table(arguments, 0)?;
        match native {
            Native::Count => Ok(vec![Value::Number(self.tables[of].length()? as f64)]),
            Native::Concatenate => self.join(of, arguments),
            Native::Insert => self.insert(of, arguments),
            Native::Remove => self.remove(of, arguments),
            _ => self.sort(of, argument(arguments, 1)),
        }
    }

    fn join(&mut self, of: usize, arguments: &[Value]) -> Values {
        let separator = if argument(arguments, 1).is_nil() { [].into() } else { self.text(arguments, 1)? };
        let first = self.integer_or(arguments, 2, 1)?;
        let last = match argument(arguments, 3) {
            Value::Nil => self.tables[of].length()? as i64,
            _ => self.integer(arguments, 3)?,
        };
        let mut bytes = Vec::new();
        for at in first..=last {
            self.spend(1)?;
            match self.tables[of].get(&Value::Number(at as f64)) {
                Value::String(string) => bytes.extend_from_slice(&string),
                Value::Number(number) => bytes.extend_from_slice(numbers::text(number)?.as_bytes()),
                _ => return Err(WRONG),
            }
            if at < last {
                bytes.extend_from_slice(&separator);
            }
            self.check_bytes(bytes.len())?;
        }
        Ok(vec![self.string(bytes)?])
    }

    fn insert(&mut self, of: usize, arguments: &[Value]) -> Values {
        let end = self.tables[of].length()? + 1;
        let (at, value) = match arguments {
            [_, value] => (end, value.clone()),
            // Positions before the first are fields.
            [_, _, value] => {
                (usize::try_from(self.integer(arguments, 1)?.max(0)).unwrap_or(0), value.clone())
            }
            _ => return Err(WRONG),
        };
        if at == 0 {
            return Err(WRONG);
        }
        let end = end.max(at);
        self.spend((end - at) as u64)?;
        for to in (at + 1..=end).rev() {
            let moved = self.tables[of].at(to - 1);
            self.set(of, &Value::Number(to as f64), moved)?;
        }
        self.set(of, &Value::Number(at as f64), value)?;
        Ok(Vec::new())
    }

    fn remove(&mut self, of: usize, arguments: &[Value]) -> Values {
        let length = self.tables[of].length()?;
        let at = self.integer_or(arguments, 1, length as i64)?;
        let Some(at) = usize::try_from(at).ok().filter(|at| (1..=length).contains(at)) else {
            return Ok(Vec::new());
        };
        self.spend((length - at) as u64)?;
        let removed = self.tables[of].at(at);
        for to in at..length {
            let moved = self.tables[of].at(to + 1);
            self.set(of, &Value::Number(to as f64), moved)?;
        }
        self.set(of, &Value::Number(length as f64), Value::Nil)?;
        Ok(vec![removed])
    }

    /// Sorts as Lua does, comparison by comparison: where the order leaves a choice, the result is the same.
    fn sort(&mut self, of: usize, is_before: &Value) -> Values {
        if !is_before.is_nil() && is_before.type_name() != "function" {
            return Err(WRONG);
        }
        let length = self.tables[of].length()?;
        self.spend(length as u64)?;
        self.take(length * VALUE_BYTES)?;
        let mut list: Vec<Value> = (1..=length).map(|at| self.tables[of].at(at)).collect();
        if let Some(last) = length.checked_sub(1) {
            self.sort_part(&mut list, (0, last), is_before)?;
        }
        for (at, value) in list.into_iter().enumerate() {
            self.set(of, &Value::Number((at + 1) as f64), value)?;
        }
        Ok(Vec::new())
    }

    fn is_before(&mut self, one: &Value, other: &Value, is_before: &Value) -> Result<bool, Halt> {
        self.spend(1)?;
        if is_before.is_nil() {
            return self.is_less(one, other);
        }
        let is = self.call(is_before, vec![one.clone(), other.clone()])?;
        Ok(is.first().is_some_and(Value::is_true))
    }

    /// Sorts from one position to another: quicksort with the median of three, the smaller part first.
    fn sort_part(
        &mut self,
        list: &mut [Value],
        (mut low, mut high): (usize, usize),
        order: &Value,
    ) -> Result<(), Halt> {
        while low < high {
            if self.is_before(&list[high], &list[low], order)? {
                list.swap(low, high);
            }
            if high - low == 1 {
                break;
            }
            // Lua counts from one.
            let middle = (low + high + 2) / 2 - 1;
            if self.is_before(&list[middle], &list[low], order)? {
                list.swap(middle, low);
            } else if self.is_before(&list[high], &list[middle], order)? {
                list.swap(middle, high);
            }
            if high - low == 2 {
                break;
            }
            let pivot = list[middle].clone();
            list.swap(middle, high - 1);
            let at = self.partition(list, (low, high), &pivot, order)?;
            let smaller = if at - low < high - at {
                let part = (low, at.saturating_sub(1));
                low = at + 1;
                part
            } else {
                let part = (at + 1, high);
                high = at.saturating_sub(1);
                part
            };
            self.sort_part(list, smaller, order)?;
        }
        Ok(())
    }

    /// Divides a part by what is before the pivot, which lies last but one; gives its new place.
    fn partition(
        &mut self,
        list: &mut [Value],
        (low, high): (usize, usize),
        pivot: &Value,
        order: &Value,
    ) -> Result<usize, Halt> {
        const INVALID: Halt = Halt::Unfit("a list is sorted by what is no order");
        let (mut from, mut to) = (low, high - 1);
        loop {
            from += 1;
            while self.is_before(list.get(from).ok_or(INVALID)?, pivot, order)? {
                from += 1;
                if from > high {
                    return Err(INVALID);
                }
            }
            to -= 1;
            while self.is_before(pivot, &list[to], order)? {
                if to <= low {
                    return Err(INVALID);
                }
                to -= 1;
            }
            if to < from {
                break;
            }
            list.swap(from, to);
        }
        list.swap(high - 1, from);
        Ok(from)
    }
}
