//! The decisions of a search at each stage, from samples of which the noise is known.

use super::*;
use crate::tuner::config::Setting;

const READS: Degree = Degree::READS;
const NONE: Degree = Degree::NONE;

fn chains(length: u8) -> Degree {
    Degree::chains(length).expect("chains are as long")
}

/// Windows of the same rate, each of so many events that their noise is that which is expected.
fn sample(windows: u32, rate: f64) -> Sample {
    let mut sample = Sample::default();
    (0..windows).for_each(|_| sample.add(rate, 1_000_000));
    sample
}

fn config() -> TunerConfig {
    TunerConfig::new(Setting::External { chain_max: 3 })
}

/// A search that has come so far: the windows and the rate of none, of reads, of chains of one and so on.
fn search(start: Degree, stage: Stage, known: &[(u32, f64)]) -> Search {
    let mut search = Search { stage, ..Search::new(start) };
    for (place, (windows, rate)) in known.iter().enumerate() {
        search.samples[place] = sample(*windows, *rate);
    }
    search
}

fn trial(found: Degree, known: &[(u32, f64)], trial: [(u32, f64); 2]) -> Search {
    let trial = trial.map(|(windows, rate)| sample(windows, rate));
    Search { trial, ..search(NONE, Stage::Trial(found), known) }
}

/// With eight windows of none at 100, and two of the other, three standard errors of their difference are 4.108 %, and what is less than one percent is alike.
#[test]
fn a_degree_is_known_once_it_is_clearly_better_or_worse_than_the_best_other() {
    for (windows, rate, is_enough) in [
        // A comparison of shares of the greater one.
        (2, 94.90, false),
        (2, 94.89, true),
        (2, 105.38, false),
        (2, 105.39, true),
        // One window is not enough, unless it is hopeless.
        (1, 94.0, false),
        (1, 50.0, false),
        (1, 49.9, true),
        // Where the two are alike, the doubt has to be two percent.
        (9, 100.0, false),
        (10, 100.0, true),
    ] {
        for stage in [Stage::Start, Stage::Up(READS), Stage::Down(READS), Stage::Refine(READS)] {
            let search = search(READS, stage, &[(8, 100.0), (windows, rate)]);
            assert_eq!(search.is_enough(&config()), is_enough, "{stage:?}: {windows} at {rate}");
        }
    }
    // The best other is not always none.
    let rivals = search(NONE, Stage::Up(chains(1)), &[(8, 100.0), (8, 200.0), (2, 100.0)]);
    assert!(rivals.is_enough(&config()));
    let alike = search(NONE, Stage::Up(chains(1)), &[(8, 100.0), (8, 100.1), (2, 100.0)]);
    assert!(!alike.is_enough(&config()));
}

/// Noise may be such that nothing is ever clear.
#[test]
fn a_degree_has_no_more_windows_than_are_granted() {
    let noisy = TunerConfig { noise_expected: 0.5, ..config() };
    for (windows, is_enough) in [(31, false), (32, true)] {
        let search = search(NONE, Stage::Up(READS), &[(8, 100.0), (windows, 100.0)]);
        assert_eq!(search.is_enough(&noisy), is_enough, "{windows}");
    }
    for (windows, is_enough) in [(63, false), (64, true)] {
        let known = [(8, 100.0), (8, 100.0)];
        let of_found = trial(READS, &known, [(8, 100.0), (windows, 100.0)]);
        assert_eq!(of_found.is_enough(&noisy), is_enough, "{windows}");
        let of_none = trial(READS, &known, [(windows, 100.0), (8, 100.0)]);
        let of_none = Search { stage: Stage::TrialOfNone(READS), ..of_none };
        assert_eq!(of_none.is_enough(&noisy), is_enough, "{windows}");
    }
}

/// A quarter of the windows that a degree may have, and no fewer than it must.
#[test]
fn none_is_measured_in_a_fixed_number_of_windows() {
    for (windows_min, least) in [(2, 8), (11, 11)] {
        let config = TunerConfig { windows_min, ..config() };
        for (windows, is_enough) in [(least - 1, false), (least, true)] {
            let reference = search(NONE, Stage::Reference, &[(windows, 100.0)]);
            assert_eq!(reference.is_enough(&config), is_enough, "{windows_min}: {windows}");
            // Clear as it is.
            let again = trial(READS, &[(8, 100.0), (8, 200.0)], [(windows, 100.0), (0, 0.0)]);
            let again = Search { stage: Stage::TrialOfNone(READS), ..again };
            assert_eq!(again.is_enough(&config), is_enough, "{windows_min}: {windows}");
        }
    }
}

/// Where none and its rival are alike, a trial goes on until the doubt is one percent: elsewhere two will do.
#[test]
fn a_trial_is_finer_than_a_search() {
    let known = [(8, 100.0), (8, 100.0)];
    for (windows, is_enough) in [(2, false), (10, false), (11, true)] {
        let search = trial(READS, &known, [(16, 100.0), (windows, 100.0)]);
        assert_eq!(search.is_enough(&config()), is_enough, "{windows}");
    }
}

/// The step after a stage whose degree is known.
fn next(mut search: Search) -> Step {
    search.go_on(&config())
}

const ENOUGH: u32 = 32;

fn enough<const N: usize>(rates: [f64; N]) -> [(u32, f64); N] {
    rates.map(|rate| (ENOUGH, rate))
}

#[test]
fn a_search_begins_with_none_and_then_its_start() {
    let reference = |start| next(search(start, Stage::Reference, &enough([100.0])));
    assert_eq!(reference(NONE), Step::Measure(READS));
    assert_eq!(reference(READS), Step::Measure(READS));
    assert_eq!(reference(chains(3)), Step::Measure(chains(3)));
    let start = |rates: [f64; 5], start| next(search(start, Stage::Start, &enough(rates)));
    assert_eq!(start([100.0, 0.0, 100.0, 0.0, 0.0], chains(1)), Step::Measure(chains(2)));
    // With one maximum, that lies below.
    assert_eq!(start([100.0, 0.0, 90.0, 0.0, 0.0], chains(1)), Step::Measure(READS));
    // Above the greatest there is none.
    assert_eq!(start([100.0, 0.0, 0.0, 0.0, 110.0], chains(3)), Step::Measure(chains(2)));
}

/// Below means by more than one percent beyond doubt, which is half a percent here.
#[test]
fn steps_go_upward_until_one_is_below_the_best() {
    for (rate, expected) in [(200.0, chains(2)), (98.6, chains(2)), (98.4, READS)] {
        let mut search = search(NONE, Stage::Up(chains(1)), &enough([50.0, 100.0, rate]));
        let is_below = search.is_below(chains(1), READS, &config());
        assert_eq!(is_below, expected == READS, "{rate}");
        let step = search.go_on(&config());
        // Then reads are the best, and tried against none.
        let expected = if is_below { NONE } else { expected };
        assert_eq!(step, Step::Measure(expected), "{rate}");
        assert_eq!(search.stage, if is_below { Stage::TrialOfNone(READS) } else { Stage::Up(chains(2)) });
    }
    let highest = search(NONE, Stage::Up(chains(3)), &enough([50.0, 60.0, 70.0, 80.0, 90.0]));
    let mut highest = highest;
    highest.go_on(&config());
    assert_eq!(highest.stage, Stage::TrialOfNone(chains(3)), "there is none above");
}

#[test]
fn steps_go_downward_unless_upward_was_better_than_the_start() {
    let turns = |rates: [f64; 5]| {
        let mut search = search(chains(1), Stage::Up(chains(3)), &[]);
        for (place, rate) in rates.into_iter().enumerate().filter(|(_, rate)| *rate > 0.0) {
            search.samples[place] = sample(ENOUGH, rate);
        }
        search.go_on(&config());
        search.stage
    };
    assert_eq!(turns([50.0, 0.0, 100.0, 110.0, 120.0]), Stage::TrialOfNone(chains(3)));
    assert_eq!(turns([50.0, 0.0, 100.0, 100.5, 100.4]), Stage::Down(READS), "better by less than the noise");
    assert_eq!(turns([50.0, 0.0, 100.0, 90.0, 80.0]), Stage::Down(READS));
    assert_eq!(turns([120.0, 0.0, 100.0, 90.0, 80.0]), Stage::Down(READS), "none is no step upward");
    let descends = |rates: [f64; 5], from| {
        let mut search = search(chains(3), Stage::Down(from), &[]);
        for (place, rate) in rates.into_iter().enumerate().filter(|(_, rate)| *rate > 0.0) {
            search.samples[place] = sample(ENOUGH, rate);
        }
        search.go_on(&config());
        search.stage
    };
    assert_eq!(descends([50.0, 0.0, 0.0, 110.0, 100.0], chains(2)), Stage::Down(chains(1)));
    assert_eq!(descends([50.0, 0.0, 0.0, 100.0, 100.0], chains(2)), Stage::Down(chains(1)), "alike");
    assert_eq!(descends([50.0, 0.0, 0.0, 90.0, 100.0], chains(2)), Stage::TrialOfNone(chains(3)));
    let lowest = descends([50.0, 130.0, 120.0, 110.0, 100.0], READS);
    assert_eq!(lowest, Stage::TrialOfNone(READS), "none is known");
}

/// Of those within one percent of the best.
#[test]
fn a_search_chooses_the_lowest_of_degrees_that_are_alike_or_the_highest_if_that_may_cost_something() {
    let chosen = |rates: [f64; 4], loss_allowed| {
        let config = TunerConfig { loss_allowed, ..config() };
        let mut search = search(NONE, Stage::Refine(READS), &enough(rates));
        match search.go_on(&config) {
            Step::Found(found) => found,
            _ => match search.stage {
                Stage::TrialOfNone(found) => found,
                other => panic!("it is chosen: {other:?}"),
            },
        }
    };
    assert_eq!(chosen([50.0, 99.1, 100.0, 99.1], 0.0), READS);
    assert_eq!(chosen([50.0, 98.9, 100.0, 99.1], 0.0), chains(1));
    assert_eq!(chosen([50.0, 99.1, 100.0, 99.1], 0.1), chains(2));
    assert_eq!(chosen([50.0, 99.1, 100.0, 98.9], 0.1), chains(1));
    assert_eq!(chosen([99.5, 100.0, 100.0, 100.0], 0.0), NONE, "nothing is to be tried");
}

/// They may be the best, for all that is known: the one that has had the fewest windows is measured again, the best itself included.
#[test]
fn degrees_that_have_had_few_windows_are_refined() {
    let doubtful = |known: &[(u32, f64)]| search(NONE, Stage::Up(READS), known).doubtful(&config());
    assert_eq!(doubtful(&[(8, 100.0), (32, 120.0), (32, 119.0)]), None, "both are known well");
    assert_eq!(doubtful(&[(8, 100.0), (9, 120.0), (3, 119.0)]), Some(chains(1)));
    assert_eq!(doubtful(&[(8, 100.0), (3, 120.0), (9, 119.0)]), Some(READS), "the best itself");
    assert_eq!(doubtful(&[(8, 100.0), (3, 120.0), (3, 90.0)]), None, "that is clearly worse");
    assert_eq!(doubtful(&[(3, 119.0), (3, 120.0)]), None, "none has the trial before it");
    assert_eq!(doubtful(&[(8, 100.0), (3, 120.0)]), None, "nothing was measured beside it");
    let noisy = TunerConfig { noise_expected: 0.5, ..config() };
    let known = [(8, 100.0), (32, 120.0), (32, 119.0)];
    assert_eq!(search(NONE, Stage::Up(READS), &known).doubtful(&noisy), None, "no more are granted");
    let known = [(8, 100.0), (32, 120.0), (31, 119.0)];
    assert_eq!(search(NONE, Stage::Up(READS), &known).doubtful(&noisy), Some(chains(1)));
}

/// With 64 windows of each, and eight of none before, three standard errors of their difference are 0.26 %.
#[test]
fn a_trial_keeps_what_is_better_than_none_beyond_doubt() {
    let step = |loss_allowed, none: f64, found: f64| {
        let known = [(8, none), (8, found)];
        let mut search = trial(READS, &known, [(64, none), (64, found)]);
        search.go_on(&TunerConfig { loss_allowed, ..config() })
    };
    assert_eq!(step(0.0, 100.0, 102.0), Step::Found(READS));
    assert_eq!(step(0.0, 100.0, 100.3), Step::Found(READS));
    assert_eq!(step(0.0, 100.0, 100.2), Step::Found(NONE), "better by less than the doubt");
    assert_eq!(step(0.0, 100.0, 98.0), Step::Found(NONE));
    assert_eq!(step(0.03, 100.0, 98.0), Step::Found(READS), "so much may be lost");
    assert_eq!(step(0.02, 100.0, 98.0), Step::Found(NONE), "less the doubt");
}

#[test]
fn a_trial_that_is_open_goes_on_with_none_as_long_as_windows_are_granted() {
    let after = |none: u32, rate: f64| {
        let noisy = TunerConfig { noise_expected: 0.2, ..config() };
        let mut search = trial(READS, &[(8, 100.0), (8, 100.0)], [(none, 100.0), (8, rate)]);
        let step = search.go_on(&noisy);
        (step, search.stage)
    };
    let goes_on = (Step::Measure(NONE), Stage::TrialOfNone(READS));
    assert_eq!(after(8, 100.0), goes_on);
    assert_eq!(after(63, 100.0), goes_on);
    assert_eq!(after(64, 100.0).0, Step::Found(NONE), "they have had all");
    assert_eq!(after(8, 60.0).0, Step::Found(NONE), "it is clearly worse");
    assert_eq!(after(8, 160.0).0, Step::Found(READS), "it is clearly better");
}

/// Half of the change of the load that is to be noticed, beyond doubt.
#[test]
fn a_search_is_void_if_none_has_changed_by_more_than_a_tenth_beyond_doubt() {
    let after = |rate: f64, voids| {
        let known = [(32, 100.0), (32, 120.0)];
        let search = trial(READS, &known, [(32, rate), (0, 0.0)]);
        let mut search = Search { stage: Stage::TrialOfNone(READS), voids, ..search };
        let step = search.go_on(&config());
        (step, search.samples[NONE.index()].windows)
    };
    for (rate, is_void) in [(100.0, false), (110.0, false), (112.0, true), (90.0, false), (88.0, true)] {
        let expected = if is_void { Step::Void } else { Step::Measure(READS) };
        assert_eq!(after(rate, 0), (expected, 32), "{rate}");
    }
    // The load does not come to rest: what was measured first counts no more.
    assert_eq!(after(200.0, 1), (Step::Void, 32));
    assert_eq!(after(200.0, 2), (Step::Measure(READS), 0));
    assert_eq!(search(READS, Stage::Start, &[]).again().again().voids, 2);
    assert_eq!(search(READS, Stage::Start, &[]).again().start, READS);
}

/// A window counts for the stage and the degree that were measured.
#[test]
fn windows_of_a_trial_are_kept_apart() {
    let mut search = search(NONE, Stage::TrialOfNone(READS), &[(8, 100.0), (8, 200.0)]);
    assert_eq!(search.measured(READS).windows, 8, "the trial has none of it");
    assert_eq!(search.on_window((100.0, 40), (300.0, 120), &config()), Step::Measure(NONE));
    assert_eq!((search.trial[0].windows, search.samples[0].windows), (1, 8));
    assert_eq!((search.measured(NONE).windows, search.measured(NONE).mean), (9, 100.0));
    assert_eq!((search.arrivals[0].windows, search.arrivals[0].mean), (1, 300.0));
    search.stage = Stage::Trial(READS);
    search.on_window((180.0, 72), (300.0, 120), &config());
    assert_eq!((search.trial[1].windows, search.samples[1].windows), (1, 8));
    assert_eq!((search.measured(READS).windows, search.measured(READS).mean), (1, 180.0));
    assert_eq!(search.arrivals[1].windows, 1);
    search.stage = Stage::Up(READS);
    search.on_window((180.0, 72), (300.0, 120), &config());
    assert_eq!(search.samples[1].windows, 9);
    assert_eq!(search.measured(READS).windows, 9, "no trial is under way");
}

#[test]
fn the_lowest_of_equal_degrees_is_the_best() {
    let best = |known: &[(u32, f64)]| search(NONE, Stage::Up(READS), known).best();
    assert_eq!(best(&[(2, 100.0), (2, 120.0), (2, 120.0)]), READS);
    assert_eq!(best(&[(2, 100.0), (2, 120.0), (2, 121.0)]), chains(1));
    assert_eq!(best(&[(2, 0.0), (0, 0.0)]), NONE);
}

/// With much noise no difference is beyond doubt, however great.
#[test]
fn a_degree_is_hopeless_beyond_doubt_alone() {
    let noisy = TunerConfig { noise_expected: 0.9, ..config() };
    let search = search(NONE, Stage::Up(READS), &[(8, 100.0), (1, 10.0)]);
    assert!(search.is_enough(&config()) && !search.is_enough(&noisy));
}

/// On the way downward the best other lies above.
#[test]
fn the_rival_of_a_degree_may_be_a_greater_one() {
    let search = |best| search(chains(1), Stage::Down(READS), &[(8, 100.0), (2, 100.0), (8, best)]);
    assert!(search(200.0).is_enough(&config()) && !search(100.0).is_enough(&config()));
}

/// The doubt is 3.8 % here, and what is less than one percent is alike.
#[test]
fn a_degree_may_be_the_best_unless_it_is_clearly_worse() {
    for (windows, rate, may_be) in [(3, 115.8, true), (3, 114.0, false), (1, 119.0, true)] {
        let search = search(NONE, Stage::Up(READS), &[(8, 100.0), (3, 120.0), (windows, rate)]);
        assert_eq!(search.doubtful(&config()), may_be.then_some(chains(1)), "{rate}");
    }
}

#[test]
fn a_trial_says_nothing_of_other_degrees() {
    let search = trial(READS, &[(8, 100.0), (8, 200.0), (8, 150.0)], [(8, 100.0), (8, 190.0)]);
    let known = |degree| search.measured(degree).mean;
    assert_eq!((known(NONE), known(READS), known(chains(1))), (100.0, 190.0, 150.0));
}
