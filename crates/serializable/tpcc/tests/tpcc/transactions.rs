//! The effects of each transaction.

use quorate_procedure::{Answer, Direction, Memory, Procedure, Stop, Store};
use quorate_tpcc::Tpcc;
use quorate_tpcc::key;
use quorate_tpcc::procedures::{
    self, DeliveryAnswer, NewOrderAnswer, OrderStatusAnswer, PaymentAnswer, StockLevelAnswer,
};
use quorate_tpcc::row;
use quorate_tpcc::transaction::{
    Delivery, Line, NewOrder, OrderStatus, Payment, StockLevel, Transaction, Who,
};

use crate::world::{NOW, World};

fn order(lines: Vec<Line>) -> Transaction {
    Transaction::NewOrder(NewOrder { warehouse: 1, district: 2, customer: 3, entered: NOW, lines })
}

#[test]
fn an_item_that_does_not_exist_leaves_no_trace_at_any_participant() {
    let mut world = World::new(3, 3);
    let before = world.all();
    let line = |item, supplier| Line { item, supplier, quantity: 5 };
    let transaction = order(vec![line(1, 1), line(2, 2), line(3, 3), line(201, 1)]);
    assert_eq!(transaction.warehouses(), [1, 2, 3]);
    assert_eq!(world.run(&Tpcc, &transaction), Err(b"Item number is not valid".to_vec()));
    assert_eq!(world.all(), before);
}

#[test]
fn an_order_is_placed_shown_delivered_and_paid() {
    let mut world = World::new(2, 2);
    let line = |item, supplier, quantity| Line { item, supplier, quantity };
    let placed = order(vec![line(10, 1, 4), line(11, 2, 7), line(12, 1, 1)]);
    let stock_before = |world: &World, warehouse, item| {
        let shard = &world.shards[world.shard_of(warehouse)].pairs;
        row::Stock::of(shard[&key::stock(warehouse, item)].clone()).unwrap()
    };
    let (near, far) = (stock_before(&world, 1, 10), stock_before(&world, 2, 11));

    // Warehouse 2 is on shard 0, and warehouse 1 on shard 1.
    let answers = world.run(&Tpcc, &placed).unwrap();
    let answers: Vec<NewOrderAnswer> =
        answers.iter().map(|bytes| NewOrderAnswer::decode(bytes).expect("it is an answer")).collect();
    assert_eq!(answers[0].ordered, None);
    assert_eq!(answers[0].supplied.iter().map(|line| line.line).collect::<Vec<_>>(), [2]);
    assert_eq!(answers[1].supplied.iter().map(|line| line.line).collect::<Vec<_>>(), [1, 3]);
    let ordered = answers[1].ordered.clone().unwrap();
    assert_eq!((ordered.order, ordered.prices.len()), (31, 3));

    let after = |before: &row::Stock, quantity| {
        let rest = before.quantity() - quantity;
        if rest < 10 { rest + 91 } else { rest }
    };
    let (near_now, far_now) = (stock_before(&world, 1, 10), stock_before(&world, 2, 11));
    assert_eq!(near_now.quantity(), after(&near, 4));
    assert_eq!(far_now.quantity(), after(&far, 7));
    assert_eq!((near_now.ordered(), near_now.lines(), near_now.remote_lines()), (4, 1, 0));
    assert_eq!((far_now.ordered(), far_now.lines(), far_now.remote_lines()), (7, 1, 1));

    let status =
        Transaction::OrderStatus(OrderStatus { warehouse: 1, district: 2, customer: Who::Number(3) });
    let show = |world: &mut World| {
        let answers = world.run(&Tpcc, &status).unwrap();
        OrderStatusAnswer::decode(&answers[0]).expect("it is an answer")
    };
    let shown = show(&mut world);
    assert_eq!((shown.customer, shown.order, shown.balance), (3, (31, NOW, 0), -1_000));
    let amounts: Vec<i64> = shown.lines.iter().map(|line| line.amount).collect();
    let expected: Vec<i64> =
        ordered.prices.iter().zip([4, 7, 1]).map(|(price, quantity)| price * quantity).collect();
    assert_eq!(amounts, expected);

    // Of thirty orders nine wait in each district, and the new one comes last.
    for at in 0..10 {
        let delivery = Delivery { warehouse: 1, carrier: 7, date: NOW + at };
        let answers = world.run(&Tpcc, &Transaction::Delivery(delivery)).unwrap();
        let delivered = DeliveryAnswer::decode(&answers[0]).expect("it is an answer");
        let other = if at < 9 { Some(22 + at as u32) } else { None };
        let mut expected = [other; 10];
        expected[1] = Some(22 + at as u32);
        assert_eq!(delivered.orders, expected, "{at}");
    }
    let shown = show(&mut world);
    assert_eq!(shown.order, (31, NOW, 7));
    assert!(shown.lines.iter().all(|line| line.delivered == NOW + 9));
    let owed = shown.balance;
    assert!(owed >= expected.iter().sum::<i64>() - 1_000, "{owed}");

    let payment = Transaction::Payment(Payment {
        warehouse: 2,
        district: 1,
        customer_warehouse: 1,
        customer_district: 2,
        customer: Who::LastName(shown.names[2].clone()),
        amount: 777,
        date: NOW,
    });
    assert_eq!(payment.warehouses(), [1, 2]);
    let answers = world.run(&Tpcc, &payment).unwrap();
    let answers: Vec<PaymentAnswer> =
        answers.iter().map(|bytes| PaymentAnswer::decode(bytes).expect("it is an answer")).collect();
    assert!(answers[0].paid.is_some() && answers[0].customer.is_none());
    assert!(answers[1].paid.is_none() && answers[1].customer == Some((3, owed - 777)));
    assert_eq!(world.violations(), [""; 0]);
}

#[test]
fn of_customers_with_one_name_the_middle_one_is_meant() {
    let mut world = World::new(1, 1);
    // Customers 4, 5, 6 and 7 of a district get one last name, and first names in another order than their
    // numbers.
    for (number, first) in [(4, "Dora"), (5, "Anna"), (6, "Cleo"), (7, "Bess")] {
        let shard = &mut world.shards[0].pairs;
        let mut customer = row::Customer::of(shard[&key::customer(1, 1, number)].clone()).unwrap();
        let (last, old) = (customer.last(), customer.first());
        shard.remove(&key::customer_by_name(1, 1, last.as_bytes(), old.as_bytes(), number));
        customer.set_last(row::Text::new(b"SAME"));
        customer.set_first(row::Text::new(first.as_bytes()));
        shard.insert(key::customer_by_name(1, 1, b"SAME", first.as_bytes(), number), Vec::new());
        shard.insert(key::customer(1, 1, number), customer.as_bytes().to_vec());
        // Neither is one whose name only begins alike.
        shard.insert(key::customer_by_name(1, 1, b"SAMEAS", b"Aaron", 99), Vec::new());
    }
    let status = |name: &[u8]| {
        Transaction::OrderStatus(OrderStatus {
            warehouse: 1,
            district: 1,
            customer: Who::LastName(name.to_vec()),
        })
    };
    let answers = world.run(&Tpcc, &status(b"SAME")).unwrap();
    assert_eq!(OrderStatusAnswer::decode(&answers[0]).unwrap().customer, 7);
    assert_eq!(world.run(&Tpcc, &status(b"NOBODY")), Err(b"there is no such customer".to_vec()));
}

#[test]
fn the_level_of_a_stock_counts_each_item_once() {
    let mut world = World::new(1, 1);
    let (from, to) = key::order_lines(1, 6, 11, 31);
    let lines = world.shards[0].scan(&from, &to, usize::MAX, Direction::Ascending).unwrap();
    let mut items: Vec<u32> =
        lines.into_iter().map(|(_, bytes)| row::OrderLine::of(bytes).unwrap().item()).collect();
    assert!(items.len() > 100);
    items.sort_unstable();
    items.dedup();
    let quantity = |item| {
        let bytes = world.shards[0].pairs[&key::stock(1, item)].clone();
        row::Stock::of(bytes).unwrap().quantity()
    };
    let expected = items.iter().filter(|item| quantity(**item) < 50).count();
    let level = Transaction::StockLevel(StockLevel { warehouse: 1, district: 6, threshold: 50 });
    let answers = world.run(&Tpcc, &level).unwrap();
    assert_eq!(StockLevelAnswer::decode(&answers[0]).unwrap().low as usize, expected);
    assert!(expected > 10);
}

#[test]
fn bad_credit_is_noted() {
    let mut world = World::new(1, 1);
    let shard = &mut world.shards[0].pairs;
    let key = key::customer(1, 1, 1);
    let mut customer = row::Customer::of(shard[&key].clone()).unwrap();
    customer.set_credit(row::Text::new(b"BC"));
    shard.insert(key.clone(), customer.as_bytes().to_vec());
    let payment = Payment {
        warehouse: 1,
        district: 2,
        customer_warehouse: 1,
        customer_district: 1,
        customer: Who::Number(1),
        amount: 5_000,
        date: NOW,
    };
    for _ in 0..20 {
        world.run(&Tpcc, &Transaction::Payment(payment.clone())).unwrap();
    }
    let customer = row::Customer::of(world.shards[0].pairs[&key].clone()).unwrap();
    assert!(customer.data().starts_with(b"1 1 1 1 2 5000|1 1 1 1 2 5000|"));
    assert_eq!(customer.data().len(), 500);
}

#[test]
fn a_procedure_for_one_kind_refuses_others() {
    let mut world = World::new(1, 1);
    let level = Transaction::StockLevel(StockLevel { warehouse: 1, district: 6, threshold: 50 });
    assert!(world.run(&procedures::StockLevel, &level).is_ok());
    assert_eq!(world.run(&procedures::NewOrder, &level), Err(procedures::MALFORMED.to_vec()));
    assert_eq!(Tpcc.call(&mut Memory::default(), b""), Ok(Answer::Refused(procedures::MALFORMED.to_vec())));
    // Where somebody else has written, it fails and does not panic.
    let mut shard = Memory::default();
    shard.pairs.insert(key::district(1, 6), vec![1]);
    assert_eq!(Tpcc.call(&mut shard, &level.arguments(&[1])), Err(Stop::Failed));
}
