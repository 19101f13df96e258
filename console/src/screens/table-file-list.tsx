// The data files of a table's latest version that may have rows for a predicate, by the server's plan.
import { Badge, Button, Group, Stack, Text, TextInput, Tooltip } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { createColumnHelper } from "@tanstack/react-table";
import { useState } from "react";
import { type Schemas, call, pages, v1 } from "../api/client";
import { DataTable } from "../parts/data-table";
import { bytes, count, time } from "../parts/format";
import { Refusal, Section } from "../parts/notices";

type File = Schemas["PlannedFile"];

const PAGE = 1000;
const MOST = 2000;

function filesOf(table_id: string, predicate: string) {
  const question = { predicate: predicate || null, max_results: PAGE, statistics: false, explain: false, definition: false };
  return pages(
    (page_token) => call(v1.POST("/v1/tables/{table_id}/plan", { params: { path: { table_id } }, body: { ...question, page_token: page_token ?? null } })),
    (page) => page.files,
    MOST,
  );
}

const column = createColumnHelper<File>();
const COLUMNS = [
  column.accessor("path", {
    header: "File",
    cell: (cell) => (
      <Tooltip label={cell.getValue()}>
        <Text size="sm" component="span" ff="monospace">
          {shorten(cell.getValue())}
        </Text>
      </Tooltip>
    ),
  }),
  column.accessor((file) => partitionOf(file), { id: "partition", header: "Partition", cell: (cell) => cell.getValue() || "–" }),
  column.accessor("size", { header: "Size", cell: (cell) => bytes(cell.getValue()) }),
  column.accessor("records", { header: "Rows", cell: (cell) => (cell.getValue() === null ? "–" : count(cell.getValue() ?? 0)) }),
  column.accessor((file) => (file.deletionVector ? 1 : 0), {
    id: "deletions",
    header: "Deletions",
    cell: (cell) => (cell.getValue() ? <Badge variant="default" tt="none">vector</Badge> : "–"),
  }),
  column.accessor("modificationTime", { header: "Written", cell: (cell) => <span style={{ whiteSpace: "nowrap" }}>{time(cell.getValue())}</span> }),
];

function shorten(path: string): string {
  const name = path.slice(path.lastIndexOf("/") + 1);
  return name.length > 28 ? `${name.slice(0, 16)}…${name.slice(-10)}` : name;
}

function partitionOf({ partitionValues }: File): string {
  return Object.entries(partitionValues)
    .map(([name, value]) => `${name}=${value ?? "null"}`)
    .join(", ");
}

export function FileList({ id }: { id: string }) {
  const [predicate, setPredicate] = useState("");
  const found = useMutation({ mutationFn: () => filesOf(id, predicate.trim()) });
  return (
    <Section title="Data files">
      <Stack gap="xs">
        <form
          onSubmit={(event) => {
            event.preventDefault();
            found.mutate();
          }}
        >
          <Group align="flex-end" gap="xs">
            <TextInput
              label="Predicate"
              description="As in SQL; empty: all files"
              placeholder="day = '2026-11-01' AND id < 500"
              value={predicate}
              onChange={(event) => setPredicate(event.currentTarget.value)}
              style={{ flex: "1 1 260px" }}
              spellCheck={false}
            />
            <Button type="submit" variant="light" loading={found.isPending}>
              List files
            </Button>
          </Group>
        </form>
        {found.error && <Refusal error={found.error} />}
        {found.data && (
          <DataTable label="data files" rows={found.data.items} columns={COLUMNS} empty="No file may have such a row." complete={found.data.complete} sort={[{ id: "size", desc: true }]} search />
        )}
      </Stack>
    </Section>
  );
}
