//! One attempt: the policy, what the groups need, the files for Ansible, the playbook, the Node, the target.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWrite;

use super::details::Details;
use super::log::Log;
use super::patience::{LONG, patiently};
use super::policy::{self, Fetched};
use super::recording::{self, Recording};
use super::session::Session;
use super::work::Work;
use super::{End, Failure, join, joined, unless_stopped, verdict};
use crate::backend::ansible::{Playbook, PolicyConfig, Variables, inventory, known_hosts};
use crate::backend::git;
use crate::domain::ExitCode;
use crate::domain::target::NewTarget;
use crate::ops::targets;

/// What is kept of the pod's grace period for everything after the playbook's end.
const RESERVE: Duration = Duration::from_secs(10);

/// What an attempt leaves in the world, whichever way it ends.
#[derive(Default)]
struct Traces {
    /// The token that was minted.
    token: Option<join::Minted>,
    /// The playbooks that ARA recorded.
    playbooks: Vec<u64>,
}

/// Makes the attempt, and removes what it leaves: the work folder, and the token that it minted: a host that has joined needs it no
/// more, another one shall not. Returns with it the ids of ARA's playbooks.
pub(super) async fn attempt<W: AsyncWrite + Unpin>(
    session: &Session<'_>,
    details: &Details,
    log: &mut Log<W>,
) -> (End, Vec<u64>) {
    let base = session.settings.provision.work_dir.clone().unwrap_or_else(std::env::temp_dir);
    let work = match Work::create(&base, &session.own.uid) {
        Ok(work) => work,
        Err(error) => {
            let text = format!("cannot make a work folder in {}: {error}", base.display());
            return (Failure::new(ExitCode::Misconfigured, text).into(), Vec::new());
        }
    };
    let mut traces = Traces::default();
    let mut end = match apply(session, details, &work, &mut traces, log).await {
        Ok(end) => end,
        Err(failure) => failure.into(),
    };
    if let Some(join::Minted { token, .. }) = traces.token {
        match join::revoke(session, &token).await {
            Ok(()) => log.say(format!("bootstrap token {token} deleted")).await,
            Err(error) => end.note(format!("token {} stays until it expires: {error}", token.id())),
        }
    }
    if let Err(error) = work.close() {
        end.note(format!("the work folder stays: {error}"));
    }
    (end, traces.playbooks)
}

async fn apply<W: AsyncWrite + Unpin>(
    session: &Session<'_>,
    details: &Details,
    work: &Work,
    traces: &mut Traces,
    log: &mut Log<W>,
) -> Result<End, Failure> {
    let policy = &session.settings.environment.policy;
    log.say(format!("policy {}, playbook {}", git::shown(&policy.source), details.parameters.playbook)).await;
    let into = work.policy();
    let preparing = async {
        tokio::join!(policy::fetch(policy, &details.parameters, &into), recording::prepare(session))
    };
    let (fetched, recording) = unless_stopped(session.shutdown, preparing).await?;
    let fetched = fetched?;
    if let Recording::Not(reason) = &recording {
        log.say(format!("results are not recorded: {reason}")).await;
    }
    let needed = join::prepare(session, details, &mut traces.token).await?;
    if let Some(join::Minted { token, .. }) = &traces.token {
        log.say(format!("bootstrap token {token} minted")).await;
    }
    let inputs = Inputs::write(session, details, work, needed)?;
    let mut end = playbook(session, details, work, &fetched, &inputs, &recording, log).await?;
    if let Recording::Not(reason) = &recording {
        end.note(format!("results are not recorded: {reason}"));
    }
    match recording.playbooks(session).await {
        Ok(ids) => traces.playbooks = ids,
        Err(reason) => end.note(format!("it is not known what was recorded: {reason}")),
    }
    if end.exit == ExitCode::Ready
        && let Some(minted) = &traces.token
        && let Err(failure) = joined::wait(session, join::node_name(details), minted, log).await
    {
        let text = format!("the playbook went well ({}), but {}", end.text, failure.text);
        return Ok(End { exit: failure.exit, text, ..end });
    }
    if end.exit == ExitCode::Ready && !details.parameters.check {
        add_target(session, details, log).await.map_err(|failure| {
            Failure::new(failure.exit, format!("the playbook went well, but {}", failure.text))
        })?;
    }
    Ok(end)
}

/// The files that Ansible reads.
struct Inputs {
    inventory: PathBuf,
    variables: PathBuf,
}

impl Inputs {
    fn write(
        session: &Session<'_>,
        details: &Details,
        work: &Work,
        needed: Vec<(&'static str, Value)>,
    ) -> Result<Self, Failure> {
        let announcement = &details.announcement;
        let mut variables = Variables::default();
        variables.trusted(&session.settings.environment.policy.variables);
        for (name, value) in &details.parameters.variables {
            variables.data(name, value);
        }
        let keys: Vec<&str> = announcement.keys.iter().map(crate::domain::SshKey::as_str).collect();
        variables.data("hostwright_run", &json!(session.own.uid));
        variables.data("hostwright_address", &json!(announcement.address));
        variables.data("hostwright_facts", &json!(announcement.facts));
        variables.data("hostwright_keys", &json!(keys));
        for (name, value) in needed {
            variables.data(name, &value);
        }
        let known = known_hosts(&announcement.host, announcement.address, &announcement.keys);
        let write = |name: &str, text: &str| {
            work.write(name, text).map_err(|error| {
                Failure::new(ExitCode::Misconfigured, format!("cannot write {name} for Ansible: {error}"))
            })
        };
        let known = write("known_hosts", &known)?;
        let groups = &details.parameters.groups;
        let inventory = inventory(&announcement.host, announcement.address, groups, &known);
        Ok(Self {
            inventory: write("inventory.yaml", &inventory)?,
            variables: write("vars.yaml", &variables.to_yaml())?,
        })
    }
}

async fn playbook<W: AsyncWrite + Unpin>(
    session: &Session<'_>,
    details: &Details,
    work: &Work,
    fetched: &Fetched,
    inputs: &Inputs,
    recording: &Recording,
    log: &mut Log<W>,
) -> Result<End, Failure> {
    let config = PolicyConfig::read(&fetched.folder);
    let (scratch, sockets) = (work.scratch(), work.sockets());
    let playbook = Playbook {
        program: &session.settings.provision.ansible_playbook,
        policy: &fetched.folder,
        config: &config,
        playbook: &fetched.playbook,
        inventory: &inputs.inventory,
        variables: &inputs.variables,
        scratch: &scratch,
        sockets: &sockets,
        limit: details.parameters.limit.as_deref(),
        tags: &details.parameters.tags,
        check: details.parameters.check,
        environment: recording.environment(session, &work.inputs(), &config),
    };
    if session.shutdown.is_cancelled() {
        return Err(Failure::interrupted());
    }
    let grace = session.settings.job.grace;
    let grace = grace.saturating_sub(RESERVE).max(grace / 2);
    let finished = playbook
        .run(&mut log.out, session.shutdown, grace)
        .await
        .map_err(|error| Failure::new(ExitCode::Misconfigured, error))?;
    Ok(verdict::judge(&finished, &details.announcement, &details.parameters))
}

/// Members of the cluster are found by it; all other hosts are scraped.
async fn add_target<W: AsyncWrite + Unpin>(
    session: &Session<'_>,
    details: &Details,
    log: &mut Log<W>,
) -> Result<(), Failure> {
    let environment = &session.settings.environment;
    if details.parameters.groups.iter().any(|group| environment.cluster_groups.contains(group)) {
        return Ok(());
    }
    let host = &details.announcement.host;
    let new = [NewTarget::of_host(host, environment.targets.port, Some(&session.own.name))];
    let [NewTarget { address: target, .. }] = &new;
    let (kube, permit, by) = (&session.kube, &session.permit, &session.own.name);
    let adding = || targets::add(kube, permit, &environment.targets, &new, by);
    let adding = patiently(kube, LONG, session.shutdown, adding);
    let change = unless_stopped(session.shutdown, adding).await?.map_err(|error| Failure::op(&error))?;
    let place = format!("{}/{}", environment.targets.namespace, environment.targets.name);
    log.say(format!("target {target} is in ConfigMap {place}")).await;
    if change.nearly_full() {
        log.say(format!("ConfigMap {place} is nearly full: {} bytes", change.size)).await;
    }
    Ok(())
}
