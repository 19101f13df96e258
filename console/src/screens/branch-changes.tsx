// What a branch changes: its tables with their files and rows, its names, its conflicts, its checks.
import { Alert, Anchor, Button, Code, Group, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { createColumnHelper } from "@tanstack/react-table";
import { useMemo, useState } from "react";
import { Link } from "react-router";
import { type Schemas, call, v1 } from "../api/client";
import { placeOf } from "../api/places";
import { DataTable } from "../parts/data-table";
import { count, plural, time } from "../parts/format";
import { Section, State, Texts } from "../parts/notices";
import { type Compared, SchemaSides } from "./branch-schema";

type Changes = Schemas["BranchChanges"];
type ChangedTable = Schemas["ChangedTable"];
type ChangedName = Schemas["ChangedName"];
type Check = Schemas["CheckedExpectation"];

/** As many as an answer has of each. */
const CONFLICTS_MAX = 50;
const CHECKS_MAX = 1000;

/** The changes of a branch. The service reads the commits of its tables for them, so they are read again only when asked for. */
export function useBranchChanges(catalog: string, branch: string, enabled = true) {
  return useQuery({
    queryKey: ["branch changes", catalog, branch],
    queryFn: () => call(v1.GET("/v1/catalogs/{catalog}/branches/{branch}/diff", { params: { path: { catalog, branch } } })),
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
    enabled,
  });
}

export function isEmpty({ tables, names }: Pick<Changes, "tables" | "names">): boolean {
  return !tables.length && !names.length;
}

/** The numbers of files or rows that are added and removed, as one text; null is not known. */
export function changeOfCount(added: number | null, removed: number | null): string {
  const text = (value: number | null, sign: string) => (value === null ? `${sign}?` : value === 0 ? "" : `${sign}${count(value)}`);
  return [text(added, "+"), text(removed, "−")].filter(Boolean).join(" ") || "none";
}

/** The changes in a few lines, for a preview. */
export function ChangesSummary({ of }: { of: Changes }) {
  if (isEmpty(of)) return <Text role="status">Nothing was changed on it.</Text>;
  const tables = of.tables.map(({ name, latest, base, rows_added, rows_removed }) => `${name}: ${plural(latest - base, "commit")}, rows ${changeOfCount(rows_added, rows_removed)}`);
  return (
    <div role="status">
      <Texts of={[...tables, ...of.names.map(({ name, kind, change, old_name }) => `${name}: ${kind} ${change}${old_name ? ` from ${old_name}` : ""}`)]} />
    </div>
  );
}

/** The principal and the moment of the record that decided; empty where the server checked it. */
export function checkedBy({ by, at }: Pick<Check, "by" | "at">): string {
  return [by, at !== null && time(at)].filter(Boolean).join(", ");
}

const table = createColumnHelper<ChangedTable>();
const changed = createColumnHelper<ChangedName>();
const check = createColumnHelper<Check>();
const CHECKS = [
  check.accessor("outcome", { header: "Outcome", cell: (cell) => <State of={cell.getValue()} /> }),
  check.accessor("table", { header: "Table" }),
  check.accessor("expectation", { header: "Expectation", cell: (cell) => cell.getValue() || "–" }),
  check.accessor("condition", { header: "Condition", cell: (cell) => (cell.getValue() ? <Code style={{ whiteSpace: cell.getValue().length < 40 ? "nowrap" : undefined }}>{cell.getValue()}</Code> : "–") }),
  check.accessor("refuses", { header: "Refuses", cell: (cell) => (cell.getValue() ? "yes" : "no") }),
  check.accessor(checkedBy, { id: "by", header: "Checked by" }),
  check.accessor("version", { header: "Version", cell: (cell) => count(cell.getValue()) }),
  check.accessor((checked) => checked.problem ?? "", { id: "problem", header: "Problem", cell: (cell) => <Text size="sm" miw={240} style={{ overflowWrap: "anywhere" }}>{cell.getValue() || "–"}</Text> }),
];

export function Differences({ catalog, branch, changes }: { catalog: string; branch: string; changes: Changes }) {
  const [opened, setOpened] = useState<Compared | null>(null);
  const oldNames = useMemo(() => new Map(changes.names.map(({ name, old_name }) => [name, old_name])), [changes.names]);
  const tables = useMemo(
    () => [
      table.accessor("name", {
        header: "Table",
        cell: (cell) => (
          <Anchor component={Link} to={placeOf({ name: `${branch}.${cell.getValue()}`, kind: "table" })}>
            {cell.getValue()}
          </Anchor>
        ),
      }),
      table.accessor((row) => row.operations.join(", "), { id: "operations", header: "Operations" }),
      table.accessor("files_added", { header: "Files", cell: ({ row: { original } }) => changeOfCount(original.files_added, original.files_removed) }),
      table.accessor((row) => row.rows_added ?? -1, { id: "rows", header: "Rows in them", cell: ({ row: { original } }) => changeOfCount(original.rows_added, original.rows_removed) }),
      table.accessor("latest", { header: "Versions of the branch", cell: ({ row: { original } }) => `${count(original.base)} → ${count(original.latest)}` }),
      table.display({
        id: "definition",
        header: "Definition",
        cell: ({ row: { original } }) => <Compare name={original.name} onClick={() => setOpened({ name: original.name, kind: "table", before: oldNames.get(original.name) ?? original.name, after: true })} />,
      }),
    ],
    [branch, oldNames],
  );
  const names = useMemo(
    () => [
      changed.accessor("name", {
        header: "Name",
        cell: ({ row: { original } }) => {
          const owner = original.change === "dropped" ? catalog : branch;
          return (
            <Anchor component={Link} to={placeOf({ name: `${owner}.${original.name}`, kind: original.kind })}>
              {original.name}
            </Anchor>
          );
        },
      }),
      changed.accessor("kind", { header: "Kind", cell: (cell) => <State of={cell.getValue()} /> }),
      changed.accessor("change", { header: "Change", cell: (cell) => <State of={cell.getValue()} /> }),
      changed.display({
        id: "definition",
        header: "Definition",
        cell: ({ row: { original: { name, kind, change, old_name } } }) =>
          kind !== "namespace" && <Compare name={name} onClick={() => setOpened({ name, kind, before: change === "created" ? null : (old_name ?? name), after: change !== "dropped" })} />,
      }),
    ],
    [catalog, branch],
  );
  const { conflicts, checks } = changes;
  return (
    <>
      {conflicts.length > 0 && (
        <Alert color="red" title={`A promotion is refused for ${conflicts.length < CONFLICTS_MAX ? plural(conflicts.length, "reason") : `${CONFLICTS_MAX} reasons or more`}`}>
          <Texts of={conflicts} />
        </Alert>
      )}
      <Section title="Delta tables">
        <DataTable label="changed tables" rowId={(row) => row.name} rows={changes.tables} columns={tables} empty="No Delta table has commits on the branch." search />
        {changes.tables.some(({ rows_added, rows_removed }) => rows_added === null || rows_removed === null) && (
          <Text size="sm" c="dimmed">
            ?: statistics of these files do not say how many rows they have.
          </Text>
        )}
      </Section>
      <Section title="Names">
        <DataTable label="changed names" rowId={(row) => `${row.change} ${row.name}`} rows={changes.names} columns={names} empty="No name was created, changed or dropped." search />
      </Section>
      {opened && <SchemaSides key={`${opened.name} ${opened.kind}`} catalog={catalog} branch={branch} of={opened} onClose={() => setOpened(null)} />}
      <Section title="Expectations">
        <DataTable label="outcomes of expectations" rows={checks} complete={checks.length < CHECKS_MAX} columns={CHECKS} empty="The changed tables have no expectations." search />
      </Section>
      <Group>
        <Text size="sm" c="dimmed">
          State of these changes
        </Text>
        <Code>{changes.state}</Code>
      </Group>
    </>
  );
}

function Compare({ name, onClick }: { name: string; onClick: () => void }) {
  return (
    <Button size="xs" variant="light" onClick={onClick} aria-label={`Compare the definitions of ${name}`}>
      Compare
    </Button>
  );
}
