// What happens in a catalog, as it happens: its events behind a cursor.
import { Badge, Button, Code, Group, Stack, Switch, Text, Title } from "@mantine/core";
import { createColumnHelper } from "@tanstack/react-table";
import { useEffect, useMemo, useState } from "react";
import { type Schemas, call, v1 } from "../api/client";
import { useCatalog } from "../api/places";
import { DataTable } from "../parts/data-table";
import { count, time } from "../parts/format";
import { Refusal, Section } from "../parts/notices";

type Event = Schemas["CloudEvent"];

const MOST = 2000;
const WAIT_S = 10;
const PAUSE_MS = 2000;

interface Followed {
  events: Event[];
  error: unknown;
  /** Everything that is kept was read. */
  atEnd: boolean;
}

const NOTHING: Followed = { events: [], error: undefined, atEnd: false };

/** The newest events of a catalog, and while `live` those that come; the last `MOST` of them. */
function useEvents(catalog: string, live: boolean, attempt: number): Followed {
  const [followed, setFollowed] = useState(NOTHING);
  useEffect(() => {
    if (!catalog) return;
    const stop = new AbortController();
    const known = new Set<string>();
    setFollowed(NOTHING);
    async function follow(): Promise<void> {
      let after: string | undefined;
      for (let atEnd = false; !stop.signal.aborted; ) {
        const query = { catalog, after, limit: 1000, wait_s: atEnd ? WAIT_S : 0 };
        const answer = (await call(v1.GET("/v1/events", { params: { query }, signal: stop.signal }))) as Schemas["Events"];
        atEnd = answer.events.length === 0;
        after = answer.cursor;
        const fresh = answer.events.filter((event) => !known.has(event.id)); // delivered at least once
        for (const event of fresh) known.add(event.id);
        setFollowed((before) => ({ events: [...before.events, ...fresh].slice(-MOST), error: undefined, atEnd: atEnd || before.atEnd }));
        if (atEnd && !live) return;
        if (atEnd) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      }
    }
    follow().catch((error: unknown) => {
      if (!stop.signal.aborted) setFollowed((before) => ({ ...before, error }));
    });
    return () => stop.abort();
  }, [catalog, live, attempt]);
  return followed;
}

const column = createColumnHelper<Event>();
const COLUMNS = [
  column.accessor((event) => (event.time ? Date.parse(event.time) : 0), {
    id: "time",
    header: "When",
    cell: (cell) => <span style={{ whiteSpace: "nowrap" }}>{cell.getValue() ? time(cell.getValue()) : "not kept"}</span>,
  }),
  column.accessor((event) => event.type.replace("turnstile.", ""), { id: "type", header: "Type", cell: (cell) => <Badge variant="default" tt="none" miw="max-content">{cell.getValue()}</Badge> }),
  column.accessor((event) => event.data.name ?? event.subject, { id: "name", header: "Of" }),
  column.accessor((event) => event.data.version ?? event.data.seq ?? -1, { id: "version", header: "Version", cell: (cell) => (cell.getValue() < 0 ? "–" : count(cell.getValue())) }),
  column.accessor((event) => event.data.operation ?? "", { id: "operation", header: "Operation", cell: (cell) => cell.getValue() || "–" }),
  column.accessor((event) => event.data.principal ?? "", { id: "principal", header: "Principal", cell: (cell) => cell.getValue() || "–" }),
  column.accessor((event) => event.data.transaction ?? "", { id: "transaction", header: "Transaction", cell: (cell) => (cell.getValue() ? <Code>{cell.getValue().slice(0, 8)}</Code> : "–") }),
];

export default function Events() {
  const catalog = useCatalog();
  const [live, setLive] = useState(true);
  const [attempt, setAttempt] = useState(0);
  const { events, error, atEnd } = useEvents(catalog, live, attempt);
  const rows = useMemo(() => [...events].reverse(), [events]);
  return (
    <Stack>
      <Title order={1}>Events</Title>
      <Section title={`Events of ${catalog}`} actions={<Switch label="Live" checked={live} onChange={(event) => setLive(event.currentTarget.checked)} />}>
        {error !== undefined && (
          <>
            <Refusal error={error} />
            <Group>
              <Button size="xs" variant="light" onClick={() => setAttempt(attempt + 1)}>
                Read again
              </Button>
            </Group>
          </>
        )}
        <Text size="sm" c="dimmed" role="status">
          {atEnd ? `${count(events.length)} of the last seven days${live ? ", and what comes" : ""}` : "Reading"}
        </Text>
        <DataTable label="events" rowId={(event) => event.id} rows={rows} columns={COLUMNS} empty="Nothing yet." search />
      </Section>
    </Stack>
  );
}
