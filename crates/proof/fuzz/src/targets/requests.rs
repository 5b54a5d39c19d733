//! Requests of a door to a shard, and the answers: bytes between nodes, which a client that is no door can send as well.

use quorate_core::Random;
use quorate_procedure::{Answer as Ended, Memory, Procedure};
use quorate_redis_commands::{Answer, Commands, Request};

use super::commands::{NOW, draw_words};
use crate::Target;

pub(super) const TARGET: Target = Target {
    name: "requests",
    what: "what a door asks a shard for: any bytes are refused or carried out, and what is read is written alike",
    draw,
    run,
};

fn draw(random: &mut Random) -> Vec<u8> {
    let commands: Vec<Vec<Vec<u8>>> = (0..random.between(1, 5)).map(|_| draw_words(random)).collect();
    let commands = commands.iter().map(|words| words.iter().map(Vec::as_slice).collect()).collect();
    let watched = if random.chance(0.3) { vec![(&b"t1"[..], random.below(2))] } else { Vec::new() };
    let clock = if random.chance(0.2) { NOW } else { 0 };
    Request { seed: random.next_u64(), clock, watched, commands }.encode()
}

fn run(input: &[u8]) {
    let mut memory = Memory { timestamp: Some(NOW), ..Memory::default() };
    drop(Commands.footprint(input));
    drop(Commands.named(input));
    if let Ok(request) = Request::decode(input) {
        assert_eq!(Request::decode(&request.encode()).as_ref(), Ok(&request));
    }
    if let Ok(answer) = Answer::decode(input) {
        let again = Answer::decode(&answer.encode());
        // A score that is no number differs from itself.
        assert_eq!(format!("{again:?}"), format!("{:?}", Ok::<_, quorate_redis_commands::Malformed>(answer)));
    }
    match memory.call(&Commands, input, false) {
        Ok(Ended::Done(answer)) => assert!(Answer::decode(&answer).is_ok(), "a door cannot read this answer"),
        Ok(Ended::Refused(reason)) => assert!(std::str::from_utf8(&reason).is_ok()),
        Err(stop) => panic!("a shard that has everything stops for nothing: {stop:?}"),
    }
}
