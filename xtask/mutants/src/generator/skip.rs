//! Code without mutants: tests, text for people, bugs that are planted already.

use syn::{Attribute, Expr, ImplItemFn, Item, ItemImpl};

/// Traits whose functions say something to people, or are not reached by a protocol.
const TRAITS: [&str; 5] = ["Debug", "Display", "Error", "Describe", "FromStr"];

/// Functions whose result is text.
const FUNCTIONS: [&str; 6] = ["fmt", "describe", "name", "label", "what", "section"];

/// Calls that are executed for people, or for speed alone: nothing that a protocol promises changes without them.
const CALLS: [&str; 7] =
    ["ignored", "trace", "reserve", "shrink_to_fit", "with_capacity", "black_box", "drop"];

/// Calls that ask whether a bug is planted.
const PLANTS: [&str; 2] = ["has", "makes"];

/// True if an item exists for tests alone.
pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        path.is_ident("test")
            || path.is_ident("cfg") && {
                let syn::Meta::List(list) = &attribute.meta else { return false };
                let tokens = list.tokens.to_string();
                tokens == "test" || tokens.starts_with("any (test") || tokens.starts_with("any(test")
            }
    })
}

/// The names of the modules of a file that exist for tests alone, and have files of their own.
pub(crate) fn modules_of_tests(text: &str) -> Vec<String> {
    let items = syn::parse_file(text).map(|file| file.items).unwrap_or_default();
    let modules = items.into_iter().filter_map(|item| match item {
        Item::Mod(module) if module.content.is_none() && is_test(&module.attrs) => {
            Some(module.ident.to_string())
        }
        _ => None,
    });
    modules.collect()
}

pub(crate) fn skips_impl(item: &ItemImpl) -> bool {
    let name =
        item.trait_.as_ref().and_then(|(path, _)| path.segments.last().map(|last| last.ident.to_string()));
    is_test(&item.attrs) || name.is_some_and(|name| TRAITS.contains(&name.as_str()))
}

pub(crate) fn skips_method(function: &ImplItemFn) -> bool {
    is_test(&function.attrs) || skips_function(&function.sig)
}

/// Constant functions are executed by the compiler too, which knows no environment.
pub(crate) fn skips_function(signature: &syn::Signature) -> bool {
    signature.constness.is_some() || FUNCTIONS.contains(&signature.ident.to_string().as_str())
}

/// The name of the function that an expression calls.
pub(crate) fn called(expression: &Expr) -> Option<String> {
    match expression {
        Expr::MethodCall(call) => Some(call.method.to_string()),
        Expr::Call(call) => match &*call.func {
            Expr::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
            _ => None,
        },
        Expr::Try(tried) => called(&tried.expr),
        _ => None,
    }
}

/// True if what is called does nothing for the protocol.
pub(crate) fn is_idle(expression: &Expr) -> bool {
    called(expression).is_some_and(|name| CALLS.contains(&name.as_str()))
}

/// True if an expression only asks whether a bug is planted: it is planted, or not, by other tests.
pub(crate) fn asks_for_plant(text: &str, expression: &Expr) -> bool {
    match expression {
        Expr::Unary(unary) => asks_for_plant(text, &unary.expr),
        Expr::Paren(inner) => asks_for_plant(text, &inner.expr),
        Expr::MethodCall(call) => {
            PLANTS.contains(&call.method.to_string().as_str())
                && call.args.iter().any(|argument| {
                    let argument = &text[syn::spanned::Spanned::span(argument).byte_range()];
                    argument.contains("Plant::") || argument.contains("Mistake::")
                })
        }
        _ => false,
    }
}
