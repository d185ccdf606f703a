//! What is right and what is wrong with an environment, one line each.

use std::path::Path;

use serde::Serialize;

use super::{EnvironmentError, Named, variables};
use crate::backend::kube;
use crate::config::{Config, Environment, VariablesFile};

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Ok,
    /// It works, but ought to be known.
    Warning,
    /// It must be mended.
    Wrong,
}

impl State {
    /// The word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Wrong => "wrong",
        }
    }
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub check: &'static str,
    /// How it is.
    pub state: State,
    /// What was found, and what to do.
    pub text: String,
}

impl Finding {
    pub(in crate::ops) fn new(check: &'static str, state: State, text: impl Into<String>) -> Self {
        Self { check, state, text: text.into() }
    }
}

/// Looks at an environment's variables and at what its table in the configuration names. The variables are in the answer when
/// they are complete.
///
/// # Errors
/// When there is no such environment at all, or its file cannot be made.
pub fn check(
    config: &Config,
    named: &Named,
) -> Result<(Vec<Finding>, Option<VariablesFile>), EnvironmentError> {
    let mut findings = Vec::new();
    let settings = named.settings(config);
    let file = of_variables(config, named, settings.is_some(), &mut findings)?;
    findings.extend(config.warnings.iter().map(|text| Finding::new("configuration", State::Warning, text)));
    match settings {
        None => findings.push(Finding::new(
            "configuration",
            State::Warning,
            format!("there is no [environments.{}]: hosts, runs and targets need it", named.configured),
        )),
        Some(settings) => of_settings(named, settings, &mut findings),
    }
    Ok((findings, file))
}

fn of_variables(
    config: &Config,
    named: &Named,
    configured: bool,
    findings: &mut Vec<Finding>,
) -> Result<Option<VariablesFile>, EnvironmentError> {
    const CHECK: &str = "variables";
    match variables(config, named) {
        Ok(file) => {
            findings.push(Finding::new(CHECK, State::Ok, format!("{} is complete", file.path.display())));
            findings.extend(file.warnings.iter().map(|text| Finding::new(CHECK, State::Warning, text)));
            Ok(Some(file))
        }
        Err(EnvironmentError::Mistakes(mistakes)) => {
            let wrong = mistakes.iter().map(|m| Finding::new(CHECK, State::Wrong, m.to_string()));
            findings.extend(wrong);
            Ok(None)
        }
        // A cluster's environment need not be a platform's too.
        Err(error @ EnvironmentError::NotThere { .. }) if configured => {
            findings.push(Finding::new(CHECK, State::Warning, error.to_string()));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn of_settings(named: &Named, settings: &Environment, findings: &mut Vec<Finding>) {
    findings.push(Finding::new(
        "configuration",
        State::Ok,
        format!("[environments.{}] is right", settings.name),
    ));
    findings.push(match kube::pin(&settings.kubernetes) {
        Ok(pin) => {
            let namespace = pin.namespace.map_or_else(String::new, |n| format!(", namespace {n}"));
            Finding::new("kubernetes", State::Ok, format!("context {}{namespace}", pin.context))
        }
        Err(error) => Finding::new("kubernetes", State::Wrong, error.to_string()),
    });
    let source = &settings.policy.source;
    let path = Path::new(source);
    findings.push(if !path.is_absolute() {
        Finding::new("policy", State::Ok, format!("{} is cloned when it is needed", masked(source)))
    } else if path.is_dir() {
        Finding::new("policy", State::Ok, source.as_str())
    } else {
        Finding::new("policy", State::Wrong, format!("{source} is not a folder: see policy.source"))
    });
    if settings.guarded && named.configured != crate::domain::environment::PLAY {
        findings.push(Finding::new("guarded", State::Ok, "dangerous actions ask for its name to be typed"));
    }
}

/// A URL without who we are.
fn masked(url: &str) -> String {
    match url.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.split_once('@')?.1))) {
        Some((scheme, rest)) => format!("{scheme}://{rest}"),
        None => url.to_owned(),
    }
}
