//! What each action needs of the cluster, and what of it the operator has. Told once: the console greys by it, `cluster permissions`
//! prints it. The API server's answer to the deed itself stays the judge.

use std::collections::BTreeMap;

use super::{ACTIONS, Action, TargetSettings};
use crate::domain::rights::{Answer, Right};
use crate::domain::{ProblemKind, approvals};

/// A right that actions need, before it is known in which namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Need {
    /// Read a run's Job.
    GetRun,
    /// List the runs' Jobs.
    ListRuns,
    /// Decide on a run, or leave a mark on it.
    PatchRun,
    /// List a run's pods.
    ListPods,
    /// Read a pod's log.
    GetLog,
    /// Read the ConfigMap of the targets.
    GetTargets,
    /// Write it.
    UpdateTargets,
    /// Read a bootstrap token with its secret.
    GetToken,
    /// Create one.
    CreateToken,
    /// Delete one.
    DeleteToken,
    /// Read `cluster-info`.
    GetClusterInfo,
    /// Read the hold on all approvals.
    GetHold,
    /// Set and end it.
    UpdateHold,
    /// Read the cluster's root CA.
    GetRootCa,
    /// Read a Node.
    GetNode,
}

impl Need {
    /// What a run's pod needs, whoever its account is.
    pub const PROVISION: [Self; 9] = [
        Self::GetRun,
        Self::PatchRun,
        Self::GetClusterInfo,
        Self::GetRootCa,
        Self::CreateToken,
        Self::DeleteToken,
        Self::GetNode,
        Self::GetTargets,
        Self::UpdateTargets,
    ];

    /// All that actions need.
    pub const ALL: [Self; 13] = [
        Self::PatchRun,
        Self::GetRun,
        Self::ListRuns,
        Self::ListPods,
        Self::GetLog,
        Self::GetTargets,
        Self::UpdateTargets,
        Self::GetToken,
        Self::CreateToken,
        Self::DeleteToken,
        Self::GetClusterInfo,
        Self::GetHold,
        Self::UpdateHold,
    ];

    /// The right, where the runs are in this namespace and the targets are there. What has a name of its own each time (Jobs,
    /// pods, tokens) is meant whatever its name.
    #[must_use]
    pub fn right(self, runs: &str, targets: &TargetSettings) -> Right {
        let of = |verb, group, resource, subresource, namespace: &str| Right {
            verb,
            group,
            resource,
            subresource,
            namespace: namespace.to_owned(),
            name: None,
        };
        let job = |verb| of(verb, "batch", "jobs", None, runs);
        let secret = |verb| of(verb, "", "secrets", None, "kube-system");
        let map = |verb, namespace: &str, name: &str| Right {
            name: Some(name.to_owned()),
            ..of(verb, "", "configmaps", None, namespace)
        };
        match self {
            Self::GetRun => job("get"),
            Self::ListRuns => job("list"),
            Self::PatchRun => job("patch"),
            Self::ListPods => of("list", "", "pods", None, runs),
            Self::GetLog => of("get", "", "pods", Some("log"), runs),
            Self::GetTargets => map("get", &targets.namespace, &targets.name),
            Self::UpdateTargets => map("update", &targets.namespace, &targets.name),
            Self::GetToken => secret("get"),
            Self::CreateToken => secret("create"),
            Self::DeleteToken => secret("delete"),
            Self::GetClusterInfo => map("get", "kube-public", "cluster-info"),
            Self::GetHold => map("get", runs, approvals::CONFIGMAP),
            Self::UpdateHold => map("update", runs, approvals::CONFIGMAP),
            Self::GetRootCa => map("get", runs, "kube-root-ca.crt"),
            Self::GetNode => of("get", "", "nodes", None, ""),
        }
    }

    /// Whose Role gives it.
    #[must_use]
    pub fn role(self) -> &'static str {
        match self {
            Self::GetToken | Self::CreateToken | Self::DeleteToken => "token",
            Self::GetRootCa | Self::GetNode => "provision",
            _ => "operator",
        }
    }
}

impl Action {
    /// What it needs of the cluster. None when nobody has said so yet of an action that changes something.
    #[must_use]
    pub fn needs(self) -> Option<&'static [Need]> {
        use Need as N;
        Some(match self {
            Self::Approve | Self::Reject | Self::Retry | Self::Stop => &[N::GetRun, N::PatchRun],
            Self::Check => &[N::GetRun, N::ListRuns, N::PatchRun],
            Self::Forget => &[N::ListRuns, N::PatchRun],
            Self::HoldApprovals | Self::ReleaseApprovals => &[N::GetHold, N::UpdateHold],
            // The host asks who comes, not the cluster; its address and keys are the run's.
            Self::Shell | Self::Yaml => &[N::GetRun],
            // The playground's machines call the hook; their names are new ones.
            Self::Boot | Self::Requeue => &[N::ListRuns],
            // A letter is the broker's alone, secrets are the bucket's.
            Self::DropLetters
            | Self::UploadSecrets
            | Self::EditSecret
            | Self::Grant
            | Self::RestoreVersion
            | Self::RemoveSecrets => &[],
            Self::AddTarget | Self::LabelTargets | Self::RemoveTargets => &[N::GetTargets, N::UpdateTargets],
            Self::MintToken => &[N::CreateToken],
            Self::RevokeTokens => &[N::DeleteToken],
            Self::JoinCommand => &[N::GetToken, N::GetClusterInfo],
            Self::SaveLog => &[N::ListPods, N::GetLog],
            _ if self.info().changes => return None,
            _ => &[],
        })
    }
}

/// What the cluster said of each right that actions need.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rights {
    /// Whom it takes us for.
    pub who: Option<String>,
    /// Right and answer; nothing of what was not asked.
    pub answers: BTreeMap<Need, (Right, Answer)>,
}

impl Rights {
    /// The rights that an action needs and the operator has not, with the cluster's words. What is not known is not missing.
    pub fn missing(&self, action: Action) -> impl Iterator<Item = (Need, &Right, &str)> {
        action.needs().unwrap_or_default().iter().filter_map(|need| match self.answers.get(need) {
            Some((right, Answer::No(words))) => Some((*need, right, words.as_str())),
            _ => None,
        })
    }

    /// Whether the operator may do an action: none when that is not known.
    #[must_use]
    pub fn may(&self, action: Action) -> Option<bool> {
        if self.missing(action).next().is_some() {
            return Some(false);
        }
        let yes = |need: &Need| matches!(self.answers.get(need), Some((_, Answer::Yes)));
        action.needs().is_some_and(|needs| needs.iter().all(yes)).then_some(true)
    }

    /// The actions that the operator may not do, in the order of the table.
    pub fn off(&self) -> impl Iterator<Item = Action> {
        ACTIONS.iter().map(|row| row.action).filter(|action| self.missing(*action).next().is_some())
    }

    /// Whether everything that was asked was answered.
    #[must_use]
    pub fn complete(&self) -> bool {
        self.answers.values().all(|(_, answer)| !matches!(answer, Answer::Unknown(_)))
    }

    /// Keeps what was known before where the cluster could not be reached.
    pub fn keep(&mut self, before: &Self) {
        for (need, (_, answer)) in &mut self.answers {
            if matches!(answer, Answer::Unknown(problem) if problem.kind == ProblemKind::Unreachable)
                && let Some((_, known)) = before.answers.get(need)
            {
                *answer = known.clone();
            }
        }
        if self.who.is_none() {
            self.who.clone_from(&before.who);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Problem;

    fn targets() -> TargetSettings {
        let (namespace, name) = ("monitoring".to_owned(), "scrape".to_owned());
        TargetSettings { namespace, name, key: "k".to_owned(), port: 9103 }
    }

    fn rights(answer: impl Fn(Need) -> Answer) -> Rights {
        let of = |need: Need| (need, (need.right("runs", &targets()), answer(need)));
        Rights { who: Some("olga".to_owned()), answers: Need::ALL.map(of).into() }
    }

    #[test]
    fn what_changes_something_has_said_what_it_needs() {
        for row in ACTIONS {
            assert!(row.action.needs().is_some(), "{}: say in Action::needs what it needs", row.name);
        }
        let none: Vec<&str> = ACTIONS
            .iter()
            .filter(|row| row.changes && row.action.needs() == Some(&[]))
            .map(|row| row.name)
            .collect();
        let bucket = ["upload-secrets", "edit-secret", "restore-version", "remove-secrets", "grant"];
        assert_eq!(none, [&["drop-letters"], &bucket[..]].concat(), "these need nothing of the cluster");
        let used: Vec<Need> =
            ACTIONS.iter().flat_map(|row| row.action.needs().unwrap_or_default()).copied().collect();
        assert!(Need::ALL.iter().all(|need| used.contains(need)), "a right that nothing needs");
        assert!(used.iter().all(|need| Need::ALL.contains(need)), "a right that is never asked for");
    }

    #[test]
    fn rights_are_of_the_namespaces_that_their_objects_are_in() {
        let said = |need: Need| need.right("runs", &targets()).to_string();
        assert_eq!(said(Need::PatchRun), "patch jobs.batch in namespace runs");
        assert_eq!(said(Need::GetLog), "get pods/log in namespace runs");
        assert_eq!(said(Need::UpdateTargets), "update configmaps scrape in namespace monitoring");
        assert_eq!(said(Need::CreateToken), "create secrets in namespace kube-system");
        assert_eq!(said(Need::GetClusterInfo), "get configmaps cluster-info in namespace kube-public");
    }

    #[test]
    fn only_what_the_cluster_denied_is_missing() {
        let unknown = |kind| Answer::Unknown(Problem::new("cluster", kind, "?"));
        let some = rights(|need| match need {
            Need::PatchRun => Answer::No("no rule".to_owned()),
            Need::GetLog => unknown(ProblemKind::Forbidden),
            _ => Answer::Yes,
        });
        assert_eq!(some.may(Action::Approve), Some(false));
        assert_eq!(some.may(Action::SaveLog), None);
        assert_eq!(some.may(Action::Shell), Some(true));
        assert_eq!(some.may(Action::Down), Some(true));
        assert_eq!(Rights::default().may(Action::Approve), None);
        let off: Vec<&str> = some.off().map(|action| action.info().name).collect();
        assert_eq!(off, ["approve", "check", "reject", "retry", "stop", "forget"]);
        assert!(!some.complete());

        let mut away = rights(|_| unknown(ProblemKind::Unreachable));
        away.keep(&some);
        assert_eq!((away.off().count(), away.may(Action::Shell)), (6, Some(true)));
        let mut refused = rights(|_| unknown(ProblemKind::Forbidden));
        refused.keep(&some);
        assert_eq!(refused.off().count(), 0, "reviews that are refused make nothing grey");
    }
}
