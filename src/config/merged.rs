//! The merged configuration: every table, all environments, and how one of them is chosen.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use super::looks::Looks;
use super::place::{Mistake, MistakeKind, Mistakes, Place, alternatives, nearest};
use super::reader::Shown;
use super::settings::{
    ConsoleSettings, DeploySettings, Environment, JobSettings, PlatformSettings, ProvisionSettings,
    ServerSettings, Settings,
};

/// Everything that the layers say, checked. [`Config::settings`] picks an environment.
#[derive(Debug, Clone)]
pub struct Config {
    /// `[console]`.
    pub console: ConsoleSettings,
    /// The theme and the key map that `[console]` names.
    pub looks: Looks,
    /// `[server]`.
    pub server: ServerSettings,
    /// `[job]`.
    pub job: JobSettings,
    /// `[provision]`.
    pub provision: ProvisionSettings,
    /// `[platform]`.
    pub platform: PlatformSettings,
    /// `[deploy]`.
    pub deploy: DeploySettings,
    /// Every `[environments.NAME]`.
    pub environments: BTreeMap<String, Environment>,
    /// The name that was asked for: by `-e`, `HOSTWRIGHT_ENV` or `environment = "…"`, the first of them that is there. It
    /// need not exist yet: the playground makes its own.
    pub default_environment: Option<String>,
    /// What is not wrong but ought to be known, such as secrets that others can read; one sentence each.
    pub warnings: Vec<String>,
    /// Nothing may be changed, in no environment.
    pub read_only: bool,
    /// The files that were read, the undermost first.
    pub files: Vec<String>,
    /// The files that count when they change, there or not: the configuration's and the theme's.
    pub watched: Vec<PathBuf>,
    /// The path of every key that was asked for.
    pub(super) known: Vec<Vec<String>>,
    /// Where the name of the default environment was given.
    pub(super) asked: Option<Place>,
    pub(super) shown: Vec<Shown>,
}

/// What `config show --origin` says of a setting that nobody gave.
const DEFAULT: &str = "default";

impl Config {
    /// Whether another configuration differs in anything that counts only after a restart.
    #[must_use]
    pub fn differs_in_more_than_looks(&self, other: &Self) -> bool {
        let looks = |s: &&Shown| {
            s.table.first().is_some_and(|t| t == "console") && (s.table.len() > 1 || s.key == "theme")
        };
        let rest = |config: &Self| -> Vec<_> {
            let shown = config.shown.iter().filter(|s| !looks(s));
            shown.map(|s| (s.table.clone(), s.key.clone(), s.value.clone())).collect()
        };
        rest(self) != rest(other)
    }

    /// The settings with one environment: `name`, else the one that was asked for (`-e`, `HOSTWRIGHT_ENV`,
    /// `environment = "…"`), else the only one. The playground counts as that only if there is no other.
    ///
    /// # Errors
    /// When there is no environment, none of that name, or several and none was chosen.
    pub fn settings(&self, name: Option<&str>) -> Result<Settings, Mistakes> {
        let environment = match name.or(self.default_environment.as_deref()) {
            Some(name) => self.environments.get(name).ok_or_else(|| {
                let place = if name == self.default_environment.as_deref().unwrap_or_default() {
                    self.asked.as_ref()
                } else {
                    None
                };
                unknown(name, place, &self.environments)
            })?,
            None => self.only()?,
        };
        Ok(Settings {
            console: self.console.clone(),
            server: self.server.clone(),
            job: self.job.clone(),
            provision: self.provision.clone(),
            environment: environment.clone(),
            environments: self.environments.keys().cloned().collect(),
            read_only: self.read_only || environment.read_only,
        })
    }

    /// The dotted path of every setting that there is: for each environment that is configured, and without the free names
    /// under `console.keys` and `policy.variables`. The documentation is held to it.
    pub fn known_keys(&self) -> impl Iterator<Item = String> {
        self.known.iter().map(|path| path.join("."))
    }

    fn only(&self) -> Result<&Environment, Mistake> {
        let mut own = self.environments.values().filter(|e| !e.playground);
        let mut playgrounds = self.environments.values().filter(|e| e.playground);
        match (own.next(), own.next(), playgrounds.next(), playgrounds.next()) {
            (Some(only), None, ..) | (None, None, Some(only), None) => Ok(only),
            (None, None, None, None) => Err(Mistake::nowhere(
                MistakeKind::NoEnvironment,
                "no environment: name one in the configuration, or try `hostwright play`",
            )),
            _ => {
                let names = alternatives(self.environments.keys().map(String::as_str), "and");
                let text = format!("several environments and none was chosen: {names}");
                let advice = "choose with -e NAME, HOSTWRIGHT_ENV=NAME, or environment = \"NAME\" in the configuration";
                Err(Mistake::nowhere(MistakeKind::WhichEnvironment, text).advise(advice))
            }
        }
    }

    /// The merged result as TOML: all environments, defaults included, secrets masked, paths resolved. It can be read
    /// again. With `origin`, a comment behind each setting names the place where it was written.
    #[must_use]
    pub fn to_toml(&self, origin: bool) -> String {
        let mut out = String::new();
        let mut tables: Vec<&[String]> = Vec::new();
        for shown in &self.shown {
            if !tables.contains(&shown.table.as_slice()) {
                tables.push(&shown.table);
            }
        }
        // Keys before the first header belong to the top, so those come first.
        tables.sort_by_key(|table| !table.is_empty());
        for table in tables {
            if !table.is_empty() {
                let gap = if out.is_empty() { "" } else { "\n" };
                let name = table.iter().map(|part| key(part)).collect::<Vec<_>>().join(".");
                let _ = writeln!(out, "{gap}[{name}]");
            }
            for shown in self.shown.iter().filter(|shown| shown.table == table) {
                let _ = write!(out, "{} = {}", key(&shown.key), shown.value);
                if origin {
                    let place = shown.place.as_ref().map_or_else(|| DEFAULT.to_owned(), Place::to_string);
                    let _ = write!(out, " # {place}");
                }
                out.push('\n');
            }
        }
        out
    }
}

/// The mistake of naming an environment that is not there.
pub(super) fn unknown(
    name: &str,
    place: Option<&Place>,
    environments: &BTreeMap<String, Environment>,
) -> Mistake {
    let text = format!("there is no environment {name:?}");
    let mistake = match place {
        Some(place) => Mistake::new(place, MistakeKind::UnknownEnvironment, text),
        None => Mistake::nowhere(MistakeKind::UnknownEnvironment, text),
    };
    if name == "play" {
        return mistake.advise("`hostwright play` makes it");
    }
    let all = || environments.keys().map(String::as_str);
    mistake.advise(match nearest(name, all()) {
        Some(near) => format!("did you mean {near:?}?"),
        None if all().next().is_none() => "none is configured".to_owned(),
        None => format!("the configuration has {}", alternatives(all(), "and")),
    })
}

/// A key as TOML has it: bare if it can be, else quoted on one line.
fn key(text: &str) -> String {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_') {
        return text.to_owned();
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
