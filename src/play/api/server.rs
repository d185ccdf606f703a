//! The HTTP side: who may ask, what is asked, and the answer's form. The work is done by the modules beside it.

use std::future::IntoFuture;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::serve::ListenerExt;
use http::{HeaderMap, Method, StatusCode, header};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::delete::{self, Deleted};
use super::door::header_of;
use super::identity::Caller;
use super::kinds::{Kind, Resource};
use super::meta;
use super::params::Params;
use super::rbac::{self, Ask};
use super::reads::{self, Scope};
use super::route::Route;
use super::select::Selector;
use super::status::{Answer, Failure};
use super::store::{Key, Store, Stored};
use super::verbs::{self, Manner, Part};
use super::view::{self, Shape};
use super::{apply, discovery, logs, reviews, tokens, watch};

/// The largest body that is read, as in a real API server.
const BODY_MAX: usize = 3 * 1024 * 1024;
/// How long open requests may take to end once the server stops.
const DRAIN: Duration = Duration::from_secs(3);
const JSON: &str = "application/json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";
const MERGE_PATCH: &str = "application/merge-patch+json";

/// What every request needs.
pub(super) struct Server {
    pub(super) store: Arc<Store>,
    pub(super) watches: watch::Setting,
    pub(super) logs: PathBuf,
    pub(super) token: Option<String>,
    pub(super) tokens: tokens::Signer,
    pub(super) user: String,
    pub(super) shutdown: CancellationToken,
}

/// Serves until it is told to stop, then lets open requests end; watches and followed logs end at once.
///
/// # Errors
/// When the listener fails.
pub(super) async fn serve(server: Arc<Server>, listener: TcpListener) -> std::io::Result<()> {
    let shutdown = server.shutdown.clone();
    let listener = listener.tap_io(|stream| {
        // A watch's lines are small and wanted at once.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection keeps its delay");
        }
    });
    let router = axum::Router::new().fallback(handle).with_state(server);
    let stopping = shutdown.clone();
    let serving = axum::serve(listener, router)
        .with_graceful_shutdown(async move { stopping.cancelled().await })
        .into_future();
    let too_long = async {
        shutdown.cancelled().await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        served = serving => served,
        () = too_long => {
            tracing::warn!("some connections to the playground's API did not end and are dropped");
            Ok(())
        }
    }
}

async fn handle(State(server): State<Arc<Server>>, request: Request) -> Response {
    server.answer(request).await.unwrap_or_else(IntoResponse::into_response)
}

/// A JSON answer.
fn reply(code: StatusCode, body: impl Into<Body>) -> Response {
    (code, [(header::CONTENT_TYPE, JSON)], body.into()).into_response()
}

fn ok(body: &Value) -> Answer<Response> {
    Ok(reply(StatusCode::OK, body.to_string()))
}

/// What is left of a request once its body has gone its own way.
struct Asked {
    caller: Caller,
    method: Method,
    headers: HeaderMap,
    params: Params,
}

impl Asked {
    fn header(&self, name: header::HeaderName) -> &str {
        header_of(&self.headers, name)
    }

    fn shape(&self) -> Answer<Shape> {
        Shape::negotiate(self.header(header::ACCEPT), self.params.text("includeObject"))
    }

    fn manner(&self) -> Answer<Manner<'_>> {
        let dry = match self.params.get("dryRun") {
            None => false,
            Some("All") => true,
            Some(other) => {
                return Err(Failure::bad_request(format!("dryRun \"{other}\" is not supported: use All")));
            }
        };
        let strict = self.params.get("fieldValidation") == Some("Strict");
        Ok(Manner { dry, strict, caller: Some(&self.caller) })
    }

    /// The media type of the body, without its parameters.
    fn media_type(&self) -> &str {
        self.header(header::CONTENT_TYPE).split(';').next().unwrap_or_default().trim()
    }

    async fn bytes(body: Body) -> Answer<bytes::Bytes> {
        axum::body::to_bytes(body, BODY_MAX).await.map_err(|_| Failure::too_large(BODY_MAX))
    }

    async fn json(&self, body: Body, media_type: &str) -> Answer<Value> {
        // A body that does not say what it is counts as JSON.
        if !["", media_type].contains(&self.media_type()) {
            return Err(Failure::media_type(media_type));
        }
        let bytes = Self::bytes(body).await?;
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes)
            .map_err(|error| Failure::bad_request(format!("the body of the request is no JSON: {error}")))
    }
}

impl Server {
    async fn answer(&self, request: Request) -> Answer<Response> {
        let (parts, body) = request.into_parts();
        let (path, known) = self.recognise(parts.uri.path());
        let route = Route::of(path);
        let params = Params::read(&parts.uri)?;
        let caller = self.admit(known, &parts.headers, (&parts.method, path, &route, &params))?;
        let asked = Asked { caller, params, method: parts.method, headers: parts.headers };
        match route {
            Route::Health => Ok((StatusCode::OK, "ok").into_response()),
            Route::AccessReview => {
                let review = Self::posted(&asked, body).await?;
                let review = self.store.with(|inner| reviews::access(inner, &asked.caller, &review))?;
                Ok(reply(StatusCode::CREATED, review.to_string()))
            }
            Route::RulesReview => {
                let review = Self::posted(&asked, body).await?;
                let review = self.store.with(|inner| reviews::rules(inner, &asked.caller, &review))?;
                Ok(reply(StatusCode::CREATED, review.to_string()))
            }
            Route::IdentityReview => {
                let review = reviews::identity(&Self::posted(&asked, body).await?, &asked.caller)?;
                Ok(reply(StatusCode::CREATED, review.to_string()))
            }
            Route::Token(account) => {
                let request = Self::posted(&asked, body).await?;
                let token = self.tokens.issue(&self.store, &account, &request)?;
                Ok(reply(StatusCode::CREATED, token.to_string()))
            }
            Route::Collection(scope) => self.collection(&asked, scope, body).await,
            Route::Object(resource, key) => self.object(&asked, resource, &key, Part::Main, body).await,
            Route::Status(resource, key) => self.object(&asked, resource, &key, Part::Status, body).await,
            Route::Log(key) => {
                let shutdown = self.shutdown.clone();
                let log = logs::serve(&self.store, &self.logs, &key, &asked.params, shutdown).await?;
                Ok(([(header::CONTENT_TYPE, "text/plain")], log).into_response())
            }
            Route::NotServed => Err(Failure::not_implemented(path)),
            told => Self::tell(&told),
        }
    }

    /// What the server says of itself.
    fn tell(route: &Route) -> Answer<Response> {
        let told = match route {
            Route::Version => Some(discovery::version()),
            Route::CoreVersions => Some(discovery::core_versions()),
            Route::Groups => Some(discovery::groups()),
            Route::Group(name) => discovery::group(name),
            Route::Resources(group) => discovery::resources(group),
            _ => None,
        };
        ok(&told.ok_or_else(Failure::no_such_path)?)
    }

    async fn posted(asked: &Asked, body: Body) -> Answer<Value> {
        if asked.method != Method::POST {
            return Err(Failure::method());
        }
        asked.json(body, JSON).await
    }

    async fn collection(&self, asked: &Asked, scope: Scope, body: Body) -> Answer<Response> {
        let resource = scope.resource;
        let shape = asked.shape()?;
        match asked.method {
            Method::GET => {
                let selector = Selector::parse(
                    resource,
                    asked.params.text("labelSelector"),
                    asked.params.text("fieldSelector"),
                )?;
                if asked.params.flag("watch")? {
                    let lines = watch::watch(&self.watches, scope, selector, shape, &asked.params)?;
                    return Ok(reply(StatusCode::OK, lines));
                }
                let page = reads::list(&self.store, &scope, &selector, &asked.params)?;
                Ok(reply(StatusCode::OK, view::list(resource, shape, &page)))
            }
            Method::POST => {
                let namespace = match &scope.namespace {
                    None if resource.namespaced => return Err(Failure::method()),
                    namespace => namespace.as_deref().unwrap_or_default(),
                };
                let object = asked.json(body, JSON).await?;
                let made = verbs::create(&self.store, resource, namespace, object, asked.manner()?)?;
                Ok(reply(StatusCode::CREATED, view::object(resource, shape, &made)))
            }
            Method::DELETE => Err(Failure::not_implemented("the deletion of a whole collection")),
            _ => Err(Failure::method()),
        }
    }

    async fn object(
        &self,
        asked: &Asked,
        resource: &'static Resource,
        key: &Key,
        part: Part,
        body: Body,
    ) -> Answer<Response> {
        let shape = asked.shape()?;
        let show = |object: &Stored| Ok(reply(StatusCode::OK, view::object(resource, shape, object)));
        match asked.method {
            Method::GET => show(&*reads::get(&self.store, resource, key)?),
            Method::PUT => {
                let object = asked.json(body, JSON).await?;
                show(&*verbs::update(&self.store, resource, key, part, asked.manner()?, |_| Ok(object))?)
            }
            Method::PATCH if asked.media_type() == APPLY_PATCH => {
                let manifest = apply::read(resource, &key.name, &asked.params, &Asked::bytes(body).await?)?;
                let change = apply::change(manifest.clone());
                let done = verbs::update(&self.store, resource, key, part, asked.manner()?, change);
                if part == Part::Main && apply::is_absent(&done) {
                    return self.applied_anew(asked, resource, key, manifest);
                }
                show(&*done?)
            }
            Method::PATCH => {
                if asked.media_type() != MERGE_PATCH {
                    return Err(Failure::media_type(MERGE_PATCH));
                }
                let patch = asked.json(body, MERGE_PATCH).await?;
                let change = |mut object: Value| {
                    verbs::merge(&mut object, patch);
                    Ok(object)
                };
                show(&*verbs::update(&self.store, resource, key, part, asked.manner()?, change)?)
            }
            Method::DELETE if part == Part::Main => {
                if !resource.offers("delete") {
                    return Err(Failure::not_implemented("the deletion of namespaces"));
                }
                let options = delete::Options::read(&asked.params, &asked.json(body, JSON).await?)?;
                let done = delete::delete(&self.store, resource, key, &options, Some(&asked.caller))?;
                self.deleted(resource, shape, &done)
            }
            _ => Err(Failure::method()),
        }
    }

    /// Makes what an apply found nothing of, which takes the right to create it.
    fn applied_anew(
        &self,
        asked: &Asked,
        resource: &'static Resource,
        key: &Key,
        mut manifest: Value,
    ) -> Answer<Response> {
        let ask = Ask {
            namespace: &key.namespace,
            name: &key.name,
            ..Ask::of("create", resource.group, resource.plural)
        };
        self.store.with(|inner| rbac::authorise(inner, &asked.caller, &ask))?;
        meta::set(meta::metadata(&mut manifest), "name", Some(key.name.clone().into()));
        let made = verbs::create(&self.store, resource, &key.namespace, manifest, asked.manner()?)?;
        Ok(reply(StatusCode::CREATED, view::object(resource, asked.shape()?, &made)))
    }

    fn deleted(&self, resource: &Resource, shape: Shape, done: &Deleted) -> Answer<Response> {
        match done {
            // Pods and accounts answer with themselves even when they are gone.
            Deleted::Gone(object) if !matches!(resource.kind, Kind::Pod | Kind::ServiceAccount) => {
                let mut details = json!({ "name": object.key.name });
                let kind = resource.plural;
                verbs::merge(
                    &mut details,
                    json!({ "group": resource.group, "kind": kind, "uid": object.uid }),
                );
                ok(&json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
                }))
            }
            Deleted::Gone(object) | Deleted::Going(object) => {
                Ok(reply(StatusCode::OK, view::object(resource, shape, object)))
            }
        }
    }
}
