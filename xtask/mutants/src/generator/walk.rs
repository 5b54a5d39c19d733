//! Walks through a file, function by function, and finds its sites.

use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Block, Expr, ReturnType, Stmt, Type};

use super::site::{Form, Mutant, Site};
use super::{expression, skip};

/// Finds the sites of a file in the order in which it is read.
pub(super) fn sites(text: &str, file: &syn::File) -> Vec<Site> {
    let mut walk = Walk { text, owner: String::new(), function: None, sites: Vec::new() };
    walk.visit_file(file);
    walk.sites
}

/// The function around, as far as it is known.
#[derive(Clone)]
struct Function {
    name: String,
    /// True if what it gives is optional; never inside of a closure.
    gives_option: bool,
}

pub(super) struct Walk<'a> {
    pub(super) text: &'a str,
    /// The type whose functions are walked through.
    owner: String,
    function: Option<Function>,
    sites: Vec<Site>,
}

impl<'a> Walk<'a> {
    pub(super) fn text_of(&self, node: &impl Spanned) -> &'a str {
        &self.text[node.span().byte_range()]
    }

    pub(super) fn add(&mut self, range: Range<usize>, form: Form, mutants: Vec<Mutant>) {
        if let Some(function) = &self.function
            && !mutants.is_empty()
        {
            self.sites.push(Site { range, form, function: function.name.clone(), mutants });
        }
    }

    pub(super) fn expression(&mut self, node: &impl Spanned, mutants: Vec<Mutant>) {
        self.add(node.span().byte_range(), Form::Expression, mutants);
    }

    fn within(&mut self, signature: &syn::Signature, block: &Block) {
        let owner = &self.owner;
        let name = match owner.is_empty() {
            true => signature.ident.to_string(),
            false => format!("{owner}::{}", signature.ident),
        };
        let gives =
            |name: &str| matches!(&signature.output, ReturnType::Type(_, given) if is_named(given, name));
        let function = Function { name, gives_option: gives("Option") };
        let outer = self.function.replace(function);
        if gives("bool") {
            let begin = block.brace_token.span.open().byte_range().end;
            // A value that a function gives in any case is no change.
            let only = if let [only] = &block.stmts[..] { self.text_of(only) } else { "" };
            let mutants = [("gives-true", "true"), ("gives-false", "false")].into_iter();
            let mutants = mutants.filter(|(_, given)| *given != only);
            let mutants = mutants.map(|(kind, text)| Mutant { kind, text: text.to_owned() }).collect();
            self.add(begin..begin, Form::Begin, mutants);
        }
        if gives("Option") {
            self.given(block);
        }
        if signature.output == ReturnType::Default
            && let Some(Stmt::Expr(last, None)) = block.stmts.last()
        {
            self.deletable(last, last.span().byte_range());
        }
        self.visit_block(block);
        self.function = outer;
    }

    /// A block gives `None` in place of something.
    fn given(&mut self, block: &Block) {
        if let Some(Stmt::Expr(last, None)) = block.stmts.last() {
            self.given_by(last);
        }
    }

    fn given_by(&mut self, given: &Expr) {
        match given {
            Expr::Block(block) => self.given(&block.block),
            Expr::If(choice) => {
                self.given(&choice.then_branch);
                choice.else_branch.iter().for_each(|(_, branch)| self.given_by(branch));
            }
            Expr::Match(choice) => choice.arms.iter().for_each(|arm| self.given_by(&arm.body)),
            Expr::Call(call) if skip::called(given).as_deref() == Some("Some") => {
                let mutant = Mutant { kind: "gives-none", text: "None".to_owned() };
                self.expression(call, vec![mutant]);
            }
            _ => {}
        }
    }

    /// A statement that can be left out: a call, an assignment, a way out.
    fn deletable(&mut self, expression: &Expr, range: Range<usize>) {
        let kind = match expression {
            _ if !expression::attributes(expression).is_empty() || skip::is_idle(expression) => return,
            // A call whose name begins with a capital makes a value.
            Expr::Call(_)
                if skip::called(expression).is_none_or(|name| name.starts_with(char::is_uppercase)) =>
            {
                return;
            }
            Expr::MethodCall(_) | Expr::Call(_) | Expr::Try(_) => "call-deleted",
            Expr::Assign(_) => "assignment-deleted",
            Expr::Binary(binary) if expression::assigns(&binary.op) => "assignment-deleted",
            Expr::Return(_) | Expr::Continue(_) | Expr::Break(_) => "exit-deleted",
            _ => return,
        };
        self.add(range, Form::Statement, vec![Mutant { kind, text: String::new() }]);
    }

    /// The conditions of `if`, `while` and arms. Those of loops are never made true: that is a hang.
    fn condition(&mut self, condition: &Expr, kinds: (&'static str, &'static str), ends: bool) {
        if skip::asks_for_plant(self.text, condition) {
            return;
        }
        if expression::has_pattern(condition) {
            if ends {
                let mutant = Mutant { kind: "never-matches", text: String::new() };
                self.add(condition.span().byte_range(), Form::Condition, vec![mutant]);
            }
            for operand in expression::conjuncts(condition) {
                let has_pattern = expression::has_pattern(operand);
                if !has_pattern && !skip::asks_for_plant(self.text, operand) {
                    self.expression(operand, vec![Mutant { kind: kinds.0, text: "true".to_owned() }]);
                }
            }
            return;
        }
        let mut mutants = vec![Mutant { kind: kinds.1, text: "false".to_owned() }];
        if ends {
            mutants.push(Mutant { kind: kinds.0, text: "true".to_owned() });
        }
        self.expression(condition, mutants);
    }

    /// The answer of a closure that is asked for each element.
    pub(super) fn answer(&mut self, closure: &Expr) {
        let Expr::Closure(closure) = closure else { return };
        let mut body = &*closure.body;
        while let Expr::Block(block) = body {
            let Some(Stmt::Expr(last, None)) = block.block.stmts.last() else { return };
            body = last;
        }
        if !matches!(body, Expr::If(_) | Expr::Match(_)) {
            self.condition(body, ("answer-true", "answer-false"), true);
        }
    }
}

fn is_named(given: &Type, name: &str) -> bool {
    matches!(given, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == name))
}

impl<'ast> Visit<'ast> for Walk<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !skip::is_test(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if !skip::is_test(&function.attrs) && !skip::skips_function(&function.sig) {
            let owner = std::mem::take(&mut self.owner);
            self.within(&function.sig, &function.block);
            self.owner = owner;
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !skip::skips_impl(item) {
            let owner = match &*item.self_ty {
                Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
                _ => None,
            };
            let outer = std::mem::replace(&mut self.owner, owner.unwrap_or_default());
            visit::visit_item_impl(self, item);
            self.owner = outer;
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !skip::skips_method(function) {
            self.within(&function.sig, &function.block);
        }
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        if !skip::is_test(&item.attrs) {
            let outer = std::mem::replace(&mut self.owner, item.ident.to_string());
            visit::visit_item_trait(self, item);
            self.owner = outer;
        }
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default
            && !skip::is_test(&function.attrs)
            && !skip::skips_function(&function.sig)
        {
            self.within(&function.sig, block);
        }
    }

    // Code that the compiler executes, tokens that are no code, and code that only macros understand.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_path(&mut self, _: &'ast syn::Path) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
    fn visit_macro(&mut self, _: &'ast syn::Macro) {}

    fn visit_block(&mut self, block: &'ast Block) {
        for statement in &block.stmts {
            if let Stmt::Expr(expression, Some(semicolon)) = statement {
                let range = statement.span().byte_range().start..semicolon.span().byte_range().end;
                // A way out that is alone in its block is that of a guard, and never taken if its condition is false.
                if !leaves(expression) || block.stmts.len() > 1 {
                    self.deletable(expression, range);
                }
            }
        }
        visit::visit_block(self, block);
    }

    fn visit_expr_if(&mut self, choice: &'ast syn::ExprIf) {
        if skip::asks_for_plant(self.text, &choice.cond) {
            // The code of a planted bug is as it may be.
            match (&*choice.cond, &choice.else_branch) {
                (Expr::Unary(_), _) => self.visit_block(&choice.then_branch),
                (_, Some((_, branch))) => self.visit_expr(branch),
                (_, None) => {}
            }
            return;
        }
        self.condition(&choice.cond, ("condition-true", "condition-false"), true);
        for branch in
            [Some(&choice.then_branch), choice.else_branch.as_ref().and_then(|(_, last)| block(last))]
        {
            // The value of a choice that is a statement is nothing, and then its last call can be left out.
            if let Some(Stmt::Expr(last, None)) = branch.and_then(|branch| branch.stmts.last()) {
                self.deletable(last, last.span().byte_range());
            }
        }
        visit::visit_expr_if(self, choice);
    }

    fn visit_expr_while(&mut self, repeated: &'ast syn::ExprWhile) {
        self.condition(&repeated.cond, ("condition-true", "condition-false"), false);
        visit::visit_expr_while(self, repeated);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if let syn::Pat::Guard(guarded) = &arm.pat {
            self.condition(&guarded.guard, ("guard-true", "guard-false"), true);
            self.visit_expr(&guarded.guard);
        }
        if !leaves(&arm.body) {
            self.deletable(&arm.body, arm.body.span().byte_range());
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_closure(&mut self, closure: &'ast syn::ExprClosure) {
        let gives_option = self.function.as_mut().map(|function| std::mem::take(&mut function.gives_option));
        visit::visit_expr_closure(self, closure);
        if let (Some(function), Some(gives_option)) = (&mut self.function, gives_option) {
            function.gives_option = gives_option;
        }
    }

    fn visit_expr_return(&mut self, given: &'ast syn::ExprReturn) {
        if let Some(expression) = &given.expr
            && self.function.as_ref().is_some_and(|function| function.gives_option)
        {
            self.given_by(expression);
        }
        visit::visit_expr_return(self, given);
    }

    fn visit_expr(&mut self, expression: &'ast Expr) {
        if expression::attributes(expression).is_empty() {
            expression::mutate(self, expression);
        }
        // Text for people, and the room that is made, are as they may be.
        if skip::is_idle(expression) {
            if let Expr::MethodCall(call) = expression {
                self.visit_expr(&call.receiver);
            }
            return;
        }
        visit::visit_expr(self, expression);
    }
}

fn leaves(expression: &Expr) -> bool {
    matches!(expression, Expr::Return(_) | Expr::Continue(_) | Expr::Break(_))
}

fn block(expression: &Expr) -> Option<&Block> {
    match expression {
        Expr::Block(block) => Some(&block.block),
        _ => None,
    }
}
