// How engines connect: texts to copy, with this server's address and the chosen catalog in them.
import { Button, Code, CopyButton, Group, Stack, Tabs, Text, Title } from "@mantine/core";
import { useCatalog } from "../api/places";
import { Section } from "../parts/notices";

interface Snippet {
  engine: string;
  title: string;
  about: string;
  text: string;
}

/** docs/clients.md and docs/iceberg.md say what each of these can do, and what was tested. */
function snippetsOf(url: string, catalog: string): Snippet[] {
  return [
    {
      engine: "Spark",
      title: "Delta in Spark, with turnstile_spark",
      about: "Spark 4.2 and Delta 4.4, unmodified. In a checkout: pip install ./layers ./http_client ./spark_client",
      text: `import os
from turnstile_spark import attach, session

spark = session()  # session(s3=True) for tables on S3
lake = attach(spark, name="lake", uri="${url}", catalog="${catalog}", token=os.environ.get("TURNSTILE_TOKEN"))

spark.sql("CREATE TABLE lake.default.visits (id BIGINT, day DATE) CLUSTER BY (day)")
spark.sql("INSERT INTO lake.default.visits VALUES (1, current_date())")
spark.table("lake.default.visits").show()`,
    },
    {
      engine: "spark-defaults",
      title: "Delta in Spark, with Unity Catalog's connector",
      about: "The catalog in Spark has the name that it has here. io.unitycatalog:unitycatalog-spark has to be on the class path.",
      text: `spark.jars.packages                  io.delta:delta-spark_4.2_2.13:4.4.0
spark.sql.extensions                 io.delta.sql.DeltaSparkSessionExtension
spark.sql.catalog.spark_catalog      org.apache.spark.sql.delta.catalog.DeltaCatalog
spark.sql.catalog.${catalog}                io.unitycatalog.spark.UCSingleCatalog
spark.sql.catalog.${catalog}.uri            ${url}
spark.sql.catalog.${catalog}.token          <token, or none on an open server>
# on S3
spark.hadoop.fs.s3.impl              org.apache.hadoop.fs.s3a.S3AFileSystem`,
    },
    {
      engine: "Spark Iceberg",
      title: "Iceberg in Spark",
      about: "Iceberg's REST catalog; the catalog here is a warehouse of Iceberg's.",
      text: `spark.sql.extensions                 org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
spark.sql.catalog.lake               org.apache.iceberg.spark.SparkCatalog
spark.sql.catalog.lake.type          rest
spark.sql.catalog.lake.uri           ${url}/iceberg
spark.sql.catalog.lake.warehouse     ${catalog}
spark.sql.catalog.lake.token         <token>`,
    },
    {
      engine: "DuckDB",
      title: "DuckDB",
      about: "Reads and INSERTs of Delta tables. An attachment keeps the snapshot that it first read: attach anew to see other writers.",
      text: `INSTALL unity_catalog; INSTALL delta; INSTALL httpfs;
LOAD unity_catalog; LOAD delta; LOAD httpfs;
CREATE SECRET (TYPE unity_catalog, ENDPOINT '${url}', TOKEN '<token, or none on an open server>', AWS_REGION 'us-east-1');
ATTACH '${catalog}' AS lake (TYPE unity_catalog, DEFAULT_SCHEMA 'default');
SHOW ALL TABLES;`,
    },
    {
      engine: "PyIceberg",
      title: "PyIceberg",
      about: "Writes Iceberg tables.",
      text: `import os
from pyiceberg.catalog.rest import RestCatalog

token = os.environ.get("TURNSTILE_TOKEN") or "none"  # an open server takes any token
catalog = RestCatalog("${catalog}", uri="${url}/iceberg", warehouse="${catalog}", token=token)
print(catalog.list_namespaces())`,
    },
    {
      engine: "Trino",
      title: "Trino",
      about: "By Trino's documentation of its Iceberg connector; Trino itself is not among the clients that Turnstile's tests run.",
      text: `connector.name=iceberg
iceberg.catalog.type=rest
iceberg.rest-catalog.uri=${url}/iceberg
iceberg.rest-catalog.warehouse=${catalog}
iceberg.rest-catalog.security=OAUTH2
iceberg.rest-catalog.oauth2.token=<token>`,
    },
    {
      engine: "HTTP",
      title: "Anything that speaks HTTP",
      about: "The API is described in openapi/ and docs/api.md.",
      text: `export TURNSTILE_URL=${url} TURNSTILE_TOKEN=<token>
curl -sS -H "Authorization: Bearer $TURNSTILE_TOKEN" "$TURNSTILE_URL/v1/catalogs/${catalog}/namespaces"
turnstile status`,
    },
  ];
}

export default function Connect() {
  const catalog = useCatalog() || "main";
  const snippets = snippetsOf(location.origin, catalog);
  return (
    <Stack>
      <Title order={1}>Connect</Title>
      <Tabs defaultValue={snippets[0]?.engine}>
        <Tabs.List aria-label="Engines">
          {snippets.map(({ engine }) => (
            <Tabs.Tab key={engine} value={engine}>
              {engine}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {snippets.map((snippet) => (
          <Tabs.Panel key={snippet.engine} value={snippet.engine} pt="md">
            <Shown {...snippet} />
          </Tabs.Panel>
        ))}
      </Tabs>
    </Stack>
  );
}

function Shown({ title, about, text }: Snippet) {
  return (
    <Section
      title={title}
      actions={
        <CopyButton value={text}>
          {({ copied, copy }) => (
            <Button size="xs" variant="light" onClick={copy}>
              {copied ? "Copied" : "Copy"}
            </Button>
          )}
        </CopyButton>
      }
    >
      <Text>{about}</Text>
      <Group>
        <Code block tabIndex={0} w="100%" style={{ whiteSpace: "pre", overflowX: "auto" }}>
          {text}
        </Code>
      </Group>
    </Section>
  );
}
