//! Reads the command line, installs error and log handling, starts the one runtime and calls a command.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;
use hostwright::play::leash;

/// Brings new machines into a Kubernetes platform.
#[derive(Parser)]
#[command(version)]
enum Command {
    /// Run a program that ends when its starter does.
    #[command(hide = true)]
    Leash(leash::Args),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match Command::parse() {
        Command::Leash(args) => match leash::run(&args).await {
            Ok(code) => code.into(),
            Err(error) => {
                writeln!(std::io::stderr(), "{error}").ok();
                error.exit_code().into()
            }
        },
    }
}
