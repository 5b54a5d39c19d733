//! Messages that others write are read, and written again to the byte, at exactly the length that was announced.

use crate::roots::{self, Root};
use crate::{cases, generate};

fn are_read_and_written_again(roots: &[Root]) {
    cases(1_000, |random| {
        for root in roots {
            let message = generate::message(&root.name, random);
            let bytes = generate::write(&root.name, &message);
            let again =
                (root.again)(&bytes).unwrap_or_else(|error| panic!("{}: {error}: {message:?}", root.name));
            assert_eq!(again, bytes, "{}: {message:?}", root.name);
        }
    });
}

#[test]
fn every_message_is_read_and_written_again() {
    are_read_and_written_again(&roots::messages());
}

#[test]
fn every_record_is_read_and_written_again() {
    are_read_and_written_again(&roots::records());
}

#[test]
fn every_value_of_the_catalogue_is_read_and_written_again() {
    are_read_and_written_again(&roots::values());
}

#[test]
fn every_operation_and_every_answer_is_read_and_written_again() {
    are_read_and_written_again(&roots::operations());
}
