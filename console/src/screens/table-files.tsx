// Files and sizes of a table, now and at some versions before.
import { Alert, Button, SimpleGrid, Stack, Text } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { createColumnHelper } from "@tanstack/react-table";
import { Suspense, lazy, useMemo } from "react";
import { type Schemas, call, messageOf, v1 } from "../api/client";
import { DataTable } from "../parts/data-table";
import { bytes, count } from "../parts/format";
import { Figure, Loaded, Refusal, Section } from "../parts/notices";
import { FileList } from "./table-file-list";

type Detail = Schemas["TableDetail"];

const Chart = lazy(() => import("../parts/chart"));

const POINTS = 12;

function detailOf(table_id: string, version?: number): Promise<Detail> {
  return call(v1.GET("/v1/tables/{table_id}/detail", { params: { path: { table_id }, query: { version } } }));
}

/** Some versions up to `latest`, evenly spread, the newest first. */
function versionsUpTo(latest: number): number[] {
  const steps = Math.min(POINTS - 1, latest);
  return steps ? [...new Set(Array.from({ length: steps + 1 }, (_, step) => Math.round(latest - (step * latest) / steps)))] : [latest];
}

/** The details of versions, from the newest back to the first that cannot be read any more. */
async function historyOf(id: string, latest: number): Promise<{ details: Detail[]; end: string }> {
  const details: Detail[] = [];
  for (const version of versionsUpTo(latest)) {
    try {
      details.unshift(await detailOf(id, version));
    } catch (error) {
      if (!details.length) throw error;
      return { details, end: messageOf(error) };
    }
  }
  return { details, end: "" };
}

export function Files({ id, latest }: { id: string; latest: number }) {
  const detail = useQuery({ queryKey: ["detail", id, latest], queryFn: () => detailOf(id) });
  const history = useMutation({ mutationFn: () => historyOf(id, latest) });
  return (
    <Stack>
      <Loaded query={detail}>
        {(now) => (
          <SimpleGrid cols={{ base: 2, sm: 3, lg: 6 }}>
            <Figure label="Files" value={count(now.files)} hint={`at version ${now.version}`} />
            <Figure label="Size" value={bytes(now.bytes)} hint={now.files ? `${bytes(now.bytes / now.files)} a file` : ""} />
            <Figure label="Rows" value={count(now.rows)} hint={now.files_without_records ? `without ${count(now.files_without_records)} files` : "by statistics"} />
            <Figure label="Deleted rows" value={count(now.deleted_rows)} hint="by deletion vectors" />
            <Figure label="Partitions" value={now.partitions === null ? "many" : count(now.partitions)} hint={now.partition_columns.join(", ") || "not partitioned"} />
            <Figure label="File index" value={now.index_version < 0 ? "none" : count(now.index_version)} hint={`${count(now.tail_versions)} versions after it`} />
          </SimpleGrid>
        )}
      </Loaded>
      <FileList id={id} />
      <Section
        title="Over time"
        actions={
          <Button size="xs" variant="light" loading={history.isPending} onClick={() => history.mutate()}>
            Show
          </Button>
        }
      >
        <Text size="sm" c="dimmed">
          Reads the table at up to {POINTS} of its versions.
        </Text>
        {history.error && <Refusal error={history.error} />}
        {history.data && <History {...history.data} />}
      </Section>
    </Stack>
  );
}

const column = createColumnHelper<Detail>();
const COLUMNS = [
  column.accessor("version", { header: "Version", cell: (cell) => count(cell.getValue()) }),
  column.accessor("files", { header: "Files", cell: (cell) => count(cell.getValue()) }),
  column.accessor("bytes", { header: "Size", cell: (cell) => bytes(cell.getValue()) }),
  column.accessor("rows", { header: "Rows", cell: (cell) => count(cell.getValue()) }),
];

function History({ details, end }: { details: Detail[]; end: string }) {
  const versions = useMemo(() => details.map((detail) => detail.version), [details]);
  const files = useMemo(() => details.map((detail) => detail.files), [details]);
  const sizes = useMemo(() => details.map((detail) => detail.bytes), [details]);
  return (
    <>
      {end && <Alert color="blue">Older versions cannot be read: {end}</Alert>}
      <Suspense>
      <SimpleGrid cols={{ base: 1, md: 2 }}>
        <div>
          <Text fw={600}>Files by version</Text>
          <Chart label="Files by version; the figures are in the table below" xLabel="version" x={versions} y={files} format={count} />
        </div>
        <div>
          <Text fw={600}>Size by version</Text>
          <Chart label="Size by version; the figures are in the table below" xLabel="version" x={versions} y={sizes} format={bytes} />
        </div>
      </SimpleGrid>
      </Suspense>
      <DataTable label="files and sizes by version" rows={details} columns={COLUMNS} empty="" sort={[{ id: "version", desc: true }]} />
    </>
  );
}
