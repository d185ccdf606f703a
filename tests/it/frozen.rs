//! S14: a line to the broker that is frozen, then gone, then new; and a broker that ends all connections.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hostwright::backend::amqp::{AmqpError, Broker, Settled};
use hostwright::domain::Health;
use hostwright::play::services::rabbitmq::RabbitMq;
use rustix::process::{Pid, Signal, kill_process};

use crate::amqp::{broker, control, health, message, publish, refused, state, taken, uid, until_waiting};
use crate::repair::free_port;
use crate::support;

/// Two heartbeats, as the URL below asks for them, and a second for a busy machine.
const NOTICED_WITHIN: Duration = Duration::from_secs(5);
const FROZEN: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(60);

/// As `socat TCP-LISTEN:…,fork TCP:…` does, but one process for all connections: stopped, it holds all of them.
const RELAY: &str = r"
import asyncio, sys

async def pump(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()

async def relay(reader, writer):
    try:
        far_reader, far_writer = await asyncio.open_connection('127.0.0.1', int(sys.argv[2]))
    except OSError:
        writer.close()
        return
    await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))

async def main():
    server = await asyncio.start_server(relay, '127.0.0.1', int(sys.argv[1]))
    print('relays', flush=True)
    await server.serve_forever()

asyncio.run(main())
";

/// A relay in a process of its own, which ends when dropped.
struct Relay(Child);

impl Relay {
    fn start(python: &Path, port: u16, behind: u16) -> Self {
        let mut command = Command::new(python);
        command.args(["-c", RELAY, &port.to_string(), &behind.to_string()]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let out = child.stdout.as_mut().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
        assert_eq!(line, "relays\n");
        Self(child)
    }

    fn freeze(&self) {
        kill_process(Pid::from_raw(self.0.id().cast_signed()).unwrap(), Signal::STOP).unwrap();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Waits until so many consumers are at the queue.
async fn until_consumed(broker: &Broker, run: &str, consumers: u32) {
    let started = Instant::now();
    loop {
        // The queue may not be there yet, and who asks may have lost its connection too.
        let found = broker.queue_state(run).await;
        if matches!(found, Ok(Some(state)) if state.consumers == consumers) {
            return;
        }
        assert!(started.elapsed() < PATIENCE, "{run}: {found:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Publishes again and again, as the server does, until it goes well.
async fn publish_at_last(broker: &Broker, run: &str) {
    let started = Instant::now();
    while let Err(error) = publish(broker, run).await {
        assert!(started.elapsed() < PATIENCE, "{run}: {error}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// A pod that waits for its message, in a task of its own.
fn waits(broker: &Broker, run: &str) -> tokio::task::JoinHandle<()> {
    let (broker, run) = (broker.clone(), run.to_owned());
    tokio::spawn(async move {
        let delivery = taken(&broker, &run).await;
        assert_eq!(delivery.message().unwrap(), message(&run));
        assert_eq!(delivery.ack().await.unwrap(), Settled::AtOnce);
    })
}

/// What a pod waited for came to it, once, and nothing is left.
async fn comes_once(direct: &Broker, run: &str, pod: tokio::task::JoinHandle<()>) {
    until_consumed(direct, run, 1).await;
    publish_at_last(direct, run).await;
    tokio::time::timeout(PATIENCE, pod).await.expect("the message in time").unwrap();
    until_waiting(direct, run, 0).await;
    until_consumed(direct, run, 0).await;
}

/// S14: frozen for 20 s with a heartbeat of 2 s, then killed, then a new one at the same place: noticed within two heartbeats and told
/// since when; one consumer afterwards; no message is lost or doubled.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_relay_is_noticed_and_its_successor_loses_and_doubles_nothing() {
    let node = support::rabbitmq().await;
    let python = &support::python().await.python;
    let port = free_port();
    let relay = Relay::start(python, port, node.port());
    let url = format!("amqp://guest:guest@127.0.0.1:{port}/%2f?heartbeat=2");
    let (server, pod, direct) = (broker(&url), broker(&url), broker(&node.url()));
    let runs: Vec<String> = (0..10).map(|n| uid(&format!("frozen-{n}"))).collect();
    let (before, meanwhile) = runs.split_at(5);
    for run in before {
        publish(&server, run).await.unwrap();
    }
    let held = taken(&pod, &before[0]).await;
    let expected = uid("frozen-waits");
    let waiting = waits(&pod, &expected);
    until_consumed(&direct, &expected, 1).await;
    let mut seen = server.health();
    assert_eq!(*seen.borrow_and_update(), Health::Up);

    relay.freeze();
    let frozen = Instant::now();
    let down = health(&mut seen, |health| matches!(health, Health::Down { .. })).await;
    assert!(frozen.elapsed() < NOTICED_WITHIN, "{:?}", frozen.elapsed());
    let Health::Down { since, problem } = down else { unreachable!() };
    assert!(jiff::Timestamp::now().duration_since(since).abs() < jiff::SignedDuration::from_secs(30));
    assert!(problem.text.contains("stopped answering heartbeats"), "{problem}");
    for run in meanwhile {
        let error = refused(publish(&server, run)).await;
        assert!(matches!(error, AmqpError::Unreachable { .. }), "{error}");
    }
    tokio::time::sleep(FROZEN.saturating_sub(frozen.elapsed())).await;
    drop(relay);
    let _relay = Relay::start(python, port, node.port());
    health(&mut seen, |health| *health == Health::Up).await;

    for run in meanwhile {
        publish_at_last(&server, run).await;
    }
    // What was published before is published again, by a server that does not know whether it was confirmed.
    for run in before.iter().skip(1) {
        publish_at_last(&server, run).await;
    }
    assert_eq!(held.ack().await.unwrap(), Settled::TakenAgain, "what was held over all this");
    assert_eq!(state(&direct, &before[0]).await.messages, 0);
    for run in &runs[1..] {
        until_waiting(&direct, run, 1).await;
        let delivery = taken(&pod, run).await;
        assert_eq!(delivery.message().unwrap(), message(run));
        delivery.ack().await.unwrap();
        until_waiting(&direct, run, 0).await;
    }
    comes_once(&direct, &expected, waiting).await;
}

/// S14: the broker ends all connections, twice: who waited is at its queue once again, and gets its message once.
#[tokio::test(flavor = "multi_thread")]
async fn when_all_connections_are_closed_who_waits_is_there_once_again() {
    let (node, _folder) = support::own_rabbitmq().await;
    closed(&node, 1).await;
    closed(&node, 2).await;
}

async fn closed(node: &RabbitMq, times: usize) {
    let (server, pod) = (broker(&node.url()), broker(&node.url()));
    let run = uid("closed-waits");
    let waiting = waits(&pod, &run);
    until_consumed(&server, &run, 1).await;
    for _ in 0..times {
        control(node, &["close_all_connections", "for a test"]).await;
        until_consumed(&server, &run, 1).await;
    }
    comes_once(&server, &run, waiting).await;
}
