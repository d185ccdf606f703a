//! The table of what this API serves: kinds, their groups and names, and what may be done with each.
//!
//! Router, discovery, storage and tables all read this one table. It knows no HTTP and no storage.

/// A kind of stored object. Events exist once although two groups show them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    AdmissionBinding,
    AdmissionPolicy,
    ClusterRole,
    ClusterRoleBinding,
    ConfigMap,
    CronJob,
    Deployment,
    DisruptionBudget,
    Event,
    Job,
    Lease,
    LimitRange,
    Namespace,
    NetworkPolicy,
    Node,
    Pod,
    Quota,
    Role,
    RoleBinding,
    Secret,
    Service,
    ServiceAccount,
}

/// How one group shows one kind.
#[derive(Debug)]
pub(super) struct Resource {
    /// What is stored.
    pub(super) kind: Kind,
    /// The API group, empty for the core group. Every group is served in version `v1`.
    pub(super) group: &'static str,
    /// The word in the path.
    pub(super) plural: &'static str,
    /// The word for one of them.
    pub(super) singular: &'static str,
    /// The value of `kind` in an object.
    pub(super) name: &'static str,
    /// What kubectl users type instead.
    pub(super) short: &'static [&'static str],
    /// Whether objects live in a namespace.
    pub(super) namespaced: bool,
    /// What may be done with the resource itself.
    pub(super) verbs: &'static [&'static str],
    /// Whether `/status` is served.
    pub(super) status: bool,
}

/// Everything that one may do with most kinds.
const ALL: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
/// Namespaces stay: emptying one is a controller's work that nothing here needs.
const STAYING: &[&str] = &["create", "get", "list", "patch", "update", "watch"];

const fn resource(
    kind: Kind,
    group: &'static str,
    plural: &'static str,
    singular: &'static str,
    name: &'static str,
    short: &'static [&'static str],
) -> Resource {
    Resource { kind, group, plural, singular, name, short, namespaced: true, verbs: ALL, status: false }
}

/// The group of Roles.
pub(super) const RBAC: &str = "rbac.authorization.k8s.io";
/// The group of admission policies.
pub(super) const ADMISSION: &str = "admissionregistration.k8s.io";

/// All resources, grouped as discovery lists them.
pub(super) static RESOURCES: [Resource; 23] = [
    resource(Kind::ConfigMap, "", "configmaps", "configmap", "ConfigMap", &["cm"]),
    resource(Kind::Event, "", "events", "event", "Event", &["ev"]),
    Resource {
        namespaced: false,
        verbs: STAYING,
        ..resource(Kind::Namespace, "", "namespaces", "namespace", "Namespace", &["ns"])
    },
    Resource {
        namespaced: false,
        status: true,
        ..resource(Kind::Node, "", "nodes", "node", "Node", &["no"])
    },
    Resource { status: true, ..resource(Kind::Pod, "", "pods", "pod", "Pod", &["po"]) },
    resource(Kind::Secret, "", "secrets", "secret", "Secret", &[]),
    resource(Kind::ServiceAccount, "", "serviceaccounts", "serviceaccount", "ServiceAccount", &["sa"]),
    Resource { status: true, ..resource(Kind::Service, "", "services", "service", "Service", &["svc"]) },
    Resource {
        status: true,
        ..resource(Kind::Quota, "", "resourcequotas", "resourcequota", "ResourceQuota", &["quota"])
    },
    resource(Kind::LimitRange, "", "limitranges", "limitrange", "LimitRange", &["limits"]),
    Resource {
        namespaced: false,
        status: true,
        ..resource(
            Kind::AdmissionPolicy,
            ADMISSION,
            "validatingadmissionpolicies",
            "validatingadmissionpolicy",
            "ValidatingAdmissionPolicy",
            &[],
        )
    },
    Resource {
        namespaced: false,
        ..resource(
            Kind::AdmissionBinding,
            ADMISSION,
            "validatingadmissionpolicybindings",
            "validatingadmissionpolicybinding",
            "ValidatingAdmissionPolicyBinding",
            &[],
        )
    },
    Resource {
        status: true,
        ..resource(Kind::Deployment, "apps", "deployments", "deployment", "Deployment", &["deploy"])
    },
    Resource { status: true, ..resource(Kind::Job, "batch", "jobs", "job", "Job", &[]) },
    Resource { status: true, ..resource(Kind::CronJob, "batch", "cronjobs", "cronjob", "CronJob", &["cj"]) },
    resource(Kind::Lease, "coordination.k8s.io", "leases", "lease", "Lease", &[]),
    resource(Kind::Event, "events.k8s.io", "events", "event", "Event", &["ev"]),
    resource(
        Kind::NetworkPolicy,
        "networking.k8s.io",
        "networkpolicies",
        "networkpolicy",
        "NetworkPolicy",
        &["netpol"],
    ),
    Resource {
        status: true,
        ..resource(
            Kind::DisruptionBudget,
            "policy",
            "poddisruptionbudgets",
            "poddisruptionbudget",
            "PodDisruptionBudget",
            &["pdb"],
        )
    },
    Resource {
        namespaced: false,
        ..resource(Kind::ClusterRole, RBAC, "clusterroles", "clusterrole", "ClusterRole", &[])
    },
    Resource {
        namespaced: false,
        ..resource(
            Kind::ClusterRoleBinding,
            RBAC,
            "clusterrolebindings",
            "clusterrolebinding",
            "ClusterRoleBinding",
            &[],
        )
    },
    resource(Kind::Role, RBAC, "roles", "role", "Role", &[]),
    resource(Kind::RoleBinding, RBAC, "rolebindings", "rolebinding", "RoleBinding", &[]),
];

/// The groups of [`RESOURCES`] and of the reviews, without the core group.
pub(super) const GROUPS: [&str; 10] = [
    ADMISSION,
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "batch",
    "coordination.k8s.io",
    "events.k8s.io",
    "networking.k8s.io",
    "policy",
    RBAC,
];

impl Resource {
    /// The resource that a path names.
    pub(super) fn find(group: &str, plural: &str) -> Option<&'static Resource> {
        RESOURCES.iter().find(|r| r.group == group && r.plural == plural)
    }

    /// The value of `apiVersion` in an object.
    pub(super) fn api_version(&self) -> String {
        if self.group.is_empty() { "v1".to_owned() } else { format!("{}/v1", self.group) }
    }

    /// `jobs.batch`, `pods`: how messages name the resource.
    pub(super) fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// `Job.batch`, `Pod`: how messages name the kind.
    pub(super) fn qualified_kind(&self) -> String {
        if self.group.is_empty() { self.name.to_owned() } else { format!("{}.{}", self.name, self.group) }
    }

    /// Whether the resource offers this verb.
    pub(super) fn offers(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    /// Whether this is the core group's view of events, which differs from how they are stored.
    pub(super) fn is_core_event(&self) -> bool {
        self.kind == Kind::Event && self.group.is_empty()
    }
}

impl Kind {
    /// The resource in whose form objects of this kind are stored.
    pub(super) fn resource(self) -> &'static Resource {
        // Events are stored as their own group has them; every other kind has one resource.
        let group = if self == Kind::Event { Some("events.k8s.io") } else { None };
        RESOURCES
            .iter()
            .find(|r| r.kind == self && group.is_none_or(|g| g == r.group))
            .unwrap_or(&RESOURCES[0])
    }

    /// Whether `metadata.generation` counts the changes of `spec`.
    pub(super) fn has_generation(self) -> bool {
        use Kind::{AdmissionBinding, AdmissionPolicy, CronJob, Deployment, DisruptionBudget};
        let others = [AdmissionBinding, AdmissionPolicy, CronJob, Deployment, DisruptionBudget];
        matches!(self, Kind::Job | Kind::NetworkPolicy | Kind::Pod) || others.contains(&self)
    }

    /// Whether the object has a `status` that only `/status` writes.
    pub(super) fn has_status(self) -> bool {
        self.resource().status
    }

    /// The kind that an owner reference names, if it is one of ours.
    pub(super) fn of_reference(api_version: &str, name: &str) -> Option<Kind> {
        RESOURCES.iter().find(|r| r.name == name && r.api_version() == api_version).map(|r| r.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_finds_its_resource() {
        for resource in &RESOURCES {
            assert_eq!(resource.kind.resource().kind, resource.kind);
            assert!(resource.group.is_empty() || GROUPS.contains(&resource.group), "{}", resource.group);
        }
        assert_eq!(Kind::Event.resource().group, "events.k8s.io");
        assert_eq!(Kind::Job.resource().qualified(), "jobs.batch");
        assert_eq!(Kind::of_reference("batch/v1", "Job"), Some(Kind::Job));
        assert_eq!(Kind::of_reference("apps/v1", "StatefulSet"), None);
    }
}
