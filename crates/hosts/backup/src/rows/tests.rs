//! Rows that are written and read, and rows that are wrong.

use super::*;

fn value(key: &[u8], value: &[u8]) -> CutEntry {
    CutEntry::Value { key: Key::from(key), value: Value::copy_from_slice(value) }
}

#[test]
fn entries_as_lines_of_json() {
    let key = |text: &str| Key::from(text);
    for (entry, line) in [
        (value(b"ada", b"1 \"quoted\"\n"), r#"{"key":"ada","value":"1 \"quoted\"\n"}"#),
        (value(b"\xff", b""), r#"{"key_base64":"/w==","value":""}"#),
        (value("ключ".as_bytes(), b"\0\xfe"), r#"{"key":"ключ","value_base64":"AP4="}"#),
        (
            CutEntry::Count { set: key("s"), element: key("e"), count: -2 },
            r#"{"count":-2,"element":"e","set":"s"}"#,
        ),
        (CutEntry::Counter { counter: key("c"), value: 7 }, r#"{"counter":"c","value":7}"#),
        (
            CutEntry::Procedure { name: "p".to_owned(), version: 3, code: Value::from_static(b"\0asm") },
            r#"{"code_base64":"AGFzbQ==","procedure":"p","version":3}"#,
        ),
    ] {
        let written = Rows::Json.write(&entry).unwrap();
        let same = |text: &str| serde_json::from_str::<Json>(text).unwrap();
        assert_eq!(same(&written), same(line));
        assert_eq!(read_json(&written).as_ref(), Ok(&entry));
    }
}

#[test]
fn lines_of_json_that_are_wrong_say_what_is() {
    for (line, reason) in [
        ("", "this is no JSON"),
        ("[1]", "this is no object"),
        ("{}", "it has none of"),
        (r#"{"key":"a"}"#, "neither \"value\" nor"),
        (r#"{"key":1,"value":"b"}"#, "\"key\" is no text"),
        (r#"{"key":"a","key_base64":"YQ==","value":"b"}"#, "both \"key\" and"),
        (r#"{"key":"a","value_base64":"YQ="}"#, "\"value_base64\" is no base64"),
        (r#"{"key":"a","value":"b","ttl":3}"#, "a field \"ttl\""),
        (r#"{"set":"a","element":"b","count":1.5}"#, "no whole number"),
        (r#"{"counter":"a"}"#, "it has no \"value\""),
        (r#"{"procedure":"a","version":-1,"code_base64":""}"#, "no number of 32 bits"),
    ] {
        let error = read_json(line).unwrap_err();
        assert!(error.contains(reason), "{line}: {error}");
    }
}

#[test]
fn entries_in_csv_come_back_whatever_they_hold() {
    let columns = Columns::read(CSV_HEADER).unwrap();
    for entry in [
        value(b"a", b"b"),
        value(b"a,b", b"\"quoted\""),
        value(b"two\nlines", b""),
        value(b"\xff", b"\0\xfe"),
        value(b"", b"no key"),
    ] {
        let row = Rows::Csv.write(&entry).unwrap();
        assert!(!is_open(row.as_bytes()), "{row}");
        assert_eq!(columns.entry(&row), Ok(entry));
    }
    let counter = CutEntry::Counter { counter: Key::from("c"), value: 1 };
    assert!(Rows::Csv.write(&counter).unwrap_err().contains("lines of JSON"));
}

#[test]
fn files_in_csv_of_others_are_read_by_the_names_of_their_columns() {
    let columns = Columns::read("value,key").unwrap();
    assert_eq!(columns.entry("1,ada"), Ok(value(b"ada", b"1")));
    assert_eq!(columns.entry("\"a \"\"b\"\"\",\"x,y\""), Ok(value(b"x,y", b"a \"b\"")));
    assert!(is_open(b"1,\"ada"), "it goes on");
    for (row, reason) in [
        ("1", "1 fields, and the first line 2"),
        ("1,a\"b", "a quote within"),
        ("1,\"a\"b", "between a quote"),
        ("1,\"a", "not closed"),
    ] {
        let error = columns.entry(row).unwrap_err();
        assert!(error.contains(reason), "{row}: {error}");
    }
    assert!(Columns::read("key,worth").unwrap_err().contains("\"worth\""));
    assert!(Columns::read("key,key_base64").unwrap_err().contains("none for values"));
    let both = Columns::read("key,key_base64,value").unwrap();
    assert!(both.entry("a,YQ==,b").unwrap_err().contains("both as text and in base64"));
}

#[test]
fn base64_as_a_table() {
    for (bytes, text) in [
        (&b""[..], ""),
        (b"f", "Zg=="),
        (b"fo", "Zm8="),
        (b"foo", "Zm9v"),
        (b"foob", "Zm9vYg=="),
        (b"\xfb\xff", "+/8="),
    ] {
        assert_eq!(to_base64(bytes), text);
        assert_eq!(from_base64(text).as_deref(), Some(bytes));
    }
    for wrong in ["Z", "Zg=", "Zg===", "Zg==Zg==", "Z===", "Zh==", "Zm9=", "Zm9 ", "=Zg="] {
        assert_eq!(from_base64(wrong), None, "{wrong}");
    }
}
