// One Iceberg table or view, by Iceberg's REST catalog.
import { Code, Group, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { createColumnHelper } from "@tanstack/react-table";
import { useParams } from "react-router";
import { call, v1 } from "../api/client";
import { partsOf } from "../api/places";
import { DataTable } from "../parts/data-table";
import { bytes, count, time } from "../parts/format";
import { Facts, Loaded, Section, State } from "../parts/notices";
import { Columns, Pairs, columnsOf } from "../parts/schema";
import { type Place, type Snapshot, presentOf, readIcebergTable, readIcebergView, textsOf } from "./iceberg";

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
  const loaded = useQuery({ queryKey: ["iceberg", catalog, namespace, table], queryFn: () => readIcebergTable({ catalog, namespace, table }) });
  return (
    <Loaded query={loaded}>
      {(metadata) => {
        const { fields, partitions } = presentOf(metadata);
        return (
          <>
            <Section title="Table">
              <Facts
                of={[
                  ["Format version", metadata["format-version"]],
                  ["Last updated", time(metadata["last-updated-ms"])],
                  ["Partitioned by", partitions.map((field) => `${field.transform}(${field.name})`).join(", ") || "nothing"],
                  ["Location", <Code key="location">{metadata.location}</Code>],
                ]}
              />
            </Section>
            <Section title="Columns">
              <Columns of={columnsOf(fields)} partitions={partitions.map((field) => field.name)} />
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
  const loaded = useQuery({ queryKey: ["iceberg view", catalog, namespace, table], queryFn: () => readIcebergView({ catalog, namespace, table }) });
  return (
    <Loaded query={loaded}>
      {(metadata) => (
        <Section title="View">
          {textsOf(metadata).map((one) => (
            <div key={one.dialect}>
              <Text c="dimmed">{one.dialect}</Text>
              <Code block>{one.sql}</Code>
            </div>
          ))}
          <Pairs label="properties" of={metadata.properties ?? {}} />
        </Section>
      )}
    </Loaded>
  );
}
