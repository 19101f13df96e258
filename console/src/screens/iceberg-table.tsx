// One Iceberg table or view, by Iceberg's REST catalog.
import { Code, Group, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { createColumnHelper } from "@tanstack/react-table";
import { useParams } from "react-router";
import { call, iceberg, v1 } from "../api/client";
import { partsOf } from "../api/places";
import { DataTable } from "../parts/data-table";
import { bytes, count, time } from "../parts/format";
import { Facts, Loaded, Section, State } from "../parts/notices";
import { Columns, Pairs, columnsOf } from "../parts/schema";

interface Snapshot {
  "snapshot-id": number;
  "timestamp-ms": number;
  summary?: Record<string, string>;
}

interface Metadata {
  "format-version": number;
  location: string;
  "last-updated-ms": number;
  "current-schema-id": number;
  schemas: { "schema-id": number; fields: unknown[] }[];
  "default-spec-id": number;
  "partition-specs": { "spec-id": number; fields: { name: string; transform: string }[] }[];
  properties?: Record<string, string>;
  snapshots?: Snapshot[];
  "current-snapshot-id"?: number | null;
}

interface ViewMetadata {
  location: string;
  "current-version-id": number;
  versions: { "version-id": number; "timestamp-ms": number; representations: { type: string; sql?: string; dialect?: string }[] }[];
  properties?: Record<string, string>;
}

const LEVELS = "\u001f";

export default function IcebergTable() {
  const { name = "" } = useParams();
  const path = partsOf(name);
  const entry = useQuery({
    queryKey: ["entry", name],
    queryFn: () => call(v1.GET("/v1/catalogs/{catalog}/namespaces/{namespace}/tables/{table}/entry", { params: { path } })),
  });
  return (
    <Stack>
      <Title order={1} style={{ overflowWrap: "anywhere" }}>
        {name}
      </Title>
      <Loaded query={entry}>
        {(read) => (
          <>
            <Group>
              <State of={read.kind} />
            </Group>
            <Section title="Entry">
              <Facts
                of={[
                  ["Created", time(read.created)],
                  ["Comment", read.comment],
                  ["Metadata file", <Code key="metadata">{read.metadata_location}</Code>],
                  ["Id", <Code key="id">{read.id}</Code>],
                ]}
              />
            </Section>
            {read.kind === "iceberg-view" ? <View {...path} /> : <Table {...path} />}
          </>
        )}
      </Loaded>
    </Stack>
  );
}

interface Place {
  catalog: string;
  namespace: string;
  table: string;
}

const column = createColumnHelper<Snapshot>();
const COLUMNS = [
  column.accessor("timestamp-ms", { header: "When", cell: (cell) => time(cell.getValue()) }),
  column.accessor((snapshot) => snapshot.summary?.operation ?? "", { id: "operation", header: "Operation" }),
  column.accessor((snapshot) => Number(snapshot.summary?.["total-data-files"] ?? 0), { id: "files", header: "Files", cell: (cell) => count(cell.getValue()) }),
  column.accessor((snapshot) => Number(snapshot.summary?.["total-files-size"] ?? 0), { id: "size", header: "Size", cell: (cell) => bytes(cell.getValue()) }),
  column.accessor((snapshot) => Number(snapshot.summary?.["total-records"] ?? 0), { id: "rows", header: "Rows", cell: (cell) => count(cell.getValue()) }),
  column.accessor((snapshot) => String(snapshot["snapshot-id"]), { id: "id", header: "Snapshot", cell: (cell) => <Code>{cell.getValue()}</Code> }),
];

function Table({ catalog, namespace, table }: Place) {
  const path = { prefix: catalog, namespace: namespace.split(".").join(LEVELS), table };
  const loaded = useQuery({
    queryKey: ["iceberg", catalog, namespace, table],
    queryFn: async () => (await call(iceberg.GET("/iceberg/v1/{prefix}/namespaces/{namespace}/tables/{table}", { params: { path } }))) as unknown as { metadata: Metadata },
  });
  return (
    <Loaded query={loaded}>
      {({ metadata }) => {
        const schema = metadata.schemas.find((one) => one["schema-id"] === metadata["current-schema-id"]);
        const spec = metadata["partition-specs"].find((one) => one["spec-id"] === metadata["default-spec-id"]);
        return (
          <>
            <Section title="Table">
              <Facts
                of={[
                  ["Format version", metadata["format-version"]],
                  ["Last updated", time(metadata["last-updated-ms"])],
                  ["Partitioned by", spec?.fields.map((field) => `${field.transform}(${field.name})`).join(", ") || "nothing"],
                  ["Location", <Code key="location">{metadata.location}</Code>],
                ]}
              />
            </Section>
            <Section title="Columns">
              <Columns of={columnsOf(schema?.fields ?? [])} partitions={spec?.fields.map((field) => field.name) ?? []} />
            </Section>
            <Section title="Snapshots">
              <DataTable label="snapshots" rows={metadata.snapshots ?? []} columns={COLUMNS} empty="It is empty." sort={[{ id: "timestamp-ms", desc: true }]} />
            </Section>
            <Section title="Properties">
              <Pairs label="properties" of={metadata.properties ?? {}} />
            </Section>
          </>
        );
      }}
    </Loaded>
  );
}

function View({ catalog, namespace, table }: Place) {
  const path = { prefix: catalog, namespace: namespace.split(".").join(LEVELS), view: table };
  const loaded = useQuery({
    queryKey: ["iceberg view", catalog, namespace, table],
    queryFn: async () => (await call(iceberg.GET("/iceberg/v1/{prefix}/namespaces/{namespace}/views/{view}", { params: { path } }))) as unknown as { metadata: ViewMetadata },
  });
  return (
    <Loaded query={loaded}>
      {({ metadata }) => {
        const version = metadata.versions.find((one) => one["version-id"] === metadata["current-version-id"]);
        return (
          <Section title="View">
            {version?.representations.map((one) => (
              <div key={one.dialect}>
                <Text c="dimmed">{one.dialect}</Text>
                <Code block>{one.sql}</Code>
              </div>
            ))}
            <Pairs label="properties" of={metadata.properties ?? {}} />
          </Section>
        );
      }}
    </Loaded>
  );
}
