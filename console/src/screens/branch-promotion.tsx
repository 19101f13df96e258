// The promotion of a branch, of all or of some tables: both sides are shown first, and exactly the shown state is promoted.
import { Alert, Anchor, Checkbox, Code, Group, Stack, Text } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { createColumnHelper } from "@tanstack/react-table";
import { useMemo, useState } from "react";
import { Link, Navigate } from "react-router";
import { ApiError, type Schemas, answersOf, call, v1 } from "../api/client";
import { partsOf, screenOf } from "../api/places";
import { Act } from "../parts/act";
import { DataTable } from "../parts/data-table";
import { count, plural, time } from "../parts/format";
import { Loaded, Texts } from "../parts/notices";
import { changeOfCount, isEmpty } from "./branch-changes";
import { ColumnSides, type Part, columnsOfDelta, haveDifference } from "./branch-schema";

type Branch = Schemas["Branch"];
type Changes = Schemas["BranchChanges"];

/** Wide enough for both sides. */
const WIDTH = "60rem";

interface OfPromotion {
  catalog: string;
  branch: Branch;
  changes: Changes;
}

export function Promotion({ catalog, branch, changes, onOpen }: OfPromotion & { onOpen: (open: boolean) => void }) {
  const client = useQueryClient();
  const [chosen, setChosen] = useState<string[]>([]);
  const full = branch.full_name;
  const empty = isEmpty(changes);
  const refused = changes.conflicts.length > 0;
  async function promote(tables?: string[]): Promise<Schemas["Promoted"]> {
    const path = { catalog, branch: branch.name };
    const done = await call(v1.POST("/v1/catalogs/{catalog}/branches/{branch}/promote", { params: { path }, body: { state: changes.state, ...(tables && { tables }) } }));
    await client.invalidateQueries({ queryKey: ["branches", catalog] });
    return done;
  }
  return (
    <Group>
      <Act
        name="Promote"
        about={full}
        size="sm"
        width={WIDTH}
        onOpen={onOpen}
        disabled={empty || refused}
        title={`Promote ${full} to ${catalog}`}
        preview={<PromotionPreview catalog={catalog} branch={branch} changes={changes} />}
        act={() => promote()}
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
      <Act
        name="Promote tables"
        about={`of ${full}`}
        size="sm"
        width={WIDTH}
        onOpen={(open) => {
          setChosen([]);
          onOpen(open);
        }}
        disabled={!changes.tables.length}
        waits={!chosen.length}
        title={`Promote some tables of ${full} to ${catalog}`}
        preview={<TablesPreview catalog={catalog} branch={branch} changes={changes} chosen={chosen} onChoose={setChosen} />}
        act={() => promote(chosen)}
        result={({ seq, tables }) => (
          <Alert color="teal" role="status" title={`${plural(tables.length, "table")} promoted`}>
            {full} stays, updated to what {catalog} has now.{" "}
            {seq !== null && (
              <Anchor component={Link} to={`${screenOf("/history", catalog)}&seq=${seq}`} underline="always">
                History of {catalog}
              </Anchor>
            )}
          </Alert>
        )}
      />
      <Text size="sm">{empty ? `Nothing was changed on ${full}.` : refused ? "A promotion of all changes would be refused for the reasons below." : `All changes become changes of ${catalog} at once, and ${full} ends.`}</Text>
    </Group>
  );
}

/** Takes over what the catalog got since the base of a branch. */
export function Update({ catalog, branch }: { catalog: string; branch: Branch }) {
  const full = branch.full_name;
  return (
    <Act
      name="Update"
      about={full}
      title={`Update ${full}`}
      preview={
        <Text>
          {full} shows {catalog} as of {time(branch.at / 1000)}, with its own changes. Then it shows {catalog} as of now, with the same changes. It is refused where both changed the same.
        </Text>
      }
      act={() => call(v1.POST("/v1/catalogs/{catalog}/branches/{branch}/update", { params: { path: { catalog, branch: branch.name } } }))}
      result={(done) => (
        <Alert color="teal" role="status" title={`${full} shows ${catalog} as of ${time(done.branch.at / 1000)}`}>
          <Texts of={done.tables.map(({ name, base, version }) => `${name}: changed on both sides; version ${count(base)} of ${catalog} is in version ${count(version)}`)} />
        </Alert>
      )}
    />
  );
}

function PromotionPreview({ catalog, branch, changes }: OfPromotion) {
  return (
    <>
      <Text>
        Readers of {catalog} see all of it at once. Rights that were granted on the branch are not promoted, and {branch.full_name} ends.
      </Text>
      <BothSides catalog={catalog} branch={branch} changes={changes} />
      <Outcomes checks={changes.checks} />
      <StateShown of={changes.state} />
    </>
  );
}

interface OfChoice extends OfPromotion {
  chosen: string[];
  onChoose: (names: string[]) => void;
}

function TablesPreview({ catalog, branch, changes, chosen, onChoose }: OfChoice) {
  const { tables, conflicts, checks, state } = changes;
  const shown = useMemo(() => ({ ...changes, names: [] }), [changes]);
  return (
    <>
      <Text>
        Readers of {catalog} see the chosen tables at once. {branch.full_name} stays with its other changes, and is updated by the same write.
      </Text>
      <Checkbox.Group label="Tables to promote" value={chosen} onChange={onChoose}>
        <Stack gap="xs" mt="xs">
          {tables.map(({ name }) => (
            <Checkbox key={name} value={name} label={name} />
          ))}
        </Stack>
      </Checkbox.Group>
      <BothSides catalog={catalog} branch={branch} changes={shown} />
      {conflicts.length > 0 && (
        <Alert color="orange" title="Reasons that refuse a promotion of all changes">
          <Text size="sm">Expectations of tables that are not chosen do not refuse this one; conflicts with changes of {catalog} do.</Text>
          <Texts of={conflicts} />
        </Alert>
      )}
      <Outcomes checks={checks} />
      <StateShown of={state} />
    </>
  );
}

function StateShown({ of }: { of: string }) {
  return (
    <Text size="sm">
      Exactly these changes are promoted, state <Code>{of}</Code>; if the branch has others by then, it is refused.
    </Text>
  );
}

/** Numbers of the outcomes of expectations, and the names of failed ones. */
function Outcomes({ checks }: { checks: Changes["checks"] }) {
  if (!checks.length) return <Text size="sm">The changed tables have no expectations.</Text>;
  const failed = checks.filter(({ outcome }) => outcome !== "passed");
  const passed = checks.length - failed.length;
  return (
    <div>
      <Text size="sm">
        {count(passed)} of {plural(checks.length, "expectation")} passed.
      </Text>
      <Texts of={failed.map(({ table, expectation, outcome, refuses, problem }) => `${table}: ${expectation || "an expectation"} is ${outcome}${refuses ? "" : " and allowed"}${problem ? `: ${problem}` : ""}`)} />
    </div>
  );
}

/** A table or a name: what the catalog has, what it gets, and what the branch has. */
interface Side {
  id: string;
  name: string;
  now: string;
  then: string;
  branch: string;
  /** Of both sides, where they differ. */
  columns?: { before: Part[]; after: Part[] };
}

const column = createColumnHelper<Side>();

/** Tables whose sides are looked up, with up to four requests each. */
const LOOKED_UP = 25;

/** A Delta table as it is: its version, rows, files and columns. */
interface Found {
  latest: number;
  text: string;
  columns: Part[];
}

async function lookUp(name: string): Promise<Found> {
  const path = partsOf(name);
  const table = await call(v1.GET("/v1/catalogs/{catalog}/namespaces/{namespace}/tables/{table}", { params: { path, query: { content: true, statistics: true } } }));
  const { latest, statistics, table_id } = table;
  const totals = statistics?.version === latest ? statistics : await totalsOf(table_id, latest);
  const rows = totals && `: ${plural(totals.rows, "row")} in ${plural(totals.files, "file")}${totals.files_without_records ? `, without the rows of ${plural(totals.files_without_records, "file")}` : ""}`;
  return { latest, text: `version ${count(latest)}${rows ?? ""}`, columns: columnsOfDelta(table.metadata) };
}

/** The totals of a table by its log; undefined where the service does not tell them. */
async function totalsOf(table_id: string, version: number): Promise<Pick<Schemas["TableDetail"], "version" | "rows" | "files" | "files_without_records"> | undefined> {
  try {
    return await call(v1.GET("/v1/tables/{table_id}/detail", { params: { path: { table_id }, query: { version } } }));
  } catch (error) {
    if (error instanceof ApiError) return undefined;
    throw error;
  }
}

async function sidesOf(catalog: string, full: string, { tables, names }: Changes): Promise<Side[]> {
  const created = names.filter(({ kind, change }) => kind === "table" && change === "created").slice(0, LOOKED_UP);
  const old = new Map(names.map(({ name, old_name }) => [name, old_name]));
  const looked = await answersOf(tables.slice(0, LOOKED_UP), ({ name }) => Promise.all([lookUp(`${catalog}.${old.get(name) ?? name}`), lookUp(`${full}.${name}`)]), 4);
  const made = new Map(await answersOf(created, async ({ name }) => [name, (await lookUp(`${full}.${name}`)).text] as const, 4));
  const ofTables = tables.map(({ name, latest, files_added, files_removed, rows_added, rows_removed, operations }, place) => {
    const change = `files ${changeOfCount(files_added, files_removed)}, rows ${changeOfCount(rows_added, rows_removed)} (${operations.join(", ")})`;
    const found = looked[place];
    if (!found) return { id: `table ${name}`, name, now: "not looked up", then: change, branch: `version ${count(latest)}` };
    const [before, after] = found;
    const columns = haveDifference(before.columns, after.columns) ? { before: before.columns, after: after.columns } : undefined;
    return { id: `table ${name}`, name, now: before.text, then: `version ${count(before.latest + 1)}: ${change}`, branch: after.text, columns };
  });
  return [...ofTables, ...names.map((name) => nameSide(name, full, made))];
}

function nameSide({ name, kind, change, old_name }: Changes["names"][number], full: string, made: Map<string, string>): Side {
  const sides = {
    created: ["nothing", `${kind} as in ${full}`, made.get(name) ?? kind],
    changed: [kind, `${kind} as in ${full}`, kind],
    replaced: [kind, `another ${kind}, that of ${full}`, `another ${kind}`],
    renamed: [`${kind} ${old_name}`, `the name ${name}`, kind],
    dropped: [kind, "nothing", "nothing"],
  } as const;
  const [now, then, branch] = sides[change];
  return { id: `${change} ${name}`, name, now, then, branch };
}

function BothSides({ catalog, branch, changes }: OfPromotion) {
  const full = branch.full_name;
  const sides = useQuery({ queryKey: ["promotion", full, changes.state, changes.names.length], queryFn: () => sidesOf(catalog, full, changes), staleTime: 0 });
  const columns = useMemo(
    () => [
      column.accessor("name", { header: "Name" }),
      column.accessor("now", { header: `${catalog} has now` }),
      column.accessor("then", { header: `${catalog} gets` }),
      column.accessor("branch", { header: `${full} has` }),
    ],
    [catalog, full],
  );
  return (
    <Loaded query={sides}>
      {(found) => (
        <>
          <DataTable label="both sides" rowId={(side) => side.id} rows={found} columns={columns} empty="" size={10} />
          {found.map(({ id, name, columns: differ }) => differ && <ColumnSides key={id} name={name} titles={[`${catalog}.${name}`, `${full}.${name}`]} before={differ.before} after={differ.after} />)}
        </>
      )}
    </Loaded>
  );
}
