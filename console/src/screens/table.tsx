// One Delta table: what it is, how it stands, what was committed, its rows and files, its maintenance.
import { Code, Group, Stack, Tabs, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useParams } from "react-router";
import { type Schemas, call, v1 } from "../api/client";
import { partsOf } from "../api/places";
import { ago, bytes, count, plural, time } from "../parts/format";
import { Facts, Loaded, Section, State } from "../parts/notices";
import { Columns, Pairs, columnsOf } from "../parts/schema";
import { Conflicts } from "./conflicts";
import { PublishButton, RepairButton } from "./repair";
import { Commits, OutcomeForm } from "./table-commits";
import { Files } from "./table-files";
import { Maintenance } from "./table-maintenance";
import { Rows } from "./table-rows";

type Table = Schemas["Table"];

export default function TableScreen() {
  const { name = "" } = useParams();
  const path = partsOf(name);
  const table = useQuery({
    queryKey: ["table", name],
    queryFn: () => call(v1.GET("/v1/catalogs/{catalog}/namespaces/{namespace}/tables/{table}", { params: { path, query: { content: true, statistics: true } } })),
    refetchInterval: 15_000,
  });
  return (
    <Stack>
      <Title order={1} style={{ overflowWrap: "anywhere" }}>
        {name}
      </Title>
      <Loaded query={table}>{(loaded) => <Shown table={loaded} />}</Loaded>
    </Stack>
  );
}

function Shown({ table }: { table: Table }) {
  const id = table.table_id;
  const head = useQuery({
    queryKey: ["head", id],
    queryFn: () => call(v1.GET("/v1/tables/{table_id}/head", { params: { path: { table_id: id } } })),
    refetchInterval: 5_000,
  });
  return (
    <Loaded query={head}>
      {(read) => (
        <>
          <Group>
            <State of={read.state} />
            <State of="delta" />
            <PublishButton id={id} name={table.name} behind={read.latest - read.floor} />
            <RepairButton id={id} name={table.name} />
          </Group>
          {read.reason && <Text>{read.reason}</Text>}
          <Tabs defaultValue="overview" keepMounted={false}>
            <Tabs.List aria-label="About the table">
              <Tabs.Tab value="overview">Overview</Tabs.Tab>
              <Tabs.Tab value="commits">Commits</Tabs.Tab>
              <Tabs.Tab value="rows">Rows</Tabs.Tab>
              <Tabs.Tab value="files">Files</Tabs.Tab>
              <Tabs.Tab value="maintenance">Maintenance</Tabs.Tab>
              <Tabs.Tab value="outcome">Outcome</Tabs.Tab>
            </Tabs.List>
            <Tabs.Panel value="overview" pt="md">
              <Overview table={table} head={read} />
            </Tabs.Panel>
            <Tabs.Panel value="commits" pt="md">
              <Stack>
                <Commits table={table} head={read} />
                <Conflicts table_id={id} />
              </Stack>
            </Tabs.Panel>
            <Tabs.Panel value="rows" pt="md">
              <Rows id={id} latest={read.latest} />
            </Tabs.Panel>
            <Tabs.Panel value="files" pt="md">
              <Files id={id} latest={read.latest} />
            </Tabs.Panel>
            <Tabs.Panel value="maintenance" pt="md">
              <Maintenance id={id} />
            </Tabs.Panel>
            <Tabs.Panel value="outcome" pt="md">
              <OutcomeForm id={id} />
            </Tabs.Panel>
          </Tabs>
        </>
      )}
    </Loaded>
  );
}

function Overview({ table, head }: { table: Table; head: Schemas["Head"] }) {
  const { metadata, statistics } = table;
  // the numbers are those of the table's index, which is made now and then: see Files for those of the latest version
  const counted = !statistics || statistics.version === head.latest ? "" : ` at version ${statistics.version}, which ${plural(head.latest - statistics.version, "version")} followed`;
  const protocol = metadata.protocol as unknown as { minReaderVersion: number; minWriterVersion: number; readerFeatures?: string[]; writerFeatures?: string[] };
  return (
    <Stack>
      <Section title="HEAD">
        <Facts
          of={[
            ["Latest version", count(head.latest)],
            ["Published up to", `${count(head.floor)}${head.floor === head.latest ? "" : ` (${count(head.latest - head.floor)} behind)`}`],
            ["Last commit", `${time(head.timestamp)} (${ago(head.timestamp)})`],
            ["Row", `${bytes(head.bytes)} in refs`],
            ["Files", statistics ? `${count(statistics.files)}, ${bytes(statistics.bytes)}${counted}` : "see Files"],
            ["Rows", statistics ? `${count(statistics.rows)}${counted}` : null],
            ["Created", time(table.created)],
            ["Comment", metadata.comment],
            ["Location", <Code key="location">{table.location}</Code>],
            ["Id", <Code key="id">{table.table_id}</Code>],
          ]}
        />
      </Section>
      <Section title="Columns">
        <Columns of={columnsOf((metadata.schema as unknown as { fields: unknown[] }).fields)} partitions={metadata.partition_columns} />
      </Section>
      <Section title="Properties">
        <Pairs label="properties" of={metadata.properties} />
      </Section>
      <Section title="Protocol">
        <Facts
          of={[
            ["Reader", protocol.minReaderVersion],
            ["Writer", protocol.minWriterVersion],
            ["Features", [...new Set([...(protocol.readerFeatures ?? []), ...(protocol.writerFeatures ?? [])])].sort().join(", ")],
          ]}
        />
      </Section>
    </Stack>
  );
}
