//! Reads the command line, installs error and log handling, starts the one runtime and calls a command.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};
use color_eyre::eyre::{Result, WrapErr, eyre};
use hostwright::config::{self, Config, Mistakes, Settings, Sources, Variables};
use hostwright::play::packages::Install;
use hostwright::play::playground::{self, PlayError, Playground, Ready};
use hostwright::play::progress;
use hostwright::play::{leash, python};
use hostwright::telemetry::{self, Level};
use hostwright::{agent, cli, console, lifecycle, server};
use tokio_util::sync::CancellationToken;

/// Brings new machines into a Kubernetes platform.
///
/// Without a command it opens the console.
#[derive(Parser)]
#[command(version, about, long_about = None)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(flatten)]
    format: cli::Format,
    #[command(flatten)]
    start: console::Start,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Args, Clone)]
struct Global {
    /// The environment to work in
    #[arg(short, long, global = true, value_name = "NAME")]
    environment: Option<String>,
    /// Read this configuration file instead of the usual one
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Change nothing, in the console and on the command line
    #[arg(long, global = true)]
    read_only: bool,
    #[command(flatten)]
    panic: PanicFlags,
}

/// What only the tests of the console use.
#[derive(Args, Clone)]
#[group(multiple = false)]
struct PanicFlags {
    #[arg(long, hide = true)]
    panic_ui: bool,
    #[arg(long, hide = true)]
    panic_task: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Open a playground: everything on this machine, nothing to lose
    Play(Play),
    #[command(flatten)]
    Noun(cli::Noun),
    /// The configuration: check, show
    #[command(subcommand)]
    Config(cli::config::Command),
    /// The environments: list, show, init, check, shell
    #[command(subcommand)]
    Env(cli::env::Command),
    /// The secrets bucket and its local copy: list, status, fetch, upload, cat, diff, edit, history, restore, rm
    #[command(subcommand)]
    Secrets(cli::secrets::Command),
    /// The manifests of the platform's services: render, diff, push, status
    #[command(subcommand)]
    Manifests(cli::manifests::Command),
    /// The platform that the hosts join: bring-up, certificates, renew
    #[command(subcommand)]
    Platform(cli::platform::Command),
    /// What a cluster needs of Hostwright: render
    #[command(subcommand)]
    Deploy(cli::deploy::Command),
    /// Write all that helps to understand a problem into one file, without secrets
    DebugBundle(cli::bundle::Bundle),
    /// Print what makes a shell complete this command line
    Completions(cli::manual::Completions),
    /// Print the manual, or write one page a command into a folder
    Man(cli::manual::Manual),
    /// Run the server that new machines call
    Serve,
    /// Run the webhook that tells an API server who a token is and what a user may do
    KubeAuth(server::kube_auth::Options),
    /// Keep a folder of this node as some folders of the bucket are
    Sync(agent::sync::Options),
    /// Provision the host of this pod's run; what a run's Job calls
    Provision,
    /// Run a program that ends when its starter does
    #[command(hide = true)]
    Leash(leash::Args),
}

#[derive(Args)]
struct Play {
    /// No console: print one line of JSON when all is ready, and run until SIGTERM
    #[arg(long)]
    headless: bool,
    /// With RabbitMQ, installed where that is possible; without this it is used when it is there
    #[arg(long)]
    amqp: bool,
    /// Install nothing; say what is missing instead
    #[arg(long)]
    no_install: bool,
    /// No machines come online by themselves
    #[arg(long)]
    no_machines: bool,
    #[command(flatten)]
    start: console::Start,
    /// Only prepare what takes long
    #[arg(long, hide = true)]
    setup_only: bool,
    #[command(subcommand)]
    command: Option<PlayCommand>,
}

#[derive(Subcommand)]
enum PlayCommand {
    /// Boot a machine in the running playground
    Host {
        /// Its name; one without a dot gets the playground's domain. web-…, node-…, control-…, broken-…, lost-… differ
        name: Option<String>,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // One TLS provider for all clients; it is only refused when one is installed already.
    rustls::crypto::ring::default_provider().install_default().ok();
    if cli.command.is_some()
        && let Err(error) = color_eyre::install()
    {
        cli::fail(&error.to_string());
    }
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = match runtime.worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            cli::fail(&format!("cannot start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(Box::pin(run(cli)));
    // What still reads from a dead back end must not hold up the exit.
    runtime.shutdown_background();
    code.unwrap_or_else(|error| {
        let code = if error.is::<Mistakes>() { 2 } else { 1 };
        cli::fail(&format!("{error:#}"));
        ExitCode::from(code)
    })
}

async fn run(cli: Cli) -> Result<ExitCode> {
    let Cli { global, format, start, command } = cli;
    if command.is_some() && !start.is_empty() {
        let text = "--screen and --filter say where the console starts: this command opens none (`play` takes them behind it)";
        cli::fail(text);
        return Ok(ExitCode::from(2));
    }
    match command {
        None => open_console(&global, start).await,
        Some(Command::Noun(noun)) => {
            telemetry::init_stderr(false, Level::WARN)?;
            let settings = logged(&global)?;
            Ok(Box::pin(cli::run(noun, &settings, format)).await)
        }
        Some(Command::Config(command)) => Ok(cli::config::run(&command, &sources(&global))?),
        Some(Command::Env(command)) => env(&global, format, command).await,
        Some(Command::Secrets(command)) => secrets(&global, format, command).await,
        Some(Command::Manifests(command)) => manifests(&global, format, command).await,
        Some(Command::Platform(command)) => platform(&global, format, command).await,
        Some(Command::Deploy(command)) => {
            telemetry::init_stderr(false, Level::WARN)?;
            Ok(cli::deploy::run(&command, &logged(&global)?, &load(&global)?.deploy))
        }
        Some(Command::DebugBundle(args)) => Ok(debug_bundle(&global, args).await),
        Some(Command::Completions(args)) => Ok(cli::manual::completions(args, &Cli::command())),
        Some(Command::Man(args)) => Ok(cli::manual::man(&args, &Cli::command())),
        Some(Command::Serve) => serve(&global).await,
        Some(Command::KubeAuth(options)) => kube_auth(options).await,
        Some(Command::Sync(options)) => sync(&global, options).await,
        Some(Command::Provision) => provision(&global).await,
        Some(Command::Play(args)) => Box::pin(play(&global, format, args)).await,
        Some(Command::Leash(args)) => Ok(match leash::run(&args).await {
            Ok(code) => code.into(),
            Err(error) => {
                cli::fail(&error.to_string());
                error.exit_code().into()
            }
        }),
    }
}

fn sources(global: &Global) -> Sources {
    Sources {
        file: global.config.clone(),
        environment: global.environment.clone(),
        read_only: global.read_only,
        extra: Variables::of_process().play_dir().map(|dir| dir.join("config.toml")).into_iter().collect(),
    }
}

fn load(global: &Global) -> Result<Config, Mistakes> {
    config::load(&sources(global))
}

/// The configuration and the settings of the environment that was chosen.
fn chosen(global: &Global) -> Result<(Config, Settings), Mistakes> {
    let config = load(global)?;
    let settings = config.settings(None)?;
    Ok((config, settings))
}

/// The settings of a program that shows no screen: what is doubtful in them goes to its log.
fn logged(global: &Global) -> Result<Settings, Mistakes> {
    let (config, settings) = chosen(global)?;
    for warning in &config.warnings {
        tracing::warn!("configuration: {warning}");
    }
    Ok(settings)
}

/// The console, on the environment that is asked for; without any configuration on none.
async fn open_console(global: &Global, start: console::Start) -> Result<ExitCode> {
    let config = load(global)?;
    let settings = match config.settings(None) {
        Ok(settings) => settings,
        Err(_) if config.environments.is_empty() && config.default_environment.is_none() => {
            config.without_environment()
        }
        Err(mistakes) => return Err(mistakes.into()),
    };
    log_to_file()?;
    Box::pin(show(config, settings, global, start)).await
}

fn log_to_file() -> Result<()> {
    if let Some(path) = telemetry::log_file(&Variables::of_process()) {
        telemetry::init_file(&path)?;
    }
    Ok(())
}

/// The console on an environment, until it ends.
async fn show(
    config: Config,
    settings: Settings,
    global: &Global,
    start: console::Start,
) -> Result<ExitCode> {
    let panic = match (global.panic.panic_ui, global.panic.panic_task) {
        (true, _) => Some(console::PanicIn::Loop),
        (_, true) => Some(console::PanicIn::Task),
        _ => None,
    };
    let options = console::Options { config, settings, sources: sources(global), start, panic };
    match Box::pin(console::run(options, CancellationToken::new())).await {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            cli::fail(&error.to_string());
            Ok(ExitCode::from(error.exit_code()))
        }
    }
}

async fn env(global: &Global, format: cli::Format, command: cli::env::Command) -> Result<ExitCode> {
    telemetry::init_stderr(false, Level::WARN)?;
    Ok(Box::pin(cli::env::run(command, &load(global)?, format)).await)
}

async fn secrets(global: &Global, format: cli::Format, command: cli::secrets::Command) -> Result<ExitCode> {
    telemetry::init_stderr(false, Level::WARN)?;
    let shutdown = lifecycle::shutdown_on_signals()?;
    Ok(Box::pin(cli::secrets::run(command, &load(global)?, format, shutdown)).await)
}

async fn manifests(
    global: &Global,
    format: cli::Format,
    command: cli::manifests::Command,
) -> Result<ExitCode> {
    telemetry::init_stderr(false, Level::WARN)?;
    Ok(Box::pin(cli::manifests::run(command, &load(global)?, format)).await)
}

async fn platform(global: &Global, format: cli::Format, command: cli::platform::Command) -> Result<ExitCode> {
    telemetry::init_stderr(false, Level::WARN)?;
    let shutdown = lifecycle::shutdown_on_signals()?;
    Ok(Box::pin(cli::platform::run(command, &load(global)?, format, shutdown)).await)
}

async fn debug_bundle(global: &Global, args: cli::bundle::Bundle) -> ExitCode {
    let log = telemetry::log_file(&Variables::of_process());
    Box::pin(cli::bundle::run(args, cli::bundle::Known { config: load(global), log })).await
}

async fn serve(global: &Global) -> Result<ExitCode> {
    telemetry::init_stderr(!std::io::stderr().is_terminal(), Level::INFO)?;
    let settings = logged(global)?;
    let shutdown = lifecycle::shutdown_on_signals()?;
    let context = match server::Context::new(&settings).await {
        Ok(context) => context,
        Err(error) => {
            cli::fail(&error.to_string());
            return Ok(ExitCode::from(error.exit_code()));
        }
    };
    let listener = server::bind(settings.server.listen)
        .await
        .wrap_err_with(|| format!("cannot listen on {}", settings.server.listen))?;
    tracing::info!(listen = %listener.local_addr()?, environment = settings.environment.name, "serving");
    server::run(listener, context, shutdown).await;
    Ok(ExitCode::SUCCESS)
}

/// Needs no configuration: it runs on nodes that have none.
async fn kube_auth(options: server::kube_auth::Options) -> Result<ExitCode> {
    telemetry::init_stderr(!std::io::stderr().is_terminal(), Level::INFO)?;
    let shutdown = lifecycle::shutdown_on_signals()?;
    let listener = tokio::net::TcpListener::bind(options.listen)
        .await
        .wrap_err_with(|| format!("cannot listen on {}", options.listen))?;
    tracing::info!(listen = %listener.local_addr()?, "serving");
    match Box::pin(server::kube_auth::run(listener, options, shutdown)).await {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            cli::fail(&error.to_string());
            Ok(ExitCode::from(2))
        }
    }
}

async fn sync(global: &Global, options: agent::sync::Options) -> Result<ExitCode> {
    telemetry::init_stderr(!std::io::stderr().is_terminal(), Level::INFO)?;
    let shutdown = lifecycle::shutdown_on_signals()?;
    match Box::pin(agent::sync::run(options, &load(global)?, shutdown)).await {
        Ok(code) => Ok(ExitCode::from(code)),
        Err(error) => {
            cli::fail(&error.to_string());
            Ok(ExitCode::from(error.exit_code()))
        }
    }
}

async fn provision(global: &Global) -> Result<ExitCode> {
    // What it does it says itself, line by line: a log of deeds would only say it twice.
    telemetry::init_stderr(false, Level::WARN)?;
    let code = |code: hostwright::domain::ExitCode| ExitCode::from(code.code());
    let wrong = |error: &dyn std::fmt::Display| {
        cli::fail(&error.to_string());
        Ok(code(hostwright::domain::ExitCode::Misconfigured))
    };
    let settings = match logged(global) {
        Ok(settings) => settings,
        Err(mistakes) => return wrong(&mistakes),
    };
    let own = match agent::provision::Own::from_env(|name| std::env::var(name).ok()) {
        Ok(own) => own,
        Err(error) => return wrong(&error),
    };
    let shutdown = lifecycle::shutdown_on_signals()?;
    Ok(code(Box::pin(agent::provision::run(&settings, own, tokio::io::stdout(), shutdown)).await))
}

async fn play(global: &Global, format: cli::Format, args: Play) -> Result<ExitCode> {
    if let Some(PlayCommand::Host { name }) = args.command {
        return boot(global, format, name.as_deref()).await;
    }
    let options = play_options(&args)?;
    if args.setup_only {
        telemetry::init_stderr(false, Level::INFO)?;
        playground::set_up(&options, &progress::show).await?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.headless {
        telemetry::init_stderr(!std::io::stderr().is_terminal(), Level::INFO)?;
        return headless(&options).await;
    }
    if !std::io::stdout().is_terminal() {
        return Err(eyre!("the console needs a terminal: use play --headless"));
    }
    log_to_file()?;
    let global = Global { environment: Some("play".to_owned()), ..global.clone() };
    // Only while it starts: the console has its own.
    let shutdown = lifecycle::shutdown_on_signals()?;
    match start(&options, &shutdown).await {
        Ok(Some(playground)) => {
            let shown = match chosen(&global) {
                Ok((config, settings)) => Box::pin(show(config, settings, &global, args.start)).await,
                Err(mistakes) => Err(mistakes.into()),
            };
            playground.stop().await;
            shown
        }
        Ok(None) => Ok(ExitCode::FAILURE),
        Err(error @ PlayError::Running(Some(_))) => {
            cli::fail(&format!("{error}: opening a console on it"));
            let (config, settings) = chosen(&global)?;
            Box::pin(show(config, settings, &global, args.start)).await
        }
        Err(error) => Err(error.into()),
    }
}

fn play_options(args: &Play) -> Result<playground::Options> {
    Ok(playground::Options {
        folder: Variables::of_process()
            .play_dir()
            .ok_or_else(|| eyre!("there is no home folder: set HOSTWRIGHT_PLAY_DIR"))?,
        python: match std::env::var_os("HOSTWRIGHT_PLAY_PYTHON") {
            Some(folder) => PathBuf::from(folder),
            None => python::data_folder()?,
        },
        exe: std::env::current_exe().wrap_err("cannot find this program")?,
        amqp: args.amqp,
        install: if args.no_install { Install::Never } else { Install::IfPossible },
        machines: !args.no_machines,
    })
}

/// Starts the playground unless it is interrupted meanwhile.
async fn start(
    options: &playground::Options,
    shutdown: &CancellationToken,
) -> Result<Option<Playground>, PlayError> {
    let started = playground::start(options, &progress::show, shutdown).await;
    progress::clear();
    started
}

async fn headless(options: &playground::Options) -> Result<ExitCode> {
    let shutdown = lifecycle::shutdown_on_signals()?;
    let print = |ready: &Ready| -> Result<()> {
        cli::say(&serde_json::to_string(ready)?)?;
        Ok(())
    };
    match start(options, &shutdown).await {
        Ok(None) => Ok(ExitCode::FAILURE),
        Ok(Some(playground)) => {
            print(&playground.ready)?;
            shutdown.cancelled().await;
            playground.stop().await;
            Ok(ExitCode::SUCCESS)
        }
        Err(error @ PlayError::Running(_)) => {
            cli::fail(&error.to_string());
            if let PlayError::Running(Some(ready)) = &error {
                print(ready)?;
            }
            Ok(ExitCode::from(4))
        }
        Err(error) => Err(error.into()),
    }
}

async fn boot(global: &Global, format: cli::Format, name: Option<&str>) -> Result<ExitCode> {
    telemetry::init_stderr(false, Level::WARN)?;
    let global = Global { environment: Some("play".to_owned()), ..global.clone() };
    let settings = logged(&global)?;
    Ok(cli::boot(&settings, name, format).await)
}
