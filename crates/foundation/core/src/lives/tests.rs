//! Which life can follow which.

use super::*;

const NODE: NodeId = NodeId(1);
const DISK: Incarnation = Incarnation(10);

/// The life with this number on a disk, each of whose lives has the tag 100 times its number.
fn life(incarnation: Incarnation, number: u64) -> Life {
    let begin = Life::first(incarnation, false, 100);
    (2..=number).fold(begin, |life, number| life.next(100 * number).unwrap())
}

fn replacing(incarnation: Incarnation) -> Life {
    Life::first(incarnation, true, 7)
}

fn remembering(lives: &[Life]) -> Lives {
    let mut known = Lives::default();
    for life in lives {
        known.hear(NODE, life).unwrap();
    }
    known
}

#[test]
fn a_peer_takes_the_lives_of_a_node_in_their_order() {
    let mut lives = Lives::default();
    assert_eq!(lives.hear(NODE, &life(DISK, 1)), Ok(true));
    assert_eq!(lives.hear(NODE, &life(DISK, 1)), Ok(false), "a second connection of the same life");
    assert_eq!(lives.hear(NODE, &life(DISK, 2)), Ok(true));
    assert_eq!(lives.hear(NODE, &life(DISK, 9)), Ok(true), "the peer was away for some");
    assert_eq!(lives.of(NODE).map(|known| (known.number, known.tag)), Some((9, 900)));
    assert_eq!(lives.of(NodeId(2)), None);
}

#[test]
fn a_peer_fences_a_copy_of_an_earlier_life() {
    let mut lives = remembering(&[life(DISK, 7)]);
    let before = lives.clone();
    assert_eq!(lives.hear(NODE, &life(DISK, 6)), Err(Fence::RolledBack { life: 6, remembered: 7 }));
    // The copy of life five, started so often that it has counted up to seven, and beyond.
    let mut copy = life(DISK, 5);
    for number in 6..12 {
        copy = copy.next(number).unwrap();
        assert!(matches!(lives.hear(NODE, &copy), Err(Fence::RolledBack { remembered: 7, .. })), "{number}");
    }
    assert_eq!(lives, before, "nothing of it is remembered");
}

#[test]
fn a_peer_that_was_away_for_long_compares_numbers_alone() {
    let mut lives = remembering(&[life(DISK, 7)]);
    assert_eq!(lives.hear(NODE, &life(DISK, 8 + TAGS_MAX as u64)), Ok(true));
}

#[test]
fn a_peer_takes_a_replacement_and_fences_the_disk_that_it_has_replaced() {
    let mut lives = remembering(&[life(DISK, 7), replacing(Incarnation(11))]);
    assert_eq!(lives.of(NODE).unwrap().former, [DISK]);
    assert_eq!(lives.hear(NODE, &life(DISK, 8)), Err(Fence::Replaced));
    assert_eq!(lives.hear(NODE, &replacing(Incarnation(12))), Ok(true), "it was lost as well");
    assert_eq!(lives.hear(NODE, &replacing(Incarnation(11))), Err(Fence::Replaced));
}

#[test]
fn a_peer_fences_a_node_that_was_initialised_anew() {
    let mut lives = remembering(&[life(DISK, 7)]);
    assert_eq!(lives.hear(NODE, &life(Incarnation(11), 1)), Err(Fence::Unannounced));
    assert_eq!(lives.hear(NODE, &life(DISK, 8)), Ok(true), "the disk was found again");
}

#[test]
fn a_peer_remembers_only_so_many_former_disks() {
    let mut lives = remembering(&[life(DISK, 1)]);
    for disk in 0..2 * FORMER_MAX as u64 {
        lives.hear(NODE, &replacing(Incarnation(1_000 + disk))).unwrap();
    }
    let former = &lives.of(NODE).unwrap().former;
    assert_eq!(former.len(), FORMER_MAX);
    assert_eq!(former.last(), Some(&Incarnation(1_000 + 2 * FORMER_MAX as u64 - 2)));
}

#[test]
fn no_number_is_taken_over_that_no_node_can_reach() {
    let sound = life(DISK, 3);
    let lies = [
        Life { number: 0, ..sound.clone() },
        Life { number: u64::MAX, ..sound.clone() },
        Life { tags: Vec::new(), ..sound.clone() },
        Life { tags: vec![0; TAGS_MAX + 1], number: 1_000, ..sound.clone() },
        Life { number: 2, ..sound.clone() },
    ];
    for lie in lies {
        assert_eq!(Lives::default().hear(NODE, &lie), Err(Fence::Impossible), "{lie:?}");
    }
    let last = Life { number: LIFE_MAX, ..sound };
    assert_eq!(last.next(1), Err(TooManyLives(LIFE_MAX)));
}

#[test]
fn a_peer_learns_later_lives_from_others_and_passes_over_what_contradicts_its_memory() {
    let told = |life: &Life| remembering(std::slice::from_ref(life)).of(NODE).unwrap().clone();
    let mut lives = Lives::default();
    assert!(lives.learn(NODE, &told(&life(DISK, 3))));
    assert!(!lives.learn(NODE, &told(&life(DISK, 2))));
    assert!(lives.learn(NODE, &told(&life(DISK, 7))));
    assert!(!lives.learn(NODE, &told(&life(Incarnation(11), 9))), "it knows nothing of the disk before");
    let replaced = remembering(&[life(DISK, 7), replacing(Incarnation(11))]);
    assert!(lives.learn(NODE, replaced.of(NODE).unwrap()));
    assert!(!lives.learn(NODE, &told(&life(DISK, 8))), "that disk was replaced");
    assert!(!lives.learn(NODE, &Remembered { number: u64::MAX, ..replaced.of(NODE).unwrap().clone() }));
    assert_eq!(lives, replaced);
}

#[test]
fn fences_say_what_has_happened() {
    let text = Fence::RolledBack { life: 6, remembered: 7 }.to_string();
    assert!(text.contains("rolled back") && text.contains("life 6"), "{text}");
    assert!(Fence::Unannounced.to_string().contains("--initialise"));
}
