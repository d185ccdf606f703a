//! The real services: they start, keep what they were given, come back when they die, and leave nothing behind.

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use hostwright::play::packages::Install;
use hostwright::play::python;
use hostwright::play::services::supervise::State;
use hostwright::play::services::{ara, moto, rabbitmq};
use lapin::options::{BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Connection, ConnectionProperties};
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::watch;

use crate::support;

/// Waits for a state; the time limit only keeps a failing test from hanging.
async fn until(state: &mut watch::Receiver<State>, wanted: impl FnMut(&State) -> bool) -> State {
    let found = tokio::time::timeout(Duration::from_secs(120), state.wait_for(wanted)).await;
    found.expect("the state in time").expect("a supervisor").clone()
}

fn leash_of(state: &State) -> u32 {
    let State::Up { leash, .. } = state else { panic!("not up: {state:?}") };
    *leash
}

/// Every process below one, found by following parents.
fn below(root: u32) -> Vec<u32> {
    let parent_of = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let all: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, parent_of(pid)?)))
        .collect();
    let mut found = vec![root];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        found.extend(all.iter().filter(|(_, p)| *p == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    found.split_off(1)
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

/// Leaves a message in a durable queue.
async fn publish(url: &str) {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    let durable = QueueDeclareOptions { durable: true, ..Default::default() };
    channel.queue_declare("kept".into(), durable, FieldTable::default()).await.unwrap();
    let persistent = BasicProperties::default().with_delivery_mode(2);
    let confirm = channel
        .basic_publish("".into(), "kept".into(), BasicPublishOptions::default(), b"still here", persistent)
        .await
        .unwrap();
    assert!(confirm.await.unwrap().is_ack());
}

/// Takes a message from it.
async fn fetched(url: &str) -> Option<Vec<u8>> {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let got = channel.basic_get("kept".into(), BasicGetOptions { no_ack: true }).await.unwrap();
    got.map(|message| message.delivery.data)
}

#[tokio::test]
async fn rabbitmq_keeps_its_messages_over_a_stop_and_leaves_nothing() {
    let (rabbitmq, folder) = support::own_rabbitmq().await;
    let url = rabbitmq.url();
    publish(&url).await;
    let leash = leash_of(&rabbitmq.state().borrow());
    let processes = below(leash);
    assert!(processes.len() > 1, "a node is more than one process: {processes:?}");

    rabbitmq.stop().await;
    assert_eq!(*rabbitmq.state().borrow(), State::Stopped);
    let left: Vec<_> = processes.iter().filter(|pid| Path::new(&format!("/proc/{pid}")).exists()).collect();
    assert!(left.is_empty(), "left running: {left:?}");
    assert!(tokio::net::TcpStream::connect(("127.0.0.1", rabbitmq.port())).await.is_err());

    rabbitmq.start_again().await.unwrap();
    assert_eq!(rabbitmq.url(), url);
    assert_eq!(fetched(&url).await.as_deref(), Some(&b"still here"[..]));

    // The next playground in this folder finds the same port and node.
    rabbitmq.stop().await;
    let again = rabbitmq::start(folder.path(), support::exe()).await.unwrap();
    assert_eq!(again.url(), url);
}

#[tokio::test]
async fn a_service_that_is_killed_comes_back_and_says_why_it_was_away() {
    let folder = support::temp();
    let ara = ara::start(folder.path(), support::python().await, support::exe()).await.unwrap();
    let mut state = ara.state();
    let first = leash_of(&state.borrow_and_update());
    for pid in below(first) {
        signal(pid, Signal::KILL);
    }
    let down = until(&mut state, |state| !matches!(state, State::Up { .. })).await;
    let State::Down { why, since, next_try } = down else { panic!("not down: {down:?}") };
    assert!(why.contains("137"), "{why}");
    assert!(next_try > since);
    let up = until(&mut state, |state| matches!(state, State::Up { .. })).await;
    assert_ne!(leash_of(&up), first);
}

#[tokio::test]
async fn a_service_that_does_not_come_up_says_why() {
    let folder = support::temp();
    let mut python = support::python().await.clone();
    python.python = "/bin/false".into();
    let error = ara::start(folder.path(), &python, support::exe()).await.unwrap_err().to_string();
    assert!(error.starts_with("cannot start ARA: making its database failed"), "{error}");
}

#[tokio::test]
async fn ara_answers_on_loopback_and_keeps_its_port() {
    let folder = support::temp();
    let ara = ara::start(folder.path(), support::python().await, support::exe()).await.unwrap();
    let url = ara.url();
    assert!(url.starts_with("http://127.0.0.1:"));
    ara.stop().await;
    assert_eq!(*ara.state().borrow(), State::Stopped);
    let again = ara::start(folder.path(), support::python().await, support::exe()).await.unwrap();
    assert_eq!(again.url(), url);
}

/// A signature by nobody: the server looks only at which service is meant.
fn signature(service: &str) -> String {
    format!(
        "AWS4-HMAC-SHA256 Credential=AKIATEST/20261203/eu-west-1/{service}/aws4_request, SignedHeaders=host, Signature=0"
    )
}

/// One call.
async fn aws(url: &str, service: &str, target: &str, body: &str) -> String {
    let scope = signature(service);
    let mut call = reqwest::Client::new().post(url).header("Authorization", scope).body(body.to_owned());
    call = match target {
        "" => call.header("Content-Type", "application/x-www-form-urlencoded"),
        target => call.header("Content-Type", "application/x-amz-json-1.1").header("X-Amz-Target", target),
    };
    let answer = call.send().await.unwrap();
    let status = answer.status();
    let text = answer.text().await.unwrap();
    assert!(status.is_success(), "{service} {target}: {status}: {text}");
    text
}

#[tokio::test]
async fn the_aws_server_has_every_service_that_the_platform_needs() {
    rustls::crypto::ring::default_provider().install_default().ok();
    let folder = support::temp();
    let moto = moto::start(folder.path(), support::python().await, support::exe()).await.unwrap();
    let url = moto.url();
    assert!(url.starts_with("http://127.0.0.1:"));
    let who = aws(&url, "sts", "", "Action=GetCallerIdentity&Version=2011-06-15").await;
    assert!(who.contains("<Account>123456789012</Account>"), "{who}");
    let role = "Action=AssumeRole&Version=2011-06-15&RoleArn=arn:aws:iam::123456789012:role/ops&RoleSessionName=olga\
                &SerialNumber=arn:aws:iam::123456789012:mfa/olga&TokenCode=123456";
    let role = aws(&url, "sts", "", role).await;
    assert!(role.contains("<SessionToken>") && role.contains("<Expiration>"), "{role}");
    let key = aws(&url, "kms", "TrentService.CreateKey", "{}").await;
    let key: serde_json::Value = serde_json::from_str(&key).unwrap();
    let key = key["KeyMetadata"]["KeyId"].as_str().unwrap().to_owned();
    assert!(aws(&url, "ec2", "", "Action=DescribeVpcs&Version=2016-11-15").await.contains("<vpcId>"));
    let groups = "Action=DescribeAutoScalingGroups&Version=2011-01-01";
    assert!(aws(&url, "autoscaling", "", groups).await.contains("AutoScalingGroups"));

    let s3 = reqwest::Client::new();
    let bucket = format!("{url}/staging-secrets");
    assert!(s3.put(&bucket).send().await.unwrap().status().is_success());
    let put = s3.put(format!("{bucket}/common/x")).body("1");
    let put = put.header("x-amz-server-side-encryption", "aws:kms");
    let put = put.header("x-amz-server-side-encryption-aws-kms-key-id", &key).send().await.unwrap();
    assert!(put.status().is_success(), "{put:?}");
    let head =
        s3.head(format!("{bucket}/common/x")).header("Authorization", signature("s3")).send().await.unwrap();
    assert_eq!(head.headers()["x-amz-server-side-encryption-aws-kms-key-id"], key.as_str());
    moto.stop().await;
    assert_eq!(*moto.state().borrow(), State::Stopped);
}

#[tokio::test]
async fn two_starts_at_once_find_one_environment() {
    let folder = support::kept();
    // Made before, so that this test is about finding it.
    let expected = support::python().await;
    let told = Mutex::new(Vec::new());
    let report = |progress| told.lock().unwrap().push(progress);
    let (a, b) = tokio::join!(
        python::ensure(&folder, support::exe(), Install::Never, &report),
        python::ensure(&folder, support::exe(), Install::Never, &report),
    );
    assert_eq!((a.as_ref().unwrap(), b.as_ref().unwrap()), (expected, expected));
    assert!(told.lock().unwrap().is_empty(), "nothing was made");
    for path in [&expected.ansible_playbook, &expected.python] {
        assert!(path.is_file(), "{}", path.display());
    }
    for path in [&expected.callback_plugins, &expected.action_plugins] {
        assert!(path.is_dir(), "{}", path.display());
    }
}
