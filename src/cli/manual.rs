//! `completions` and `man`: made from the definition of the command line, which `main.rs` gives. What is hidden there stays hidden.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command, ValueEnum};
use clap_complete::aot::{Bash, Fish, Zsh, generate};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::{Failure, finish};

/// The shells that complete our command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// GNU Bash, with or without bash-completion
    Bash,
    /// Z shell
    Zsh,
    /// fish
    Fish,
}

/// For which shell.
#[derive(Debug, Clone, Copy, Args)]
pub struct Completions {
    /// The shell
    pub shell: Shell,
}

/// How the manual is wanted.
#[derive(Debug, Clone, Args)]
pub struct Manual {
    /// Write one page a command into this folder, such as ~/.local/share/man/man1; else one page is printed
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
}

/// `completions`: prints the script.
#[must_use]
pub fn completions(args: Completions, command: &Command) -> ExitCode {
    let mut command = visible(command);
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    match args.shell {
        Shell::Bash => generate(Bash, &mut command, name, &mut script),
        Shell::Zsh => generate(Zsh, &mut command, name, &mut script),
        Shell::Fish => generate(Fish, &mut command, name, &mut script),
    }
    finish(io::stdout().write_all(&script).map_err(Failure::from))
}

/// `man`: prints the page, or writes one a command into a folder.
#[must_use]
pub fn man(args: &Manual, command: &Command) -> ExitCode {
    let command = visible(command);
    finish(match &args.folder {
        Some(folder) => write_pages(&command, folder),
        None => page(&command).and_then(|page| io::stdout().write_all(&page)).map_err(Failure::from),
    })
}

/// The same command line without what is hidden: generators of completions would show it.
fn visible(command: &Command) -> Command {
    let mut shown = Command::new(command.get_name().to_owned())
        .args(command.get_arguments().filter(|arg| !arg.is_hide_set()).cloned())
        .subcommands(command.get_subcommands().filter(|c| !c.is_hide_set()).map(visible))
        .disable_help_subcommand(true)
        .args_conflicts_with_subcommands(command.is_args_conflicts_with_subcommands_set())
        .subcommand_required(command.is_subcommand_required_set());
    if let Some(about) = command.get_about() {
        shown = shown.about(about.clone());
    }
    if let Some(about) = command.get_long_about() {
        shown = shown.long_about(about.clone());
    }
    if let Some(version) = command.get_version() {
        shown = shown.version(version.to_owned());
    }
    shown
}

/// The page of the whole program, roff: its options, every command, exit codes, files.
fn page(command: &Command) -> io::Result<Vec<u8>> {
    let mut command = command.clone();
    // Arguments can only be written once they are built.
    command.build();
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    let mut rest = Roff::new();
    rest.control("SH", ["COMMANDS"]);
    commands(&command, "", &mut rest);
    pairs(&mut rest, "EXIT STATUS", &EXIT_CODES);
    pairs(&mut rest, "FILES", &FILES);
    pairs(&mut rest, "ENVIRONMENT", &VARIABLES);
    rest.to_writer(&mut page)?;
    man.render_version_section(&mut page)?;
    Ok(page)
}

const EXIT_CODES: [(&str, &str); 5] = [
    ("0", "done"),
    ("1", "failed"),
    ("2", "wrong usage or configuration"),
    ("3", "not found"),
    ("4", "refused: somebody else decided, it is not open any more, read-only"),
];

const FILES: [(&str, &str); 4] = [
    ("~/.config/hostwright/config.toml", "the settings; `hostwright config show` prints all that count"),
    ("~/.local/state/hostwright/log/hostwright.log", "the console's log"),
    ("~/.local/state/hostwright/activity.jsonl", "what was done from here: who, what, on what, outcome"),
    ("~/.local/state/hostwright/console/", "where the console was, by environment: it comes back there"),
];

const VARIABLES: [(&str, &str); 4] = [
    ("HOSTWRIGHT_ENV", "the environment, unless -e names one"),
    ("HOSTWRIGHT_CONFIG", "the configuration file, unless --config names one"),
    ("HOSTWRIGHT_LOG", "what is logged: a level such as debug, or a filter"),
    ("NO_COLOR", "no colours in the console"),
];

fn pairs(roff: &mut Roff, title: &str, pairs: &[(&str, &str)]) {
    roff.control("SH", [title]);
    for (name, words) in pairs {
        roff.control("TP", []);
        roff.text([bold(*name)]);
        roff.text([roman(*words)]);
    }
}

/// Each command that does something, under its whole name.
fn commands(command: &Command, before: &str, roff: &mut Roff) {
    for child in command.get_subcommands() {
        let name = format!("{before}{}", child.get_name());
        if !child.is_subcommand_required_set() {
            roff.control("TP", []);
            roff.text([bold(name.as_str()), roman(arguments(child))]);
            let about = child.get_about().map(ToString::to_string).unwrap_or_default();
            roff.text([roman(about)]);
        }
        commands(child, &format!("{name} "), roff);
    }
}

/// The arguments that a command takes by their place, and its own options.
fn arguments(command: &Command) -> String {
    let mut words = String::new();
    for arg in command.get_arguments().filter(|arg| !arg.is_global_set() && arg.get_id() != "help") {
        let text = arg.to_string();
        let needed = arg.is_required_set();
        words.push_str(&if needed || text.starts_with('[') {
            format!(" {text}")
        } else {
            format!(" [{text}]")
        });
    }
    words
}

/// One page a command, as `man hostwright-hosts-approve` finds it.
fn write_pages(command: &Command, folder: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure {
        text: format!("cannot write the pages into {}: {error}", folder.display()),
        code: 1,
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(command.clone(), folder).map_err(failed)?;
    let whole = folder.join(format!("{}.1", command.get_name()));
    std::fs::write(whole, page(command).map_err(failed)?).map_err(failed)
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    fn line() -> Command {
        let approve = Command::new("approve").about("Approve hosts").arg(Arg::new("HOST").required(true));
        let hosts = Command::new("hosts").subcommand_required(true).subcommand(approve);
        let secret = Arg::new("secret").long("secret").hide(true);
        let shown = Arg::new("shown").long("shown").help("Shown");
        Command::new("tool")
            .version("1")
            .args([secret, shown])
            .subcommands([hosts, Command::new("inner").hide(true)])
    }

    #[test]
    fn what_is_hidden_stays_hidden() {
        let command = visible(&line());
        let names: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
        assert_eq!(names, ["hosts"]);
        assert!(command.get_arguments().all(|arg| arg.get_id() == "shown"));
        assert_eq!(command.get_version(), Some("1"));
    }

    #[test]
    fn the_page_names_what_does_something() {
        let page = String::from_utf8(page(&visible(&line())).unwrap()).unwrap();
        assert!(page.contains(".TH tool 1"), "{page}");
        assert!(page.contains("\\fBhosts approve\\fR <HOST>") && page.contains("Approve hosts"), "{page}");
        assert!(page.contains("\\-\\-shown") && !page.contains("secret"), "{page}");
    }
}
