//! Transactions reach the other sites, become durable and commit there; what has come everywhere is forgotten.

use quorate_core::ReplicaIndex;
use quorate_core::command::Milestone;

use super::*;

fn sent(told: Vec<String>) -> Vec<String> {
    told.into_iter().filter(|line| line.contains("PROPAGATE")).collect()
}

fn shortly(numbers: std::ops::RangeInclusive<u64>) -> Vec<Update> {
    numbers.map(|number| write(&format!("{{oak}}/{number}"), "x")).collect()
}

/// Transactions of the second site, each of which writes a key there.
fn of_second(number: u64, snapshot: &[u64]) -> std::sync::Arc<Commit> {
    foreign(1, number, snapshot, vec![write("apple", &number.to_string())])
}

#[test]
fn batches_go_in_order_and_so_many_at_a_time() {
    let mut site = leader(|config| {
        (config.batches_max, config.batch_bytes_max) = (2, 1);
    });
    for sequence in 1..=4 {
        site.commits(sequence, vec![write("oak", &sequence.to_string())]);
    }
    let batch = |site: &str, number: u64, after: u64, durable: u64| {
        format!(
            "5 ms: {site} ← PROPAGATE s0.{number} c1.{number} at ⟨{after}⟩ oak={number}, durable to {durable}"
        )
        .replace("⟨0⟩", "⟨⟩")
    };
    let told = sent(site.waits(5));
    let first =
        [batch("2/r0", 1, 0, 0), batch("2/r0", 2, 1, 0), batch("3/r0", 1, 0, 0), batch("3/r0", 2, 1, 0)];
    assert_eq!(told, first);
    assert_eq!(sent(site.waits(100)), NOTHING, "two are under way");
    assert_eq!(site.is_told("2/r0", 1, &[], &[]), NOTHING);
    let told = sent(site.waits(5));
    // The second site has it beside this one, so it is durable; and the third is told so.
    let expected = [batch("2/r0", 3, 2, 1), "5 ms: 3/r0 ← PROPAGATE durable to 1".to_owned()];
    assert_eq!(told, expected);
    assert_eq!(site.is_told("2/r0", 3, &[], &[]), NOTHING);
    let told = sent(site.waits(5));
    let expected = [batch("2/r0", 4, 3, 3), "5 ms: 3/r0 ← PROPAGATE durable to 3".to_owned()];
    assert_eq!(told, expected);
}

/// A transaction that is not confirmed in time is sent again, with all later ones.
#[test]
fn a_batch_that_is_not_confirmed_is_sent_again() {
    let mut site = site();
    site.commits(1, vec![write("oak", "1")]);
    site.waits(100);
    site.commits(2, vec![write("oak", "2")]);
    site.waits(5);
    site.is_told("2/r0", 1, &[], &[]);
    site.is_told("3/r0", 2, &[2], &[]);
    let durable = |after: u64, to: &str| format!("{after} ms: {to} ← PROPAGATE durable to 2");
    let told = sent(site.waits(894));
    // It has not committed all that is durable, so it is told again.
    assert_eq!(told, [durable(5, "2/r0"), durable(5, "3/r0"), durable(395, "2/r0")]);
    // The leader looks after it at 1,000 ms: the first confirmation came 895 ms ago.
    assert_eq!(sent(site.waits(1)), [durable(1, "2/r0")]);
    let told = sent(site.waits(500));
    assert_eq!(told, ["500 ms: 2/r0 ← PROPAGATE s0.2 c1.2 at ⟨1⟩ oak=2, durable to 2"]);
    site.is_told("2/r0", 2, &[1], &[]);
    assert_eq!(sent(site.waits(400)), NOTHING);
    // It has not committed all that is durable, so it is told again.
    assert_eq!(sent(site.waits(100)), ["100 ms: 2/r0 ← PROPAGATE durable to 2"]);
    site.is_told("2/r0", 2, &[2], &[]);
    assert_eq!(sent(site.waits(2_000)), NOTHING);
    // However long all was confirmed, what follows has as much time as all before.
    site.waits(60_000);
    site.commits(3, vec![write("oak", "3")]);
    assert_eq!(sent(site.waits(5)).len(), 2);
    assert_eq!(sent(site.waits(900)), NOTHING);
    assert_eq!(sent(site.waits(1_000)).len(), 2);
}

/// A replica that is silent may lead no longer.
#[test]
fn another_replica_of_a_silent_site_is_asked() {
    let mut site = site();
    let receivers = |told: Vec<String>| -> Vec<String> {
        let progress = told.into_iter().filter(|line| line.contains("PROGRESS"));
        progress.map(|line| line.split(' ').nth(2).unwrap().to_owned()).collect()
    };
    site.waits(1_000);
    site.is_told("3/r2", 0, &[], &[]);
    // Every site speaks once in an interval; two of them and a time-out are a silence.
    assert_eq!(receivers(site.waits(999)), ["2/r0", "3/r2"]);
    assert_eq!(receivers(site.waits(1)), ["2/r1", "3/r2"]);
    assert_eq!(receivers(site.waits(500)), ["2/r1", "3/r2"]);
    assert_eq!(receivers(site.waits(500)), ["2/r1", "3/r0"]);
}

#[test]
fn a_replica_that_does_not_lead_names_the_one_that_is_asked_instead() {
    let mut site = site();
    site.commits(1, vec![write("oak", "1")]);
    site.waits(5);
    let not_leading = |leader| Message::NotLeading { transaction: None, leader: ReplicaIndex(leader) };
    assert_eq!(site.hears("2/r0", not_leading(2)), NOTHING);
    let told = site.waits(5);
    let expected = [
        "5 ms: 2/r2 ← PROPAGATE s0.1 c1.1 at ⟨⟩ oak=1, durable to 0",
        "5 ms: 2/r2 ← PROGRESS received 0, ⟨1⟩ committed, ⟨⟩ oldest",
    ];
    assert_eq!(told, expected, "all that it was told is lost");
    // One that nobody has taken for the leader names none.
    assert_eq!(site.hears("2/r0", not_leading(1)), NOTHING);
    assert_eq!(only(site.waits(5), "2/r2 ← PROPAGATE").len(), 1);
    for _ in 0..2 {
        assert_eq!(site.hears("2/r2", not_leading(2)), NOTHING);
        assert_eq!(only(site.waits(5), "2/r2 ← PROPAGATE").len(), 1, "four times at once");
    }
    assert_eq!(site.hears("2/r2", not_leading(2)), NOTHING);
    assert_eq!(site.waits(5), NOTHING, "while leaders change, replicas may name each other");
    assert_eq!(only(site.waits(500), "2/r2 ← PROPAGATE").len(), 1);
    assert_eq!(site.hears("2/r2", not_leading(2)), NOTHING);
    assert_eq!(only(site.waits(5), "2/r2 ← PROPAGATE").len(), 1, "then it begins anew");
}

#[test]
fn transactions_take_effect_in_order_and_after_their_causes() {
    let mut site = site();
    assert_eq!(site.is_sent("2/r0", vec![of_second(2, &[0, 1])], 0), NOTHING, "the first one is missing");
    assert_eq!(site.is_sent("3/r0", vec![foreign(2, 1, &[0, 2], vec![write("pear", "p")])], 0), NOTHING);
    let told = site.is_sent("2/r0", vec![of_second(1, &[])], 0);
    let all = "appends RECEIVED s1.1 c101.1 at ⟨⟩ apple=1, s1.2 c101.2 at ⟨0 1⟩ apple=2, s2.1 c102.1 at ⟨0 2⟩ pear=p";
    assert_eq!(told, [all]);
    let told = site.is_sent("2/r0", vec![of_second(1, &[]), of_second(2, &[0, 1])], 0);
    assert_eq!(told, ["✗ known already"]);
    assert_eq!(site.logs(), NOTHING);
    assert_eq!(site.machine.histories().received(), &v(&[0, 2, 1]));
    let told = site.waits(5);
    let progress = ["2/r0 ← PROGRESS received 2", "3/r0 ← PROGRESS received 1"];
    for (line, expected) in told.iter().zip(progress) {
        assert!(line.starts_with(&format!("5 ms: {expected}")), "{told:?}");
    }
    // They commit once they are durable, all that they depend on has committed, and so has the one before.
    assert_eq!(site.is_sent("3/r0", vec![], 1), NOTHING);
    assert_eq!(site.is_sent("2/r0", vec![], 1), ["appends ADVANCE ⟨0 1⟩"]);
    assert_eq!(site.is_sent("2/r0", vec![], 9), ["appends ADVANCE ⟨0 2 1⟩"], "as far as they were received");
    site.logs();
    assert_eq!(site.machine.committed(), &v(&[0, 2, 1]));
    assert_eq!(site.is_sent("2/r0", vec![], 3), NOTHING, "a site was told more before");
}

#[test]
fn a_transaction_of_another_site_commits_here_after_those_of_this_site_that_it_has_seen() {
    let mut site = site();
    site.is_asked(1, Snapshot::New(v(&[])), vec![write("oak", "x")]);
    // A leader before this one has told them of it.
    let told = site.is_sent("2/r0", vec![of_second(1, &[1])], 1);
    assert_eq!(told, NOTHING, "it is not stable here");
    let told = site.logs();
    assert!(
        told.contains(&"appends RECEIVED s1.1 c101.1 at ⟨1⟩ apple=1".to_owned())
            || told.is_empty()
            || told.len() == 1,
        "{told:?}"
    );
}

#[test]
fn a_transaction_is_durable_once_f_plus_one_sites_have_it_and_its_preferred_sites() {
    for (lost_max, updates, enough) in [
        (1, vec![write("oak", "x")], &[(1, 0), (0, 1)][..]),
        (0, vec![write("oak", "x")], &[(0, 0)]),
        (2, vec![write("oak", "x")], &[(1, 1)]),
        (1, vec![add("apple", "a", 1)], &[(1, 0)]),
        (1, vec![add("apple", "a", 1), add("pear", "a", 1)], &[(1, 1)]),
    ] {
        for second in 0..=1 {
            for third in 0..=1 {
                let mut site = leader(|config| config.sites_lost_max = lost_max);
                site.commits(1, updates.clone());
                site.is_told("2/r0", second, &[], &[]);
                site.is_told("3/r0", third, &[], &[]);
                let ask = Message::AskMilestone {
                    transaction: txn(1, 1),
                    version: version(0, 1),
                    milestone: Milestone::Durable,
                };
                let told = site.hears("c1", ask);
                let is_durable = enough.iter().any(|(least, other)| second >= *least && third >= *other);
                let what = format!("{updates:?} at {second} and {third}, f = {lost_max}");
                assert_eq!(told == ["c1 ← c1.1 is durable"], is_durable, "{what}: {told:?}");
            }
        }
    }
}

#[test]
fn a_client_is_told_of_a_milestone_once_it_is_reached() {
    let mut site = site();
    site.commits(1, vec![write("oak", "x")]);
    site.commits(2, vec![add("pear", "a", 1)]);
    let ask = |sequence, milestone| Message::AskMilestone {
        transaction: txn(1, sequence),
        version: version(0, sequence),
        milestone,
    };
    let told = site.hears("c1", ask(2, Milestone::Durable));
    // It is durable once those before it are, and its preferred site has it.
    assert_eq!(told, ["c1 ← c1.2 is not durable, missing shard2 shard3"]);
    assert_eq!(
        site.hears("c1", ask(1, Milestone::Visible)),
        ["c1 ← c1.1 is not visible, missing shard2 shard3"]
    );
    assert_eq!(site.is_told("2/r0", 2, &[], &[]), NOTHING);
    assert_eq!(site.hears("c1", ask(2, Milestone::Durable)), ["c1 ← c1.2 is not durable, missing shard3"]);
    assert_eq!(site.is_told("3/r0", 2, &[1], &[]), ["c1 ← c1.2 is durable"]);
    assert_eq!(site.hears("c1", ask(1, Milestone::Visible)), ["c1 ← c1.1 is not visible, missing shard2"]);
    assert_eq!(site.is_told("2/r0", 2, &[2], &[]), ["c1 ← c1.1 is visible"]);
    assert_eq!(site.hears("c1", ask(1, Milestone::Visible)), ["c1 ← c1.1 is visible"]);
    assert_eq!(site.hears("c1", ask(2, Milestone::Visible)), ["c1 ← c1.2 is not visible, missing shard3"]);
    let other = Message::AskMilestone {
        transaction: txn(1, 3),
        version: version(0, 3),
        milestone: Milestone::Durable,
    };
    assert_eq!(
        site.hears("c1", other),
        ["c1 ← c1.3 is not durable, missing shard1"],
        "a leader before may have told of it"
    );
    // A client that does not ask again is forgotten.
    site.waits(6_000);
    assert_eq!(site.is_told("3/r0", 2, &[2], &[]), NOTHING);
}

#[test]
fn an_operator_sees_how_far_other_sites_are_behind() {
    let mut site = site();
    assert!(site.machine.lags(site.now).iter().all(|lag| lag.unreceived == 0 && !lag.holds_up));
    site.commits(1, vec![write("oak", "x")]);
    site.commits(2, vec![add("pear", "a", 1)]);
    site.waits(500);
    site.is_told("2/r0", 2, &[1], &[]);
    site.waits(1_000);
    let lags = site.machine.lags(site.now);
    let told: Vec<String> = lags
        .iter()
        .map(|lag| {
            format!(
                "{} lacks {} for {:?}, has not committed {} for {:?}, holds up: {}",
                lag.site.0,
                lag.unreceived,
                lag.unreceived_for,
                lag.uncommitted,
                lag.uncommitted_for,
                lag.holds_up
            )
        })
        .collect();
    let expected = [
        "2 lacks 0 for 0ns, has not committed 1 for 1s, holds up: false",
        "3 lacks 2 for 1s, has not committed 2 for 1s, holds up: true",
    ];
    assert_eq!(told, expected);
    assert_eq!(site.machine.behind(), 2);
    site.is_told("3/r0", 2, &[2], &[]);
    assert_eq!(site.machine.behind(), 1);
    let lags = site.machine.lags(site.now);
    assert!(lags[0].holds_up && !lags[1].holds_up, "the second has not committed it: {lags:?}");
    site.is_deposed();
    assert!(site.machine.lags(site.now).is_empty());
}

#[test]
fn the_floor_is_what_every_site_can_do_without() {
    let mut site = leader(|config| config.floor_lag = Duration::from_secs(4));
    site.commits(1, vec![write("oak", "x")]);
    site.takes("2/r0", of_second(1, &[1]));
    for from in ["2/r0", "3/r0"] {
        site.is_told(from, 1, &[1, 1], &[1]);
    }
    let floors = |told: Vec<String>| only(told, "FLOOR");
    assert_eq!(floors(site.waits(3_999)), NOTHING, "a snapshot can be read for so long");
    assert_eq!(
        floors(site.waits(1)),
        ["1 ms: appends FLOOR ⟨⟩, period 0 forgotten"],
        "the first one was empty"
    );
    assert_eq!(floors(site.waits(4_000)), NOTHING, "one at a time is on its way");
    site.logs();
    assert_eq!(floors(site.waits(500)), ["500 ms: appends FLOOR ⟨1⟩, period 0 forgotten"]);
    site.logs();
    assert_eq!(site.machine.histories().floor(), &v(&[1]));
    assert_eq!(site.machine.journal().count(), 1);
    site.is_told("2/r0", 1, &[1, 1], &[1, 1]);
    assert_eq!(
        floors(site.waits(500)),
        ["500 ms: appends FLOOR ⟨1⟩, period 0 forgotten"],
        "the third needs it"
    );
    site.logs();
    site.is_told("3/r0", 1, &[1, 1], &[1, 1]);
    let told = floors(site.waits(500));
    assert!(told[0].contains("appends FLOOR ⟨1 1⟩"), "{told:?}");
    site.logs();
    assert_eq!((site.machine.journal().count(), site.machine.overdue()), (0, 0));
}

/// An idle site writes nothing.
#[test]
fn a_site_that_remembers_nothing_leaves_its_floor_where_it_is() {
    let mut site = leader(|config| config.floor_lag = Duration::from_secs(1));
    assert_eq!(only(site.waits(20_000), "FLOOR"), NOTHING);
    site.commits(1, vec![write("oak", "x")]);
    for _ in 0..10 {
        site.is_told("2/r0", 1, &[1], &[1]);
        site.is_told("3/r0", 1, &[1], &[1]);
        site.waits(1_000);
        site.logs();
    }
    assert_eq!(site.machine.ended_len(), 0);
    assert_eq!(only(site.waits(20_000), "FLOOR"), NOTHING);
    let told = only(site.waits(500), "← PROGRESS received 0, ⟨1⟩ committed, ⟨1⟩ oldest");
    assert_eq!(told.len(), 2, "each is told that nobody reads more than that");
}

#[test]
fn many_transactions_go_in_few_batches() {
    let mut site = leader(|config| config.batch_bytes_max = 1_000);
    for sequence in 1..=9 {
        site.commits(sequence, shortly(1..=10));
    }
    let told = sent(site.waits(5));
    let sizes: Vec<usize> = told.iter().map(|line| line.matches(" c1.").count()).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 18, "each site gets all: {sizes:?}");
    assert!(sizes.iter().all(|size| (1..=3).contains(size)), "{sizes:?}");
}

/// A sample of what has committed is taken eight times in the time for which a snapshot can be read.
#[test]
fn the_floor_is_what_had_committed_when_it_was_sampled() {
    let mut site = leader(|config| {
        (config.floor_lag, config.wait_timeout) = (Duration::from_secs(8), Duration::from_secs(60));
    });
    let ahead = |site: &mut Site, number: u64| {
        for from in ["2/r0", "3/r0"] {
            site.is_told(from, number, &[number], &[number]);
        }
    };
    site.waits(750);
    site.commits(1, vec![write("oak", "1")]);
    site.waits(500);
    site.commits(2, vec![write("oak", "2")]);
    ahead(&mut site, 2);
    let mut floors = Vec::new();
    for _ in 0..36 {
        site.waits(250);
        let at = site.now - Instant::START;
        let before = site.machine.histories().floor().clone();
        site.logs();
        if *site.machine.histories().floor() != before {
            floors.push(format!("{} at {} ms", site.machine.histories().floor(), at.as_millis()));
        }
    }
    assert_eq!(floors, ["⟨1⟩ at 9000 ms", "⟨2⟩ at 10000 ms"]);
    // The oldest snapshot that can be read is what it tells the others.
    let told = only(site.waits(500), "PROGRESS");
    assert!(told[0].ends_with("⟨2⟩ committed, ⟨2⟩ oldest"), "{told:?}");
}

/// A new leader has sampled nothing, so it waits anew.
#[test]
fn a_later_leader_lets_snapshots_be_read_for_as_long_again() {
    let mut site = leader(|config| config.floor_lag = Duration::from_secs(2));
    site.commits(1, vec![write("oak", "x")]);
    site.waits(1_900);
    site.is_deposed();
    site.leads(1);
    assert_eq!(only(site.waits(1_999), "FLOOR"), NOTHING);
    assert_eq!(
        only(site.waits(1), "FLOOR"),
        ["1 ms: appends FLOOR ⟨⟩, period 0 forgotten"],
        "others need it"
    );
}

/// A batch ends once it has a quarter of a mebibyte, and 64 of them are under way at most.
#[test]
fn batches_are_as_large_and_as_many_as_servers_want_them() {
    let mut site = site();
    let value = "x".repeat(65_280);
    for sequence in 1..=6 {
        site.commits(sequence, vec![write("oak", &value)]);
    }
    let told = only(sent(site.waits(5)), "2/r0");
    let sizes: Vec<usize> = told.iter().map(|line| line.matches(" c1.").count()).collect();
    assert_eq!(sizes, [5, 1], "four of them are a little less");
    let mut site = leader(|config| config.batch_bytes_max = 1);
    for sequence in 1..=66 {
        site.commits(sequence, vec![write("oak", "x")]);
    }
    assert_eq!(only(sent(site.waits(5)), "2/r0").len(), 64);
}

/// A page of a state has a mebibyte, and the transaction with which that is reached.
#[test]
fn pages_are_as_large_as_servers_want_them() {
    let mut site = site();
    let value = "x".repeat(65_376);
    for sequence in 1..=18 {
        site.commits(sequence, vec![write("oak", &value)]);
    }
    let sizes: Vec<usize> = site
        .pages()
        .iter()
        .filter_map(|page| match page {
            quorate_walter::Page::Journal { commits, .. } => Some(commits.len()),
            _ => None,
        })
        .collect();
    assert_eq!(sizes, [17, 1], "sixteen of them are a little less");
}

/// Four times at once, and as often again once the leader has looked after it.
#[test]
fn replicas_that_name_each_other_are_followed_as_often_again_after_a_while() {
    let mut site = site();
    site.commits(1, vec![write("oak", "1")]);
    site.waits(5);
    let mut index = 0;
    for _ in 0..2 {
        let mut followed = 0;
        for _ in 0..8 {
            let next = (index + 1) % 3;
            let leader = ReplicaIndex(next);
            site.hears(&format!("2/r{index}"), Message::NotLeading { transaction: None, leader });
            followed += only(site.waits(6), &format!("2/r{next} ← PROPAGATE s0.1")).len();
            index = next;
        }
        assert_eq!(followed, 4);
        site.waits(500);
    }
}
