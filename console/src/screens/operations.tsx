// Operation: who shares the work, what garbage there is, what maintenance would do. Nothing here changes anything.
import { Alert, Autocomplete, Button, Checkbox, Code, Group, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { createColumnHelper } from "@tanstack/react-table";
import { useState } from "react";
import { type Schemas, call, pages, v1 } from "../api/client";
import { isBranch, useCatalog } from "../api/places";
import { DataTable } from "../parts/data-table";
import { ago, bytes, count, duration, plural, time } from "../parts/format";
import { Figure, Loaded, Refusal, Section, State } from "../parts/notices";
import { Plan } from "./table-maintenance";

type Member = Schemas["Fleet"]["members"][number];
type Garbage = Schemas["Garbage"];
type Kind = Schemas["GarbageKind"];

const KINDS: Record<Kind, string> = {
  staged: "commits that lost, or were published",
  log: "versions before the kept ones",
  staging: "tables that were never registered",
  dropped: "files of dropped tables",
  objs: "contents that no HEAD needs",
  metadata: "table metadata of earlier versions",
  "file-index": "earlier states of file indexes",
  "iceberg-manifests": "small manifests, put together",
  "iceberg-snapshots": "expired snapshots",
  iceberg: "metadata files without a table",
  "iceberg-files": "files that no snapshot names",
  history: "the catalog's past",
  catalogs: "what dropped catalogs left",
  refs: "deleted references",
  transactions: "ended transactions",
  groups: "rows of large transactions",
};

export default function Operations() {
  return (
    <Stack>
      <Title order={1}>Operations</Title>
      <Fleet />
      <GarbageSearch />
      <MaintenanceDryRun />
    </Stack>
  );
}

const members = createColumnHelper<Member>();
const MEMBERS = [
  members.accessor("name", { header: "Where" }),
  members.accessor("state", { header: "State", cell: (cell) => <State of={cell.getValue()} /> }),
  members.accessor((member) => Object.entries(member.granules).map(([role, owned]) => `${role} ${owned}`).join(", "), { id: "granules", header: "Granules by role" }),
  members.accessor((member) => Object.entries(member.loads).map(([role, load]) => `${role} ${load}`).join(", "), { id: "loads", header: "Load a minute" }),
  members.accessor("life", { header: "Signs of life", cell: (cell) => count(cell.getValue()) }),
  members.accessor("shown_at", { header: "Last", cell: (cell) => ago(cell.getValue()) }),
  members.accessor("joined_at", { header: "Joined", cell: (cell) => time(cell.getValue()) }),
  members.accessor("id", { header: "Id", cell: (cell) => <Code>{cell.getValue()}</Code> }),
];

function Fleet() {
  const fleet = useQuery({ queryKey: ["fleet"], queryFn: () => call(v1.GET("/v1/fleet")), refetchInterval: 5_000 });
  return (
    <Section title="Fleet">
      <Loaded query={fleet}>
        {(found) => (
          <>
            <DataTable label="members of the fleet" rows={found.members} columns={MEMBERS} empty="No server shares its work with others: each does all of it (turnstile serve --fleet)." />
            {found.without_members.length > 0 && (
              <Alert color="red" title="Work that nobody does">
                Nobody works for {found.without_members.join(", ")}: start a worker (turnstile work), or a server without --roles none.
              </Alert>
            )}
            {found.members.length > 0 && (
              <Text size="sm" c="dimmed">
                {plural(found.granules.length, "granule")}, which changed hands {plural(found.migrations, "time")}. Whether a member lives two looks tell: its signs of life count on.
              </Text>
            )}
          </>
        )}
      </Loaded>
    </Section>
  );
}

const garbage = createColumnHelper<Garbage["items"][number]>();
const GARBAGE = [
  garbage.accessor("kind", { header: "Kind" }),
  garbage.accessor("id", { header: "What", cell: (cell) => <span style={{ overflowWrap: "anywhere" }}>{cell.getValue()}</span> }),
  garbage.accessor("bytes", { header: "Size", cell: (cell) => bytes(cell.getValue()) }),
  garbage.accessor("age_ms", { header: "Unreachable for", cell: (cell) => duration(cell.getValue()) }),
];

function GarbageSearch() {
  const [kinds, setKinds] = useState<Kind[]>([]);
  const look = useMutation({ mutationFn: () => call(v1.POST("/v1/gc", { body: { dry_run: true, kinds: kinds.length ? kinds : null } })) });
  return (
    <Section
      title="Garbage, as a dry run"
      actions={
        <Button size="xs" variant="light" loading={look.isPending} onClick={() => look.mutate()}>
          Look for garbage
        </Button>
      }
    >
      <Text size="sm" c="dimmed">
        What the next run of garbage collection would remove. Removing it here is the schedule's work, or that of turnstile gc.
      </Text>
      <Checkbox.Group label="Kinds (none: all)" value={kinds} onChange={(values) => setKinds(values as Kind[])}>
        <Group mt={4} gap="sm">
          {Object.entries(KINDS).map(([kind, what]) => (
            <Checkbox key={kind} value={kind} label={kind} description={what} size="sm" />
          ))}
        </Group>
      </Checkbox.Group>
      {look.error && <Refusal error={look.error} />}
      {look.data && (
        <div role="status">
          <SimpleGrid cols={{ base: 2, sm: 4 }} mb="sm">
            <Figure label="Found" value={count(look.data.items.length)} hint={look.data.complete ? "all of it" : "there was no time for all"} />
            <Figure label="Size" value={bytes(look.data.bytes)} />
          </SimpleGrid>
          <DataTable label="garbage" rows={look.data.items} columns={GARBAGE} empty="There is no garbage that is old enough." search sort={[{ id: "bytes", desc: true }]} />
          {look.data.problems.map((problem) => (
            <Alert key={`${problem.kind} ${problem.id}`} color="orange">
              {problem.kind} {problem.id}: {problem.message}
            </Alert>
          ))}
        </div>
      )}
    </Section>
  );
}

const MOST_NAMES = 1000;

function MaintenanceDryRun() {
  const catalog = useCatalog();
  const [name, setName] = useState("");
  const heads = useQuery({
    queryKey: ["head names"],
    queryFn: () =>
      pages(
        (page_token) => call(v1.GET("/v1/tables", { params: { query: { page_token } } })),
        (page) => page.tables,
        MOST_NAMES,
      ),
    staleTime: 60_000,
  });
  const names = heads.data?.items.filter((head) => head.state !== "dropped" && head.name.startsWith(`${catalog}.`)) ?? [];
  const chosen = names.find((head) => head.name === name.trim());
  const look = useMutation({
    mutationFn: () => {
      if (!chosen) throw new Error(`There is no Delta table ${name.trim()} in ${catalog}${isBranch(catalog) ? ", or it has no log of its own on this branch yet" : ""}.`);
      return call(v1.GET("/v1/tables/{table_id}/maintenance", { params: { path: { table_id: chosen.table_id } } }));
    },
  });
  return (
    <Section title="Maintenance, as a dry run">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          look.mutate();
        }}
      >
        <Group align="flex-end">
          <Autocomplete label="Delta table" data={names.map((head) => head.name)} value={name} onChange={setName} limit={20} required style={{ flex: "1 1 240px" }} maw={420} />
          <Button type="submit" loading={look.isPending}>
            What is due
          </Button>
        </Group>
      </form>
      {heads.error && <Refusal error={heads.error} />}
      {look.error && <Refusal error={look.error} />}
      {look.data && <Plan plan={look.data} />}
    </Section>
  );
}
