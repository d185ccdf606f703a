//! The way of a run's message, against a real RabbitMQ: what arrives, what comes back, and what is said when nothing does.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use hostwright::backend::amqp::{AmqpError, Broker, Delivery, QueueState, REASON_HEADER, Settled, Taken};
use hostwright::config::{self, Amqp, Permit, Secret, Sources, Variables};
use hostwright::domain::{Health, Message, Parameters, ProblemKind, RawAnnouncement};
use hostwright::play::services::rabbitmq::RabbitMq;
use lapin::options::{
    BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, ExchangeDeleteOptions, QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use tokio::sync::watch;

use crate::proxy::Proxy;
use crate::support;

const LONG: Duration = Duration::from_secs(60);
/// What the issue asks of every failure to publish.
const NAMED_WITHIN: Duration = Duration::from_secs(10);

fn permit() -> Permit {
    let folder = support::temp();
    let file = folder.path().join("config.toml");
    std::fs::write(&file, "[environments.test.policy]\nsource = \"/nowhere\"\n").unwrap();
    let sources = Sources { file: Some(file), ..Sources::default() };
    let config = config::load_with(&sources, &Variables::default()).unwrap_or_else(|e| panic!("{e}"));
    config.settings(None).unwrap_or_else(|e| panic!("{e}")).permit().unwrap()
}

/// A UID of its own for every run of every test.
pub(crate) fn uid(what: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{what}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn message(run: &str) -> Message {
    let raw = RawAnnouncement { hostname: "web-1.example.org".into(), ..RawAnnouncement::default() };
    Message::new(run.into(), "provision-web-1".into(), raw.check().unwrap(), Parameters::default())
}

fn settings(url: &str) -> Amqp {
    Amqp { url: Secret::new(url), exchange: "hostwright".into(), dead_letter: "hostwright.dead".into() }
}

pub(crate) fn broker(url: &str) -> Broker {
    Broker::new(&settings(url)).unwrap()
}

pub(crate) async fn publish(broker: &Broker, run: &str) -> Result<(), AmqpError> {
    broker.publish(&permit(), &message(run)).await
}

pub(crate) async fn taken(broker: &Broker, run: &str) -> Delivery {
    match broker.take(&permit(), run, LONG).await.unwrap() {
        Taken::Delivery(delivery) => *delivery,
        Taken::Nothing => panic!("no message for {run}"),
    }
}

pub(crate) async fn state(broker: &Broker, run: &str) -> QueueState {
    broker.queue_state(run).await.unwrap().expect("a queue")
}

/// Waits until so many messages wait in the queue.
pub(crate) async fn until_waiting(broker: &Broker, run: &str, messages: u32) {
    let look = async {
        while state(broker, run).await.messages != messages {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, look).await.expect("the messages in time");
}

pub(crate) async fn health(
    seen: &mut watch::Receiver<Health>,
    wanted: impl FnMut(&Health) -> bool,
) -> Health {
    tokio::time::timeout(LONG, seen.wait_for(wanted)).await.expect("the health in time").unwrap().clone()
}

/// A client of another make: the library alone.
async fn other(url: &str) -> (Connection, Channel) {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    (connection, channel)
}

pub(crate) async fn control(node: &RabbitMq, arguments: &[&str]) {
    let done = node.tool("rabbitmqctl").args(["--quiet"]).args(arguments).output().await.unwrap();
    assert!(done.status.success(), "rabbitmqctl {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// The error, which must have come in time.
pub(crate) async fn refused(work: impl Future<Output = Result<(), AmqpError>>) -> AmqpError {
    let start = Instant::now();
    let error = work.await.expect_err("it should fail");
    let took = start.elapsed();
    assert!(took < NAMED_WITHIN, "{error} took {took:?}");
    let shown = format!("{error} {error:?} {}", error.problem());
    assert!(!shown.contains("guest:guest") && !shown.contains("hunter2"), "{shown}");
    error
}

/// Every deed can be done on a task of its own.
#[allow(dead_code)]
fn tasks(broker: &'static Broker, permit: &'static Permit, message: &'static Message) {
    tokio::spawn(async move {
        broker.publish(permit, message).await?;
        broker.delete_queue(permit, "x").await?;
        broker.queue_state("x").await?;
        if let Taken::Delivery(delivery) = broker.take(permit, "x", LONG).await? {
            delivery.dead_letter("x").await?;
        }
        Ok::<_, AmqpError>(())
    });
}

#[tokio::test]
async fn a_message_is_published_taken_and_acknowledged_once() {
    let broker = broker(&support::rabbitmq().await.url());
    let run = uid("once");
    assert_eq!(broker.queue_state(&run).await.unwrap(), None);
    assert_eq!(*broker.health().borrow(), Health::Up);

    publish(&broker, &run).await.unwrap();
    // The server died before it marked the run delivered: it publishes again, and the message is not doubled.
    publish(&broker, &run).await.unwrap();
    assert_eq!(state(&broker, &run).await, QueueState { messages: 1, consumers: 0 });

    let delivery = taken(&broker, &run).await;
    assert_eq!(delivery.message().unwrap(), message(&run));
    assert_eq!((delivery.id(), delivery.redelivered()), (Some(run.as_str()), false));
    // The same again while a pod holds the message, which cannot be seen: a double, which goes with the first.
    publish(&broker, &run).await.unwrap();
    assert_eq!(state(&broker, &run).await.messages, 1);
    assert_eq!(delivery.ack().await.unwrap(), Settled::AtOnce);
    assert_eq!(state(&broker, &run).await, QueueState { messages: 0, consumers: 0 });

    broker.delete_queue(&permit(), &run).await.unwrap();
    broker.delete_queue(&permit(), &run).await.unwrap();
    assert_eq!(broker.queue_state(&run).await.unwrap(), None);
}

#[tokio::test]
async fn the_pod_may_come_first_and_nothing_is_said_when_nothing_comes() {
    let broker = broker(&support::rabbitmq().await.url());
    let run = uid("first");
    let publishing = async {
        while broker.queue_state(&run).await.unwrap().is_none_or(|state| state.consumers == 0) {
            tokio::task::yield_now().await;
        }
        publish(&broker, &run).await.unwrap();
    };
    let (delivery, ()) = tokio::join!(taken(&broker, &run), publishing);
    delivery.requeue().await.unwrap();
    let again = taken(&broker, &run).await;
    assert!(again.redelivered());
    // What is neither acknowledged nor put back goes back by itself.
    drop(again);
    until_waiting(&broker, &run, 1).await;
    taken(&broker, &run).await.ack().await.unwrap();
    let nothing = broker.take(&permit(), &run, Duration::from_millis(300)).await.unwrap();
    assert!(matches!(nothing, Taken::Nothing), "{nothing:?}");
    broker.close().await;
    assert_eq!(*broker.health().borrow(), Health::Unknown);
    assert_eq!(state(&broker, &run).await.messages, 0, "it connects again after a close");
}

#[tokio::test]
async fn a_pod_that_dies_gives_its_message_to_the_next() {
    let node = support::rabbitmq().await;
    let server = broker(&node.url());
    let proxy = Proxy::start(node.port()).await;
    let first = broker(&format!("amqp://guest:guest@127.0.0.1:{}/%2f?heartbeat=2", proxy.port()));
    let run = uid("dies");
    publish(&server, &run).await.unwrap();
    let held = taken(&first, &run).await;
    // As kill -9 does: the sockets end, nobody says good-bye.
    proxy.cut();
    let second = taken(&server, &run).await;
    assert!(second.redelivered());
    assert_eq!(second.message().unwrap().run, run);
    assert_eq!(second.ack().await.unwrap(), Settled::AtOnce);
    // The first one was only cut off, not dead. It learns that its message is gone, instead of waiting for ever.
    assert_eq!(held.ack().await.unwrap(), Settled::Gone);
}

#[tokio::test]
async fn poison_is_dead_lettered_with_its_reason_and_does_not_come_back() {
    let url = support::rabbitmq().await.url();
    let run = uid("poison");
    let dead = format!("dead.{run}");
    let broker = Broker::new(&Amqp { dead_letter: dead.clone(), ..settings(&url) }).unwrap();
    let nothing = broker.take(&permit(), &run, Duration::from_millis(300)).await.unwrap();
    assert!(matches!(nothing, Taken::Nothing));
    let (_connection, channel) = other(&url).await;
    let queue = format!("hostwright.run.{run}");
    let options = BasicPublishOptions::default();
    channel
        .basic_publish("".into(), queue.into(), options, b"not json", BasicProperties::default())
        .await
        .unwrap()
        .await
        .unwrap();

    let delivery = taken(&broker, &run).await;
    let error = delivery.message().unwrap_err();
    assert_eq!(delivery.dead_letter(&error.to_string()).await.unwrap(), Settled::AtOnce);
    assert_eq!(state(&broker, &run).await.messages, 0);
    let letter = channel.basic_get(dead.into(), BasicGetOptions::default()).await.unwrap().expect("a letter");
    assert_eq!(letter.delivery.data, b"not json");
    let headers = letter.delivery.properties.headers().as_ref().unwrap().inner();
    let reason = headers.get(REASON_HEADER).unwrap().as_long_string().unwrap().to_string();
    assert!(reason.starts_with("the message is not a run's"), "{reason}");
}

/// Stops the publication in front of the broker, does something to the topology, and lets it go on.
async fn publish_around(change: impl AsyncFnOnce(&Channel, &str)) -> AmqpError {
    let node = support::rabbitmq().await;
    let proxy = Proxy::start(node.port()).await;
    let run = uid("around");
    let exchange = format!("exchange.{run}");
    let url = format!("amqp://guest:guest@127.0.0.1:{}/%2f", proxy.port());
    let broker = Broker::new(&Amqp { exchange: exchange.clone(), ..settings(&url) }).unwrap();
    // basic.publish: class 60, method 40.
    let stopped = proxy.stop_at(&[0, 60, 0, 40]);
    let meanwhile = async {
        stopped.await;
        let (_connection, channel) = other(&node.url()).await;
        change(&channel, &exchange).await;
        proxy.go_on();
    };
    let (error, ()) = tokio::join!(refused(publish(&broker, &run)), meanwhile);
    // Nothing was broken for good: the next try declares what is missing.
    publish(&broker, &run).await.unwrap();
    assert_eq!(state(&broker, &run).await.messages, 1);
    error
}

/// S15 a and b: an exchange that is not there, and one without a binding, at the moment of publishing: named, and mended by the next try.
#[tokio::test]
async fn publishing_into_nothing_is_said() {
    let error = publish_around(async |channel, exchange| {
        channel.exchange_delete(exchange.into(), ExchangeDeleteOptions::default()).await.unwrap();
    })
    .await;
    assert!(matches!(error, AmqpError::NotFound { .. }), "{error}");
    assert!(error.to_string().contains("no exchange 'exchange.around"), "{error}");

    let error = publish_around(async |channel, exchange| {
        let run = exchange.strip_prefix("exchange.").unwrap();
        let queue = format!("hostwright.run.{run}");
        channel.queue_unbind(queue.into(), exchange.into(), run.into(), FieldTable::default()).await.unwrap();
    })
    .await;
    assert!(matches!(error, AmqpError::Unroutable { .. }), "{error}");
    assert!(error.to_string().starts_with("no queue bound for"), "{error}");
}

/// S15 c: 406, where somebody declared the queue with other arguments.
#[tokio::test]
async fn what_was_declared_otherwise_is_named() {
    let url = support::rabbitmq().await.url();
    let run = uid("otherwise");
    let (_connection, channel) = other(&url).await;
    let queue = format!("hostwright.run.{run}");
    channel
        .queue_declare(queue.clone().into(), QueueDeclareOptions::durable(), FieldTable::default())
        .await
        .unwrap();
    let broker = broker(&url);
    let error = refused(publish(&broker, &run)).await;
    assert!(matches!(error, AmqpError::Mismatch { .. }), "{error}");
    assert!(error.to_string().contains(&queue), "{error}");
    let error = broker.take(&permit(), &run, LONG).await.unwrap_err();
    assert!(matches!(error, AmqpError::Mismatch { .. }), "{error}");
    assert_eq!(*broker.health().borrow(), Health::Up, "the broker itself is well");
}

/// S15 d: 403, and its neighbours: a wrong password, a virtual host that is not there.
#[tokio::test]
async fn who_may_not_is_told_what() {
    let node = support::rabbitmq().await;
    control(node, &["add_user", "ann", "hunter2"]).await;
    control(node, &["set_permissions", "ann", "^$", "", ""]).await;
    let run = uid("may-not");
    let url = |user: &str, vhost: &str| format!("amqp://{user}@127.0.0.1:{}/{vhost}", node.port());

    let error = refused(publish(&broker(&url("ann:hunter2", "%2f")), &run)).await;
    assert!(matches!(error, AmqpError::Forbidden { .. }), "{error}");
    assert_eq!(error.problem().kind, ProblemKind::Forbidden);

    let stranger = broker(&url("ann:hunter2x", "%2f"));
    let error = refused(publish(&stranger, &run)).await;
    assert!(matches!(&error, AmqpError::Login { user, .. } if user == "ann"), "{error}");
    let Health::Down { problem, .. } = stranger.health().borrow().clone() else { panic!("not down") };
    assert_eq!(problem.kind, ProblemKind::NotAuthenticated);
    assert!(problem.retry_at.is_some());

    let error = refused(publish(&broker(&url("guest:guest", "elsewhere")), &run)).await;
    assert!(matches!(&error, AmqpError::VirtualHost { vhost, .. } if vhost == "elsewhere"), "{error}");
}

#[tokio::test]
async fn who_is_no_broker_is_named() {
    let run = uid("no-broker");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let silent = broker(&format!("amqp://guest:guest@127.0.0.1:{port}/%2f"));
    let peer = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut said = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut said).await.unwrap();
        said
    };
    let (error, said) = tokio::join!(refused(publish(&silent, &run)), peer);
    assert!(matches!(error, AmqpError::Unreachable { .. }), "{error}");
    // The peer has seen the end of it: no connection, and no thread that waits for one, is left.
    assert!(said.starts_with(b"AMQP"), "{said:?}");

    drop(listener);
    let closed = broker(&format!("amqp://guest:guest@127.0.0.1:{port}/%2f"));
    let error = refused(publish(&closed, &run)).await;
    assert!(error.to_string().ends_with("connection refused"), "{error}");
}

/// S14, without a process in between: see also `frozen.rs`.
#[tokio::test]
async fn a_half_open_connection_is_noticed_within_two_heartbeats() {
    let node = support::rabbitmq().await;
    let proxy = Proxy::start(node.port()).await;
    let broker = broker(&format!("amqp://guest:guest@127.0.0.1:{}/%2f?heartbeat=2", proxy.port()));
    broker.connect().await.unwrap();
    let mut seen = broker.health();
    assert_eq!(*seen.borrow_and_update(), Health::Up);
    proxy.stall();
    let start = Instant::now();
    let down = health(&mut seen, |h| matches!(h, Health::Down { .. })).await;
    let took = start.elapsed();
    assert!(took < Duration::from_secs(4), "{took:?}");
    let Health::Down { problem, .. } = down else { unreachable!() };
    assert!(problem.text.contains("stopped answering heartbeats"), "{problem}");
    proxy.go_on();
    health(&mut seen, |h| *h == Health::Up).await;
}

/// S14: a heartbeat of 0 is honoured.
#[tokio::test]
async fn no_heartbeat_is_no_spin() {
    let node = support::rabbitmq().await;
    let broker = broker(&format!("{}?heartbeat=0", node.url()));
    let run = uid("heartless");
    let work = async {
        publish(&broker, &run).await.unwrap();
        taken(&broker, &run).await.ack().await.unwrap();
    };
    work.await;
    // The time that all of the library's threads use in a second of doing nothing.
    let before = library_ticks();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let used = library_ticks().saturating_sub(before);
    assert!(used < 50, "{used} of 100 ticks");
}

/// The processor time of the client library's threads, in hundredths of a second.
fn library_ticks() -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    threads
        .filter_map(|thread| {
            let read = |file: &str| std::fs::read_to_string(thread.path().join(file)).ok();
            read("comm").filter(|name| name.trim() == "lapin-io-loop")?;
            let stat = read("stat")?;
            let fields: Vec<u64> = stat
                .rsplit_once(')')?
                .1
                .split_whitespace()
                .skip(11)
                .take(2)
                .filter_map(|n| n.parse().ok())
                .collect();
            Some(fields.iter().sum::<u64>())
        })
        .sum()
}

/// All that disturbs a whole node, on one of its own.
#[tokio::test]
async fn a_disturbed_broker() {
    let (node, _folder) = support::own_rabbitmq().await;
    closed_connections_do_not_stop_a_run(&node).await;
    the_brokers_patience_does_not_stop_a_run(&node).await;
    an_alarm_is_named_and_passes(&node).await;
    a_stopped_broker_is_named_and_comes_back(&node).await;
}

async fn closed_connections_do_not_stop_a_run(node: &RabbitMq) {
    let broker = broker(&node.url());
    let run = uid("closed");
    publish(&broker, &run).await.unwrap();
    let held = taken(&broker, &run).await;
    let burying = uid("closed-poison");
    publish(&broker, &burying).await.unwrap();
    let poison = taken(&broker, &burying).await;
    control(node, &["close_all_connections", "for a test"]).await;
    until_waiting(&broker, &run, 1).await;
    assert_eq!(held.ack().await.unwrap(), Settled::TakenAgain);
    assert_eq!(state(&broker, &run).await.messages, 0);
    assert_eq!(poison.dead_letter("for a test").await.unwrap(), Settled::TakenAgain);
    assert_eq!(state(&broker, &burying).await.messages, 0);
}

async fn the_brokers_patience_does_not_stop_a_run(node: &RabbitMq) {
    let broker = broker(&node.url());
    let run = uid("patience");
    // Half an hour, in short.
    control(node, &["eval", "application:set_env(rabbit, channel_tick_interval, 200)."]).await;
    control(node, &["eval", "application:set_env(rabbit, consumer_timeout, 200)."]).await;
    publish(&broker, &run).await.unwrap();
    let held = taken(&broker, &run).await;
    until_waiting(&broker, &run, 1).await;
    control(node, &["eval", "application:set_env(rabbit, consumer_timeout, 1800000)."]).await;
    assert_eq!(held.ack().await.unwrap(), Settled::TakenAgain);
    assert_eq!(state(&broker, &run).await.messages, 0);
}

/// S15 e: a disk alarm blocks whoever publishes.
async fn an_alarm_is_named_and_passes(node: &RabbitMq) {
    let broker = broker(&node.url());
    let run = uid("alarm");
    let mut seen = broker.health();
    control(node, &["set_disk_free_limit", "9999GB"]).await;
    let error = refused(publish(&broker, &run)).await;
    assert!(matches!(&error, AmqpError::Blocked { reason, .. } if reason.contains("disk")), "{error}");
    health(&mut seen, |h| matches!(h, Health::Down { .. })).await;
    // What does not publish goes on.
    assert_eq!(state(&broker, &run).await.messages, 0);
    let error = refused(publish(&broker, &run)).await;
    assert!(matches!(error, AmqpError::Blocked { .. }), "{error}");

    control(node, &["set_disk_free_limit", "50MB"]).await;
    health(&mut seen, |h| *h == Health::Up).await;
    publish(&broker, &run).await.unwrap();
    taken(&broker, &run).await.ack().await.unwrap();
    assert_eq!(
        state(&broker, &run).await.messages,
        0,
        "the one that waited behind the alarm is no second one"
    );
}

async fn a_stopped_broker_is_named_and_comes_back(node: &RabbitMq) {
    let broker = broker(&node.url());
    let (run, kept) = (uid("stopped"), uid("kept"));
    publish(&broker, &kept).await.unwrap();
    let mut seen = broker.health();
    let held = taken(&broker, &kept).await;
    let waiting = {
        let (broker, run) = (broker.clone(), run.clone());
        tokio::spawn(async move { taken(&broker, &run).await })
    };
    node.stop().await;
    let Health::Down { problem, .. } = health(&mut seen, |h| matches!(h, Health::Down { .. })).await else {
        unreachable!()
    };
    assert!(problem.retry_at.is_some(), "{problem:?}");
    let error = refused(publish(&broker, &run)).await;
    assert!(matches!(error, AmqpError::Unreachable { .. }), "{error}");
    let error = broker.take(&permit(), &run, Duration::from_secs(6)).await.unwrap_err();
    assert!(matches!(error, AmqpError::Unreachable { .. }), "{error}");

    node.start_again().await.unwrap();
    publish(&broker, &run).await.unwrap();
    let delivery = tokio::time::timeout(LONG, waiting).await.expect("the message in time").unwrap();
    assert_eq!(delivery.message().unwrap(), message(&run));
    assert_eq!(delivery.ack().await.unwrap(), Settled::AtOnce);
    assert_eq!(held.ack().await.unwrap(), Settled::TakenAgain, "what was held over the restart");
    health(&mut seen, |h| *h == Health::Up).await;
}
