//! The programs of `examples` do what they say, all on one cluster.

#[expect(dead_code, reason = "a program has a main function")]
#[path = "../../examples/cities.rs"]
mod cities;
#[expect(dead_code, reason = "as above")]
#[path = "../../examples/early.rs"]
mod early;
#[expect(dead_code, reason = "as above")]
#[path = "../../examples/outcome.rs"]
mod outcome;
#[expect(dead_code, reason = "as above")]
#[path = "../../examples/stock.rs"]
mod stock;
#[expect(dead_code, reason = "as above")]
#[path = "../../examples/timeline.rs"]
mod timeline;
#[expect(dead_code, reason = "as above")]
#[path = "../../examples/transfer.rs"]
mod transfer;

use quorate::Outcome;

use crate::support::Cluster;

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_do_what_they_say() {
    let cluster = Cluster::start();
    let address = cluster.addresses().join(",");
    // The second time they find what the first has left behind.
    for _ in 0..2 {
        assert_eq!(transfer::run(&address).await.unwrap(), (10, 90));
        assert_eq!(cities::run(&address).await.unwrap(), ["ada", "alan", "ada"]);
        let left: Vec<i64> = (0..12).map(|orders| 1 + 2 * orders).collect();
        assert_eq!(stock::run(&address).await.unwrap(), left);
        assert_eq!(timeline::run(&address).await.unwrap(), (1, "It is snowing.".to_owned()));
        let end = early::run(&address).await.unwrap();
        assert!(matches!(end, early::End::Final { .. }), "{end:?}");
        let (committed, aborted) = outcome::run(&address).await.unwrap();
        assert!(matches!(committed, Outcome::Committed(_)) && aborted == Outcome::Aborted);
    }
}
