//! Reads the command line, installs error and log handling, starts the one runtime and calls a command.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, Subcommand};
use hostwright::config::{self, Settings};
use hostwright::console::{self, PanicIn};
use hostwright::play::leash;
use tokio_util::sync::CancellationToken;

/// Brings new machines into a Kubernetes platform.
#[derive(Parser)]
#[command(version)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,
    #[arg(long, hide = true)]
    panic_ui: bool,
    #[arg(long, hide = true)]
    panic_task: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Run a program that ends when its starter does.
    #[command(hide = true)]
    Leash(leash::Args),
}

fn main() -> ExitCode {
    let line = CommandLine::parse();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let Ok(runtime) = tokio::runtime::Builder::new_multi_thread().enable_all().build() else {
        return ExitCode::FAILURE;
    };
    if let Some(Command::Leash(args)) = line.command {
        return match runtime.block_on(leash::run(&args)) {
            Ok(code) => code.into(),
            Err(error) => {
                writeln!(std::io::stderr(), "{error}").ok();
                error.exit_code().into()
            }
        };
    }
    let mut options = console::Options::new(Arc::new(settings()));
    options.panic = match (line.panic_ui, line.panic_task) {
        (true, _) => Some(PanicIn::Loop),
        (_, true) => Some(PanicIn::Task),
        _ => None,
    };
    let result = runtime.block_on(console::run(options, CancellationToken::new()));
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "hostwright: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn settings() -> Settings {
    let environment = config::Environment {
        name: std::env::var("HOSTWRIGHT_ENV").unwrap_or_default(),
        guarded: false,
        playground: false,
        read_only: false,
        kubernetes: config::Kubernetes { kubeconfig: None, context: None, namespace: None },
        amqp: None,
        ara: None,
        policy: config::Policy {
            source: "/dev/null".into(),
            branch: None,
            playbook: "site.yml".into(),
            variables: std::collections::BTreeMap::new(),
        },
        targets: config::TargetSettings {
            namespace: "default".into(),
            name: "scrape-collectd".into(),
            key: "targets".into(),
            port: 9103,
        },
        cluster_groups: Vec::new(),
        approval: config::Approval::Manual,
        hook: None,
        hook_token_file: None,
        shell: Vec::new(),
    };
    Settings {
        console: config::ConsoleSettings {
            theme: "dark".into(),
            symbols: config::Symbols::Auto,
            utc: false,
            keys: std::collections::BTreeMap::new(),
        },
        server: config::ServerSettings {
            listen: ([127, 0, 0, 1], 0).into(),
            token_file: None,
            networks: Vec::new(),
            proxies: Vec::new(),
            request_timeout: Duration::from_secs(10),
            repair_interval: Duration::from_secs(30),
            pending_limit: 100,
            keep_runs: 3,
        },
        job: config::JobSettings {
            template: None,
            image: "none".into(),
            service_account: None,
            backoff_limit: 3,
            deadline: Duration::from_secs(3600),
            grace: Duration::from_secs(60),
        },
        provision: config::ProvisionSettings {
            message_timeout: Duration::from_secs(60),
            work_dir: None,
            ansible_playbook: "ansible-playbook".into(),
            python: "python3".into(),
            token_lifetime: Duration::from_secs(3600),
            signer: config::Signer::Off,
        },
        environment,
        environments: Vec::new(),
        read_only: false,
    }
}
