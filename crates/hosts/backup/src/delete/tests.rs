//! Deleting while others lean on what goes, while the archive fails, and while a backup is taken.

use super::*;
use crate::archive::faulty::Faulty;
use crate::create::Run;
use crate::create::tests::{all_of, directory, held, options, shards, states, taken, value};

fn these(folders: &[&String]) -> BTreeSet<String> {
    folders.iter().map(|folder| (*folder).clone()).collect()
}

#[tokio::test]
async fn a_backup_that_others_lean_on_is_deleted_with_them_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let (_, archive) = directory(folder.path());
    let mut given = shards(300);
    let full = taken(&archive, &given, 10, &options(false)).await.unwrap().folder;
    given.get_mut(&1).unwrap()[5] = value(5, 5);
    let second = taken(&archive, &given, 20, &options(true)).await.unwrap().folder;
    let third = taken(&archive, &given, 30, &options(true)).await.unwrap().folder;
    let refused = delete(&archive, &these(&[&full, &second])).await.unwrap_err();
    assert!(refused.to_string().contains(&third), "{refused}");
    assert!(archive.folders().await.unwrap().iter().all(|name| name != DELETING));
    assert_eq!(held(&archive, &third, None).await.unwrap(), all_of(&given));
    let unknown = delete(&archive, &BTreeSet::from(["../x".to_owned()])).await.unwrap_err();
    assert!(unknown.to_string().contains("there is no backup"), "{unknown}");

    let deleted = delete(&archive, &these(&[&third])).await.unwrap();
    assert_eq!(deleted.len(), 1, "{deleted:?}");
    assert_eq!(held(&archive, &second, None).await.unwrap(), all_of(&given));
    delete(&archive, &these(&[&second, &full])).await.unwrap();
    assert_eq!(archive.folders().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_damaged_manifest_may_lean_on_backups_of_its_keyspace_and_on_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let (_, archive) = directory(folder.path());
    let full = taken(&archive, &shards(50), 10, &options(false)).await.unwrap().folder;
    put(&*archive, "orders-1-2/manifest.json", Bytes::from_static(b"{")).await.unwrap();
    put(&*archive, "accounts-1-2/manifest.json", Bytes::from_static(b"{")).await.unwrap();
    let refused = delete(&archive, &these(&[&full])).await.unwrap_err().to_string();
    assert!(refused.contains("accounts-1-2 (damaged") && !refused.contains("orders"), "{refused}");
    delete(&archive, &these(&[&full, &"accounts-1-2".to_owned()])).await.unwrap();
    assert_eq!(archive.folders().await.unwrap(), ["orders-1-2"]);
}

/// Makes everything in a folder look as if it was written some time ago.
fn age(folder: &std::path::Path, by: Duration) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = std::fs::File::options().write(true).open(entry.unwrap().path()).unwrap();
        file.set_modified(std::time::SystemTime::now() - by).unwrap();
    }
}

#[tokio::test]
async fn segments_of_an_interrupted_backup_go_with_the_last_one_that_needs_them() {
    for is_old in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let (directory, archive) = directory(folder.path());
        let given = shards(500);
        let mut left = String::new();
        // It fails late enough to have written something.
        for first in 10.. {
            let failing: Arc<dyn Archive> = Arc::new(Faulty::new(&directory, first..u64::MAX));
            if let Err(Error::Unfinished { folder, .. }) = taken(&failing, &given, 10, &options(false)).await
            {
                left = folder;
                break;
            }
            let rest: BTreeSet<String> = states(&archive).await.1.into_iter().collect();
            delete(&archive, &rest).await.unwrap();
        }
        let [first, second] = [20, 30].map(|instant| (instant, options(instant == 30)));
        let first = taken(&archive, &given, first.0, &first.1).await.unwrap();
        let second = taken(&archive, &given, second.0, &second.1).await.unwrap();
        assert!(first.manifest.bytes_of(&left) > 0 && second.manifest.bytes_of(&left) > 0);
        if is_old {
            age(&folder.path().join("backups").join(&left), QUIET + Duration::from_secs(60));
        }
        let refused = delete(&archive, &these(&[&left])).await.unwrap_err().to_string();
        assert!(refused.contains(&first.folder) && refused.contains(&second.folder), "{refused}");
        let deleted = delete(&archive, &these(&[&second.folder])).await.unwrap();
        assert_eq!(deleted.len(), 1, "the other one needs it: {deleted:?}");
        let deleted = delete(&archive, &these(&[&first.folder])).await.unwrap();
        let swept: Vec<&str> =
            deleted.iter().filter(|one| one.was_unneeded).map(|one| one.folder.as_str()).collect();
        assert_eq!(swept, if is_old { vec![left.as_str()] } else { vec![] });
        assert_eq!(states(&archive).await.1.len(), usize::from(!is_old), "one that may be under way stays");
    }
}

#[tokio::test]
async fn of_a_deletion_and_a_backup_at_one_time_one_sees_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let (_, archive) = directory(folder.path());
    let given = shards(300);
    let full = taken(&archive, &given, 10, &options(false)).await.unwrap().folder;
    // The backup has begun: the deletion is refused.
    let run = Run::begin(&archive, "accounts", None, true).await.unwrap();
    let refused = delete(&archive, &these(&[&full])).await.unwrap_err().to_string();
    assert!(refused.contains("(not finished)"), "{refused}");
    run.give_up(Error::Interrupted).await;
    // The deletion has begun: the backup leans on nothing of it.
    put(&*archive, &mark_name(DELETING, &full), Bytes::from_static(b"{}")).await.unwrap();
    let beside = taken(&archive, &given, 20, &options(true)).await.unwrap();
    assert!(beside.manifest.leans_on.is_empty(), "{:?}", beside.manifest.leans_on);
    delete(&archive, &these(&[&full])).await.unwrap();
    assert_eq!(held(&archive, &beside.folder, None).await.unwrap(), all_of(&given));
}

#[tokio::test]
async fn a_deletion_that_fails_anywhere_is_done_again_and_harms_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let (directory, archive) = directory(folder.path());
    let given = shards(300);
    let base = taken(&archive, &given, 10, &options(false)).await.unwrap().folder;
    for first in 0.. {
        assert!(first < 1_000, "it never ends");
        let goes = taken(&archive, &shards(301), 20, &options(true)).await.unwrap().folder;
        let faulty = Arc::new(Faulty::new(&directory, first..u64::MAX));
        let failing: Arc<dyn Archive> = Arc::clone(&faulty) as _;
        let outcome = delete(&failing, &these(&[&goes])).await;
        let what = format!("fault {first}: {outcome:?}");
        assert_eq!(held(&archive, &base, None).await.unwrap(), all_of(&given), "{what}");
        let (whole, unfinished) = states(&archive).await;
        if whole.contains(&goes) {
            assert_eq!(held(&archive, &goes, None).await.unwrap(), all_of(&shards(301)), "{what}");
        }
        assert!(outcome.is_err() || whole.len() == 1 && unfinished.is_empty(), "{what}");
        if outcome.is_err() {
            delete(&archive, &these(&[&goes])).await.unwrap_or_else(|_| Vec::new());
        }
        assert_eq!(states(&archive).await, (vec![base.clone()], vec![]), "{what}");
        if outcome.is_ok() {
            assert!(first > 8, "there are calls for all that is done: {first}");
            break;
        }
    }
}
