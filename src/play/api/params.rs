//! The query of a request, read once.

use axum::extract::Query;
use http::Uri;

use super::status::{Answer, Failure};

/// The pairs of a query; of several with one name the first counts.
#[derive(Debug, Default)]
pub(super) struct Params(Vec<(String, String)>);

impl Params {
    /// Reads the query of a request.
    ///
    /// # Errors
    /// 400 when it is no query.
    pub(super) fn read(uri: &Uri) -> Answer<Self> {
        Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map(|Query(pairs)| Self(pairs))
            .map_err(|error| Failure::bad_request(error.to_string()))
    }

    /// The value, `None` when it is absent or empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str()).filter(|v| !v.is_empty())
    }

    /// The value, empty when it is absent.
    pub(super) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// A truth value, `None` when it is absent.
    ///
    /// # Errors
    /// 400 for anything but true and false.
    pub(super) fn flag_if_set(&self, name: &str) -> Answer<Option<bool>> {
        match self.get(name) {
            None => Ok(None),
            Some("true" | "1" | "True" | "TRUE" | "t" | "T") => Ok(Some(true)),
            Some("false" | "0" | "False" | "FALSE" | "f" | "F") => Ok(Some(false)),
            Some(other) => Err(wrong(name, other)),
        }
    }

    /// A truth value, false when it is absent.
    ///
    /// # Errors
    /// As [`Params::flag_if_set`].
    pub(super) fn flag(&self, name: &str) -> Answer<bool> {
        Ok(self.flag_if_set(name)?.unwrap_or(false))
    }

    /// A whole number.
    ///
    /// # Errors
    /// 400 for anything else.
    pub(super) fn number<T: std::str::FromStr>(&self, name: &str) -> Answer<Option<T>> {
        self.get(name).map(|text| text.parse().map_err(|_| wrong(name, text))).transpose()
    }
}

fn wrong(name: &str, value: &str) -> Failure {
    Failure::bad_request(format!("the value \"{value}\" of the parameter {name} cannot be read"))
}
