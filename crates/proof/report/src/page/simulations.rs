//! The simulations.

use maud::{Markup, html};

use super::{command, number};
use crate::read::{Results, Simulation};

/// All simulations.
pub(super) fn section(results: &Results) -> Markup {
    html! {
        section id="simulations" {
            h2 { "Simulations" }
            @if results.simulations.is_empty() {
                p class="missing" { "None among these results. To run one:" }
                (command("quorate sim --isolation strict --seeds 1..100 --faults all --json > results/sim-strict.json"))
            } @else {
                p { "Whole clusters under faults, from seeds; every history is judged, and invariants are evaluated after each step." }
                @for found in &results.simulations {
                    article {
                        (one(&found.result))
                        p class="quiet" { code { (found.path.display()) } }
                    }
                }
            }
        }
    }
}

fn one(simulation: &Simulation) -> Markup {
    let faults: u64 = simulation.faults.values().sum();
    html! {
        @if let Some(text) = &simulation.command { (command(text)) }
        p {
            (number(simulation.seeds as f64)) " seeds, " (number(simulation.simulated_seconds)) " simulated seconds, "
            (number(simulation.committed as f64)) " commits, " (number(simulation.aborted as f64)) " aborted attempts, "
            (number(faults as f64)) " faults: "
            @if simulation.violations.is_empty() {
                strong class="met" { "nothing violated" }
            } @else {
                strong class="unmet" { (simulation.violations.len()) " violations" }
            }
        }
        @if !simulation.violations.is_empty() {
            ul { @for violation in &simulation.violations {
                li { "seed " (violation.seed) ": " (violation.invariant) }
            } }
        }
        @if faults > 0 {
            details {
                summary { "Faults" }
                div class="wide" { table {
                    thead { tr { th { "Fault" } th class="number" { "Times" } } }
                    tbody { @for (fault, times) in simulation.faults.iter().filter(|(_, times)| **times > 0) {
                        tr { td { (fault) } td class="number" { (number(*times as f64)) } }
                    } }
                } }
            }
        }
    }
}
