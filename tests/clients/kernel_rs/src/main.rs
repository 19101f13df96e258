//! A Delta client made of delta-kernel-rs' released crates alone, for the tests: one command per run, one line of JSON
//! as its answer.
//!
//! `S3_ENDPOINT` in the environment is the store that keys from the server open, if it is not AWS's.
//!
//! `client URL TOKEN TABLE create | read | append FIRST COUNT | publish | checkpoint | config`

use std::error::Error;
use std::sync::Arc;

use delta_kernel::arrow::array::{Array, ArrayRef, Int64Array, RecordBatch};
use delta_kernel::engine::arrow_conversion::TryIntoArrow;
use delta_kernel::engine::arrow_data::{ArrowEngineData, EngineDataArrowExt};
use delta_kernel::schema::{DataType, StructField, StructType};
use delta_kernel::transaction::create_table::create_table;
use delta_kernel::transaction::{CommitResult, UpdateTableOperation};
use delta_kernel::Snapshot;
use delta_kernel_default_engine::executor::tokio::TokioMultiThreadExecutor;
use delta_kernel_default_engine::storage::store_from_url_opts;
use delta_kernel_default_engine::{DefaultEngine, DefaultEngineBuilder};
use delta_kernel_unity_catalog::{
    aws_object_store_options, build_uc_create_table_request, get_required_properties_for_disk,
    snapshot_builder_from_load_table, UCCommitter,
};
use serde_json::{json, Value};
use unity_catalog_delta_client_api::{
    CreateStagingTableRequest, LoadTableResponse, Operation, StorageCredential, TableIdentifier,
};
use unity_catalog_delta_rest_client::{ClientConfig, UCDeltaTableClient, UCUpdateTableRestClient};
use url::Url;

type Outcome<T> = Result<T, Box<dyn Error>>;
type Files = DefaultEngine<TokioMultiThreadExecutor>;

const CATALOG: &str = "main";
const SCHEMA: &str = "default";
const REGION: &str = "us-east-1";

struct Client {
    config: ClientConfig,
    catalog: UCDeltaTableClient,
    table: String,
}

impl Client {
    fn new(url: &str, token: &str, table: &str) -> Outcome<Self> {
        let config = ClientConfig::build(url, token).build()?;
        let catalog = UCDeltaTableClient::new(config.clone())?;
        Ok(Self { config, catalog, table: table.to_string() })
    }

    async fn load(&self) -> Outcome<LoadTableResponse> {
        Ok(self.catalog.load_table(CATALOG, SCHEMA, &self.table).await?)
    }

    /// The table at its latest version, and an engine with keys for `operation`.
    async fn open(&self, operation: Operation) -> Outcome<(LoadTableResponse, Arc<Snapshot>, Arc<Files>)> {
        let loaded = self.load().await?;
        let keys = self.catalog.get_table_credentials(CATALOG, SCHEMA, &self.table, operation).await?;
        let engine = engine(&loaded.metadata.location, &keys.storage_credentials)?;
        let snapshot = snapshot_builder_from_load_table(&loaded)?.build(engine.as_ref())?;
        Ok((loaded, snapshot, engine))
    }

    fn committer(&self, id: &str) -> Outcome<UCCommitter<UCUpdateTableRestClient>> {
        let updates = Arc::new(UCUpdateTableRestClient::new(self.config.clone())?);
        let name = TableIdentifier::new(CATALOG, SCHEMA, self.table.as_str());
        Ok(UCCommitter::new(updates, id, name))
    }

    async fn create(&self) -> Outcome<Value> {
        let request = CreateStagingTableRequest { name: self.table.clone() };
        let staged = self.catalog.create_staging_table(CATALOG, SCHEMA, request).await?;
        let engine = engine(&staged.location, &staged.storage_credentials)?;
        let root = root(&staged.location)?;
        if let Ok(folder) = root.to_file_path() {
            std::fs::create_dir_all(folder)?;
        }
        let schema = Arc::new(StructType::try_new([StructField::nullable("id", DataType::LONG)])?);
        let written = create_table(root.as_str(), schema, "turnstile-tests", true)
            .with_table_properties(get_required_properties_for_disk(&staged.table_id))
            .build(engine.as_ref(), Box::new(self.committer(&staged.table_id)?))?
            .commit(engine.as_ref())?;
        if !written.is_committed() {
            return Err("version 0 was not written".into());
        }
        let zero = Snapshot::builder_for(root).with_max_catalog_version(0).build(engine.as_ref())?;
        let request = build_uc_create_table_request(&zero, engine.as_ref(), self.table.as_str())?;
        let made = self.catalog.create_table(CATALOG, SCHEMA, request).await?;
        Ok(json!({"id": made.metadata.table_uuid}))
    }

    async fn read(&self) -> Outcome<Value> {
        let (_, snapshot, engine) = self.open(Operation::Read).await?;
        let mut ids: Vec<i64> = Vec::new();
        for batch in snapshot.clone().scan_builder().build()?.execute(engine)? {
            let batch = batch?.try_into_record_batch()?;
            let column = batch.column(0).as_any().downcast_ref::<Int64Array>().ok_or("id is not a long")?;
            ids.extend(column.iter().flatten());
        }
        ids.sort_unstable();
        Ok(json!({"version": snapshot.version(), "ids": ids}))
    }

    async fn append(&self, first: i64, count: i64) -> Outcome<Value> {
        let (loaded, snapshot, engine) = self.open(Operation::ReadWrite).await?;
        let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(first..first + count))];
        let batch = RecordBatch::try_new(Arc::new(snapshot.schema().as_ref().try_into_arrow()?), columns)?;
        let mut transaction = snapshot
            .update_table(UpdateTableOperation::Write, "turnstile-tests", true)
            .with_blind_append()
            .build(engine.as_ref(), Box::new(self.committer(&loaded.metadata.table_uuid)?))?;
        let context = transaction.write_state()?.write_context_builder().build()?;
        let files = engine.write_parquet(&ArrowEngineData::new(batch), &context).await?;
        transaction.add_files(files);
        Ok(match transaction.commit(engine.as_ref())? {
            CommitResult::Committed(done) => json!({"committed": done.commit_version()}),
            CommitResult::Conflicted(lost) => json!({"conflict": lost.conflict_version()}),
            CommitResult::Retryable(failed) => json!({"retryable": failed.error.to_string()}),
        })
    }

    async fn publish(&self, checkpoint: bool) -> Outcome<Value> {
        let (loaded, snapshot, engine) = self.open(Operation::ReadWrite).await?;
        let published = snapshot.publish(engine.as_ref(), &self.committer(&loaded.metadata.table_uuid)?)?;
        if checkpoint {
            published.clone().checkpoint(engine.as_ref(), None)?;
        }
        Ok(json!({"published": published.version()}))
    }

    async fn config(&self) -> Outcome<Value> {
        let told = self.catalog.get_config(CATALOG, &["1.0"]).await?;
        Ok(json!({"version": told.protocol_version, "endpoints": told.endpoints}))
    }
}

/// The location as a folder; the API names it without a slash at its end.
fn root(location: &str) -> Outcome<Url> {
    Ok(Url::parse(&format!("{}/", location.trim_end_matches('/')))?)
}

fn engine(location: &str, keys: &[StorageCredential]) -> Outcome<Arc<Files>> {
    let mut options = aws_object_store_options(keys, REGION);
    if let Ok(endpoint) = std::env::var("S3_ENDPOINT") {
        options.extend([("endpoint".to_string(), endpoint), ("allow_http".to_string(), "true".to_string())]);
    }
    let store = store_from_url_opts(&root(location)?, options)?;
    let executor = TokioMultiThreadExecutor::new(tokio::runtime::Handle::current());
    Ok(Arc::new(DefaultEngineBuilder::new(store).with_task_executor(Arc::new(executor)).build()))
}

async fn run(given: &[String]) -> Outcome<Value> {
    let [url, token, table, command, numbers @ ..] = given else {
        return Err("usage: client URL TOKEN TABLE COMMAND [NUMBER...]".into());
    };
    let client = Client::new(url, token, table)?;
    let numbers: Vec<i64> = numbers.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    match (command.as_str(), numbers.as_slice()) {
        ("create", []) => client.create().await,
        ("read", []) => client.read().await,
        ("append", [first, count]) => client.append(*first, *count).await,
        ("publish", []) => client.publish(false).await,
        ("checkpoint", []) => client.publish(true).await,
        ("config", []) => client.config().await,
        _ => Err(format!("unknown command {command} {numbers:?}").into()),
    }
}

#[tokio::main]
async fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    match run(&given).await {
        Ok(answer) => println!("{answer}"),
        Err(error) => {
            println!("{}", json!({"error": error.to_string()}));
            std::process::exit(1);
        }
    }
}
