//! The door: who is let in, as whom, and to what.

use http::{HeaderMap, Method, header};
use jiff::Timestamp;
use subtle::ConstantTimeEq;

use super::identity::{self, Caller};
use super::kinds::Kind;
use super::params::Params;
use super::route::Route;
use super::server::Server;
use super::status::{Answer, Failure};
use super::store::Key;
use super::{access, bootstrap, rbac, signer, tokens};
use crate::domain::BootstrapToken;

/// Compares without telling by the time where they differ.
fn same(given: &str, token: &str) -> bool {
    given.as_bytes().ct_eq(token.as_bytes()).into()
}

/// A header's value, empty when it is absent.
pub(super) fn header_of(headers: &HeaderMap, name: header::HeaderName) -> &str {
    headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
}

/// Any page that is open in a browser on this machine can reach a loopback port: by its origin, or under a name of its own that
/// leads here. Neither kubectl nor this program looks like that.
fn not_a_browser(headers: &HeaderMap) -> Answer<()> {
    let host = header_of(headers, header::HOST);
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name).trim_matches(['[', ']']);
    let local = host.is_empty() || name == "localhost" || name.parse::<std::net::IpAddr>().is_ok();
    if local && !headers.contains_key(header::ORIGIN) { Ok(()) } else { Err(Failure::browser()) }
}

/// What everybody may see.
fn is_public(method: &Method, route: &Route) -> bool {
    match route {
        Route::Health | Route::Version => true,
        // A new host reads it before it has any credentials.
        Route::Object(_, key) => {
            *method == Method::GET
                && *key == Key::new(Kind::ConfigMap, signer::NAMESPACE, signer::CLUSTER_INFO)
        }
        _ => false,
    }
}

impl Server {
    /// Whether a path begins with the token, and the path behind it.
    pub(super) fn recognise<'a>(&self, path: &'a str) -> (&'a str, bool) {
        let Some(token) = &self.token else { return (path, false) };
        let (first, rest) = path.strip_prefix('/').and_then(|p| p.split_once('/')).unwrap_or_default();
        // The rest keeps its slash: `/TOKEN/api` is `/api`.
        match path.split_at_checked(first.len().saturating_add(1)) {
            Some((_, rest_of_path)) if same(first, token) && !rest.is_empty() => (rest_of_path, true),
            _ => (path, false),
        }
    }

    /// Lets somebody in to what it may do, as the one it is or speaks for. `known`: the path had the token.
    ///
    /// # Errors
    /// 401 for who shows nothing or something unknown, 403 for browsers and for what Roles don't allow.
    pub(super) fn admit(
        &self,
        known: bool,
        headers: &HeaderMap,
        (method, path, route, params): (&Method, &str, &Route, &Params),
    ) -> Answer<Caller> {
        let Some(caller) = self.authenticate(known, headers)? else {
            return if is_public(method, route) {
                Ok(Caller::stranger())
            } else {
                Err(Failure::unauthorized())
            };
        };
        let wanted = identity::wanted(headers)?;
        if wanted.is_none() && caller.is_admin() {
            return Ok(caller);
        }
        self.store.with(|inner| {
            let caller = match wanted {
                Some(wanted) => identity::impersonate(inner, &caller, wanted)?,
                None => caller,
            };
            rbac::authorise(inner, &caller, &access::of(method, path, route, params))?;
            Ok(caller)
        })
    }

    /// Who it is; `None` for who shows nothing where something is asked for.
    fn authenticate(&self, known: bool, headers: &HeaderMap) -> Answer<Option<Caller>> {
        let admin = || Some(Caller::admin(&self.user));
        if known {
            return Ok(admin());
        }
        if self.token.is_none() {
            not_a_browser(headers)?;
        }
        let shown = header_of(headers, header::AUTHORIZATION);
        if shown.is_empty() {
            return Ok(if self.token.is_none() { admin() } else { None });
        }
        let bearer = shown.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let Some(given) = bearer.map(|(_, given)| given.trim()) else { return Err(Failure::unauthorized()) };
        if self.token.as_ref().is_some_and(|token| same(given, token)) {
            return Ok(admin());
        }
        if let Ok(token) = BootstrapToken::parse(given) {
            let caller = self.store.with(|inner| bootstrap::caller(inner, &token, Timestamp::now()));
            return caller.map(Some).ok_or_else(Failure::unauthorized);
        }
        let account = self.store.with(|inner| self.tokens.caller(inner, given));
        match account {
            // Where nothing is asked for, it does not matter what is shown, unless it says that it is an account's.
            None if self.token.is_none() && !tokens::is_one(given) => Ok(admin()),
            None => Err(Failure::unauthorized()),
            account => Ok(account),
        }
    }
}
