//! A bucket and a KMS key of a test's own in a real AWS server.

use std::sync::atomic::{AtomicUsize, Ordering};

use aws_config::{BehaviorVersion, Region};
use aws_credential_types::Credentials;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::CreateBucketConfiguration;
use aws_types::SdkConfig;
use hostwright::backend::s3::Bucket;
use hostwright::config::{self, Permit, Sources, Variables};

use crate::support;

/// A bucket with its key; the server ends with the test process.
pub(crate) struct Cloud {
    pub(crate) url: String,
    pub(crate) bucket: String,
    /// The key's ARN.
    pub(crate) key: String,
    pub(crate) sdk: SdkConfig,
    pub(crate) s3: aws_sdk_s3::Client,
}

impl Cloud {
    /// A bucket as it should be: versions kept, public access blocked, encrypted with its key.
    pub(crate) async fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        rustls::crypto::ring::default_provider().install_default().ok();
        let url = support::moto().await.url();
        let sdk = sdk(&url, "AKIATEST").await;
        let s3 = aws_sdk_s3::Client::from_conf(
            aws_sdk_s3::config::Builder::from(&sdk).force_path_style(true).build(),
        );
        let key = aws_sdk_kms::Client::new(&sdk).create_key().send().await.unwrap().key_metadata.unwrap();
        let key = key.arn.unwrap();
        let bucket = format!("secrets-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let cloud = Self { url, bucket, key, sdk, s3 };
        cloud.backend().create(&permit(), "eu-west-1").await.unwrap();
        cloud
    }

    /// Makes a bucket with no settings.
    pub(crate) async fn create(&self, bucket: &str) {
        let place = CreateBucketConfiguration::builder().location_constraint("eu-west-1".into()).build();
        let call = self.s3.create_bucket().bucket(bucket).create_bucket_configuration(place);
        call.send().await.unwrap();
    }

    /// The back end on it.
    pub(crate) fn backend(&self) -> Bucket {
        Bucket::new(&self.sdk, true, &self.bucket, &self.key)
    }

    /// Writes an object as another program would: encrypted with the bucket's default.
    pub(crate) async fn put(&self, key: &str, text: impl Into<Vec<u8>>) {
        let body = ByteStream::from(text.into());
        self.s3.put_object().bucket(&self.bucket).key(key).body(body).send().await.unwrap();
    }

    /// What an object holds.
    pub(crate) async fn text(&self, key: &str) -> String {
        let object = self.s3.get_object().bucket(&self.bucket).key(key).send().await.unwrap();
        String::from_utf8(object.body.collect().await.unwrap().to_vec()).unwrap()
    }
}

/// A permit of a configuration that may be changed.
pub(crate) fn permit() -> Permit {
    config::load_with(&Sources::default(), &Variables::default()).unwrap().permit().unwrap()
}

/// The SDK's settings for this server and somebody's keys.
pub(crate) async fn sdk(url: &str, id: &str) -> SdkConfig {
    let http = aws_smithy_http_client::Builder::new()
        .tls_provider(aws_smithy_http_client::tls::Provider::Rustls(
            aws_smithy_http_client::tls::rustls_provider::CryptoMode::Ring,
        ))
        .build_https();
    aws_config::defaults(BehaviorVersion::latest())
        .region(Region::new("eu-west-1"))
        .endpoint_url(url)
        .http_client(http)
        .credentials_provider(Credentials::new(id, "secret", None, None, "test"))
        .load()
        .await
}

/// An operator at a desk: a home with a configuration, the variables of `staging`, and AWS's shared files.
pub(crate) struct Desk {
    home: tempfile::TempDir,
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Desk {
    /// At this server and bucket, with the profile `staging` of static keys.
    pub(crate) fn new(cloud: &Cloud) -> Self {
        let desk = Self { home: support::temp() };
        let config = format!(
            "[environments.staging]\npolicy.source = \"/nowhere\"\naws.endpoint = \"{}\"\n",
            cloud.url
        );
        desk.write("config.toml", &config);
        let variables = format!(
            "environment = \"staging\"\nkms_master_id = \"{}\"\nkubeapi_dns = \"kube\"\nkubeapi_internal_dns = \"kube-int\"\n\
             private_zone_name = \"lan.example.org\"\npublic_zone_name = \"example.org\"\n\
             secrets_bucket_name = \"{}\"\nterraform_bucket_name = \"staging-terraform\"\n",
            cloud.key, cloud.bucket
        );
        desk.write("environments/staging.tfvars", &variables);
        desk.write(".aws/config", "[profile staging]\nregion = eu-west-1\n");
        desk.write(
            ".aws/credentials",
            "[staging]\naws_access_key_id = AKIADESK\naws_secret_access_key = hunter2\n",
        );
        desk
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        self.home.path()
    }

    /// The local copy's folder.
    pub(crate) fn copy(&self) -> std::path::PathBuf {
        self.path().join("platform/secrets/staging")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// The environment's variables of a command at this desk.
    pub(crate) fn variables(&self) -> Vec<(String, std::ffi::OsString)> {
        let config = self.path().join("config.toml");
        vec![
            ("HOME".into(), self.path().into()),
            ("HOSTWRIGHT_CONFIG".into(), config.into()),
            ("HOSTWRIGHT_ENV".into(), "staging".into()),
            ("PATH".into(), std::env::var_os("PATH").unwrap()),
            ("USER".into(), "olga".into()),
            ("LANG".into(), "C.UTF-8".into()),
            ("AWS_EC2_METADATA_DISABLED".into(), "true".into()),
        ]
    }

    pub(crate) fn command(&self, args: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new(support::exe());
        command.args(args).current_dir(self.path()).stdin(std::process::Stdio::null());
        command.env_clear().envs(self.variables());
        command
    }

    /// Runs a command, with more variables, without blocking the server.
    pub(crate) async fn run_with(&self, args: &[&str], variables: &[(&str, &str)]) -> Said {
        let mut command = self.command(args);
        command.envs(variables.iter().copied());
        let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Said { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }

    pub(crate) async fn run(&self, args: &[&str]) -> Said {
        self.run_with(args, &[]).await
    }

    pub(crate) async fn json(&self, args: &[&str]) -> serde_json::Value {
        let said = self.run(&[args, &["-o", "json"]].concat()).await;
        serde_json::from_str(&said.out).unwrap_or_else(|e| panic!("{e}: {}{}", said.out, said.err))
    }
}
