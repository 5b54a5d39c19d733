//! A slow commit against a stream of fast ones: between the snapshot of each attempt and its request for locks, somebody writes at the preferred site.

use quorate_walter::{Plant, Rules};

use crate::scripts::world::World;

/// After so many attempts it has starved.
const ATTEMPTS_MAX: u32 = 20;

/// How many attempts a slow commit takes; none if it starves.
fn attempts(rules: Rules) -> Option<u32> {
    let mut world = World::new(rules);
    let mut told = |line: &str| world.command(line);
    told("cluster sites=2");
    let mut number = 0;
    let mut write_fast = |told: &mut dyn FnMut(&str) -> Vec<String>| {
        number += 1;
        told(&format!("begin c1 {number}"));
        told(&format!("put c1 {number} a fast{number}"));
        told(&format!("commit c1 {number}"));
        told("deliver");
    };
    for attempt in 0..ATTEMPTS_MAX {
        let slow = if attempt == 0 { "1".to_owned() } else { format!("1/{attempt}") };
        write_fast(&mut told);
        told(&format!("begin c2 {slow}"));
        told(&format!("get c2 {slow} a"));
        told("deliver");
        told(&format!("put c2 {slow} a slow"));
        write_fast(&mut told);
        told(&format!("commit c2 {slow}"));
        let ended = told("deliver");
        if ended.iter().any(|line| line.starts_with(&format!("  c2.{slow} COMMITTED"))) {
            return Some(attempt + 1);
        }
        // The way to the client's site and back, and its pause: what was written before the refusal has come there by then.
        for _ in 0..2 {
            told("advance 5");
            told("deliver");
        }
    }
    None
}

#[test]
fn a_slow_commit_gets_through_a_stream_of_fast_ones() {
    let attempts = attempts(Rules::SOUND);
    assert!(attempts.is_some_and(|attempts| attempts <= 3), "{attempts:?} attempts");
}

#[test]
fn without_reservations_it_starves() {
    assert_eq!(attempts(Rules::planted(Plant::StarvationIgnored)), None);
}
