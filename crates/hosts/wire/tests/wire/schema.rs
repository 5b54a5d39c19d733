//! The text that clients in other languages compile.

use std::path::Path;

#[test]
fn the_text_is_the_one_of_the_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/wire-format.proto");
    let expected = quorate_wire::schema().proto();
    if std::env::var_os("QUORATE_BLESS").is_some() {
        std::fs::write(&path, &expected).expect("the text can be written");
    }
    let found = std::fs::read_to_string(&path).expect("the text is there");
    let differs = expected.lines().zip(found.lines()).find(|(expected, found)| expected != found);
    assert!(
        found == expected,
        "{differs:?}: `QUORATE_BLESS=1 cargo test -p quorate-wire --test wire schema` writes docs/wire-format.proto anew"
    );
}

/// Field numbers are unique within a message, and no name of a field or an alternative recurs.
#[test]
fn numbers_and_names_are_unique() {
    for message in quorate_wire::schema().messages() {
        let fields = || message.fields.iter().chain(&message.alternatives);
        for field in fields() {
            let same = fields().filter(|other| other.number == field.number || other.name == field.name);
            assert_eq!(same.count(), 1, "{}.{}", message.name, field.name);
            assert!(field.number > 0 && !(19_000..20_000).contains(&field.number), "{}", message.name);
        }
    }
}
