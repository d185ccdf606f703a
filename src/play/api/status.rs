//! Errors as the Kubernetes API says them: a `Status` object with code, reason, message and details.
//!
//! Everything that refuses a request makes a [`Failure`]; validation collects [`Faults`] first, so that one answer names all.

use std::fmt::Display;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use super::kinds::Resource;

/// A refused request.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct Failure {
    code: StatusCode,
    reason: &'static str,
    message: String,
    details: Option<Box<Value>>,
}

/// What a request answers.
pub(super) type Answer<T> = Result<T, Failure>;

impl Failure {
    fn new(code: StatusCode, reason: &'static str, message: String) -> Self {
        Self { code, reason, message, details: None }
    }

    fn about(mut self, resource: &Resource, name: &str) -> Self {
        // Names the resource, not the kind: the API server does so everywhere but in Invalid.
        let mut details = json!({ "name": name });
        if let Value::Object(map) = &mut details {
            if !resource.group.is_empty() {
                map.insert("group".to_owned(), resource.group.into());
            }
            map.insert("kind".to_owned(), resource.plural.into());
        }
        self.details = Some(Box::new(details));
        self
    }

    /// 404 for an object.
    pub(super) fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", resource.qualified());
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).about(resource, name)
    }

    /// 404 for a path that no server of this version has.
    pub(super) fn no_such_path() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "NotFound",
            "the server could not find the requested resource".to_owned(),
        )
    }

    /// 409: the name is taken.
    pub(super) fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", resource.qualified());
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).about(resource, name)
    }

    /// 409: the caller's idea of the object is out of date.
    pub(super) fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.qualified());
        Self::new(StatusCode::CONFLICT, "Conflict", message).about(resource, name)
    }

    /// 409 for a resource version that is not the current one.
    pub(super) fn modified(resource: &Resource, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// 400.
    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message.into())
    }

    /// 401.
    pub(super) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized".to_owned())
    }

    /// 403 for what may come from a page in a browser.
    pub(super) fn browser() -> Self {
        let message = "forbidden: the playground's API server takes no requests from browsers or by a name other than localhost";
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message.to_owned())
    }

    /// 403 on an object; the name is empty for all of them.
    pub(super) fn forbidden(message: String, group: &str, plural: &str, name: &str) -> Self {
        let mut failure = Self::new(StatusCode::FORBIDDEN, "Forbidden", message);
        let mut details = serde_json::Map::new();
        for (key, value) in [("name", name), ("group", group), ("kind", plural)] {
            if !value.is_empty() {
                details.insert(key.to_owned(), value.into());
            }
        }
        failure.details = Some(Box::new(details.into()));
        failure
    }

    /// What an admission policy denies: as [`Failure::forbidden`], with the policy's own reason.
    pub(super) fn denied(reason: &str, resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {why}", resource.qualified());
        let mut failure = Self::forbidden(message, resource.group, resource.plural, name);
        (failure.code, failure.reason) = match reason {
            "Forbidden" => (StatusCode::FORBIDDEN, "Forbidden"),
            "Unauthorized" => (StatusCode::UNAUTHORIZED, "Unauthorized"),
            "RequestEntityTooLarge" => (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge"),
            _ => (StatusCode::UNPROCESSABLE_ENTITY, "Invalid"),
        };
        if let Some(Value::Object(details)) = failure.details.as_deref_mut() {
            details.insert("causes".to_owned(), json!([{ "message": why }]));
        }
        failure
    }

    /// 405.
    pub(super) fn method() -> Self {
        let message = "the server does not allow this method on the requested resource".to_owned();
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    /// 406.
    pub(super) fn not_acceptable() -> Self {
        let message = "only the following media types are accepted: application/json".to_owned();
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// 415.
    pub(super) fn media_type(accepted: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        );
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    /// 413.
    pub(super) fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// 410: what is asked for has left the history.
    pub(super) fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message.into())
    }

    /// 504: a version that this server has not reached.
    pub(super) fn too_new(asked: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {asked}, current: {current}");
        let mut failure = Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message);
        failure.details = Some(Box::new(json!({
            "causes": [{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }],
            "retryAfterSeconds": 1,
        })));
        failure
    }

    /// 500.
    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message.into())
    }

    /// 503 while the server stops.
    pub(super) fn stopping() -> Self {
        let message = "the playground's API server is stopping".to_owned();
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
    }

    /// 501: a real API server has this, this one has not.
    pub(super) fn not_implemented(what: &str) -> Self {
        let message = format!("the playground's API server does not implement {what}");
        Self::new(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message)
    }

    /// The `Status` object.
    pub(super) fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        });
        if let Value::Object(map) = &mut status {
            if let Some(details) = &self.details {
                map.insert("details".to_owned(), (**details).clone());
            }
            map.insert("code".to_owned(), self.code.as_u16().into());
        }
        status
    }

    /// The HTTP code.
    pub(super) fn code(&self) -> StatusCode {
        self.code
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let body = self.status().to_string();
        let mut response = (self.code, [(header::CONTENT_TYPE, "application/json")], body).into_response();
        if self.code == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.code == StatusCode::GATEWAY_TIMEOUT {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// What is wrong with an object, field by field.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Fault>);

#[derive(Debug)]
struct Fault {
    field: String,
    reason: &'static str,
    text: String,
}

impl Faults {
    fn add(&mut self, field: &str, reason: &'static str, text: String) {
        self.0.push(Fault { field: field.to_owned(), reason, text });
    }

    /// The value is not one that may stand there.
    pub(super) fn invalid(&mut self, field: &str, value: impl Into<Value>, why: impl Display) {
        let text = format!("Invalid value: {}: {why}", value.into());
        self.add(field, "FieldValueInvalid", text);
    }

    /// The field may not change.
    pub(super) fn immutable(&mut self, field: &str, value: impl Into<Value>) {
        self.invalid(field, value, "field is immutable");
    }

    /// The field must be there.
    pub(super) fn required(&mut self, field: &str, why: impl Display) {
        let why = why.to_string();
        let text =
            if why.is_empty() { "Required value".to_owned() } else { format!("Required value: {why}") };
        self.add(field, "FieldValueRequired", text);
    }

    /// The field may not be there, or not be changed now.
    pub(super) fn forbidden(&mut self, field: &str, why: impl Display) {
        self.add(field, "FieldValueForbidden", format!("Forbidden: {why}"));
    }

    /// The value is none of those allowed.
    pub(super) fn unsupported(&mut self, field: &str, value: &str, allowed: &[&str]) {
        let allowed: Vec<String> = allowed.iter().map(|a| format!("\"{a}\"")).collect();
        let text = format!("Unsupported value: \"{value}\": supported values: {}", allowed.join(", "));
        self.add(field, "FieldValueNotSupported", text);
    }

    /// The value occurs twice.
    pub(super) fn duplicate(&mut self, field: &str, value: &str) {
        self.add(field, "FieldValueDuplicate", format!("Duplicate value: \"{value}\""));
    }

    /// The value names something that is not there.
    pub(super) fn not_found(&mut self, field: &str, value: &str) {
        self.add(field, "FieldValueNotFound", format!("Not found: \"{value}\""));
    }

    /// The value is larger than it may be.
    pub(super) fn too_long(&mut self, field: &str, bytes: usize) {
        let text = format!("Too long: may not be more than {bytes} bytes");
        self.add(field, "FieldValueTooLong", text);
    }

    /// The number of faults so far.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Ok without faults, else 422 with all of them.
    pub(super) fn done(self, resource: &Resource, name: &str) -> Answer<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let texts: Vec<String> = self.0.iter().map(|f| format!("{}: {}", f.field, f.text)).collect();
        let text = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{} \"{name}\" is invalid: {text}", resource.qualified_kind());
        let mut failure = Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
        let causes: Vec<Value> = self
            .0
            .iter()
            .map(|f| json!({ "reason": f.reason, "message": f.text, "field": f.field }))
            .collect();
        let mut details = json!({ "name": name });
        if let Value::Object(map) = &mut details {
            if !resource.group.is_empty() {
                map.insert("group".to_owned(), resource.group.into());
            }
            map.insert("kind".to_owned(), resource.name.into());
            map.insert("causes".to_owned(), causes.into());
        }
        failure.details = Some(Box::new(details));
        Err(failure)
    }
}
