// The commits of a table: those that its HEAD remembers, and from its events those of the last days.
import { Badge, Button, Group, Radio, Stack, Text, TextInput, Tooltip } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { createColumnHelper } from "@tanstack/react-table";
import { useMemo, useState } from "react";
import { type Schemas, call, v1 } from "../api/client";
import { partsOf } from "../api/places";
import { DataTable } from "../parts/data-table";
import { bytes, count, duration, time } from "../parts/format";
import { Facts, Refusal, Section, State } from "../parts/notices";

/** A version as the HEAD or the events tell it. */
interface Row {
  version: number;
  timestamp: number;
  operation: string;
  principal: string;
  how: "inline" | "staged" | "";
  size: number | null;
  transaction: string;
  published: boolean;
  /** How long it has been waiting to be published; nobody keeps when a version was. */
  lag_ms: number | null;
}

const PAGE = 1000;
const MOST_PAGES = 5;

type Event = Schemas["CloudEvent"];

async function eventsOf(catalog: string, table_id: string): Promise<Event[]> {
  const events: Event[] = [];
  let after: string | undefined;
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const answer = (await call(v1.GET("/v1/events", { params: { query: { catalog, table_id, after, limit: PAGE } } }))) as Schemas["Events"];
    events.push(...answer.events);
    if (!answer.events.length || answer.cursor === after) break;
    after = answer.cursor;
  }
  return events;
}

function rowsOf(head: Schemas["Head"], events: Event[]): Row[] {
  const rows = new Map<number, Row>();
  for (const { type, time: at, data } of events) {
    if (type !== "turnstile.table.ratified" || data.version === undefined) continue;
    rows.set(data.version, {
      version: data.version,
      timestamp: data.timestamp ?? (at ? Date.parse(at) : 0),
      operation: data.operation ?? "",
      principal: data.principal ?? "",
      how: "",
      size: data.bytes ?? null,
      transaction: data.transaction ?? "",
      published: data.version <= head.floor,
      lag_ms: null,
    });
  }
  for (const commit of head.tail) {
    rows.set(commit.version, {
      version: commit.version,
      timestamp: commit.timestamp,
      operation: commit.operation,
      principal: commit.principal ?? rows.get(commit.version)?.principal ?? "",
      how: commit.kind,
      size: commit.size ?? rows.get(commit.version)?.size ?? null,
      transaction: rows.get(commit.version)?.transaction || commit.txn_id,
      published: commit.published || commit.version <= head.floor,
      lag_ms: null,
    });
  }
  for (const row of rows.values()) if (!row.published) row.lag_ms = Math.max(0, Date.now() - row.timestamp);
  return [...rows.values()];
}

const column = createColumnHelper<Row>();
const COLUMNS = [
  column.accessor("version", { header: "Version", cell: (cell) => count(cell.getValue()) }),
  column.accessor("timestamp", { header: "In-commit time", cell: (cell) => <span style={{ whiteSpace: "nowrap" }}>{time(cell.getValue())}</span> }),
  column.accessor("operation", { header: "Operation" }),
  column.accessor("principal", { header: "Principal", cell: (cell) => cell.getValue() || "–" }),
  column.accessor("how", { header: "Sent", cell: (cell) => (cell.getValue() ? <State of={cell.getValue()} /> : "–") }),
  column.accessor("published", { header: "State", cell: (cell) => <State of={cell.getValue() ? "published" : "ratified"} /> }),
  column.accessor("lag_ms", {
    header: "Waiting",
    cell: (cell) => (cell.getValue() === null ? "–" : duration(cell.getValue() ?? 0)),
  }),
  column.accessor("size", { header: "Size", cell: (cell) => (cell.getValue() === null ? "–" : bytes(cell.getValue() ?? 0)) }),
  column.accessor("transaction", {
    header: "Transaction",
    cell: (cell) => (
      <Tooltip label={cell.getValue()}>
        <Text size="sm" component="span" ff="monospace">
          {cell.getValue().slice(0, 12)}
        </Text>
      </Tooltip>
    ),
  }),
];

export function Commits({ table, head }: { table: Schemas["Table"]; head: Schemas["Head"] }) {
  const { catalog } = partsOf(table.name);
  const events = useQuery({ queryKey: ["table events", table.table_id, head.latest, head.floor], queryFn: () => eventsOf(catalog, table.table_id), retry: false });
  const rows = useMemo(() => rowsOf(head, events.data ?? []), [head, events.data]);
  return (
    <Section title="Commits" actions={<Badge variant="default" tt="none">{`${count(head.latest - head.floor)} unpublished`}</Badge>}>
      {events.error && <Text c="dimmed">Older commits are not shown: {events.error.message}</Text>}
      <DataTable label="commits" rows={rows} columns={COLUMNS} empty="The HEAD remembers no commits, and there are no events." sort={[{ id: "version", desc: true }]} search />
    </Section>
  );
}

type Identity = "txn_id" | "name";

export function OutcomeForm({ id }: { id: string }) {
  const [by, setBy] = useState<Identity>("txn_id");
  const [value, setValue] = useState("");
  const [version, setVersion] = useState("");
  const look = useMutation({
    mutationFn: () => {
      const at = version.trim() && by === "txn_id" ? { version: Number(version) } : {};
      return call(v1.GET("/v1/tables/{table_id}/outcome", { params: { path: { table_id: id }, query: { [by]: value.trim(), ...at } } }));
    },
  });
  return (
    <Section title="What became of a commit">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          look.mutate();
        }}
      >
        <Stack maw={560}>
          <Radio.Group label="The commit is known by" value={by} onChange={(chosen) => setBy(chosen as Identity)}>
            <Group mt={4}>
              <Radio value="txn_id" label="its transaction id" />
              <Radio value="name" label="its staged file" />
            </Group>
          </Radio.Group>
          <TextInput label={by === "txn_id" ? "Transaction id" : "Name of the staged file"} value={value} onChange={(event) => setValue(event.currentTarget.value)} required spellCheck={false} />
          {by === "txn_id" && (
            <TextInput
              label="Version that was proposed"
              description="Without it nobody can say that a commit will never be ratified"
              inputMode="numeric"
              pattern="[0-9]*"
              value={version}
              onChange={(event) => setVersion(event.currentTarget.value)}
            />
          )}
          <Group>
            <Button type="submit" loading={look.isPending}>
              Look up
            </Button>
          </Group>
        </Stack>
      </form>
      {look.error && <Refusal error={look.error} />}
      {look.data && (
        <div role="status">
          <Facts
            of={[
              ["Outcome", <State key="outcome" of={look.data.outcome} />],
              ["Version", look.data.version ?? "–"],
              ["Latest", look.data.latest],
            ]}
          />
          <Text mt="sm">{MEANING[look.data.outcome]}</Text>
        </div>
      )}
    </Section>
  );
}

const MEANING: Record<string, string> = {
  ratified: "It is in the table.",
  never: "It is not in the table, and will never be ratified as that version.",
  open: "It is not in the table, and an attempt that is under way may yet put it there. Sending the same proposal again is safe.",
};
