//! Settings, themes and key maps: plain types, checked when they are read.

mod settings;

pub use settings::{
    Amqp, Approval, Ara, AraCredentials, ConsoleSettings, Environment, JobSettings, Kubernetes, Permit,
    Policy, ProvisionSettings, ReadOnly, Secret, ServerSettings, Settings, Signer, Symbols, TargetSettings,
};
