//! The queues and the dead letters, against a real RabbitMQ.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hostwright::backend::amqp::{Broker, HeldLetters, Taken};
use hostwright::config::{Amqp, Secret};
use hostwright::domain::queue::DeadLetters;
use hostwright::domain::{Announcement, Message, Parameters, RawAnnouncement, Run};
use hostwright::ops::decide::{self, Changes, Seen};
use hostwright::ops::{announce, deliver};
use lapin::options::{
    BasicGetOptions, BasicPublishOptions, BasicRejectOptions, ConfirmSelectOptions, QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use serde_json::{Value, json};

use crate::ground::Ground;
use crate::support;

const LONG: Duration = Duration::from_secs(60);

fn announcement(host: &str) -> Announcement {
    RawAnnouncement { hostname: host.to_owned(), ..RawAnnouncement::default() }.check().unwrap()
}

struct Stage {
    ground: Ground,
    broker: Broker,
    dead: String,
    channel: Channel,
    _connection: Connection,
}

impl Stage {
    async fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let url = support::rabbitmq().await.url();
        let dead = format!("dead.queue-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let amqp = Amqp { url: Secret::new(&url), exchange: "hostwright".into(), dead_letter: dead.clone() };
        let broker = Broker::new(&amqp).unwrap();
        let connection = Connection::connect(&url, ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        Self { ground: Ground::new().await.with_amqp(amqp), broker, dead, channel, _connection: connection }
    }

    /// An approved run whose message is in its queue.
    async fn delivered(&self, host: &str) -> Run {
        let Ground { kube, settings, .. } = &self.ground;
        let permit = self.ground.permit();
        let announcement = announcement(host);
        let template = self.ground.template();
        let made = announce::announce(kube, &permit, &template, &announcement, true).await.unwrap().run;
        let seen = Seen::from(&made);
        let changes = Changes::default();
        let approved =
            decide::approve(kube, &permit, &settings.environment, &seen, &changes, "test").await.unwrap();
        deliver::deliver(kube, &permit, Some(&self.broker), &approved.run).await.unwrap();
        approved.run
    }

    /// Takes a run's message as its pod does, and finds it unusable.
    async fn buried(&self, run: &Run, reason: &str) {
        match self.broker.take(&self.ground.permit(), &run.uid, LONG).await.unwrap() {
            Taken::Delivery(delivery) => drop(delivery.dead_letter(reason).await.unwrap()),
            Taken::Nothing => panic!("no message"),
        }
    }

    /// Puts something among the dead letters as a stranger does.
    async fn strange(&self, body: &[u8], properties: BasicProperties) {
        let options = BasicPublishOptions::default();
        let sent =
            self.channel.basic_publish("".into(), self.dead.as_str().into(), options, body, properties);
        sent.await.unwrap().await.unwrap();
    }

    async fn waiting(&self, run: &Run) -> u32 {
        self.broker.queue_state(&run.uid).await.unwrap().unwrap().messages
    }

    /// The letters, once so many are back in their queue.
    async fn letters(&self, many: usize) -> DeadLetters {
        let look = async {
            loop {
                let letters = self.broker.dead_letters().await.unwrap();
                if letters.letters.len() == many {
                    return letters;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LONG, look).await.expect("the letters in time")
    }

    /// All letters in hand. Those that somebody looked at are back a moment after the broker said so.
    async fn held(&self, many: usize) -> HeldLetters {
        let take = async {
            loop {
                let held = self.broker.hold_letters().await.unwrap();
                if held.letters().letters.len() == many {
                    return held;
                }
                held.release().await;
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LONG, take).await.expect("the letters in time")
    }

    /// What the command lists, once so many letters are in it.
    async fn listed(&self, many: usize) -> Value {
        let look = async {
            loop {
                let listed = self.ground.run(&["queue", "list", "-o", "json"]).await.json();
                if listed["letters"].as_array().unwrap().len() == many {
                    return listed;
                }
            }
        };
        tokio::time::timeout(LONG, look).await.expect("the letters in time")
    }

    async fn ids(&self, many: usize) -> Vec<String> {
        self.letters(many).await.letters.into_iter().map(|letter| letter.id).collect()
    }
}

#[tokio::test]
async fn letters_are_looked_at_and_stay_in_their_order() {
    let stage = Stage::new().await;
    assert_eq!(stage.broker.dead_letters().await.unwrap(), DeadLetters::default());
    let runs = [stage.delivered("a.example.org").await, stage.delivered("b.example.org").await];
    for run in &runs {
        stage.buried(run, "for a test\u{1b}[2J").await;
    }
    let same = BasicProperties::default().with_message_id("twice".into());
    stage.strange(b"not json", BasicProperties::default()).await;
    stage.strange(b"one", same.clone()).await;
    stage.strange(b"other", same.clone()).await;
    stage.strange(b"one", same).await;
    let first = stage.letters(6).await;
    for _ in 0..5 {
        assert_eq!(stage.letters(6).await, first);
    }
    let ids: Vec<&str> = first.letters.iter().map(|letter| letter.id.as_str()).collect();
    assert_eq!(ids[..2], [runs[0].uid.as_str(), runs[1].uid.as_str()]);
    assert!(ids[3].starts_with("twice-") && ids[5] == format!("{}-2", ids[3]) && ids[4] != ids[3], "{ids:?}");
    let letter = &first.letters[0];
    assert_eq!(
        (letter.host.as_deref(), letter.name.as_deref()),
        (Some("a.example.org"), Some(runs[0].name.as_str()))
    );
    assert!(letter.reason.starts_with("for a test") && letter.at.is_some() && letter.readable);
    assert_eq!((first.letters[2].readable, first.letters[2].size), (false, 8));

    let json = stage.listed(6).await;
    let rows: Vec<&Value> = json["runs"].as_array().unwrap().iter().collect();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0]["state"], json!({"messages": 0, "consumers": 0}));
    assert!(
        rows[0]["delivered"].is_string()
            && rows[0]["queue"].as_str().unwrap().ends_with(rows[0]["uid"].as_str().unwrap())
    );
    let table = stage.ground.run(&["queue", "list"]).await.done();
    assert!(
        table.contains("a.example.org") && !table.contains("not json") && !table.contains('\u{1b}'),
        "{table}"
    );
}

#[tokio::test]
async fn what_the_broker_itself_buries_says_why() {
    let stage = Stage::new().await;
    let run = stage.delivered("web.example.org").await;
    let queue = Broker::queue_of(&run.uid);
    let got = stage.channel.basic_get(queue.into(), BasicGetOptions::default()).await.unwrap().unwrap();
    got.delivery.acker.reject(BasicRejectOptions { requeue: false }).await.unwrap();
    let letter = stage.letters(1).await.letters.remove(0);
    assert_eq!((letter.reason.as_str(), letter.run.as_deref()), ("rejected 1 times", Some(run.uid.as_str())));
    assert!(letter.at.is_some());
}

#[tokio::test]
async fn one_goes_back_on_its_queue_and_one_is_thrown_away() {
    let stage = Stage::new().await;
    let (run, other) = (stage.delivered("web.example.org").await, stage.delivered("db.example.org").await);
    stage.buried(&run, "for a test").await;
    stage.buried(&other, "for a test").await;
    assert_eq!((stage.waiting(&run).await, stage.ids(2).await.len()), (0, 2));

    for arguments in
        [["--read-only", "queue", "requeue", &run.uid], ["--read-only", "queue", "drop", &run.uid]]
    {
        assert_eq!(stage.ground.run(&arguments).await.code, 4, "{arguments:?}");
    }
    assert_eq!((stage.waiting(&run).await, stage.ids(2).await.len()), (0, 2));

    let said = stage.ground.run(&["queue", "requeue", &run.uid]).await;
    assert_eq!(said.err, "");
    assert_eq!(said.done(), format!("{}: back on the queue of {}\n", run.uid, run.name));
    assert_eq!((stage.waiting(&run).await, stage.ids(1).await), (1, vec![other.uid.clone()]));
    // It is the message as it was, and a pod can use it.
    let Taken::Delivery(delivery) = stage.broker.take(&stage.ground.permit(), &run.uid, LONG).await.unwrap()
    else {
        panic!("no message")
    };
    assert_eq!(delivery.message().unwrap().run, run.uid);
    delivery.requeue().await.unwrap();

    assert_eq!(
        stage.ground.run(&["queue", "drop", &other.uid]).await.done(),
        format!("{}: thrown away\n", other.uid)
    );
    assert_eq!(stage.ids(0).await, Vec::<String>::new());
    assert_eq!(stage.ground.run(&["queue", "drop", &other.uid]).await.code, 3);

    let told = stage.ground.kube.activity("hostwright").await.unwrap();
    let actions: Vec<(&str, &str)> = told.iter().map(|a| (a.action.as_str(), a.on.as_str())).collect();
    let expected = [("requeue", format!("run {}", run.name)), ("drop", format!("run {}", other.name))];
    for (action, on) in &expected {
        assert!(actions.contains(&(*action, on)), "{action} {on}: {actions:?}");
    }
}

#[tokio::test]
async fn a_letter_that_waits_already_is_not_doubled() {
    let stage = Stage::new().await;
    let run = stage.delivered("web.example.org").await;
    stage.buried(&run, "for a test").await;
    let held = stage.held(1).await;
    let letter = held.letters().letters[0].clone();
    assert_eq!(stage.broker.dead_letters().await.unwrap().letters, vec![], "held by somebody else");
    held.requeue(&stage.ground.permit(), &letter.id, &run.uid).await.unwrap();
    // Killed between putting it back and taking it off the dead letters: it is in both.
    let copy = Message::new(
        run.uid.clone(),
        run.name.clone(),
        announcement("web.example.org"),
        Parameters::default(),
    );
    stage
        .strange(
            &copy.to_bytes().unwrap(),
            BasicProperties::default().with_message_id(run.uid.as_str().into()),
        )
        .await;
    assert_eq!((stage.waiting(&run).await, stage.ids(1).await.len()), (1, 1));
    stage.ground.run(&["queue", "requeue", &run.uid]).await.done();
    assert_eq!((stage.waiting(&run).await, stage.ids(0).await.len()), (1, 0));
    let body = serde_json::to_vec(&json!({"version": 9})).unwrap();
    stage.strange(&body, BasicProperties::default().with_message_id(run.uid.as_str().into())).await;
    let letter = stage.letters(1).await.letters.remove(0);
    assert!(letter.readable && letter.host.is_none(), "a newer program's message can be read by a newer pod");
}

#[tokio::test]
async fn what_would_only_come_back_is_refused() {
    let stage = Stage::new().await;
    let (over, gone) = (stage.delivered("over.example.org").await, stage.delivered("gone.example.org").await);
    for run in [&over, &gone] {
        stage.buried(run, "for a test").await;
    }
    stage.strange(b"not json", BasicProperties::default().with_message_id("poison".into())).await;
    let Ground { kube, .. } = &stage.ground;
    let permit = stage.ground.permit();
    decide::stop(kube, &permit, &over.name, &over.uid, "test").await.unwrap();
    kube.delete_run(&permit, &gone).await.unwrap();
    kube.release_run(&permit, &gone.name, &gone.uid).await.unwrap();
    for (id, code, said) in [
        (over.uid.as_str(), 4, "it is stopped"),
        (gone.uid.as_str(), 3, "nobody waits"),
        ("poison", 2, "cannot be read"),
        ("nobody", 3, "no dead letter nobody"),
    ] {
        let done = stage.ground.run(&["queue", "requeue", id]).await;
        assert_eq!(done.code, code, "{id}: {}{}", done.out, done.err);
        assert!(done.err.contains(said), "{id}: {}", done.err);
        assert_eq!(stage.ids(3).await.len(), 3);
    }
    let lines = stage.ground.activity_file();
    assert!(lines.iter().all(|line| line["outcome"] == "failed" && line["action"] == "requeue"), "{lines:?}");
    // Several at once, by what they were called in the beginning.
    stage.strange(b"1", BasicProperties::default().with_message_id("same".into())).await;
    stage.strange(b"2", BasicProperties::default().with_message_id("same".into())).await;
    let ids = stage.ids(5).await;
    let mut arguments = vec!["queue", "drop"];
    arguments.extend(ids.iter().map(String::as_str));
    assert_eq!(stage.ground.run(&arguments).await.done().lines().count(), 5);
    let left = stage
        .channel
        .queue_declare(
            stage.dead.as_str().into(),
            QueueDeclareOptions::durable().passive(),
            FieldTable::default(),
        )
        .await
        .unwrap();
    assert_eq!(left.message_count(), 0);
}

#[tokio::test]
async fn without_a_broker_that_is_said() {
    let ground = Ground::new().await;
    let said = ground.run(&["queue", "list"]).await;
    assert_eq!(said.code, 1);
    assert!(said.err.contains("environment test has no amqp"), "{}", said.err);
}
