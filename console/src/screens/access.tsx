// Rights: grants of a securable, principals of a catalog, what a principal can do, registered clients.
import { Alert, Button, Checkbox, Code, Group, NativeSelect, SimpleGrid, Stack, Text, TextInput, Title } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { createColumnHelper } from "@tanstack/react-table";
import { useMemo, useState } from "react";
import { type Schemas, call, tokens, v1 } from "../api/client";
import { useCatalog } from "../api/places";
import { Act } from "../parts/act";
import { DataTable } from "../parts/data-table";
import { time } from "../parts/format";
import { Loaded, Refusal, Section } from "../parts/notices";
import { type Principal, type Right, principalsOf, rightsOf } from "./rights";

type Privilege = Schemas["Privilege"];
type Kind = Schemas["SecurableType"];
type Grant = Schemas["Rights"]["grants"][number];

const PRIVILEGES: Record<Kind, Privilege[]> = {
  metastore: ["CREATE CATALOG", "CREATE EXTERNAL TABLE", "CREATE REFERENCE", "READ FILES", "WRITE FILES"],
  catalog: ["USE CATALOG", "USE SCHEMA", "SELECT", "MODIFY", "CREATE TABLE", "CREATE SCHEMA", "PROMOTE"],
  schema: ["USE SCHEMA", "SELECT", "MODIFY", "CREATE TABLE", "CREATE SCHEMA", "PROMOTE"],
  table: ["SELECT", "MODIFY", "PROMOTE"],
  ref: ["SELECT", "MODIFY"],
};
const LABELS: Record<Kind, string> = { metastore: "Metastore", catalog: "Catalog", schema: "Namespace", table: "Table", ref: "Reference" };
const KINDS = Object.entries(LABELS).map(([value, label]) => ({ value, label }));

export default function Access() {
  return (
    <Stack>
      <Title order={1}>Access</Title>
      <Grants />
      <Principals />
      <WhatCan />
      <Clients />
    </Stack>
  );
}

function Grants() {
  const catalog = useCatalog();
  const [kind, setKind] = useState<Kind>("catalog");
  const [typed, setTyped] = useState("");
  const [asked, setAsked] = useState<{ kind: Kind; name: string } | null>(null);
  const fixed = kind === "metastore" ? "metastore" : kind === "catalog" && !typed ? catalog : "";
  return (
    <Section title="Grants">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          setAsked({ kind, name: typed.trim() || fixed });
        }}
      >
        <Group align="flex-end">
          <NativeSelect label="On" data={KINDS} value={kind} onChange={(event) => setKind(event.currentTarget.value as Kind)} />
          <TextInput
            label="Full name"
            placeholder={fixed || `${catalog}.sales${kind === "table" ? ".orders" : ""}`}
            value={kind === "metastore" ? "metastore" : typed}
            disabled={kind === "metastore"}
            onChange={(event) => setTyped(event.currentTarget.value)}
            required={!fixed}
            spellCheck={false}
          />
          <Button type="submit">Show</Button>
        </Group>
      </form>
      {asked && <GrantsOf key={`${asked.kind} ${asked.name}`} {...asked} />}
    </Section>
  );
}

const grants = createColumnHelper<Grant>();

function GrantsOf({ kind, name }: { kind: Kind; name: string }) {
  const [acting, setActing] = useState(false);
  const path = { securable_type: kind, full_name: name };
  const rights = useQuery({
    queryKey: ["rights", kind, name],
    queryFn: () => call(v1.GET("/v1/permissions/{securable_type}/{full_name}", { params: { path } })),
    enabled: !acting,
  });
  const columns = useMemo(
    () => [
      grants.accessor("principal", { header: "User or role" }),
      grants.accessor((grant) => grant.privileges.join(", "), { id: "privileges", header: "May" }),
      grants.display({
        id: "actions",
        header: "Change",
        cell: ({ row: { original } }) => (
          <Act
            name="Revoke"
            about={`from ${original.principal}`}
            color="red"
            onOpen={setActing}
            title={`Revoke from ${original.principal} on ${name}`}
            preview={<Text>{original.principal} loses {original.privileges.join(", ")} here. What is granted above stays.</Text>}
            act={() => call(v1.PATCH("/v1/permissions/{securable_type}/{full_name}", { params: { path: { securable_type: kind, full_name: name } }, body: { changes: [{ principal: original.principal, remove: original.privileges }] } }))}
            result={() => <Alert color="teal" role="status">It is revoked.</Alert>}
          />
        ),
      }),
    ],
    [kind, name],
  );
  return (
    <Loaded query={rights}>
      {(found) => (
        <>
          <Text>
            {LABELS[kind]} <Code>{name}</Code>, owned by <b>{found.owner ?? "admins only"}</b>. What is granted further up holds here as well.
          </Text>
          <DataTable label={`grants on ${name}`} rowId={(grant) => grant.principal} rows={found.grants} columns={columns} empty="Nothing is granted here." />
          <NewGrant kind={kind} name={name} />
          <NewOwner kind={kind} name={name} />
        </>
      )}
    </Loaded>
  );
}

function NewGrant({ kind, name }: { kind: Kind; name: string }) {
  const [principal, setPrincipal] = useState("");
  const [chosen, setChosen] = useState<Privilege[]>([]);
  return (
    <Stack gap="xs">
      <TextInput label="User or role" maw={320} value={principal} onChange={(event) => setPrincipal(event.currentTarget.value)} spellCheck={false} />
      <Checkbox.Group label="Privileges" value={chosen} onChange={(values) => setChosen(values as Privilege[])}>
        <Group mt={4}>
          {PRIVILEGES[kind].map((privilege) => (
            <Checkbox key={privilege} value={privilege} label={privilege} />
          ))}
        </Group>
      </Checkbox.Group>
      <Group>
        <Act
          name="Grant"
          size="sm"
          disabled={!principal.trim() || !chosen.length}
          title={`Grant on ${name}`}
          preview={<Text>{principal.trim()} gets {chosen.join(", ")} on {name}, and on everything below it, also on what is created later.</Text>}
          act={() => call(v1.PATCH("/v1/permissions/{securable_type}/{full_name}", { params: { path: { securable_type: kind, full_name: name } }, body: { changes: [{ principal: principal.trim(), add: chosen }] } }))}
          result={() => <Alert color="teal" role="status">It is granted.</Alert>}
        />
      </Group>
    </Stack>
  );
}

function NewOwner({ kind, name }: { kind: Kind; name: string }) {
  const [owner, setOwner] = useState("");
  return (
    <Group align="flex-end">
      <TextInput label="New owner" value={owner} onChange={(event) => setOwner(event.currentTarget.value)} spellCheck={false} />
      <Act
        name="Hand over"
        size="sm"
        disabled={!owner.trim()}
        title={`Hand ${name} over`}
        preview={<Text>{owner.trim()} will own {name}: may see, drop and grant what is in it. Whoever owned it does no longer.</Text>}
        act={() => call(v1.PATCH("/v1/permissions/{securable_type}/{full_name}", { params: { path: { securable_type: kind, full_name: name } }, body: { owner: owner.trim() } }))}
        result={(found) => <Alert color="teal" role="status">It belongs to {found.owner}.</Alert>}
      />
    </Group>
  );
}

// -- principals -------------------------------------------------------------------------------------------------------------

const principal = createColumnHelper<Principal>();
const PRINCIPALS = [
  principal.accessor("name", { header: "User, client or role" }),
  principal.accessor((found) => found.owns.join(", "), { id: "owns", header: "Owns", cell: (cell) => cell.getValue() || "–" }),
  principal.accessor((found) => found.grants.join("; "), { id: "grants", header: "Has been granted", cell: (cell) => cell.getValue() || "–" }),
];

function Principals() {
  const catalog = useCatalog();
  const list = useMutation({ mutationFn: () => principalsOf(catalog) });
  return (
    <Section title="Principals">
      <Group>
        <Button variant="light" loading={list.isPending} onClick={() => list.mutate()}>
          List principals
        </Button>
        <Text size="sm" c="dimmed">
          Owners and grants in {catalog}. Administrators, and members of a role, are known to the issuer alone.
        </Text>
      </Group>
      {list.error && <Refusal error={list.error} />}
      {list.data && (
        <DataTable label="principals" rowId={(found) => found.name} rows={list.data.principals} complete={list.data.complete} columns={PRINCIPALS} empty="The catalog has no owners and no grants." sort={[{ id: "name", desc: false }]} search />
      )}
    </Section>
  );
}

// -- what can X do ----------------------------------------------------------------------------------------------------------

const right = createColumnHelper<Right>();
const RIGHTS = [
  right.accessor("name", { header: "Securable" }),
  right.accessor((held) => LABELS[held.kind], { id: "kind", header: "Kind" }),
  right.accessor((held) => held.can.join(", "), { id: "can", header: "Can", cell: (cell) => cell.getValue() || "nothing" }),
  right.accessor((held) => held.because.join("; "), { id: "because", header: "Because" }),
];

function WhatCan() {
  const catalog = useCatalog();
  const [principal, setPrincipal] = useState("");
  const [roles, setRoles] = useState("");
  const look = useMutation({
    mutationFn: () => rightsOf(catalog, [principal, ...roles.split(",")].map((name) => name.trim()).filter(Boolean)),
  });
  return (
    <Section title="What can somebody do">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          look.mutate();
        }}
      >
        <Group align="flex-end">
          <TextInput label="User, client or role" value={principal} onChange={(event) => setPrincipal(event.currentTarget.value)} required spellCheck={false} />
          <TextInput label="With the roles" placeholder="writers, analysts" value={roles} onChange={(event) => setRoles(event.currentTarget.value)} spellCheck={false} />
          <Button type="submit" loading={look.isPending}>
            Look
          </Button>
        </Group>
        <Text size="sm" c="dimmed" mt={4}>
          In {catalog}, by its grants. Which roles somebody has only the issuer knows; admins may do everything.
        </Text>
      </form>
      {look.error && <Refusal error={look.error} />}
      {look.data && <DataTable label="what can be done" rows={look.data.rights} complete={look.data.complete} columns={RIGHTS} empty="Nothing in this catalog." search />}
    </Section>
  );
}

// -- clients ----------------------------------------------------------------------------------------------------------------

interface Client {
  client_id: string;
  name: string;
  roles: string[];
  admin: boolean;
  creator: string;
  created: number;
}

const clients = createColumnHelper<Client>();

function Clients() {
  const [acting, setActing] = useState(false);
  const listing = useQuery({ queryKey: ["clients"], queryFn: async () => (await call(tokens.GET("/v1/clients"))) as { clients: Client[] }, enabled: !acting });
  const columns = useMemo(
    () => [
      clients.accessor("name", { header: "Name" }),
      clients.accessor("client_id", { header: "Id", cell: (cell) => <Code>{cell.getValue()}</Code> }),
      clients.accessor((client) => client.roles.join(", "), { id: "roles", header: "Roles" }),
      clients.accessor("admin", { header: "Admin", cell: (cell) => (cell.getValue() ? "yes" : "no") }),
      clients.accessor("created", { header: "Created", cell: (cell) => time(cell.getValue()) }),
      clients.display({
        id: "actions",
        header: "Change",
        cell: ({ row: { original } }) => <ClientActions client={original} onOpen={setActing} />,
      }),
    ],
    [],
  );
  return (
    <Section title="Clients">
      <Text size="sm" c="dimmed">
        Services that get tokens of their own with an id and a secret.
      </Text>
      <Loaded query={listing}>
        {(found) => (
          <>
            <DataTable label="clients" rowId={(client) => client.client_id} rows={found.clients} columns={columns} empty="None is registered." search />
            <NewClient onOpen={setActing} />
          </>
        )}
      </Loaded>
    </Section>
  );
}

function Secret({ of }: { of: unknown }) {
  const { client_id, client_secret } = of as { client_id: string; client_secret: string };
  return (
    <Alert color="teal" role="status" title="Keep the secret now: it is never told again">
      <Text>
        Id <Code>{client_id}</Code>
      </Text>
      <Text style={{ overflowWrap: "anywhere" }}>
        Secret <Code>{client_secret}</Code>
      </Text>
    </Alert>
  );
}

function ClientActions({ client, onOpen }: { client: Client; onOpen: (open: boolean) => void }) {
  const path = { client_id: client.client_id };
  return (
    <Group gap="xs" wrap="nowrap">
      <Act
        name="New secret"
        about={`for ${client.name}`}
        onOpen={onOpen}
        title={`A new secret for ${client.name}`}
        preview={<Text>The present secret ends at once. Tokens that were issued are good until they end.</Text>}
        act={() => call(tokens.POST("/v1/clients/{client_id}/rotate", { params: { path }, body: { keep_seconds: 0 } }))}
        result={(made) => <Secret of={made} />}
      />
      <Act
        name="Delete"
        about={client.name}
        color="red"
        onOpen={onOpen}
        title={`Delete ${client.name}`}
        preview={<Text>It gets no more tokens. Those that it has are good until they end.</Text>}
        act={async () => {
          await call(tokens.DELETE("/v1/clients/{client_id}", { params: { path } }));
          return true;
        }}
        result={() => <Alert color="teal" role="status">It is deleted.</Alert>}
      />
    </Group>
  );
}

function NewClient({ onOpen }: { onOpen: (open: boolean) => void }) {
  const [name, setName] = useState("");
  const [roles, setRoles] = useState("");
  const listed = roles.split(",").map((role) => role.trim()).filter(Boolean);
  return (
    <SimpleGrid cols={{ base: 1, sm: 3 }} style={{ alignItems: "end" }}>
      <TextInput label="Name of a new client" value={name} onChange={(event) => setName(event.currentTarget.value)} />
      <TextInput label="Its roles" placeholder="writers" value={roles} onChange={(event) => setRoles(event.currentTarget.value)} spellCheck={false} />
      <Group>
        <Act
          name="Register"
          size="sm"
          disabled={!name.trim()}
          onOpen={onOpen}
          title={`Register ${name.trim()}`}
          preview={<Text>{listed.length ? `It gets the rights of ${listed.join(", ")}, and` : "It gets"} what is granted to its id.</Text>}
          act={() => call(tokens.POST("/v1/clients", { body: { name: name.trim(), roles: listed, admin: false } }))}
          result={(made) => <Secret of={made} />}
        />
      </Group>
    </SimpleGrid>
  );
}
