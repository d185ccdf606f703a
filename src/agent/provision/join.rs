//! What a host's groups need of the cluster before the playbook starts: a bootstrap token to join with, or the root CA.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::details::Details;
use super::patience::{SHORT, patiently};
use super::session::Session;
use super::{Failure, unless_stopped};
use crate::backend::kube::NodeState;
use crate::domain::{BootstrapToken, ExitCode};
use crate::ops::tokens::NewToken;
use crate::ops::{OpError, cluster, tokens};

/// The group whose hosts join the cluster.
const WORKER: &str = "k8s_worker";
/// The group whose hosts check the API servers.
const CONTROLLER: &str = "k8s_controller";
/// What a check gets in place of a token.
const NO_TOKEN: &str = "000000.0000000000000000";
/// How long a token that is being minted is waited for once the pod is told to stop, so that it can be deleted.
const MINT_LIMIT: Duration = Duration::from_secs(3);

/// A token that was minted for this run, and until when it is good.
#[derive(Debug, Clone)]
pub(super) struct Minted {
    pub(super) token: BootstrapToken,
    pub(super) until: Instant,
}

/// Whether the host is one that joins, and not only looked at.
pub(super) fn joins(details: &Details) -> bool {
    !details.parameters.check && member(details, WORKER)
}

/// The name of the host's Node: that of the host, which is lower case and has no trailing dot.
pub(super) fn node_name(details: &Details) -> &str {
    details.announcement.host.as_str()
}

fn member(details: &Details, group: &str) -> bool {
    details.parameters.groups.iter().any(|g| g == group)
}

/// The variables that the groups need. A minted token is put into `token` at once, so that no way out forgets it.
pub(super) async fn prepare(
    session: &Session<'_>,
    details: &Details,
    token: &mut Option<Minted>,
) -> Result<Vec<(&'static str, Value)>, Failure> {
    let mut variables = Vec::new();
    if member(details, WORKER) {
        let reading = patiently(&session.kube, SHORT, session.shutdown, || cluster::join(&session.kube));
        let info = unless_stopped(session.shutdown, reading).await?;
        let info = info.map_err(|error| Failure::op(&error))?;
        // A check changes nothing, and its host may be one that nobody approved: it gets a token of the right form that opens
        // nothing.
        let secret = match joins(details) {
            false => NO_TOKEN.to_owned(),
            true => {
                // Who may not look at it later is told before an hour's work.
                look(session, node_name(details), SHORT).await?;
                token.insert(mint(session).await?).token.reveal()
            }
        };
        variables.push(("hostwright_node_name", json!(node_name(details))));
        variables.push((
            "hostwright_join",
            json!({
                "token": secret,
                "endpoint": info.endpoint,
                "server": info.server,
                "ca_hash": info.ca_hash,
                "ca_cert": info.ca_cert,
                "cluster_info": info.kubeconfig,
            }),
        ));
    }
    if member(details, CONTROLLER) {
        let reading = patiently(&session.kube, SHORT, session.shutdown, || cluster::root_ca(&session.kube));
        let pem = unless_stopped(session.shutdown, reading).await?;
        variables.push(("hostwright_root_ca", json!(pem.map_err(|error| Failure::op(&error))?)));
    }
    Ok(variables)
}

/// How the host's Node stands.
pub(super) async fn look(
    session: &Session<'_>,
    name: &str,
    limit: Duration,
) -> Result<Option<NodeState>, Failure> {
    let looking = patiently(&session.kube, limit, session.shutdown, || session.kube.node(name));
    unless_stopped(session.shutdown, looking).await?.map_err(|error| Failure::kube(&error))
}

/// Mints in a task of its own: what is dropped half-way might have created a token that nobody knows of.
async fn mint(session: &Session<'_>) -> Result<Minted, Failure> {
    let (kube, permit) = (session.kube.clone(), session.permit);
    let (lifetime, signer) = (session.settings.provision.token_lifetime, session.settings.provision.signer);
    let description = format!("for {}, run {} (hostwright)", session.own.host, session.own.name);
    let new = NewToken::for_run(&session.own.uid, lifetime, description, signer);
    let by = session.own.name.clone();
    let shutdown = session.shutdown.clone();
    // By our own clock, from before the first try.
    let until = Instant::now() + lifetime;
    let minting = async move {
        let minting = || tokens::mint(&kube, &permit, &new, &by);
        patiently(&kube, SHORT, &shutdown, minting).await.map(|minted| minted.token)
    };
    let mut minting = tokio::spawn(minting);
    tokio::select! {
        minted = &mut minting => match minted {
            Ok(Ok(token)) => Ok(Minted { token, until }),
            // Somebody may yet start the signer: that is worth another try.
            Ok(Err(error @ OpError::Missing(_))) => Err(Failure::new(ExitCode::BackEnd, error)),
            Ok(Err(error)) => Err(Failure::op(&error)),
            Err(error) => Err(Failure::new(ExitCode::Internal, format!("cannot mint a token: {error}"))),
        },
        () = session.shutdown.cancelled() => {
            if let Ok(Ok(Ok(token))) = tokio::time::timeout(MINT_LIMIT, minting).await {
                revoke(session, &token).await.ok();
            }
            Err(Failure::interrupted())
        }
    }
}

/// Deletes a token that nobody shall use any more.
pub(super) async fn revoke(session: &Session<'_>, token: &BootstrapToken) -> Result<(), OpError> {
    let revoking = || tokens::revoke(&session.kube, &session.permit, token.id(), &session.own.name);
    patiently(&session.kube, SHORT, session.shutdown, revoking).await
}
