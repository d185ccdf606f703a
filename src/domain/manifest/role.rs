//! What a file in the folder of manifests is, by its path.

use crate::domain::secret::{RelativePath, relative};

/// How the name of a template ends. What it becomes has the name without it.
pub const TEMPLATE: &str = ".j2";

/// What a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// A template, which becomes the file of this path.
    Template(RelativePath),
    /// It is copied as it is.
    Copy,
    /// It is there to be included by others: a part of its path begins with `_`.
    Part,
    /// It is no manifest: a part of its path begins with a dot, or its name ends with `~` (an editor's backup).
    Left,
}

impl Role {
    /// What a file of this path is.
    #[must_use]
    pub fn of(path: &RelativePath) -> Self {
        if path.parts().any(|part| part.starts_with('.')) || path.name().ends_with('~') {
            return Self::Left;
        }
        if path.parts().any(|part| part.starts_with('_')) {
            return Self::Part;
        }
        // `x/.j2` begins with a dot: a name stays.
        match path.as_str().strip_suffix(TEMPLATE).map(relative) {
            Some(Ok(made)) => Self::Template(made),
            _ => Self::Copy,
        }
    }

    /// The path of what is made of the file at `path`. None: nothing is.
    #[must_use]
    pub fn made(&self, path: &RelativePath) -> Option<RelativePath> {
        match self {
            Self::Template(made) => Some(made.clone()),
            Self::Copy => Some(path.clone()),
            Self::Part | Self::Left => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_says_what_a_file_is() {
        let made = |path: &str| {
            let path = relative(path).unwrap();
            Role::of(&path).made(&path).map(|made| made.as_str().to_owned())
        };
        assert_eq!(made("web/app.yaml.j2").as_deref(), Some("web/app.yaml"));
        assert_eq!(made("web/app.yaml").as_deref(), Some("web/app.yaml"));
        assert_eq!(made("a.J2").as_deref(), Some("a.J2"));
        for none in
            ["_labels.j2", "_parts/x.yaml", "web/_x", ".git/config", "web/.a.yaml.swp", "a.yaml~", "x/.j2"]
        {
            assert_eq!(made(none), None, "{none}");
        }
        assert_eq!(Role::of(&relative("_x.j2").unwrap()), Role::Part);
        assert_eq!(Role::of(&relative("_x/.y").unwrap()), Role::Left);
    }
}
