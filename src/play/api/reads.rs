//! Get and list. A list that is read in pages shows one moment: later pages undo what the history says has changed since.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};

use super::kinds::Resource;
use super::params::Params;
use super::select::Selector;
use super::status::{Answer, Failure};
use super::store::{Inner, Key, Store, Stored};

/// Which objects a collection's path names.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    pub(super) resource: &'static Resource,
    /// `None` for all namespaces, and for what has none.
    pub(super) namespace: Option<String>,
}

impl Scope {
    /// Whether an object is in the collection.
    pub(super) fn holds(&self, object: &Stored) -> bool {
        object.key.kind == self.resource.kind
            && self.namespace.as_ref().is_none_or(|n| *n == object.key.namespace)
    }

    fn first(&self) -> Key {
        Key::new(self.resource.kind, self.namespace.as_deref().unwrap_or_default(), "")
    }
}

/// A list, or a page of one.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) items: Vec<Arc<Stored>>,
    pub(super) rv: u64,
    pub(super) token: Option<String>,
    /// How many follow; not told when a selector is at work, as in a real API server.
    pub(super) remaining: Option<usize>,
}

/// What `continue` carries: the moment that is shown, and the last object of the page before.
#[derive(Debug, Serialize, Deserialize)]
struct Token {
    rv: u64,
    namespace: String,
    name: String,
}

/// Finds an object.
///
/// # Errors
/// 404 when it is not there.
pub(super) fn get(store: &Store, resource: &Resource, key: &Key) -> Answer<Arc<Stored>> {
    store.with(|inner| inner.get(key).cloned()).ok_or_else(|| Failure::not_found(resource, &key.name))
}

/// Lists a collection as the query asks.
///
/// # Errors
/// 400 for what cannot be asked, 410 when the moment has left the history, 504 when it has not come.
pub(super) fn list(store: &Store, scope: &Scope, selector: &Selector, params: &Params) -> Answer<Page> {
    let limit = params.number::<usize>("limit")?.filter(|l| *l > 0);
    let asked = version(params)?;
    let exact = match params.get("resourceVersionMatch") {
        None | Some("NotOlderThan") => None,
        Some("Exact") if asked.is_some_and(|rv| rv > 0) => asked,
        Some(other) => {
            return Err(Failure::bad_request(format!(
                "resourceVersionMatch \"{other}\" is not allowed here"
            )));
        }
    };
    let token = match params.get("continue") {
        Some(_) if asked.is_some_and(|rv| rv > 0) => {
            return Err(Failure::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        Some(token) => Some(decode(token)?),
        None => None,
    };
    store.with(|inner| {
        let moment = token.as_ref().map(|t| t.rv).or(exact).unwrap_or(inner.rv());
        let newest = moment.max(asked.unwrap_or(0));
        if newest > inner.rv() {
            return Err(Failure::too_new(newest, inner.rv()));
        }
        if moment < inner.reaches() {
            return Err(Failure::expired(if token.is_some() {
                "The provided continue parameter is too old to display a consistent list result. You must start a new \
                 list without the continue parameter."
                    .to_owned()
            } else {
                format!("The resourceVersion for the provided list is too old: {moment} ({})", inner.reaches())
            }));
        }
        let after = token.map(|t| Key::new(scope.resource.kind, &t.namespace, &t.name));
        Ok(page(inner, scope, selector, moment, after.as_ref(), limit))
    })
}

/// The resource version that a query names.
///
/// # Errors
/// 400 when it is no number.
pub(super) fn version(params: &Params) -> Answer<Option<u64>> {
    params
        .get("resourceVersion")
        .map(|rv| rv.parse().map_err(|_| Failure::bad_request(format!("Invalid resource version \"{rv}\""))))
        .transpose()
}

fn decode(token: &str) -> Answer<Token> {
    BASE64URL_NOPAD
        .decode(token.as_bytes())
        .ok()
        .and_then(|raw| serde_json::from_slice(&raw).ok())
        .ok_or_else(|| Failure::bad_request("continue key is not valid"))
}

fn page(
    inner: &Inner,
    scope: &Scope,
    selector: &Selector,
    moment: u64,
    after: Option<&Key>,
    limit: Option<usize>,
) -> Page {
    let first = scope.first();
    let start = after.map_or(Bound::Included(&first), Bound::Excluded);
    let past = if moment == inner.rv() { BTreeMap::new() } else { inner.past(scope.resource.kind, moment) };
    let live = inner.from(start).take_while(|o| scope.holds(o)).filter(|o| !past.contains_key(&o.key));
    let then =
        past.range((start, Bound::Unbounded)).filter_map(|(_, o)| o.as_ref()).filter(|o| scope.holds(o));
    let mut found = Merged { live: live.peekable(), then: then.peekable() }.filter(|o| selector.matches(o));
    let most = limit.unwrap_or(usize::MAX);
    let items: Vec<Arc<Stored>> = found.by_ref().take(most).cloned().collect();
    // With a selector only whether anything follows is of interest, else how much.
    let remaining = if selector.is_empty() { found.count() } else { found.take(1).count() };
    let token = items.last().filter(|_| remaining > 0).map(|last| {
        let Key { namespace, name, .. } = last.key.clone();
        BASE64URL_NOPAD
            .encode(&serde_json::to_vec(&Token { rv: moment, namespace, name }).unwrap_or_default())
    });
    let remaining = (remaining > 0 && selector.is_empty()).then_some(remaining);
    Page { items, rv: moment, token, remaining }
}

/// Two sorted runs of objects as one.
struct Merged<'a, A: Iterator<Item = &'a Arc<Stored>>, B: Iterator<Item = &'a Arc<Stored>>> {
    live: Peekable<A>,
    then: Peekable<B>,
}

impl<'a, A: Iterator<Item = &'a Arc<Stored>>, B: Iterator<Item = &'a Arc<Stored>>> Iterator
    for Merged<'a, A, B>
{
    type Item = &'a Arc<Stored>;

    fn next(&mut self) -> Option<Self::Item> {
        match (self.live.peek(), self.then.peek()) {
            (Some(a), Some(b)) if b.key < a.key => self.then.next(),
            (None, Some(_)) => self.then.next(),
            _ => self.live.next(),
        }
    }
}
