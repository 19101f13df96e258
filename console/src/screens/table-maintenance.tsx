// Maintenance of a table: what is due by its policy, what ran, and what has to stay.
import { SimpleGrid, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { createColumnHelper } from "@tanstack/react-table";
import { type Schemas, call, v1 } from "../api/client";
import { DataTable } from "../parts/data-table";
import { bytes, count, plural, time } from "../parts/format";
import { Facts, Figure, Loaded, Section } from "../parts/notices";

type Job = Schemas["MaintenanceJob"];
type Policy = Schemas["PolicyValue"];
type Pin = Schemas["Pin"];
type Run = Schemas["TableMaintenance"]["runs"]["last"][number];

const job = createColumnHelper<Job>();
const JOBS = [
  job.accessor("operation", { header: "Operation" }),
  job.accessor("reason", { header: "Why" }),
  job.accessor("files", { header: "Files", cell: (cell) => count(cell.getValue()) }),
  job.accessor("bytes", { header: "Size", cell: (cell) => bytes(cell.getValue()) }),
  job.accessor((due) => due.where ?? "", { id: "where", header: "Where" }),
];
const waiting = createColumnHelper<Schemas["MaintenanceNotDue"]>();
const WAITING = [
  waiting.accessor("operation", { header: "Operation" }),
  waiting.accessor("reason", { header: "Why not" }),
  waiting.accessor("files", { header: "Files", cell: (cell) => count(cell.getValue()) }),
  waiting.accessor("bytes", { header: "Size", cell: (cell) => bytes(cell.getValue()) }),
];
const policy = createColumnHelper<Policy>();
const POLICIES = [
  policy.accessor("name", { header: "Policy" }),
  policy.accessor("value", { header: "Value" }),
  policy.accessor("source", { header: "From" }),
  policy.accessor("set_on", { header: "Set on" }),
];
const run = createColumnHelper<Run>();
const RUNS = [
  run.accessor("operation", { header: "Operation" }),
  run.accessor("ended_ms", { header: "Ended", cell: (cell) => time(cell.getValue()) }),
  run.accessor("version", { header: "Version", cell: (cell) => count(cell.getValue()) }),
  run.accessor("files", { header: "Files", cell: (cell) => count(cell.getValue()) }),
  run.accessor("bytes", { header: "Size", cell: (cell) => bytes(cell.getValue()) }),
];
const pin = createColumnHelper<Pin>();
const PINS = [
  pin.accessor("kind", { header: "Why" }),
  pin.accessor("first", { header: "From version", cell: (cell) => count(cell.getValue()) }),
  pin.accessor((held) => held.last ?? Number.POSITIVE_INFINITY, { id: "last", header: "To version", cell: ({ row }) => (row.original.last === null ? "all that follow" : count(row.original.last)) }),
  pin.accessor((held) => held.holder ?? "", { id: "holder", header: "For" }),
  pin.accessor((held) => held.until_ms ?? 0, { id: "until", header: "Until", cell: (cell) => (cell.getValue() ? time(cell.getValue()) : "taken away") }),
];

export function Maintenance({ id }: { id: string }) {
  const path = { params: { path: { table_id: id } } };
  const maintenance = useQuery({ queryKey: ["maintenance", id], queryFn: () => call(v1.GET("/v1/tables/{table_id}/maintenance", path)) });
  const pins = useQuery({ queryKey: ["pins", id], queryFn: () => call(v1.GET("/v1/tables/{table_id}/pins", path)) });
  return (
    <Stack>
      <Loaded query={maintenance}>{(plan) => <Plan plan={plan} />}</Loaded>
      <Section title="What has to stay">
        <Loaded query={pins}>{(held) => <DataTable label="pins" rows={held.pins} columns={PINS} empty="Nothing." />}</Loaded>
      </Section>
    </Stack>
  );
}

/** What is due, without doing anything: the service computes it from the table and its policy. */
export function Plan({ plan }: { plan: Schemas["TableMaintenance"] }) {
  const { files, runs, light } = plan;
  return (
    <>
      <SimpleGrid cols={{ base: 2, sm: 4 }}>
        <Figure label="Due" value={count(plan.due.length)} hint={`at version ${plan.version}`} />
        <Figure label="Files" value={count(files.files)} hint={files.complete ? bytes(files.bytes) : "not all were looked at"} />
        <Figure label="Small files" value={count(files.small_files)} />
        <Figure label="Deleted rows" value={count(files.deleted_rows)} hint={plural(files.deletion_vector_files, "file")} />
      </SimpleGrid>
      <Section title="Due by policy">
        <DataTable label="what is due" rows={plan.due} columns={JOBS} empty="Nothing is due." />
        <DataTable label="what is not due" rows={plan.not_due} columns={WAITING} empty="" />
      </Section>
      <Section title="Runs">
        <Facts
          of={[
            ["Running until", runs.running_until_ms === null ? "nobody is at it" : time(runs.running_until_ms)],
            ["Failures in a row", `${count(runs.failures)}${runs.reason ? `: ${runs.reason}` : ""}`],
            ["Rewritten by the policy's budget", bytes(runs.spent_bytes)],
            ["Checkpoints and checksums", light.due ? `due; next version ${count(light.next_version)}` : `done; next version ${count(light.next_version)}`],
            ["Failures of light work", `${count(light.failures)}${light.reason ? `: ${light.reason}` : ""}`],
          ]}
        />
        <DataTable label="last runs" rows={runs.last} columns={RUNS} empty="No worker has run yet." />
      </Section>
      <Section title="Policy">
        <DataTable label="policy" rows={plan.policy} columns={POLICIES} empty="" size={50} />
        {plan.ignored.map((ignored) => (
          <Text key={ignored.property} c="var(--turnstile-bad)">
            {ignored.property} is ignored: {ignored.problem}
          </Text>
        ))}
      </Section>
    </>
  );
}
