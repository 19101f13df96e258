// One branch: what it is, what it changes, and its promotion, which shows both sides first.
import { Alert, Anchor, Button, Code, Group, Stack, Text, Title } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { createColumnHelper } from "@tanstack/react-table";
import { useMemo, useState } from "react";
import { Link, Navigate, useParams } from "react-router";
import { type Schemas, answersOf, call, v1 } from "../api/client";
import { baseOf, partsOf, screenOf } from "../api/places";
import { Act } from "../parts/act";
import { DataTable } from "../parts/data-table";
import { count, plural, time } from "../parts/format";
import { Facts, Loaded, Section } from "../parts/notices";
import { Differences, changeOfCount, isEmpty, useBranchChanges } from "./branch-changes";
import { Drop, Renew, endOf } from "./branches";

type Branch = Schemas["Branch"];
type Changes = Schemas["BranchChanges"];

export default function BranchScreen() {
  const { name = "" } = useParams();
  const catalog = baseOf(name);
  const path = { catalog, branch: name.slice(catalog.length + 1) };
  const branch = useQuery({ queryKey: ["branch", name], queryFn: () => call(v1.GET("/v1/catalogs/{catalog}/branches/{branch}", { params: { path } })) });
  return (
    <Stack>
      <Title order={1} style={{ overflowWrap: "anywhere" }}>
        {name}
      </Title>
      <Loaded query={branch}>{(found) => <Shown key={name} catalog={catalog} branch={found} />}</Loaded>
    </Stack>
  );
}

function Shown({ catalog, branch }: { catalog: string; branch: Branch }) {
  const [promoting, setPromoting] = useState(false);
  const changes = useBranchChanges(catalog, branch.name, !promoting);
  const full = branch.full_name;
  return (
    <>
      <Section
        title="Branch"
        actions={
          <Group gap="xs">
            <Renew catalog={catalog} branch={branch} />
            <Drop catalog={catalog} branch={branch} dropped={<Navigate to={screenOf("/branches", catalog)} />} />
          </Group>
        }
      >
        <Facts
          of={[
            ["Of the catalog", catalog],
            ["As of", `${time(branch.at / 1000)}, number ${count(branch.seq)}`],
            ["Created", time(branch.created)],
            ["Ends", endOf(branch.until)],
            ["Owner", branch.owner || "admins only"],
            ["Comment", branch.comment],
            ["HEAD of the catalog that it was made from", <Code key="base">{branch.base}</Code>],
          ]}
        />
        <Group>
          <Anchor component={Link} to={screenOf("/browse", full)}>
            Browse {full}
          </Anchor>
          <Anchor component={Link} to={screenOf("/history", full)}>
            History of {full}
          </Anchor>
          <Anchor component={Link} to={screenOf("/access", full)}>
            Access to {full}
          </Anchor>
        </Group>
      </Section>
      <Group justify="space-between">
        <Title order={2} size="h3">
          What it changes
        </Title>
        <Button size="xs" variant="default" loading={changes.isFetching} onClick={() => changes.refetch()}>
          Compare again
        </Button>
      </Group>
      <Loaded query={changes}>
        {(found) => (
          <>
            <Promotion catalog={catalog} branch={branch} changes={found} onOpen={setPromoting} />
            <Differences catalog={catalog} branch={full} changes={found} />
          </>
        )}
      </Loaded>
    </>
  );
}

interface OfPromotion {
  catalog: string;
  branch: Branch;
  changes: Changes;
}

function Promotion({ catalog, branch, changes, onOpen }: OfPromotion & { onOpen: (open: boolean) => void }) {
  const client = useQueryClient();
  const full = branch.full_name;
  const empty = isEmpty(changes);
  return (
    <Group>
      <Act
        name="Promote"
        about={full}
        size="sm"
        onOpen={onOpen}
        disabled={empty || changes.conflicts.length > 0}
        title={`Promote ${full} to ${catalog}`}
        preview={<PromotionPreview catalog={catalog} branch={branch} changes={changes} />}
        act={async () => {
          const path = { catalog, branch: branch.name };
          const done = await call(v1.POST("/v1/catalogs/{catalog}/branches/{branch}/promote", { params: { path }, body: { state: changes.state } }));
          await client.invalidateQueries({ queryKey: ["branches", catalog] });
          return done;
        }}
        result={({ seq }) =>
          seq === null ? (
            <Alert color="blue" role="status">
              {full} has no changes, and stays.
            </Alert>
          ) : (
            <Navigate to={`${screenOf("/history", catalog)}&seq=${seq}`} />
          )
        }
      />
      <Text size="sm">{empty ? `Nothing was changed on ${full}.` : changes.conflicts.length > 0 ? "It would be refused for the reasons below." : `All changes become changes of ${catalog} at once, and ${full} ends.`}</Text>
    </Group>
  );
}

/** A table or a name of the catalog: what it is now, and with the promotion. */
interface Side {
  id: string;
  name: string;
  now: string;
  then: string;
}

const column = createColumnHelper<Side>();

/** Tables whose present state is looked up, a request each. */
const LOOKED_UP = 50;

async function sidesOf(catalog: string, full: string, { tables, names }: Changes): Promise<Side[]> {
  const looked = await answersOf(tables.slice(0, LOOKED_UP), ({ name }) =>
    call(v1.GET("/v1/catalogs/{catalog}/namespaces/{namespace}/tables/{table}", { params: { path: partsOf(`${catalog}.${name}`), query: { statistics: true } } })),
  );
  const ofTables = tables.map(({ name, files_added, files_removed, rows_added, rows_removed, operations }, place) => {
    const now = looked[place];
    const statistics = now?.statistics;
    const known = statistics ? `: ${plural(statistics.rows, "row")} in ${plural(statistics.files, "file")}${statistics.version === now.latest ? "" : ` at version ${count(statistics.version)}`}` : "";
    const change = `files ${changeOfCount(files_added, files_removed)}, rows ${changeOfCount(rows_added, rows_removed)} (${operations.join(", ")})`;
    return { id: `table ${name}`, name, now: now ? `version ${count(now.latest)}${known}` : "not looked up", then: now ? `version ${count(now.latest + 1)}: ${change}` : change };
  });
  return [...ofTables, ...names.map((name) => nameSide(name, full))];
}

function nameSide({ name, kind, change }: Changes["names"][number], full: string): Side {
  const sides = {
    created: ["nothing", `${kind} as in ${full}`],
    changed: [kind, `${kind} as in ${full}`],
    replaced: [kind, `another ${kind}, that of ${full}`],
    dropped: [kind, "nothing"],
  } as const;
  const [now, then] = sides[change];
  return { id: `${change} ${name}`, name, now, then };
}

function PromotionPreview({ catalog, branch, changes }: OfPromotion) {
  const full = branch.full_name;
  const sides = useQuery({ queryKey: ["promotion", full, changes.state], queryFn: () => sidesOf(catalog, full, changes), staleTime: 0 });
  const columns = useMemo(
    () => [
      column.accessor("name", { header: "Name" }),
      column.accessor("now", { header: `${catalog} has now` }),
      column.accessor("then", { header: `${catalog} gets` }),
    ],
    [catalog],
  );
  return (
    <>
      <Text>Readers of {catalog} see all of it at once. Rights that were granted on the branch are not promoted, and {full} ends.</Text>
      <Loaded query={sides}>
        {(found) => <DataTable label="both sides" rowId={(side) => side.id} rows={found} columns={columns} empty="" size={10} />}
      </Loaded>
      <Text size="sm">
        Exactly these changes are promoted, state <Code>{changes.state}</Code>; if the branch has others by then, it is refused.
      </Text>
    </>
  );
}
