//! Admission: what ValidatingAdmissionPolicies and ResourceQuotas say to a change that Roles allow.
//!
//! Asked for every request that would change something, under the store's lock, after the object's own rules. What the server does by
//! itself (controllers, the first objects) is not asked about. Policies with parameters are not served, and say so when they are made.

mod expression;
mod matching;
mod quota;

use serde_json::{Value, json};

use super::identity::Caller;
use super::kinds::{ADMISSION, Kind, Resource};
use super::meta::{items, text};
use super::status::{Answer, Failure, Faults};
use super::store::{Inner, Key};
use super::{rbac, schema};
use expression::Scene;

/// What somebody is about to do.
pub(super) struct Attempt<'a> {
    pub(super) caller: &'a Caller,
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub(super) operation: &'a str,
    pub(super) resource: &'a Resource,
    /// The part of the object that is written, such as `status`; empty for the object.
    pub(super) sub: &'a str,
    pub(super) key: &'a Key,
    /// What the object shall be; none when it is deleted.
    pub(super) object: Option<&'a Value>,
    /// What the object was; none when it is new.
    pub(super) old: Option<&'a Value>,
    pub(super) dry: bool,
}

/// Lets through what no policy and no quota is against.
///
/// # Errors
/// 422 or 403 of the first policy that denies it, 403 of a quota.
pub(super) fn judge(inner: &Inner, attempt: &Attempt<'_>) -> Answer<()> {
    if let Some(object) = attempt.object {
        rbac::no_more_than_own(inner, attempt.caller, attempt.key, object)?;
    }
    // Policies can't be locked out by policies.
    if attempt.resource.group != ADMISSION {
        ask_policies(inner, attempt)?;
    }
    if attempt.operation == "CREATE" { quota::judge(inner, attempt) } else { Ok(()) }
}

fn ask_policies(inner: &Inner, attempt: &Attempt<'_>) -> Answer<()> {
    let bindings = inner.of(Kind::AdmissionBinding, "");
    if bindings.is_empty() {
        return Ok(());
    }
    let mut seen = None;
    for binding in bindings {
        let bound = binding.value();
        let name = text(&bound, "/spec/policyName").unwrap_or_default();
        let denies = items(&bound, "/spec/validationActions").iter().any(|action| action == "Deny");
        let Some(policy) = inner.get(&Key::new(Kind::AdmissionPolicy, "", name)).filter(|_| denies) else {
            continue;
        };
        let policy = policy.value();
        let none = json!({});
        let means =
            |constraints: Option<&Value>| matching::matches(inner, constraints.unwrap_or(&none), attempt);
        if !means(policy.pointer("/spec/matchConstraints")) || !means(bound.pointer("/spec/matchResources")) {
            continue;
        }
        let seen = seen.get_or_insert_with(|| Seen::of(inner, attempt));
        if let Err(Denial { reason, message }) = evaluate(&policy, seen) {
            let why = format!(
                "ValidatingAdmissionPolicy '{name}' with binding '{}' denied request: {message}",
                binding.key.name
            );
            let (resource, name) = (attempt.resource, attempt.key.name.as_str());
            return Err(Failure::denied(&reason, resource, name, &why));
        }
    }
    Ok(())
}

/// Why a policy is against it.
struct Denial {
    reason: String,
    message: String,
}

impl From<String> for Denial {
    fn from(message: String) -> Self {
        Self { reason: String::new(), message }
    }
}

/// What the expressions of all policies see.
struct Seen {
    request: Value,
    object: Value,
    old: Value,
    namespace: Value,
}

impl Seen {
    fn of(inner: &Inner, attempt: &Attempt<'_>) -> Self {
        let shown = |object: Option<&Value>| {
            object.map_or(Value::Null, |object| schema::show(attempt.resource, object.clone()))
        };
        let Attempt { resource, key, .. } = attempt;
        let kind = json!({ "group": resource.group, "version": "v1", "kind": resource.name });
        let of = json!({ "group": resource.group, "version": "v1", "resource": resource.plural });
        let mut request = json!({
            "kind": kind, "resource": of, "requestKind": kind, "requestResource": of,
            "name": key.name, "operation": attempt.operation, "userInfo": attempt.caller.info(),
            "dryRun": attempt.dry,
        });
        for (field, value) in [("namespace", key.namespace.as_str()), ("subResource", attempt.sub)] {
            if let (Value::Object(map), false) = (&mut request, value.is_empty()) {
                map.insert(field.to_owned(), value.into());
            }
        }
        let namespace = inner.get(&Key::new(Kind::Namespace, "", &key.namespace));
        Self {
            request,
            object: shown(attempt.object),
            old: shown(attempt.old),
            namespace: namespace.map_or(Value::Null, |namespace| namespace.value()),
        }
    }

    fn scene(&self) -> Result<Scene, String> {
        Scene::new(&[
            ("request", &self.request),
            ("object", &self.object),
            ("oldObject", &self.old),
            ("namespaceObject", &self.namespace),
            ("params", &Value::Null),
        ])
    }
}

/// Asks one policy. What it can't judge it is against, unless it says that failures are ignored.
fn evaluate(policy: &Value, seen: &Seen) -> Result<(), Denial> {
    let ignore = text(policy, "/spec/failurePolicy") == Some("Ignore");
    let failed = |error: String| if ignore { Ok(()) } else { Err(Denial::from(error)) };
    let mut scene = match seen.scene() {
        Ok(scene) => scene,
        Err(error) => return failed(error),
    };
    // One condition that does not hold settles it, whatever is wrong with another.
    let conditions = items(policy, "/spec/matchConditions").iter();
    let held: Vec<_> = conditions.map(|c| scene.holds(text(c, "/expression").unwrap_or_default())).collect();
    if held.contains(&Ok(false)) {
        return Ok(());
    }
    if let Some(error) = held.into_iter().find_map(Result::err) {
        return failed(error);
    }
    add_variables(policy, &mut scene);
    for rule in items(policy, "/spec/validations") {
        let text_of = |field: &str| text(rule, field).unwrap_or_default();
        match scene.holds(text_of("/expression")) {
            Ok(true) => {}
            Ok(false) => {
                return Err(Denial { reason: text_of("/reason").to_owned(), message: message(rule, &scene) });
            }
            Err(error) => failed(error)?,
        }
    }
    Ok(())
}

/// Variables see those before them. One that has no value is missing where it is used, which fails there.
fn add_variables(policy: &Value, scene: &mut Scene) {
    let mut known: Vec<(String, cel::Value)> = Vec::new();
    for variable in items(policy, "/spec/variables") {
        scene.set("variables", expression::of_pairs(known.iter().cloned()));
        let name = text(variable, "/name").unwrap_or_default().to_owned();
        match scene.value(text(variable, "/expression").unwrap_or_default()) {
            Ok(value) => known.push((name, value)),
            Err(error) => tracing::debug!(name, error, "a variable of an admission policy has no value"),
        }
    }
    scene.set("variables", expression::of_pairs(known.into_iter()));
}

/// What a validation says when it does not hold.
fn message(rule: &Value, scene: &Scene) -> String {
    let written = text(rule, "/messageExpression").and_then(|text| match scene.value(text) {
        Ok(cel::Value::String(said)) if !said.trim().is_empty() => Some(said.to_string()),
        _ => None,
    });
    let fixed = || text(rule, "/message").map(str::trim).filter(|said| !said.is_empty()).map(str::to_owned);
    let expression = text(rule, "/expression").unwrap_or_default().trim();
    written.or_else(fixed).unwrap_or_else(|| format!("failed expression: {expression}"))
}

/// Checks a policy that is to be stored: every expression compiles.
pub(super) fn check_policy(policy: &Value, faults: &mut Faults) {
    if policy.pointer("/spec/paramKind").is_some() {
        faults.forbidden("spec.paramKind", "the playground's API server has no policies with parameters");
    }
    let rules = items(policy, "/spec/validations");
    if rules.is_empty() && items(policy, "/spec/auditAnnotations").is_empty() {
        faults.required("spec.validations", "validations or auditAnnotations must contain at least one item");
    }
    if items(policy, "/spec/matchConstraints/resourceRules").is_empty() {
        faults.required("spec.matchConstraints.resourceRules", "");
    }
    for list in ["matchConditions", "variables", "validations"] {
        for (at, rule) in items(policy, &format!("/spec/{list}")).iter().enumerate() {
            let written = text(rule, "/expression").unwrap_or_default();
            if let Err(error) = expression::compile(written) {
                let field = format!("spec.{list}[{at}].expression");
                faults.invalid(&field, written, format!("compilation failed: {error}"));
            }
        }
    }
}
