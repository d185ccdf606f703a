//! Where the console starts: what the command line says of it.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::app::Screen;
use crate::app::filter::Filter;

/// Where to start. Without any of it the console comes back to where it was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct Start {
    /// Start on this screen, not on the one that was left last
    #[arg(long, value_name = "SCREEN", value_parser = screens())]
    pub screen: Option<Screen>,
    /// Start with this filter, such as 'phase:failed age:<1h'; on the hosts unless --screen says otherwise
    #[arg(long, value_name = "FILTER", value_parser = filter)]
    pub filter: Option<String>,
}

impl Start {
    /// Whether nothing is said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn screens() -> impl TypedValueParser<Value = Screen> {
    PossibleValuesParser::new(Screen::tabs().map(Screen::name))
        .map(|name| Screen::named(&name).unwrap_or_default())
}

fn filter(text: &str) -> Result<String, String> {
    match Filter::parse(text).problem() {
        Some(problem) => Err(problem.to_owned()),
        None => Ok(text.to_owned()),
    }
}
