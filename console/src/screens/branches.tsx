// The branches of a catalog: what each shows and until when; making, renewing and dropping them.
import { Alert, Anchor, Group, SimpleGrid, Stack, Switch, Text, TextInput, Title } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { createColumnHelper } from "@tanstack/react-table";
import { type ReactNode, useMemo, useState } from "react";
import { Link } from "react-router";
import { type Schemas, call, v1 } from "../api/client";
import { baseOf, branchPlaceOf, screenOf, useBranches, useCatalog } from "../api/places";
import { Act } from "../parts/act";
import { DataTable } from "../parts/data-table";
import { count, time } from "../parts/format";
import { Loaded, Section } from "../parts/notices";
import { ChangesSummary, useBranchChanges } from "./branch-changes";
import { MOMENTS, whenOf } from "./moments";

type Branch = Schemas["Branch"];

const DAY_MS = 86_400_000;
const DAYS = "30";

export default function Branches() {
  const catalog = useCatalog();
  const base = baseOf(catalog);
  return (
    <Stack>
      <Title order={1}>Branches</Title>
      {catalog !== base && (
        <Alert color="blue" role="note">
          {catalog} is a branch, and branches have no branches of their own. These are those of {base}.
        </Alert>
      )}
      {base && (
        <>
          <Listed catalog={base} />
          <NewBranch key={base} catalog={base} />
        </>
      )}
    </Stack>
  );
}

const column = createColumnHelper<Branch>();

function Listed({ catalog }: { catalog: string }) {
  const listing = useBranches(catalog);
  const columns = useMemo(
    () => [
      column.accessor("full_name", {
        header: "Name",
        cell: ({ row: { original } }) => (
          <Anchor component={Link} to={branchPlaceOf(original)}>
            {original.full_name}
          </Anchor>
        ),
      }),
      column.accessor("at", { header: "As of", cell: (cell) => time(cell.getValue() / 1000) }),
      column.accessor("seq", { header: "Number", cell: (cell) => count(cell.getValue()) }),
      column.accessor("until", { header: "Ends", cell: (cell) => endOf(cell.getValue()) }),
      column.accessor("owner", { header: "Owner", cell: (cell) => cell.getValue() || "admins only" }),
      column.accessor((branch) => branch.comment ?? "", { id: "comment", header: "Comment" }),
      column.display({
        id: "actions",
        header: "What to do",
        cell: ({ row: { original } }) => (
          <Group gap="xs" wrap="nowrap">
            <Anchor component={Link} size="sm" to={screenOf("/browse", original.full_name)} aria-label={`Browse ${original.full_name}`}>
              Browse
            </Anchor>
            <Renew catalog={catalog} branch={original} />
            <Drop catalog={catalog} branch={original} />
          </Group>
        ),
      }),
    ],
    [catalog],
  );
  return (
    <Section title={`Branches of ${catalog}`}>
      <Loaded query={listing}>
        {(found) => <DataTable label="branches" rowId={(branch) => branch.name} rows={found} columns={columns} empty="The catalog has no branches." sort={[{ id: "full_name", desc: false }]} search />}
      </Loaded>
    </Section>
  );
}

export function endOf(until: number): string {
  return until < Date.now() ? `${time(until)} (over)` : time(until);
}

function DaysInput({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  return <TextInput label="Days" description="Until it ends, 1 to 366." value={value} onChange={(event) => onChange(event.currentTarget.value)} inputMode="numeric" maxLength={3} />;
}

/** When a branch of so many days from now ends. */
function End({ days }: { days: string }) {
  const given = /^\d+$/.test(days.trim());
  return <Text>{given ? `It ends on ${time(Date.now() + Number(days) * DAY_MS)}, and a day later garbage collection drops it.` : "Give the number of days."}</Text>;
}

function NewBranch({ catalog }: { catalog: string }) {
  const [name, setName] = useState("");
  const [days, setDays] = useState(DAYS);
  const [from, setFrom] = useState("");
  const [comment, setComment] = useState("");
  const [registry, setRegistry] = useState(false);
  const full = `${catalog}@${name.trim()}`;
  const moment = from.trim();
  return (
    <Section title="New branch">
      <SimpleGrid cols={{ base: 1, sm: 2 }}>
        <TextInput label="Name of a new branch" description={`Without "${catalog}@".`} value={name} onChange={(event) => setName(event.currentTarget.value)} spellCheck={false} />
        <DaysInput value={days} onChange={setDays} />
        <TextInput label="Moment (empty: now)" description={MOMENTS} value={from} onChange={(event) => setFrom(event.currentTarget.value)} spellCheck={false} />
        <TextInput label="Comment" description="Why there is this branch." value={comment} onChange={(event) => setComment(event.currentTarget.value)} />
      </SimpleGrid>
      <Group>
        <Act
          name="Create"
          size="sm"
          disabled={!name.trim()}
          title={`Create the branch ${full}`}
          preview={
            <>
              <Text>
                Clients use {full} as a catalog. It shows {catalog} as of {moment || "now"}, and keeps its own changes until they are promoted. No data is copied.
              </Text>
              <End days={days} />
              <Switch
                label="Delta's registry of branches"
                description="Commits of Delta tables name the branch in their logs, by a proposal for Delta's protocol."
                checked={registry}
                onChange={(event) => setRegistry(event.currentTarget.checked)}
              />
            </>
          }
          act={() =>
            call(
              v1.POST("/v1/catalogs/{catalog}/branches", {
                params: { path: { catalog } },
                body: { name: name.trim(), from: moment ? whenOf(moment) : "head", days: Number(days), comment: comment.trim() || null, delta_registry: registry },
              }),
            )
          }
          result={(made) => (
            <Alert color="teal" role="status" title={`${made.full_name} is there`}>
              <Anchor component={Link} to={branchPlaceOf(made)} underline="always">
                Open {made.full_name}
              </Anchor>
            </Alert>
          )}
        />
      </Group>
    </Section>
  );
}

export function Renew({ catalog, branch }: { catalog: string; branch: Branch }) {
  const [days, setDays] = useState(DAYS);
  return (
    <Act
      name="Renew"
      about={branch.full_name}
      title={`Renew ${branch.full_name}`}
      preview={
        <>
          <Text>Now it ends on {endOf(branch.until)}.</Text>
          <DaysInput value={days} onChange={setDays} />
          <End days={days} />
        </>
      }
      act={() => call(v1.PATCH("/v1/catalogs/{catalog}/branches/{branch}", { params: { path: { catalog, branch: branch.name } }, body: { days: Number(days) } }))}
      result={(renewed) => <Alert color="teal" role="status">{`${renewed.full_name} ends on ${time(renewed.until)}.`}</Alert>}
    />
  );
}

/** Drops a branch; `dropped` is shown then, by default a sentence. */
export function Drop({ catalog, branch, dropped }: { catalog: string; branch: Branch; dropped?: ReactNode }) {
  const client = useQueryClient();
  return (
    <Act
      name="Drop"
      about={branch.full_name}
      color="red"
      title={`Drop ${branch.full_name}`}
      preview={<DropPreview catalog={catalog} branch={branch} />}
      act={async () => {
        await call(v1.DELETE("/v1/catalogs/{catalog}/branches/{branch}", { params: { path: { catalog, branch: branch.name } } }));
        if (dropped) await client.invalidateQueries({ queryKey: ["branches", catalog] });
        return true;
      }}
      result={() => dropped ?? <Alert color="teal" role="status">{branch.full_name} is dropped.</Alert>}
    />
  );
}

function DropPreview({ catalog, branch }: { catalog: string; branch: Branch }) {
  const changes = useBranchChanges(catalog, branch.name);
  return (
    <>
      <Text>Everything that was changed on it is lost. {catalog} stays as it is.</Text>
      <Loaded query={changes}>{(found) => <ChangesSummary of={found} />}</Loaded>
    </>
  );
}
