//! Templates become files: with every value there, as what their names say, or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as _;
use std::ops::Range;
use std::sync::Arc;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, OutputSpan, OutputSpanKind, UndefinedBehavior};

use super::fault::Fault;
use super::role::Role;
use crate::domain::kube_auth::utf8;
use crate::domain::secret::{Checksum, RelativePath, check, relative};

/// The files of the folder, with what is in them.
pub type Sources = BTreeMap<RelativePath, Vec<u8>>;

/// What one template may cost, in steps of the engine and in 64 bytes of what it makes: a few seconds at most.
const FUEL: u64 = 5_000_000;
/// How many values of one template are looked for that are not there.
const MOST: usize = 50;

/// A file that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestFile {
    /// Where it belongs, below the folder that it is written to and below the prefix in the bucket.
    pub path: RelativePath,
    /// What it was made of.
    pub from: RelativePath,
    /// What is in it.
    pub bytes: Vec<u8>,
    /// Its checksum.
    pub sha256: Checksum,
}

/// Makes the files that are wanted, in the order of their paths: the same from the same, always.
///
/// `wanted` is asked with a file's path and with that of what it is made of.
///
/// # Errors
/// All that is wrong with them, in the order of the files: values that are not there, syntax, what is not the YAML or JSON that its name
/// says, two files of one path. Nothing is made then.
pub fn render(
    sources: &Sources,
    values: &serde_json::Value,
    wanted: impl Fn(&RelativePath, &RelativePath) -> bool,
) -> Result<Vec<ManifestFile>, Vec<Fault>> {
    let mut faults = BTreeSet::new();
    let planned = planned(sources, &mut faults);
    let kitchen = Kitchen::new(sources, values);
    let mut files = Vec::new();
    for (path, from) in planned.into_iter().filter(|(path, from)| wanted(path, from)) {
        let bytes = sources.get(&from).map(Vec::as_slice).unwrap_or_default();
        let made = match Role::of(&from) {
            Role::Template(_) => kitchen.template(&from, &path, bytes),
            _ => copied(&from, bytes),
        };
        match made {
            Ok(bytes) => {
                let sha256 = Checksum::of(&bytes);
                files.push(ManifestFile { path, from, bytes, sha256 });
            }
            Err(found) => faults.extend(found),
        }
    }
    if faults.is_empty() { Ok(files) } else { Err(faults.into_iter().collect()) }
}

/// Which files are made, and of what.
fn planned(sources: &Sources, faults: &mut BTreeSet<Fault>) -> BTreeMap<RelativePath, RelativePath> {
    let mut planned: BTreeMap<RelativePath, RelativePath> = BTreeMap::new();
    for from in sources.keys() {
        let Some(path) = Role::of(from).made(from) else { continue };
        if let Some(other) = planned.get(&path) {
            faults.insert(Fault::whole(
                from,
                format!("becomes {path}, and so does {other}: rename one of them"),
            ));
        } else {
            planned.insert(path, from.clone());
        }
    }
    for path in planned.keys() {
        // A template's file has another name, which a folder may have.
        let slashes = path.as_str().match_indices('/').map(|(at, _)| at);
        let folders = slashes.filter_map(|at| relative(path.as_str().get(..at)?).ok());
        for (folder, from) in folders.filter_map(|folder| planned.get_key_value(&folder)) {
            let text = format!("becomes {folder}, a file where {path} needs a folder: rename one of them");
            faults.insert(Fault::whole(from, text));
        }
    }
    planned
}

fn copied(from: &RelativePath, bytes: &[u8]) -> Result<Vec<u8>, Vec<Fault>> {
    let problems = check(from.as_str(), bytes).problems;
    if problems.is_empty() {
        return Ok(bytes.to_vec());
    }
    Err(problems.into_iter().map(|note| Fault::line(from, note.line, note.text)).collect())
}

/// Where templates are worked on.
struct Kitchen {
    texts: Arc<BTreeMap<String, String>>,
    values: minijinja::Value,
}

impl Kitchen {
    fn new(sources: &Sources, values: &serde_json::Value) -> Self {
        let text = |(path, bytes): (&RelativePath, &Vec<u8>)| {
            Some((path.as_str().to_owned(), utf8(bytes).ok()?.to_owned()))
        };
        let texts =
            sources.iter().filter(|(path, _)| Role::of(path) != Role::Left).filter_map(text).collect();
        Self { texts: Arc::new(texts), values: Serde(values).into() }
    }

    /// The engine, with one of the templates replaced by another text.
    fn engine(&self, replaced: &str, text: &str) -> Environment<'static> {
        let mut engine = Environment::new();
        let mut syntax = SyntaxConfig::builder();
        // The delimiters are the usual ones, which are never refused.
        if let Ok(syntax) = syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true).build() {
            engine.set_syntax(syntax);
        }
        engine.set_undefined_behavior(UndefinedBehavior::Strict);
        engine.set_auto_escape_callback(|_| AutoEscape::None);
        engine.set_fuel(Some(FUEL));
        // For the places of errors.
        engine.set_debug(true);
        let (texts, replaced, text) = (Arc::clone(&self.texts), replaced.to_owned(), text.to_owned());
        engine.set_loader(move |name| {
            Ok::<_, Error>(if name == replaced { Some(text.clone()) } else { texts.get(name).cloned() })
        });
        engine
    }

    fn template(
        &self,
        from: &RelativePath,
        path: &RelativePath,
        bytes: &[u8],
    ) -> Result<Vec<u8>, Vec<Fault>> {
        let source = utf8(bytes).map_err(|note| vec![Fault::line(from, note.line, note.text)])?;
        let engine = self.engine(from.as_str(), source);
        let made = engine
            .get_template(from.as_str())
            .and_then(|template| template.render_with_spans(self.values.clone()));
        let (text, spans) = made.map_err(|error| self.all_faults(from, source, &error))?;
        let problems = check(path.as_str(), text.as_bytes()).problems;
        if problems.is_empty() {
            return Ok(text.into_bytes());
        }
        let fault = |note: crate::domain::kube_auth::LineNote| {
            let (culprit, line) = origin(&text, &spans, note.line).unwrap_or((from.clone(), 1));
            let what = format!("line {} of {path}, which it becomes, {}", note.line, note.text);
            Fault::line(&culprit, line, what)
        };
        Err(problems.into_iter().map(fault).collect())
    }

    /// The first fault, and every other value that is not there: the engine ends at the first one, so it is put out of the way and
    /// the rest is looked at.
    fn all_faults(&self, from: &RelativePath, source: &str, first: &Error) -> Vec<Fault> {
        let mut found = vec![Trouble::of(from, first)];
        let names = self.outside_names(from, source);
        let mut text = source.to_owned();
        while let Some(range) = found.last().and_then(|trouble| trouble.replaceable()) {
            if found.len() >= MOST || !blank(&mut text, range) {
                break;
            }
            let engine = self.engine(from.as_str(), &text);
            let made = engine.get_template(from.as_str()).and_then(|t| t.render(self.values.clone()));
            match made {
                Err(error) => found.push(Trouble::of(from, &error)),
                Ok(_) => break,
            }
        }
        let mut faults = Vec::new();
        for (at, trouble) in found.into_iter().enumerate() {
            // What only follows from an earlier one is none: it has another kind, or is of a name that the template made itself.
            if at == 0 || trouble.replaceable().is_some() && names.contains(trouble.root()) {
                faults.push(trouble.fault(from, source));
            }
        }
        faults
    }

    /// The names that a template takes from the environment.
    fn outside_names(&self, from: &RelativePath, source: &str) -> BTreeSet<String> {
        let engine = self.engine(from.as_str(), source);
        let names = engine.get_template(from.as_str()).map(|template| template.undeclared_variables(false));
        names.map(|names| names.into_iter().collect()).unwrap_or_default()
    }
}

/// Puts something of the same length in the place of an expression that has no value: all other places stay as they are. Whether there
/// was anything.
fn blank(text: &mut String, range: Range<usize>) -> bool {
    let Some(old) = text.get(range.clone()).filter(|old| !old.is_empty()) else { return false };
    // An empty text can be looped over, tested, printed and filtered.
    let lines: String = old.chars().filter(|c| *c == '\n').collect();
    let room = old.len().saturating_sub(lines.len());
    let stand_in = match room {
        0 => return false,
        1 => "0".to_owned(),
        _ => format!("\"\"{}", " ".repeat(room - 2)),
    };
    let new = stand_in + &lines;
    if new == old {
        return false;
    }
    text.replace_range(range, &new);
    true
}

/// What the engine said, and where.
struct Trouble {
    kind: ErrorKind,
    detail: Option<String>,
    /// The template that it is in, if that is another one than the one that was asked for.
    other: Option<RelativePath>,
    line: Option<usize>,
    /// The expression's place.
    range: Option<Range<usize>>,
    /// The expression.
    expression: String,
    /// The name that has no value, or the whole expression.
    missing: String,
}

impl Trouble {
    fn of(from: &RelativePath, error: &Error) -> Self {
        // That of an included template is behind that of the including one.
        let mut inner = error;
        while let Some(next) = inner.source().and_then(|next| next.downcast_ref::<Error>()) {
            inner = next;
        }
        let source = inner.template_source().unwrap_or_default();
        let mut range = inner.range();
        let text = |range: &Option<Range<usize>>| {
            range.clone().and_then(|range| source.get(range)).map(str::trim).unwrap_or_default().to_owned()
        };
        let mut expression = text(&range);
        let quoted = inner.detail().and_then(|text| text.strip_prefix('`')?.split_once('`'));
        let missing = quoted.map_or_else(|| expression.clone(), |(name, _)| name.to_owned());
        // A filter's name is no place: what it was to be used on stands before it.
        let filter = source.get(..range.as_ref().map_or(0, |range| range.start)).unwrap_or_default();
        if filter.trim_end().ends_with('|')
            && let Some(start) = filter.rfind(&missing)
        {
            range = Some(start..start + missing.len());
            expression.clone_from(&missing);
        }
        Self {
            kind: inner.kind(),
            detail: inner.detail().map(str::to_owned),
            other: inner.name().and_then(|name| relative(name).ok()).filter(|name| name != from),
            line: inner.line(),
            range,
            expression,
            missing,
        }
    }

    /// Where the expression is that has no value, in the template itself.
    fn replaceable(&self) -> Option<Range<usize>> {
        self.range.clone().filter(|_| self.other.is_none() && self.kind == ErrorKind::UndefinedError)
    }

    /// The name that what has no value begins with.
    fn root(&self) -> &str {
        let mut names = self.missing.split(|c: char| !c.is_alphanumeric() && c != '_');
        names.find(|name| !name.is_empty()).unwrap_or_default()
    }

    fn fault(&self, from: &RelativePath, source: &str) -> Fault {
        let text = self.words();
        match (&self.other, &self.range, self.line) {
            (None, Some(range), _) => Fault::at(from, source, range.start, text),
            (other, _, Some(line)) => Fault::line(other.as_ref().unwrap_or(from), line, text),
            (other, _, None) => Fault::whole(other.as_ref().unwrap_or(from), text),
        }
    }

    fn words(&self) -> String {
        let quoted = |text: &str| if text.is_empty() { "something".to_owned() } else { format!("`{text}`") };
        let expression = quoted(&self.expression);
        // The engine's own words may hold numbers that were to be calculated with.
        let detail = self.detail.as_deref().filter(|text| !text.starts_with("unable to calculate"));
        let detail = detail.map(|text| format!(": {text}")).unwrap_or_default();
        match self.kind {
            ErrorKind::UndefinedError if self.expression.contains(self.root()) => {
                format!("{} has no value in this environment", quoted(&self.missing))
            }
            ErrorKind::UndefinedError => {
                format!(
                    "{} has no value in this environment, and {expression} needs it",
                    quoted(&self.missing)
                )
            }
            ErrorKind::SyntaxError => format!("is no template{detail}"),
            ErrorKind::TemplateNotFound => {
                "includes a file that is not in the folder of manifests (names start from there)".to_owned()
            }
            ErrorKind::OutOfFuel => "takes too long, or becomes too large: does it end?".to_owned(),
            kind => format!("{expression} cannot be worked out: {kind}{detail}"),
        }
    }
}

/// Which file and line a line of the text was made of.
fn origin(text: &str, spans: &[OutputSpan], line: usize) -> Option<(RelativePath, usize)> {
    let start = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum::<usize>();
    let length = text.get(start..)?.find('\n').unwrap_or(text.len() - start);
    let in_line = |span: &&OutputSpan| {
        let range = span.output_range();
        range.start < start + length.max(1) && range.end > start
    };
    // A value is more likely wrong than what stands around it.
    let value = spans.iter().filter(in_line).find(|span| span.kind() == OutputSpanKind::Expression);
    let span = value.or_else(|| spans.iter().find(in_line)).or_else(|| spans.last())?;
    let range = span.output_range();
    let skipped = match span.kind() {
        // A text of several lines, which stand in the template as they are.
        OutputSpanKind::Raw => text.get(range.start..start.max(range.start)).unwrap_or_default(),
        _ => "",
    };
    let line = span.line() + skipped.bytes().filter(|byte| *byte == b'\n').count();
    Some((relative(span.name()).ok()?, line))
}

#[cfg(test)]
mod tests;
