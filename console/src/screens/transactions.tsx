// Announced transactions and reservations: what is open, what it writes, finishing or undoing it.
import { Alert, Code, Group, List, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { createColumnHelper } from "@tanstack/react-table";
import { useMemo, useState } from "react";
import { type Schemas, call, pages, v1 } from "../api/client";
import { Act } from "../parts/act";
import { DataTable } from "../parts/data-table";
import { count, plural, time } from "../parts/format";
import { Facts, Loaded, Section, State } from "../parts/notices";

type Entry = Schemas["TransactionEntry"];
type Reservation = Schemas["Reservation"];

export default function Transactions() {
  return (
    <Stack>
      <Title order={1}>Transactions</Title>
      <Announced />
      <Reservations />
    </Stack>
  );
}

const entries = createColumnHelper<Entry>();

function Announced() {
  const [acting, setActing] = useState(false);
  const listing = useQuery({
    queryKey: ["transactions"],
    queryFn: () =>
      pages(
        (page_token) => call(v1.GET("/v1/transactions", { params: { query: { page_token } } })),
        (page) => page.transactions,
      ),
    enabled: !acting,
  });
  const columns = useMemo(
    () => [
      entries.accessor("state", { header: "State", cell: (cell) => <State of={cell.getValue()} /> }),
      entries.accessor("id", { header: "Id", cell: (cell) => <Code>{cell.getValue()}</Code> }),
      entries.accessor("owner", { header: "By" }),
      entries.accessor((entry) => entry.commits.length, { id: "writes", header: "Writes", cell: (cell) => plural(cell.getValue(), "table") }),
      entries.accessor((entry) => entry.reads.length, { id: "reads", header: "Reads", cell: (cell) => plural(cell.getValue(), "table") }),
      entries.accessor("isolation", { header: "Isolation", cell: (cell) => cell.getValue() || "–" }),
      entries.accessor("created", { header: "Announced", cell: (cell) => time(cell.getValue()) }),
      entries.display({ id: "actions", header: "What to do", cell: ({ row }) => row.original.state === "open" && <Settle entry={row.original} onOpen={setActing} /> }),
    ],
    [],
  );
  return (
    <Section title="Announced transactions">
      <Text size="sm" c="dimmed">
        Those that one may commit. A transaction that was not announced leaves no entry.
      </Text>
      <Loaded query={listing}>
        {(found) => <DataTable label="announced transactions" rowId={(entry) => entry.id} rows={found.items} complete={found.complete} columns={columns} empty="None was announced." sort={[{ id: "created", desc: true }]} search />}
      </Loaded>
    </Section>
  );
}

function Settle({ entry, onOpen }: { entry: Entry; onOpen: (open: boolean) => void }) {
  const path = { transaction_id: entry.id };
  return (
    <Group gap="xs" wrap="nowrap">
      <Act
        name="Resume"
        about={entry.id}
        onOpen={onOpen}
        title="Commit what was announced"
        preview={<Contents entry={entry} />}
        act={async () => {
          const { catalog } = entry;
          if (catalog) await call(v1.POST("/v1/catalogs/{catalog}/transactions/{transaction_id}/resume", { params: { path: { ...path, catalog } } }));
          else await call(v1.POST("/v1/transactions/{transaction_id}/resume", { params: { path } }));
          return true;
        }}
        result={() => <Alert color="teal" role="status">It is committed.</Alert>}
      />
      <Act
        name="Abort"
        about={entry.id}
        onOpen={onOpen}
        color="red"
        title="Abort the transaction"
        preview={
          <>
            <Text>No request of it is ratified any more, however late it arrives. Files that it staged become garbage.</Text>
            <Contents entry={entry} />
          </>
        }
        act={() => call(v1.DELETE("/v1/transactions/{transaction_id}", { params: { path } }))}
        result={(settled) => <Alert color="teal" role="status">It is {settled.state}.</Alert>}
      />
    </Group>
  );
}

function Contents({ entry }: { entry: Entry }) {
  return (
    <>
      <Facts of={[["Announced by", entry.owner], ["Attempt", entry.attempt], ["Open until", time(entry.until)], ["Isolation", entry.isolation || "–"], ["Catalog", entry.catalog ?? "–"]]} />
      <Tables title="Writes" of={entry.commits} word="becomes version" />
      <Tables title="Reads" of={entry.reads} word="at version" />
    </>
  );
}

function Tables({ title, of, word }: { title: string; of: { table_id: string; version: number }[]; word: string }) {
  if (!of.length) return null;
  return (
    <>
      <Text fw={600}>{title}</Text>
      <List size="sm">
        {of.map((table) => (
          <List.Item key={table.table_id}>
            <Code>{table.table_id}</Code> {word} {count(table.version)}
          </List.Item>
        ))}
      </List>
    </>
  );
}

const held = createColumnHelper<Reservation>();
const RESERVATIONS = [
  held.accessor("state", { header: "State", cell: (cell) => <State of={cell.getValue()} /> }),
  held.accessor("id", { header: "Id", cell: (cell) => <Code>{cell.getValue()}</Code> }),
  held.accessor((reservation) => reservation.held.length, { id: "held", header: "Holds", cell: (cell) => plural(cell.getValue(), "table") }),
  held.accessor((reservation) => reservation.wanted.length, { id: "wanted", header: "Waits for", cell: (cell) => plural(cell.getValue(), "table") }),
  held.accessor((reservation) => reservation.until ?? 0, { id: "until", header: "Until", cell: (cell) => (cell.getValue() ? time(cell.getValue()) : "–") }),
];

function Reservations() {
  const reservations = useQuery({ queryKey: ["reservations"], queryFn: () => call(v1.GET("/v1/reservations")), refetchInterval: 5_000 });
  return (
    <Section title="Reservations">
      <Loaded query={reservations}>{(found) => <DataTable label="reservations" rows={found.reservations} columns={RESERVATIONS} empty="Nobody has reserved a table." />}</Loaded>
    </Section>
  );
}
