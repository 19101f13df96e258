// Publish and repair of one table, each with what it would do before it is done.
import { Alert, Button, Group, SimpleGrid, Stack, Text } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { type Schemas, call, v1 } from "../api/client";
import { Act } from "../parts/act";
import { Dialog } from "../parts/dialog";
import { bytes, plural, time } from "../parts/format";
import { Facts, Loaded, Names, Refusal, Section, State } from "../parts/notices";

interface OfTable {
  id: string;
  name: string;
  onOpen?: (open: boolean) => void;
}

export function PublishButton({ id, name, behind, onOpen }: OfTable & { behind: number }) {
  return (
    <Act
      name="Publish"
      about={name}
      onOpen={onOpen}
      title={`Publish ${name}`}
      disabled={behind === 0}
      preview={<Text>{plural(behind, "ratified commit")} will be copied into _delta_log, in order. Nothing there is overwritten.</Text>}
      act={() => call(v1.POST("/v1/tables/{table_id}/publish", { params: { path: { table_id: id } } }))}
      result={(done) => (
        <>
          <Alert color={done.problem ? "orange" : "teal"} role="status">
            Published {plural(done.published, "version")}; the log is at {done.floor} of {done.latest}.
          </Alert>
          {done.problem && <Text>{done.problem.message} {done.problem.remedy}</Text>}
        </>
      )}
    />
  );
}

type Side = "head" | "log";

export function RepairButton({ id, name, onOpen }: OfTable) {
  const [open, setOpen] = useState(false);
  const client = useQueryClient();
  function show(shown: boolean): void {
    setOpen(shown);
    onOpen?.(shown);
    if (!shown) void client.invalidateQueries();
  }
  return (
    <>
      <Button size="xs" variant="light" onClick={() => show(true)} aria-label={`Repair ${name}`}>
        Repair
      </Button>
      <Dialog opened={open} onClose={() => show(false)} title={`Repair ${name}`} size="xl">
        {open && <RepairPanel id={id} />}
      </Dialog>
    </>
  );
}

function RepairPanel({ id }: { id: string }) {
  const path = { params: { path: { table_id: id } } };
  const diagnosis = useQuery({ queryKey: ["repair", id], queryFn: () => call(v1.GET("/v1/tables/{table_id}/repair", path)), staleTime: 0 });
  const client = useQueryClient();
  const repair = useMutation({
    mutationFn: (adopt: Schemas["Choice"] | undefined) => call(v1.POST("/v1/tables/{table_id}/repair", { ...path, body: adopt ? { adopt } : {} })),
    onSettled: () => client.invalidateQueries({ queryKey: ["repair", id] }),
  });
  return (
    <Stack>
      <Loaded query={diagnosis}>
        {(found) => (
          <>
            <Diagnosis of={found} />
            {found.sides ? (
              <SidesChoice sides={found.sides} pending={repair.isPending} choose={(side, log) => repair.mutate({ side, version: log.version, digest: log.digest })} />
            ) : (
              <Group justify="flex-end">
                <Button disabled={["healthy", "not in use"].includes(found.finding)} loading={repair.isPending} onClick={() => repair.mutate(undefined)}>
                  Repair
                </Button>
              </Group>
            )}
          </>
        )}
      </Loaded>
      {repair.error && <Refusal error={repair.error} />}
      {repair.data && <Outcome of={repair.data} />}
    </Stack>
  );
}

function Diagnosis({ of }: { of: Schemas["Diagnosis"] }) {
  return (
    <>
      <Group>
        <State of={of.finding} />
        <Text>{of.message}</Text>
      </Group>
      {of.remedy && <Text>What to do: {of.remedy}</Text>}
      <Facts
        of={[
          ["In the log up to", of.floor],
          ["Ratified up to", of.latest],
          ["Version in question", of.version ?? "none"],
          ...Object.entries(of.facts).map(([name, value]): [string, string] => [name, typeof value === "string" ? value : JSON.stringify(value)]),
        ]}
      />
    </>
  );
}

function SidesChoice({ sides, pending, choose }: { sides: Schemas["Sides"]; pending: boolean; choose: (side: Side, log: Schemas["OneSide"]) => void }) {
  return (
    <>
      <Alert color="orange">
        HEAD and _delta_log hold different commits as one version, and each may have been acknowledged to somebody. Stop the table's writers first. What is not kept is
        copied to _delta_log/_set_aside.
      </Alert>
      <SimpleGrid cols={{ base: 1, sm: 2 }}>
        <OneSide title="HEAD" side={sides.head} />
        <OneSide title="Log" side={sides.log} />
      </SimpleGrid>
      <Group justify="flex-end">
        <Button color="orange" variant="light" loading={pending} onClick={() => choose("head", sides.log)}>
          Keep the HEAD
        </Button>
        <Button color="orange" variant="light" loading={pending} onClick={() => choose("log", sides.log)}>
          Keep the log
        </Button>
      </Group>
    </>
  );
}

function OneSide({ title, side }: { title: string; side: Schemas["OneSide"] | null }) {
  if (side === null) return <Section title={title}>It ends before.</Section>;
  return (
    <Section title={title}>
      <Facts
        of={[
          ["Versions", side.version === side.up_to ? side.version : `${side.version} to ${side.up_to}`],
          ["Operation", side.operation],
          ["Engine", side.engine],
          ["Transaction", side.txn_id],
          ["Written", side.written === null ? null : time(side.written)],
          ["Size", side.size === null ? null : bytes(side.size)],
          ["Digest", side.digest],
          ["File", side.path],
        ]}
      />
    </Section>
  );
}

function Outcome({ of }: { of: Schemas["Repaired"] }) {
  return (
    <Alert color={of.diagnosis.finding === "healthy" ? "teal" : "orange"} role="status" title={`Now: ${of.diagnosis.finding}`}>
      Published {plural(of.published, "version")}, adopted {of.adopted}. {of.diagnosis.message}
      {of.set_aside && <Names of={of.set_aside} />}
      {of.to_remove && of.to_remove.length > 0 && (
        <>
          <Text mt="xs">Remove these files, in this order, and repair again:</Text>
          <Names of={of.to_remove} />
        </>
      )}
    </Alert>
  );
}
