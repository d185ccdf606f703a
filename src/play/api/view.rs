//! How answers look: which shape the client accepts, and objects, lists and watch events written in it.
//!
//! Objects are stored as text without `kind` and `apiVersion`; the plain shape puts these in front and copies the rest.

use serde_json::{Map, Value, json};

use super::kinds::Resource;
use super::reads::Page;
use super::status::{Answer, Failure};
use super::store::Stored;
use super::{meta, schema, table};

/// The shape in which a client wants its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// The objects themselves.
    Plain,
    /// A table, as kubectl prints it.
    Table(Include),
    /// Only the metadata.
    Partial,
}

/// What a table's rows carry beside their cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Include {
    None,
    Metadata,
    Object,
}

impl Shape {
    /// The first shape of an `Accept` header that is served here.
    ///
    /// # Errors
    /// 406 when there is none.
    pub(super) fn negotiate(accept: &str, include: &str) -> Answer<Self> {
        if accept.trim().is_empty() {
            return Ok(Self::Plain);
        }
        accept.split(',').find_map(|range| Self::of(range, include)).ok_or_else(Failure::not_acceptable)
    }

    fn of(range: &str, include: &str) -> Option<Self> {
        let mut parts = range.split(';').map(str::trim);
        if !matches!(parts.next()?, "application/json" | "application/*" | "*/*") {
            return None;
        }
        let (mut shape, mut group, mut version) = (None, "meta.k8s.io", "v1");
        for (key, value) in parts.filter_map(|p| p.split_once('=')) {
            match key.trim() {
                "as" => shape = Some(value),
                "g" => group = value,
                "v" => version = value,
                _ => {}
            }
        }
        match (shape, group, version) {
            (None, ..) => Some(Self::Plain),
            (Some("Table"), "meta.k8s.io", "v1") => Some(Self::Table(match include {
                "None" => Include::None,
                "Object" => Include::Object,
                _ => Include::Metadata,
            })),
            (Some("PartialObjectMetadata" | "PartialObjectMetadataList"), "meta.k8s.io", "v1") => {
                Some(Self::Partial)
            }
            _ => None,
        }
    }
}

/// The object's text as this resource shows it, without the opening brace's two first fields.
fn body(resource: &Resource, object: &Stored) -> Vec<u8> {
    if resource.is_core_event() {
        let mut shown = schema::show(resource, object.value());
        meta::set(&mut shown, "kind", None);
        meta::set(&mut shown, "apiVersion", None);
        return shown.to_string().into_bytes();
    }
    object.text().to_vec()
}

/// An object's metadata alone.
pub(super) fn partial(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object.get("metadata").cloned().unwrap_or_default(),
    })
}

/// One object.
pub(super) fn object(resource: &Resource, shape: Shape, object: &Stored) -> Vec<u8> {
    match shape {
        Shape::Plain => {
            let prefix =
                format!("{{\"kind\":\"{}\",\"apiVersion\":\"{}\",", resource.name, resource.api_version());
            let mut out = prefix.into_bytes();
            out.extend(body(resource, object).into_iter().skip(1));
            out
        }
        Shape::Partial => partial(&object.value()).to_string().into_bytes(),
        Shape::Table(include) => {
            let rv = object.rv.to_string();
            table::table(resource, std::iter::once(object), include, true, &json!({ "resourceVersion": rv }))
                .to_string()
                .into_bytes()
        }
    }
}

/// A list, or a page of one.
pub(super) fn list(resource: &Resource, shape: Shape, page: &Page) -> Vec<u8> {
    let mut metadata = json!({ "resourceVersion": page.rv.to_string() });
    meta::set(&mut metadata, "continue", page.token.clone().map(Value::from));
    meta::set(&mut metadata, "remainingItemCount", page.remaining.map(Value::from));
    let (kind, api_version) = match shape {
        Shape::Table(include) => {
            let rows = page.items.iter().map(AsRef::as_ref);
            return table::table(resource, rows, include, true, &metadata).to_string().into_bytes();
        }
        Shape::Partial => ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned()),
        Shape::Plain => (format!("{}List", resource.name), resource.api_version()),
    };
    let head =
        format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":[");
    let mut out = head.into_bytes();
    for (at, item) in page.items.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        match shape {
            Shape::Partial => out.extend(object(resource, shape, item)),
            _ => out.extend(body(resource, item)),
        }
    }
    out.extend_from_slice(b"]}");
    out
}

/// A line of a watch about an object. `first` is whether a table still has to name its columns.
pub(super) fn event(resource: &Resource, shape: Shape, what: &str, item: &Stored, first: bool) -> Vec<u8> {
    let mut out = format!("{{\"type\":\"{what}\",\"object\":").into_bytes();
    match shape {
        Shape::Table(include) => {
            let metadata = json!({ "resourceVersion": item.rv.to_string() });
            let table = table::table(resource, std::iter::once(item), include, first, &metadata);
            out.extend_from_slice(table.to_string().as_bytes());
        }
        _ => out.extend(object(resource, shape, item)),
    }
    out.extend_from_slice(b"}\n");
    out
}

/// A line of a watch that tells how far it is. `initial` marks the end of the initial state.
pub(super) fn bookmark(resource: &Resource, shape: Shape, rv: u64, initial: bool) -> Vec<u8> {
    let mut metadata = json!({ "resourceVersion": rv.to_string() });
    if initial {
        let mark: Map<_, _> = [("k8s.io/initial-events-end".to_owned(), "true".into())].into_iter().collect();
        meta::set(&mut metadata, "annotations", Some(mark.into()));
    }
    let object = match shape {
        Shape::Plain => {
            json!({ "kind": resource.name, "apiVersion": resource.api_version(), "metadata": metadata })
        }
        Shape::Partial => partial(&json!({ "metadata": metadata })),
        Shape::Table(_) => table::mark(resource, &metadata),
    };
    format!("{}\n", json!({ "type": "BOOKMARK", "object": object })).into_bytes()
}

/// A line of a watch that ends it.
pub(super) fn error(failure: &Failure) -> Vec<u8> {
    format!("{}\n", json!({ "type": "ERROR", "object": failure.status() })).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_shape_that_we_have_counts() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(Shape::negotiate(kubectl, "").unwrap(), Shape::Table(Include::Metadata));
        assert_eq!(Shape::negotiate(kubectl, "Object").unwrap(), Shape::Table(Include::Object));
        for (accept, shape) in [
            ("", Shape::Plain),
            ("*/*", Shape::Plain),
            ("application/json", Shape::Plain),
            ("application/vnd.kubernetes.protobuf,application/json", Shape::Plain),
            (
                "application/json;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList,application/json",
                Shape::Plain,
            ),
            ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", Shape::Partial),
        ] {
            assert_eq!(Shape::negotiate(accept, "").unwrap(), shape, "{accept}");
        }
        assert!(Shape::negotiate("application/yaml", "").is_err());
    }
}
