//! Everything that is deployed has the shape that Kubernetes knows: no field is misspelt, misplaced or of another type. An API server
//! says so too, where there is one; this is what can be said without.

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::CronJob;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ResourceQuota, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::deploy::Home;

/// What is left of an object that was read and written as a type: what the type does not know is lost on the way.
fn through<T: DeserializeOwned + Serialize>(object: &Value) -> Value {
    let read: T = serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error}: {object}"));
    serde_json::to_value(read).unwrap()
}

fn known(object: &Value) -> Value {
    match object["kind"].as_str().unwrap() {
        "ClusterRole" => through::<ClusterRole>(object),
        "ClusterRoleBinding" => through::<ClusterRoleBinding>(object),
        "ConfigMap" => through::<ConfigMap>(object),
        "CronJob" => through::<CronJob>(object),
        "Deployment" => through::<Deployment>(object),
        "Namespace" => through::<Namespace>(object),
        "NetworkPolicy" => through::<NetworkPolicy>(object),
        "PodDisruptionBudget" => through::<PodDisruptionBudget>(object),
        "ResourceQuota" => through::<ResourceQuota>(object),
        "Role" => through::<Role>(object),
        "RoleBinding" => through::<RoleBinding>(object),
        "Service" => through::<Service>(object),
        "ServiceAccount" => through::<ServiceAccount>(object),
        "ValidatingAdmissionPolicy" => through::<ValidatingAdmissionPolicy>(object),
        "ValidatingAdmissionPolicyBinding" => through::<ValidatingAdmissionPolicyBinding>(object),
        kind => panic!("{kind} is not looked at: add it here"),
    }
}

#[test]
fn no_field_is_unknown_to_kubernetes() {
    let objects =
        Home::new("ara.url = \"https://ara.example.org\"\nara_server.database = \"pg.example.org\"\n")
            .objects();
    assert!(objects.len() > 40);
    for object in &objects {
        assert_eq!(&known(object), object);
    }
    // A slip is seen.
    let is_ara =
        |object: &&Value| object["kind"] == "Deployment" && object["metadata"]["name"] == "hostwright-ara";
    let mut slip = (*objects.iter().find(is_ara).unwrap()).clone();
    slip["spec"]["template"]["spec"]["securityContext"]["runAsNonroot"] = json!(true);
    assert_ne!(known(&slip), slip);
}
