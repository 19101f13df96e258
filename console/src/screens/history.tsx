// A catalog's past: its log, named moments, what changed between two, going back, clones.
import { Alert, Anchor, Button, Code, Group, List, SimpleGrid, Stack, Text, TextInput, Title } from "@mantine/core";
import { useInfiniteQuery, useMutation, useQuery } from "@tanstack/react-query";
import { createColumnHelper } from "@tanstack/react-table";
import { useMemo, useState } from "react";
import { Link, useSearchParams } from "react-router";
import { type Schemas, call, pages, v1 } from "../api/client";
import { isBranch, placeOf, screenOf, useCatalog } from "../api/places";
import { Act } from "../parts/act";
import { DataTable } from "../parts/data-table";
import { count, plural, time } from "../parts/format";
import { Facts, Loaded, Names, NotOnBranch, Refusal, Section } from "../parts/notices";
import { MOMENTS, whenOf } from "./moments";
import { type Difference, differenceOf, treeOf } from "./trees";

type Commit = Schemas["CatalogLog"]["commits"][number];
type Snapshot = Schemas["ListedSnapshot"];

export default function History() {
  const catalog = useCatalog();
  const [query] = useSearchParams();
  const seq = /^\d+$/.exec(query.get("seq") ?? "")?.[0];
  const whole = !isBranch(catalog);
  return (
    <Stack>
      <Title order={1}>History</Title>
      {catalog && (
        <>
          {!whole && <NotOnBranch branch={catalog} what="snapshots, resets and clones" path="/history" />}
          <Log catalog={catalog} from={seq === undefined ? undefined : Number(seq)} />
          {whole && <Snapshots catalog={catalog} />}
          <Compare catalog={catalog} />
          {whole && <Clone catalog={catalog} />}
        </>
      )}
    </Stack>
  );
}

const commits = createColumnHelper<Commit>();

/** The log, newest first; `from` a number begins with that commit. */
function Log({ catalog, from }: { catalog: string; from?: number }) {
  const log = useInfiniteQuery({
    queryKey: ["log", catalog, from],
    queryFn: ({ pageParam }) => call(v1.GET("/v1/catalogs/{catalog}/log", { params: { path: { catalog }, query: { start: pageParam, max_results: 100 } } })),
    initialPageParam: from,
    getNextPageParam: (page) => page.next,
  });
  const rows = useMemo(() => log.data?.pages.flatMap((page) => page.commits) ?? [], [log.data]);
  const columns = useMemo(
    () => [
      commits.accessor("seq", { header: "Number", cell: (cell) => count(cell.getValue()) }),
      commits.accessor("at", { header: "When", cell: (cell) => <span style={{ whiteSpace: "nowrap" }}>{time(cell.getValue() / 1000)}</span> }),
      commits.accessor("message", { header: "What" }),
      commits.display({
        id: "actions",
        header: "This moment",
        cell: ({ row: { original } }) => (
          <Group gap="xs" wrap="nowrap">
            <MomentActions catalog={catalog} asOf={`seq:${original.seq}`} when={{ seq: original.seq }} name={`number ${original.seq}`} />
            <Undrop catalog={catalog} commit={original} />
          </Group>
        ),
      }),
    ],
    [catalog],
  );
  return (
    <Section title="Log">
      {from !== undefined && (
        <Text size="sm">
          From number {count(from)} back.{" "}
          <Anchor component={Link} to={screenOf("/history", catalog)}>
            Show the newest
          </Anchor>
        </Text>
      )}
      <Loaded query={log}>
        {() => (
          <>
            <DataTable label="log of the catalog" rowId={(commit) => String(commit.seq)} rows={rows} columns={columns} empty="Nothing has changed yet." size={10} search />
            {log.hasNextPage && (
              <Button variant="default" size="xs" loading={log.isFetchingNextPage} onClick={() => log.fetchNextPage()} style={{ alignSelf: "flex-start" }}>
                Older
              </Button>
            )}
          </>
        )}
      </Loaded>
    </Section>
  );
}

function MomentActions({ catalog, asOf, when, name }: { catalog: string; asOf: string; when: Schemas["When"]; name: string }) {
  const path = { catalog };
  return (
    <Group gap="xs" wrap="nowrap">
      <Anchor component={Link} size="sm" to={`/browse?catalog=${encodeURIComponent(catalog)}&as_of=${encodeURIComponent(asOf)}`} aria-label={`Browse ${name}`}>
        Browse
      </Anchor>
      {!isBranch(catalog) && (
        <Act
          name="Reset"
          about={`to ${name}`}
          color="gray"
          title={`Reset ${catalog} to ${name}`}
          preview={<ResetPreview catalog={catalog} asOf={asOf} />}
          act={() => call(v1.POST("/v1/catalogs/{catalog}/reset", { params: { path }, body: { to: when } }))}
          result={(done) => (
            <Alert color="teal" role="status" title={`${catalog} is as it was, by commit ${done.seq}`}>
              <Changed title="Restored" names={done.restored} />
              <Changed title="Dropped" names={done.dropped} />
              <Changed title="Renamed" names={done.renamed} />
            </Alert>
          )}
        />
      )}
    </Group>
  );
}

/** The namespace and the name of what a commit of the log dropped. */
function droppedBy(catalog: string, message: string): { namespace: string; table: string } | undefined {
  const levels = (/^drop (?:table|view) (\S+)$/.exec(message)?.[1] ?? "").split(".");
  if (levels.length > 2 && levels[0]?.toLowerCase() === catalog.toLowerCase()) levels.shift();
  const table = levels.pop();
  return table && levels.length ? { namespace: levels.join("."), table } : undefined;
}

function Undrop({ catalog, commit }: { catalog: string; commit: Commit }) {
  const [name, setName] = useState("");
  const dropped = droppedBy(catalog, commit.message);
  if (!dropped || commit.seq === 0) return null;
  const full = `${dropped.namespace}.${dropped.table}`;
  return (
    <Act
      name="Undrop"
      about={full}
      title={`Bring ${full} back`}
      preview={
        <>
          <Text>It has its name, its rights and all that was in it again, in one change, as long as garbage collection has not begun to remove its files.</Text>
          <TextInput
            label="Another name"
            description="Where the old one is taken meanwhile."
            placeholder={dropped.table}
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            spellCheck={false}
          />
        </>
      }
      act={() =>
        call(
          v1.POST("/v1/catalogs/{catalog}/namespaces/{namespace}/tables/{table}/undrop", {
            params: { path: { catalog, ...dropped } },
            body: { name: name.trim() || null, at: { seq: commit.seq - 1 } },
          }),
        )
      }
      result={(entry) => (
        <Alert color="teal" role="status">
          <Anchor component={Link} to={placeOf(entry)}>
            {entry.name}
          </Anchor>{" "}
          is there again.
        </Alert>
      )}
    />
  );
}

function Changed({ title, names }: { title: string; names: string[] }) {
  return (
    <>
      <Text fw={600}>{title}</Text>
      <Names of={names} />
    </>
  );
}

function ResetPreview({ catalog, asOf }: { catalog: string; asOf: string }) {
  const difference = useQuery({ queryKey: ["difference", catalog, "", asOf], queryFn: () => differenceOf(catalog, "", asOf), staleTime: 0 });
  return (
    <>
      <Text>
        Names, properties, rights and Iceberg tables become what they were; Delta tables keep their commits. It is a commit of its own, so it can be gone back from.
      </Text>
      <Loaded query={difference}>{(found) => <Shown difference={found} />}</Loaded>
    </>
  );
}

/** What changes from one tree to another, in words. */
function Shown({ difference }: { difference: Difference }) {
  const { appeared, gone, renamed, changed, complete } = difference;
  const nothing = !appeared.length && !gone.length && !renamed.length && !changed.length;
  return (
    <div role="status">
      {nothing && <Text>Nothing differs that is seen in names, comments, properties and metadata files. Rights may.</Text>}
      <Part title="Appears" names={appeared} />
      <Part title="Goes" names={gone} />
      <Part title="Gets another name" names={renamed.map(([from, to]) => `${from} → ${to}`)} />
      <Part title="Changes" names={changed} />
      {!complete && <Text>There is more than was compared.</Text>}
    </div>
  );
}

function Part({ title, names }: { title: string; names: string[] }) {
  if (!names.length) return null;
  return (
    <>
      <Text fw={600}>{title}</Text>
      <List size="sm">
        {names.map((name) => (
          <List.Item key={name}>
            <Code>{name}</Code>
          </List.Item>
        ))}
      </List>
    </>
  );
}

const snapshots = createColumnHelper<Snapshot>();

function Snapshots({ catalog }: { catalog: string }) {
  const [name, setName] = useState("");
  const [comment, setComment] = useState("");
  const listing = useQuery({
    queryKey: ["snapshots", catalog],
    queryFn: () =>
      pages(
        (page_token) => call(v1.GET("/v1/catalogs/{catalog}/snapshots", { params: { path: { catalog }, query: { page_token } } })),
        (page) => page.snapshots,
      ),
  });
  const columns = useMemo(
    () => [
      snapshots.accessor("name", { header: "Name" }),
      snapshots.accessor("at", { header: "Moment", cell: (cell) => time(cell.getValue() / 1000) }),
      snapshots.accessor("seq", { header: "Number", cell: (cell) => count(cell.getValue()) }),
      snapshots.accessor("tables", { header: "Delta tables", cell: (cell) => count(cell.getValue()) }),
      snapshots.accessor((snapshot) => snapshot.comment ?? "", { id: "comment", header: "Comment" }),
      snapshots.display({
        id: "actions",
        header: "This moment",
        cell: ({ row: { original } }) => (
          <Group gap="xs" wrap="nowrap">
            <MomentActions catalog={catalog} asOf={`snapshot:${original.name}`} when={{ snapshot: original.name }} name={original.name} />
            <Act
              name="Drop"
              about={original.name}
              color="red"
              title={`Drop the name ${original.name}`}
              preview={<Text>The moment loses its name, and what only it keeps becomes garbage.</Text>}
              act={async () => {
                await call(v1.DELETE("/v1/catalogs/{catalog}/snapshots/{snapshot}", { params: { path: { catalog, snapshot: original.name } } }));
                return true;
              }}
              result={() => <Alert color="teal">The name is dropped.</Alert>}
            />
          </Group>
        ),
      }),
    ],
    [catalog],
  );
  return (
    <Section title="Snapshots">
      <Loaded query={listing}>
        {(found) => <DataTable label="snapshots" rowId={(snapshot) => snapshot.name} rows={found.items} complete={found.complete} columns={columns} empty="No moment has a name." size={10} search />}
      </Loaded>
      <Group align="flex-end">
        <TextInput label="Name of a new snapshot" value={name} onChange={(event) => setName(event.currentTarget.value)} spellCheck={false} />
        <TextInput label="Comment" value={comment} onChange={(event) => setComment(event.currentTarget.value)} />
        <Act
          name="Take"
          size="sm"
          disabled={!name.trim()}
          title={`Take the snapshot ${name.trim()}`}
          preview={<Text>The present moment of {catalog} gets the name {name.trim()}. Versions of Delta tables are recorded, and stay readable while it has the name.</Text>}
          act={() => call(v1.POST("/v1/catalogs/{catalog}/snapshots", { params: { path: { catalog } }, body: { name: name.trim(), comment: comment || null } }))}
          result={(made) => <Alert color="teal" role="status">{`${made.name} is number ${made.seq}, with ${plural(Object.keys(made.versions).length, "Delta table")}.`}</Alert>}
        />
      </Group>
    </Section>
  );
}

function Compare({ catalog }: { catalog: string }) {
  const [from, setFrom] = useState("");
  const [to, setTo] = useState("");
  const compare = useMutation({ mutationFn: () => differenceOf(catalog, from.trim(), to.trim()) });
  return (
    <Section title="Difference of two moments">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          compare.mutate();
        }}
      >
        <Group align="flex-end">
          <TextInput label="From" placeholder="snapshot:month_end" value={from} onChange={(event) => setFrom(event.currentTarget.value)} required spellCheck={false} />
          <TextInput label="To (empty: now)" placeholder="seq:41" value={to} onChange={(event) => setTo(event.currentTarget.value)} spellCheck={false} />
          <Button type="submit" loading={compare.isPending}>
            Compare
          </Button>
        </Group>
        <Text size="sm" c="dimmed" mt={4}>
          {MOMENTS}
        </Text>
      </form>
      {compare.error && <Refusal error={compare.error} />}
      {compare.data && <Shown difference={compare.data} />}
    </Section>
  );
}

function Clone({ catalog }: { catalog: string }) {
  const [from, setFrom] = useState("");
  const [to, setTo] = useState("");
  const [of, setOf] = useState("");
  const moment = of.trim();
  return (
    <Section title="Clone">
      <SimpleGrid cols={{ base: 1, sm: 3 }}>
        <TextInput label="Namespace or table (empty: all)" placeholder="sales" value={from} onChange={(event) => setFrom(event.currentTarget.value)} spellCheck={false} />
        <TextInput label="New name" placeholder="sales_audit" value={to} onChange={(event) => setTo(event.currentTarget.value)} spellCheck={false} />
        <TextInput label="Moment (empty: now)" placeholder="snapshot:month_end" value={of} onChange={(event) => setOf(event.currentTarget.value)} spellCheck={false} />
      </SimpleGrid>
      <Group>
        <Act
          name="Clone"
          size="sm"
          disabled={!to.trim()}
          title={`Clone ${from.trim() || catalog} as ${to.trim()}`}
          preview={<ClonePreview catalog={catalog} from={from.trim()} asOf={moment} />}
          act={() => call(v1.POST("/v1/catalogs/{catalog}/clones", { params: { path: { catalog } }, body: { from: from.trim(), to: to.trim(), ...(moment ? { of: whenOf(moment) } : {}) } }))}
          result={(made) => (
            <Alert color="teal" role="status" title={`${made.to} is there, by commit ${made.seq}`}>
              <Facts of={[["Namespaces", count(made.namespaces)], ["Tables and views", count(made.tables.length)]]} />
              <Names of={made.tables.map((table) => (table.version === null ? table.name : `${table.name} at version ${table.version}`))} />
            </Alert>
          )}
        />
      </Group>
    </Section>
  );
}

function ClonePreview({ catalog, from, asOf }: { catalog: string; from: string; asOf: string }) {
  const tree = useQuery({ queryKey: ["tree", catalog, asOf], queryFn: () => treeOf(catalog, asOf), staleTime: 0 });
  const below = `${catalog}${from ? `.${from}` : ""}`.toLowerCase();
  return (
    <>
      <Text>No data is copied. Iceberg tables go their own way from here; Delta tables of a clone stay at one version and are read only.</Text>
      <Loaded query={tree}>
        {({ entries, complete }) => {
          const cloned = entries.filter(({ name, kind }) => kind !== "namespace" && (name.toLowerCase() === below || name.toLowerCase().startsWith(`${below}.`)));
          return (
            <div role="status">
              <Text fw={600}>{cloned.length ? plural(cloned.length, "table or view", "tables and views") : "Nothing has that name."}</Text>
              <Names of={cloned.map((entry) => entry.name)} none="" />
              {!complete && <Text>There is more than is shown.</Text>}
            </div>
          );
        }}
      </Loaded>
    </>
  );
}
