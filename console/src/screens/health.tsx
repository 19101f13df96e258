// Health: which tables are behind or stuck, how far, and what can be done about it at once.
import { Alert, Anchor, Button, Group, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { createColumnHelper } from "@tanstack/react-table";
import { useMemo, useState } from "react";
import { Link } from "react-router";
import { ApiError, type Listing, type Schemas, call, pages, v1 } from "../api/client";
import { currentToken } from "../api/session";
import { placeOf } from "../api/places";
import { DataTable } from "../parts/data-table";
import { ago, count, duration } from "../parts/format";
import { Figure, Loaded, Refusal, Section, State } from "../parts/notices";
import { Conflicts } from "./conflicts";
import { PublishButton, RepairButton } from "./repair";

type Head = Schemas["Heads"]["tables"][number];

/** A HEAD with how long its oldest unpublished commit has been waiting. */
interface Row extends Head {
  behind: number;
  lag_ms: number;
}

const MOST_LAGS = 50;

async function readHeads(): Promise<Listing<Row>> {
  const heads = await pages(
    (page_token) => call(v1.GET("/v1/tables", { params: { query: { page_token } } })),
    (page) => page.tables,
  );
  const present = heads.items.filter((head) => head.state !== "dropped");
  const waiting = present.filter((head) => head.floor < head.latest).slice(0, MOST_LAGS);
  const lags = new Map(await Promise.all(waiting.map(async (head): Promise<[string, number]> => [head.table_id, await lagOf(head)])));
  const rows = present.map((head) => ({ ...head, behind: head.latest - head.floor, lag_ms: lags.get(head.table_id) ?? 0 }));
  return { items: rows, complete: heads.complete };
}

async function lagOf(head: Head): Promise<number> {
  const read = await call(v1.GET("/v1/tables/{table_id}/head", { params: { path: { table_id: head.table_id } } }));
  const oldest = read.tail.find((commit) => commit.version > read.floor);
  return oldest ? Math.max(0, Date.now() - oldest.timestamp) : 0;
}

/** Figures of a server (/metrics): name with labels to value; undefined on a deployment, which has none there. */
async function readMetrics(): Promise<Map<string, number> | null> {
  const token = currentToken();
  const response = await fetch("/metrics", { headers: token ? { Authorization: `Bearer ${token}` } : {} });
  if (!response.ok || !(response.headers.get("content-type") ?? "").startsWith("text/plain")) return null;
  const figures = new Map<string, number>();
  for (const line of (await response.text()).split("\n")) {
    const end = line.lastIndexOf(" ");
    if (!line.startsWith("#") && end > 0) figures.set(line.slice(0, end), Number(line.slice(end + 1)));
  }
  return figures;
}

const COMMITS = ["POST /v1/tables/{table_id}/commits", "/transactions", "/delta/preview/commits", "tables/{table}"];

function conflicts(figures: Map<string, number>): { refused: number; all: number } {
  let refused = 0;
  let all = 0;
  for (const [name, value] of figures) {
    const [, operation, status] = /^turnstile_requests_total\{operation="([^"]*)",status="(\d+)"\}$/.exec(name) ?? [];
    if (!operation?.startsWith("POST ") || !COMMITS.some((end) => operation.endsWith(end))) continue;
    if (status === "200" || status === "409") all += value;
    if (status === "409") refused += value;
  }
  return { refused, all };
}

function isDenied(error: unknown): boolean {
  return error instanceof ApiError && error.status === 403;
}

export default function Health() {
  const [acting, setActing] = useState(false); // while a dialog is open its row has to stay
  const heads = useQuery({ queryKey: ["heads"], queryFn: readHeads, refetchInterval: acting ? false : 10_000, enabled: !acting });
  const metrics = useQuery({ queryKey: ["metrics"], queryFn: readMetrics, refetchInterval: 10_000 });
  return (
    <Stack>
      <Title order={1}>Health</Title>
      {isDenied(heads.error) && (
        <Text>
          The list of all tables is for administrators. <Anchor component={Link} to="/browse">Browse</Anchor> shows what you may see.
        </Text>
      )}
      <Loaded query={heads}>
        {(listing) => (
          <>
            <Summary rows={listing.items} figures={metrics.data ?? null} />
            <Attention rows={listing.items} onOpen={setActing} />
            <AllConflicts rows={listing.items} />
            <AllTables listing={listing} />
          </>
        )}
      </Loaded>
      {!isDenied(heads.error) && <Checks />}
    </Stack>
  );
}

function Summary({ rows, figures }: { rows: Row[]; figures: Map<string, number> | null }) {
  const behind = rows.filter((row) => row.behind > 0);
  const stuck = rows.filter((row) => row.state === "stuck" || row.state === "recovering");
  const longest = Math.max(0, ...behind.map((row) => row.lag_ms));
  const swept = figures?.get("turnstile_swept_seconds");
  const { refused, all } = figures ? conflicts(figures) : { refused: 0, all: 0 };
  return (
    <SimpleGrid cols={{ base: 2, sm: 3, lg: 6 }}>
      <Figure label="Tables" value={count(rows.length)} />
      <Figure label="Behind" value={count(behind.length)} hint={`${count(behind.reduce((sum, row) => sum + row.behind, 0))} versions unpublished`} />
      <Figure label="Stuck" value={count(stuck.length)} bad={stuck.length > 0} hint="take no commits" />
      <Figure label="Longest lag" value={duration(longest)} bad={longest > 60_000} hint="oldest unpublished commit" />
      {figures && <Figure label="Conflicts" value={all ? `${((100 * refused) / all).toFixed(1)} %` : "–"} hint={`${count(refused)} of ${count(all)} since the start`} />}
      {figures && <Figure label="Last sweep" value={swept ? ago(swept * 1000) : "not yet"} hint="finds what was missed" />}
    </SimpleGrid>
  );
}

const column = createColumnHelper<Row>();
const NAME = column.accessor("name", {
  header: "Table",
  cell: (cell) => (
    <Anchor component={Link} to={placeOf({ name: cell.getValue(), kind: "table" })}>
      {cell.getValue()}
    </Anchor>
  ),
});
const STANDING = [
  column.accessor("state", { header: "State", cell: (cell) => <State of={cell.getValue()} /> }),
  column.accessor("latest", { header: "Latest", cell: (cell) => count(cell.getValue()) }),
  column.accessor("behind", { header: "Behind", cell: (cell) => count(cell.getValue()) }),
];

function Attention({ rows, onOpen }: { rows: Row[]; onOpen: (open: boolean) => void }) {
  const wanting = rows.filter((row) => row.behind > 0 || ["stuck", "recovering", "leaving"].includes(row.state));
  const columns = useMemo(
    () => [
      NAME,
      ...STANDING,
      column.accessor("lag_ms", { header: "Lag", cell: (cell) => (cell.getValue() ? duration(cell.getValue()) : "–") }),
      column.display({
        id: "actions",
        header: "What to do",
        cell: ({ row }) => (
          <Group gap="xs" wrap="nowrap">
            <PublishButton id={row.original.table_id} name={row.original.name} behind={row.original.behind} onOpen={onOpen} />
            <RepairButton id={row.original.table_id} name={row.original.name} onOpen={onOpen} />
          </Group>
        ),
      }),
    ],
    [onOpen],
  );
  return (
    <Section title="Need attention">
      {wanting.length ? (
        <DataTable label="tables that need attention" rowId={(row) => row.table_id} rows={wanting} columns={columns} empty="" sort={[{ id: "behind", desc: true }]} />
      ) : (
        <Alert color="teal">Every table is published up to its latest version, and takes commits.</Alert>
      )}
    </Section>
  );
}

function AllConflicts({ rows }: { rows: Row[] }) {
  const names = useMemo(() => new Map(rows.map((row) => [row.table_id, row.name])), [rows]);
  return <Conflicts names={names} />;
}

function AllTables({ listing }: { listing: Listing<Row> }) {
  const columns = useMemo(() => [NAME, ...STANDING, column.accessor("location", { header: "Location", cell: (cell) => <Text size="sm">{cell.getValue()}</Text> })], []);
  return (
    <Section title="All tables">
      <DataTable label="all tables" rows={listing.items} complete={listing.complete} columns={columns} empty="There are no tables yet." search sort={[{ id: "name", desc: false }]} />
    </Section>
  );
}

function Checks() {
  const checks = useMutation({ mutationFn: () => call(v1.POST("/v1/checks")) });
  return (
    <Section
      title="Checks of the deployment"
      actions={
        <Button size="xs" variant="light" loading={checks.isPending} onClick={() => checks.mutate()}>
          Check now
        </Button>
      }
    >
      <Text c="dimmed" size="sm">
        Writes rows and a file of its own and removes them: conditional writes, the lake, publication.
      </Text>
      {checks.error && <Refusal error={checks.error} />}
      {checks.data?.checks.map((check) => (
        <Group key={check.name} align="flex-start" wrap="nowrap">
          <State of={check.result} />
          <div>
            <Text fw={600}>{check.name}</Text>
            <Text size="sm">{check.message}</Text>
            {check.remedy && <Text size="sm">What to do: {check.remedy}</Text>}
          </div>
        </Group>
      ))}
    </Section>
  );
}
