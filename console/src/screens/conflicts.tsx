// Commits that lost their version to another, as the server's processes remember them (/conflicts); nothing on a deployment.
import { Anchor, Text, Tooltip } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { createColumnHelper } from "@tanstack/react-table";
import { useMemo } from "react";
import { Link } from "react-router";
import { placeOf } from "../api/places";
import { currentToken } from "../api/session";
import { DataTable } from "../parts/data-table";
import { count, time } from "../parts/format";
import { Section } from "../parts/notices";

interface Conflict {
  at: number;
  operation: string;
  principal?: string;
  client: string;
  proposal: string;
  conflicts: { table_id: string; because: string; latest: number; winners: { version: number; transaction: string; operation: string }[] }[];
}

/** One table that a refused commit or transaction lost. */
interface Row {
  id: string;
  at: number;
  table_id: string;
  loser: string;
  proposal: string;
  version: number;
  winner: string;
  transaction: string;
}

async function readConflicts(table_id?: string): Promise<Row[] | null> {
  const token = currentToken();
  const query = table_id ? `?table_id=${encodeURIComponent(table_id)}` : "";
  const response = await fetch(`/conflicts${query}`, { headers: token ? { Authorization: `Bearer ${token}` } : {} });
  if (!response.ok || !(response.headers.get("content-type") ?? "").startsWith("application/json")) return null;
  const { conflicts } = (await response.json()) as { conflicts: Conflict[] };
  return conflicts.flatMap((conflict, number) =>
    conflict.conflicts
      .filter((lost) => !table_id || lost.table_id === table_id)
      .map((lost) => ({
        id: `${conflict.at} ${number} ${lost.table_id}`,
        at: conflict.at,
        table_id: lost.table_id,
        loser: [conflict.principal, conflict.client].filter(Boolean).join(", "),
        proposal: conflict.proposal,
        version: lost.winners.at(-1)?.version ?? lost.latest,
        winner: lost.winners.at(-1)?.operation ?? "",
        transaction: lost.winners.at(-1)?.transaction ?? "",
      })),
  );
}

const column = createColumnHelper<Row>();

/** An id that is long, cut; whole where the pointer is. */
function Id({ of }: { of: string }) {
  return (
    <Tooltip label={of} disabled={!of}>
      <Text size="sm" component="span" ff="monospace">
        {of.replace(/^0+/, "").slice(0, 12) || "–"}
      </Text>
    </Tooltip>
  );
}

/** Who lost a version and to whom, of one table or, with the names of all tables, of all. */
export function Conflicts({ table_id, names }: { table_id?: string; names?: Map<string, string> }) {
  const read = useQuery({ queryKey: ["conflicts", table_id ?? ""], queryFn: () => readConflicts(table_id), refetchInterval: 10_000, retry: false });
  const columns = useMemo(
    () => [
      column.accessor("at", { header: "When", cell: (cell) => <span style={{ whiteSpace: "nowrap" }}>{time(cell.getValue())}</span> }),
      ...(names
        ? [
            column.accessor((row) => names.get(row.table_id) ?? row.table_id, {
              id: "table",
              header: "Table",
              cell: (cell) => (
                <Anchor component={Link} to={placeOf({ name: cell.getValue(), kind: "table" })}>
                  {cell.getValue()}
                </Anchor>
              ),
            }),
          ]
        : []),
      column.accessor("loser", { header: "Who lost" }),
      column.accessor("proposal", { header: "Its commit", cell: (cell) => <Id of={cell.getValue()} /> }),
      column.accessor("version", { header: "Lost to version", cell: (cell) => count(cell.getValue()) }),
      column.accessor("winner", { header: "Operation" }),
      column.accessor("transaction", { header: "Transaction", cell: (cell) => <Id of={cell.getValue()} /> }),
    ],
    [names],
  );
  if (!read.data) return null;
  return (
    <Section title="Conflicts">
      <DataTable
        label="conflicts"
        rows={read.data}
        rowId={(row) => row.id}
        columns={columns}
        empty="No commit lost its version to another lately."
        sort={[{ id: "at", desc: true }]}
        size={10}
        search
      />
    </Section>
  );
}
