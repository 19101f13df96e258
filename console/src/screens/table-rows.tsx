// Some rows of a table, as the server reads them from its first files.
import { Alert, Button, Group, Stack, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { createColumnHelper } from "@tanstack/react-table";
import { useMemo, useState } from "react";
import { type Schemas, call, v1 } from "../api/client";
import { DataTable } from "../parts/data-table";
import { count, plural } from "../parts/format";
import { Loaded, Section } from "../parts/notices";

type Sample = Schemas["TableSample"];
type Row = Schemas["Row"];

const LIMIT = 50;

function sampleOf(table_id: string, version: string): Promise<Sample> {
  const query = { limit: LIMIT, ...(version ? { version: Number(version) } : {}) };
  return call(v1.GET("/v1/tables/{table_id}/sample", { params: { path: { table_id }, query } }));
}

export function Rows({ id, latest }: { id: string; latest: number }) {
  const [typed, setTyped] = useState("");
  const [version, setVersion] = useState("");
  const sample = useQuery({ queryKey: ["sample", id, version || latest], queryFn: () => sampleOf(id, version) });
  return (
    <Section title="Rows">
      <Stack gap="xs">
        <form
          onSubmit={(event) => {
            event.preventDefault();
            setVersion(typed.trim());
          }}
        >
          <Group align="flex-end" gap="xs">
            <TextInput label="Version" description="Empty: the latest" value={typed} onChange={(event) => setTyped(event.currentTarget.value)} inputMode="numeric" pattern="[0-9]*" maxLength={15} />
            <Button type="submit" variant="light" loading={sample.isFetching}>
              Show rows
            </Button>
          </Group>
        </form>
        <Loaded query={sample}>{(loaded) => <Shown sample={loaded} />}</Loaded>
      </Stack>
    </Section>
  );
}

function Shown({ sample }: { sample: Sample }) {
  const columns = useMemo(() => sample.columns.map(columnOf), [sample]);
  return (
    <>
      <Text size="sm" c="dimmed">
        {sample.complete ? `All ${plural(sample.rows.length, "row")}` : `${plural(sample.rows.length, "row")} of the first files`} at version {count(sample.version)}
      </Text>
      {sample.columns_left_out > 0 && <Alert color="blue">Not shown: {plural(sample.columns_left_out, "more column")}.</Alert>}
      {sample.cut > 0 && <Alert color="blue">Not shown whole: {plural(sample.cut, "long value")}.</Alert>}
      <DataTable label="rows" rows={sample.rows} columns={columns} empty="The table has no rows." />
    </>
  );
}

const column = createColumnHelper<Row>();

function columnOf(name: string, at: number) {
  return column.accessor((row) => textOf((row as Record<string, unknown>)[name]), { id: `${at}`, header: name });
}

function textOf(value: unknown): string {
  if (value === null || value === undefined) return "null";
  return typeof value === "string" ? value : JSON.stringify(value);
}
