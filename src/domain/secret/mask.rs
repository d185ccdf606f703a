//! Text with its values hidden: names may be seen where it is certain that they are names; everything else is hidden, line by line.

use super::check::{json, yaml};
use super::format::Format;
use crate::domain::kube_auth::utf8;

/// What stands for what is hidden.
pub const MASK: &str = "********";

/// How long a name may be that is shown.
const NAME_LIMIT: usize = 64;

/// Whether values may be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Values {
    /// They are hidden: what is shown without being asked for.
    #[default]
    Hidden,
    /// They were asked for.
    Shown,
}

/// A text's lines.
pub(super) fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// A text's lines with their values hidden, as many as [`lines`] has. A text that is not what its name says is hidden whole.
pub(super) fn masked(text: &str, format: Format) -> Vec<String> {
    let known = match format {
        Format::Yaml => yaml(text).is_ok(),
        Format::Json => json(text).is_ok(),
        Format::Pairs | Format::Pem => utf8(text.as_bytes()).is_ok(),
        Format::Tokens | Format::Policy | Format::JsonLines | Format::Other => false,
    };
    let mut hidden = Hidden::default();
    let line = |line: &str| {
        let line = line.trim_end();
        if line.is_empty() {
            return String::new();
        }
        if !known || line.starts_with('\t') {
            return MASK.to_owned();
        }
        match format {
            Format::Yaml => hidden.yaml(line),
            Format::Json => of_json(line),
            Format::Pairs => hidden.pair(line),
            _ => of_pem(line),
        }
        .unwrap_or_else(|| MASK.to_owned())
    };
    lines(text).into_iter().map(line).collect()
}

/// What is hidden because of the lines before.
#[derive(Default)]
struct Hidden {
    /// Everything that follows.
    rest: bool,
    /// What is indented more than this.
    below: Option<usize>,
}

impl Hidden {
    /// What of a line may be seen.
    fn yaml(&mut self, line: &str) -> Option<String> {
        if self.rest {
            return None;
        }
        let content = line.trim_start_matches(' ');
        let indent = line.len() - content.len();
        if self.below.is_some_and(|below| indent > below) {
            return None;
        }
        self.below = None;
        if matches!(line, "---" | "...") {
            return Some(line.to_owned());
        }
        if content.starts_with('#') {
            return None;
        }
        if line.starts_with("---") {
            self.rest = true;
            return None;
        }
        let item = content.trim_start_matches("- ").trim_start();
        let named = item
            .split_once(':')
            .filter(|(name, value)| is_name(name) && (value.is_empty() || value.starts_with(' ')));
        let value = named.map_or(item, |(_, value)| value).trim();
        if value.contains(['"', '\'', '{', '[']) && !is_closed(value) {
            self.rest = true;
        } else if value.contains(['|', '>']) {
            // Rather too much is hidden than too little. Without a name or a dash before it, a block need not be indented.
            self.rest = named.is_none() && item.len() == content.len();
            self.below = Some(indent);
        }
        let (name, _) = named?;
        let dashes = content.get(..content.len() - item.len()).unwrap_or_default();
        let head = format!("{}{dashes}{name}:", " ".repeat(indent));
        Some(if value.is_empty() { head } else { format!("{head} {MASK}") })
    }

    fn pair(&mut self, line: &str) -> Option<String> {
        if self.rest || line.trim_start().starts_with(['#', ';']) {
            return None;
        }
        let content = line.trim_start();
        let section = content.strip_prefix('[').and_then(|section| section.strip_suffix(']'));
        if section.is_some_and(is_name) {
            return Some(content.to_owned());
        }
        let (left, value) = content.split_once('=').unwrap_or(("", content));
        let value = value.trim();
        let brackets = matches!(value, "{" | "[" | "{}" | "[]");
        self.rest = value.contains("<<")
            || value.ends_with('\\')
            || (value.contains(['"', '\'']) && !is_closed(value.trim_end_matches(',')));
        // The end of something in base64 looks like a name without a value.
        if value.is_empty() || value.starts_with('=') {
            return None;
        }
        let name = left.trim_end();
        let bare = name.strip_prefix("export ").unwrap_or(name);
        let indent = " ".repeat(line.len() - content.len());
        is_name(bare).then(|| format!("{indent}{name} = {}", if brackets { value } else { MASK }))
    }
}

/// A quoted text that ends where it should, or an empty list or map.
fn is_closed(value: &str) -> bool {
    let quoted = |quote: char| {
        let inner = value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        inner.is_some_and(|inner| !inner.contains([quote, '\\']))
    };
    quoted('"') || quoted('\'') || matches!(value, "{}" | "[]")
}

fn is_name(name: &str) -> bool {
    let first = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let rest = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-/".contains(&b));
    first && rest && name.len() <= NAME_LIMIT
}

/// A text of JSON has no end of line in it, so what begins a line is no part of one.
fn of_json(line: &str) -> Option<String> {
    let content = line.trim_start();
    let indent = line.get(..line.len() - content.len()).unwrap_or_default();
    let is_brackets = |text: &str| text.bytes().all(|byte| b"{}[], ".contains(&byte));
    if is_brackets(content) {
        return Some(line.to_owned());
    }
    let (name, rest) = content.strip_prefix('"')?.split_once('"')?;
    let value = rest.trim_start().strip_prefix(':')?.trim();
    let shown = if is_brackets(value) { value } else { MASK };
    is_name(name).then(|| format!("{indent}\"{name}\": {shown}"))
}

/// The lines around a block.
fn of_pem(line: &str) -> Option<String> {
    let label = line.strip_prefix("-----BEGIN ").or_else(|| line.strip_prefix("-----END "))?;
    let label = label.strip_suffix("-----")?;
    let is_label = label.len() <= NAME_LIMIT
        && label.bytes().all(|b| b.is_ascii_uppercase() || b" 0123456789".contains(&b));
    is_label.then(|| line.to_owned())
}

#[cfg(test)]
mod tests;
