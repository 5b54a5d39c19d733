//! Calls that name no keys, against a fake coordinator.

use std::time::Duration;

use quorate_core::Value;
use quorate_core::topology::Isolation;
use quorate_serializable_shard::{Deploy, Operation, Refusal, Remove};

use super::{Call, InvalidProcedure};
use crate::fake::Fake;
use crate::{Error, Invalid, Keyspace, Options};

fn accounts(fake: &Fake) -> Keyspace {
    fake.keyspace_of(Isolation::Serializable, Options::default())
}

fn deploy(version: u32, touches: &'static str) -> Option<Operation> {
    let (name, code) = ("p".to_owned(), Value::from_static(touches.as_bytes()));
    Some(Operation::Deploy(Deploy { name, version, code }))
}

fn remove(version: u32) -> Option<Operation> {
    Some(Operation::Remove(Remove { name: "p".to_owned(), version }))
}

fn missing(result: crate::Result<super::Answers>) -> u32 {
    match result {
        Err(Error::Refused { refusal, .. }) => match *refusal {
            Refusal::NoSuchProcedure { version, .. } => version,
            other => panic!("{other}"),
        },
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_call_that_names_no_keys_asks_the_procedure_first() {
    let fake = Fake::default();
    let accounts = accounts(&fake);
    fake.meanwhile([deploy(1, "ARGUMENTS")]);
    // One key, several at both shards, none at all.
    for (arguments, answers, class) in
        [("a", 1, "Independent"), ("a b c d e f", 2, "Coordinated"), ("", 1, "Independent")]
    {
        let called = accounts.call(Call::new("p").arguments(arguments)).await.unwrap();
        assert_eq!(called.answers, vec![Value::from(format!("ARGUMENTS {arguments}")); answers]);
        let heard = fake.heard();
        let [.., asked, executed] = &heard[..] else { panic!("{heard:?}") };
        assert!(asked.ends_with("ReadOnly") && executed.ends_with(class), "{heard:?}");
    }
    accounts.call(Call::new("p").arguments("a b c d e f").read_only()).await.unwrap();
    accounts.call(Call::new("p").arguments("a b c d e f").independent()).await.unwrap();
    let heard = fake.heard();
    let classes: Vec<_> = heard[6..].iter().filter_map(|heard| heard.split(' ').next_back()).collect();
    assert_eq!(classes, ["ReadOnly", "ReadOnly", "ReadOnly", "Independent"]);
    // A caller that knows where it is to be called need not ask.
    accounts.call(Call::new("p").at(["a"])).await.unwrap();
    accounts.call(Call::new("p").keys(["a"])).await.unwrap();
    assert_eq!(fake.heard().len(), 12);
}

#[tokio::test]
async fn what_may_touch_any_key_is_not_called_without_saying_where() {
    let fake = Fake::default();
    let accounts = accounts(&fake);
    fake.meanwhile([deploy(1, "*")]);
    let error = accounts.call(Call::new("p")).await.unwrap_err();
    let expected = InvalidProcedure::WithoutKeys { name: "p".to_owned() };
    assert!(matches!(&error, Error::Invalid(Invalid::Procedure(error)) if *error == expected), "{error}");
    assert_eq!(fake.heard().len(), 1);
    let error = accounts.call(Call::new("p").version(7)).await;
    assert_eq!(missing(error), 7, "there is none to ask");
    let error = accounts.call(Call::new("")).await.unwrap_err();
    assert!(matches!(error, Error::Invalid(Invalid::Procedure(InvalidProcedure::Limit { .. }))), "{error}");
    assert_eq!(fake.heard().len(), 2, "what no shard would take is not sent");
}

#[tokio::test]
async fn the_version_that_is_called_is_the_one_that_was_asked() {
    let fake = Fake::default();
    let accounts = accounts(&fake);
    // A greater one is deployed in between.
    fake.meanwhile([deploy(1, "a"), deploy(2, "b c d e f g")]);
    let called = accounts.call(Call::new("p")).await.unwrap();
    assert_eq!(called.answers, ["a "]);
    // The greatest is removed in between: then it is the one before.
    fake.meanwhile([None, remove(2)]);
    let called = accounts.call(Call::new("p")).await.unwrap();
    assert_eq!((called.answers.as_slice(), fake.heard().len()), (&[Value::from("a ")][..], 6));
    // A caller that wants this version and no other is told.
    fake.meanwhile([None, remove(1)]);
    assert_eq!(missing(accounts.call(Call::new("p").version(1)).await), 1);
    assert_eq!(fake.heard().len(), 8);
    // None is left.
    fake.meanwhile([deploy(3, "a"), remove(3)]);
    assert_eq!(missing(accounts.call(Call::new("p")).await), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_removed_each_time_is_not_asked_for_ever() {
    let fake = Fake::default();
    let accounts = accounts(&fake).with_deadline(Duration::ZERO);
    fake.meanwhile([deploy(1, "a"), remove(1), deploy(2, "a")]);
    assert_eq!(missing(accounts.call(Call::new("p")).await), 1);
}
