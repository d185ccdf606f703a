//! Bootstrap tokens: the Secrets in `kube-system` that a joining machine proves itself with. The secret part leaves this module
//! only for the machine that joins.

use std::collections::BTreeMap;

use ::kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams, Preconditions};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;

use super::{Kube, KubeError, KubeErrorKind};
use crate::config::Permit;
use crate::domain::{BootstrapToken, TOKEN_PREFIX, TOKEN_TYPE, Token, record};

const NAMESPACE: &str = "kube-system";
const PAGE: u32 = 100;

impl Kube {
    /// All bootstrap tokens, malformed ones too, by id. Of Secrets of other types only the names are asked for.
    ///
    /// # Errors
    /// When the API server does not answer or refuses.
    pub async fn tokens(&self) -> Result<Vec<Token>, KubeError> {
        let api = self.secrets(NAMESPACE);
        let mut tokens = Vec::new();
        let mut page = ListParams::default().fields(&format!("type={TOKEN_TYPE}")).limit(PAGE);
        loop {
            let list = self.limited("list bootstrap tokens", api.list(&page)).await?;
            tokens.extend(list.items.iter().map(read));
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => break,
            }
        }
        let mut page = ListParams::default().fields(&format!("type!={TOKEN_TYPE}")).limit(PAGE);
        loop {
            let list = self.limited("list bootstrap tokens", api.list_metadata(&page)).await?;
            for item in list.items {
                let (name, uid) =
                    (item.metadata.name.unwrap_or_default(), item.metadata.uid.unwrap_or_default());
                if name.starts_with(TOKEN_PREFIX) {
                    tokens.push(Token::of_other_type(&name, &uid));
                }
            }
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => break,
            }
        }
        tokens.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(tokens)
    }

    /// One token by its id, without its secret part; none when there is no such Secret.
    ///
    /// # Errors
    /// When the API server does not answer or refuses.
    pub async fn token(&self, id: &str) -> Result<Option<Token>, KubeError> {
        Ok(self.token_secret(id).await?.as_ref().map(read))
    }

    /// A whole token, for the machine that joins; none when there is no such Secret, or it holds no token.
    ///
    /// # Errors
    /// When the API server does not answer or refuses.
    pub async fn reveal_token(&self, id: &str) -> Result<Option<BootstrapToken>, KubeError> {
        let Some(secret) = self.token_secret(id).await? else { return Ok(None) };
        let field = |key: &str| String::from_utf8(field(&secret, key)?).ok();
        let text = format!(
            "{}.{}",
            field("token-id").unwrap_or_default(),
            field("token-secret").unwrap_or_default()
        );
        Ok(BootstrapToken::parse(&text).ok())
    }

    async fn token_secret(&self, id: &str) -> Result<Option<Secret>, KubeError> {
        let name = format!("{TOKEN_PREFIX}{id}");
        self.limited(format!("read bootstrap token {id}"), self.secrets(NAMESPACE).get_opt(&name)).await
    }

    /// Creates a bootstrap token's Secret, good for signing `cluster-info` and for authentication (Kubernetes, "Authenticating
    /// with Bootstrap Tokens").
    ///
    /// # Errors
    /// `AlreadyExists` when the id is taken.
    pub async fn create_token(
        &self,
        _: &Permit,
        token: &BootstrapToken,
        expires: Timestamp,
        groups: &[String],
        description: &str,
    ) -> Result<(), KubeError> {
        let data = BTreeMap::from([
            ("token-id", token.id().to_owned()),
            ("token-secret", token.secret().to_owned()),
            ("expiration", record::stamp(expires)),
            ("usage-bootstrap-authentication", "true".to_owned()),
            ("usage-bootstrap-signing", "true".to_owned()),
            ("auth-extra-groups", groups.join(",")),
            ("description", description.to_owned()),
        ]);
        let secret = Secret {
            metadata: ObjectMeta { name: Some(token.secret_name()), ..ObjectMeta::default() },
            type_: Some(TOKEN_TYPE.to_owned()),
            string_data: Some(data.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
            ..Secret::default()
        };
        let doing = format!("create bootstrap token {}", token.id());
        self.limited(doing, self.secrets(NAMESPACE).create(&PostParams::default(), &secret)).await?;
        Ok(())
    }

    /// Deletes a token's Secret, provided that it is the one that was looked at.
    ///
    /// # Errors
    /// `NotFound` when it is gone, `Conflict` when another has its name by now.
    pub async fn delete_token_secret(&self, _: &Permit, name: &str, uid: &str) -> Result<(), KubeError> {
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
            ..DeleteParams::default()
        };
        let doing = format!("delete bootstrap token {}", name.strip_prefix(TOKEN_PREFIX).unwrap_or(name));
        self.limited(doing, self.secrets(NAMESPACE).delete(name, &params)).await?;
        Ok(())
    }

    /// Deletes a bootstrap token by the id that we gave it; one that is gone already is no error.
    ///
    /// # Errors
    /// When the API server does not answer or refuses.
    pub async fn delete_token(&self, _: &Permit, id: &str) -> Result<(), KubeError> {
        let name = format!("{TOKEN_PREFIX}{id}");
        let doing = format!("delete bootstrap token {id}");
        match self.limited(doing, self.secrets(NAMESPACE).delete(&name, &DeleteParams::default())).await {
            Err(error) if error.kind != KubeErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// How far the API server's clock is ahead of ours, to the second; none when its answer does not say.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn clock_ahead(&self) -> Result<Option<SignedDuration>, KubeError> {
        let doing = "ask for the API server's time";
        let refuse = |why: String| KubeError::new(KubeErrorKind::Failed, doing, why);
        let request = http::Request::get("/version").body(::kube::client::Body::empty());
        let request = request.map_err(|e| refuse(e.to_string()))?;
        let before = Timestamp::now();
        let answer = self.limited(doing, self.client().send(request)).await?;
        let took = Timestamp::now().duration_since(before);
        let date = answer.headers().get(http::header::DATE).and_then(|date| date.to_str().ok());
        // RFC 9110 lets dates have one form only, that of e-mails.
        let date = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok()).map(|at| at.timestamp());
        Ok(date.map(|date| date.duration_since(before) - took / 2))
    }
}

fn field(secret: &Secret, key: &str) -> Option<Vec<u8>> {
    Some(secret.data.as_ref()?.get(key)?.0.clone())
}

fn read(secret: &Secret) -> Token {
    let meta = &secret.metadata;
    let (name, uid) = (meta.name.as_deref().unwrap_or_default(), meta.uid.as_deref().unwrap_or_default());
    Token::read(name, uid, secret.type_.as_deref().unwrap_or_default(), |key| field(secret, key))
}
