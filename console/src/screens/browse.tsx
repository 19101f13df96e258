// What is in a catalog, Delta and Iceberg together: level by level, or by a path query.
import { Alert, Anchor, Badge, Breadcrumbs, Button, Code, Group, Stack, Text, TextInput, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { createColumnHelper } from "@tanstack/react-table";
import { useMemo, useState } from "react";
import { Link, useSearchParams } from "react-router";
import { type Schemas, call, pages, v1 } from "../api/client";
import { placeOf, useCatalog } from "../api/places";
import { DataTable } from "../parts/data-table";
import { count, time } from "../parts/format";
import { Loaded, Section, State } from "../parts/notices";

type Entry = Schemas["Entry"];

const MOST = 2000;
const EXAMPLES = ['/*/*', '/*[kind = "iceberg-table"]', '/*/[format = "delta"]', '/*/[name like "%orders%"]', "/*/*[created > 0]"];

export function findAll(query: string, as_of?: string) {
  return pages(
    (page_token) => call(v1.GET("/v1/find", { params: { query: { query, as_of, page_token } } })),
    (page) => page.found,
    MOST,
  );
}

const DEPTHS = 3;

/** What has a name with `part` in it, in the first levels of a catalog. */
async function findNamed(catalog: string, part: string) {
  const pattern = part.replace(/["%\\]/g, "");
  const levels = Array.from({ length: DEPTHS }, (_, depth) => "/*".repeat(depth));
  const listings = await Promise.all(levels.map((above) => findAll(`/${catalog}${above}/[name like "%${pattern}%"]`)));
  return { items: listings.flatMap((listing) => listing.items), complete: listings.every((listing) => listing.complete) };
}

export default function Browse() {
  const catalog = useCatalog();
  const [query] = useSearchParams();
  const at = query.get("at") ?? catalog;
  const asked = query.get("q");
  const name = query.get("name");
  const asOf = query.get("as_of") ?? undefined;
  return (
    <Stack>
      <Title order={1}>Browse</Title>
      {asOf && <Alert color="blue">As of {asOf}. What a Delta table holds now is on its own page.</Alert>}
      <Search key={`${catalog} ${asked ?? ""}`} catalog={catalog} asked={asked ?? ""} />
      {catalog && name && <Named catalog={catalog} part={name} />}
      {catalog && !name && (asked ? <Found query={asked} asOf={asOf} /> : <Level at={at} asOf={asOf} />)}
    </Stack>
  );
}

function Search({ catalog, asked }: { catalog: string; asked: string }) {
  const [text, setText] = useState(asked);
  const [, setQuery] = useSearchParams();
  return (
    <form
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        setQuery(text.trim() ? { catalog, q: text.trim() } : { catalog });
      }}
    >
      <Group align="flex-end" gap="xs">
        <TextInput
          label="Path query"
          placeholder={`/${catalog}/*/[format = "delta"]`}
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
          style={{ flex: "1 1 260px" }}
          spellCheck={false}
        />
        <Button type="submit">Find</Button>
        {asked && (
          <Button variant="default" onClick={() => setQuery({ catalog })}>
            Clear
          </Button>
        )}
      </Group>
      <Group gap={6} mt={6}>
        <Text size="sm" c="dimmed">
          Try
        </Text>
        {EXAMPLES.map((example) => (
          <Anchor key={example} size="sm" component="button" type="button" onClick={() => setText(`/${catalog}${example}`)}>
            <Code>{`/${catalog}${example}`}</Code>
          </Anchor>
        ))}
      </Group>
    </form>
  );
}

function Level({ at, asOf }: { at: string; asOf?: string }) {
  const levels = at.split(".");
  const query = `/${levels.join("/")}/*`;
  return (
    <>
      <Breadcrumbs component="nav" aria-label="Where this is">
        {levels.map((level, depth) => {
          const name = levels.slice(0, depth + 1).join(".");
          const place = `${placeOf({ name, kind: "namespace" })}${asOf ? `&as_of=${encodeURIComponent(asOf)}` : ""}`;
          return (
            <Anchor key={name} component={Link} to={place}>
              {level}
            </Anchor>
          );
        })}
      </Breadcrumbs>
      <Found query={query} asOf={asOf} title={`In ${at}`} />
    </>
  );
}

function Found({ query, asOf, title }: { query: string; asOf?: string; title?: string }) {
  const found = useQuery({ queryKey: ["find", query, asOf], queryFn: () => findAll(query, asOf) });
  return (
    <Section title={title ?? "Found"}>
      <Loaded query={found}>{(listing) => <Entries rows={listing.items} complete={listing.complete} asOf={asOf} />}</Loaded>
    </Section>
  );
}

function Named({ catalog, part }: { catalog: string; part: string }) {
  const found = useQuery({ queryKey: ["named", catalog, part], queryFn: () => findNamed(catalog, part) });
  return (
    <Section title={`Names with "${part}"`}>
      <Loaded query={found}>{(listing) => <Entries rows={listing.items} complete={listing.complete} />}</Loaded>
    </Section>
  );
}

const column = createColumnHelper<Entry>();

function Entries({ rows, complete, asOf }: { rows: Entry[]; complete: boolean; asOf?: string }) {
  const columns = useMemo(
    () => [
      column.accessor("name", {
        header: "Name",
        cell: ({ row }) => (
          <Anchor component={Link} to={placeOf(row.original) + (asOf && row.original.kind === "namespace" ? `&as_of=${encodeURIComponent(asOf)}` : "")}>
            {row.original.name}
          </Anchor>
        ),
      }),
      column.accessor("kind", { header: "Kind", cell: (cell) => <State of={cell.getValue()} /> }),
      column.accessor((entry) => entry.format ?? "", { id: "format", header: "Format", cell: (cell) => cell.getValue() || "–" }),
      column.accessor((entry) => entry.comment ?? "", { id: "comment", header: "Comment", cell: (cell) => <Text size="sm">{cell.getValue()}</Text> }),
      column.accessor((entry) => Object.keys(entry.properties ?? {}).length, {
        id: "properties",
        header: "Properties",
        cell: ({ row }) => <Properties of={row.original.properties ?? {}} />,
      }),
      column.accessor("created", { header: "Created", cell: (cell) => <span style={{ whiteSpace: "nowrap" }}>{time(cell.getValue())}</span> }),
    ],
    [asOf],
  );
  return <DataTable label="what was found" rows={rows} columns={columns} empty="Nothing is here." complete={complete} search />;
}

const SHOWN = 3;

function Properties({ of }: { of: Record<string, string> }) {
  const listed = Object.entries(of).filter(([name]) => !name.startsWith("delta."));
  const rest = Object.keys(of).length - Math.min(listed.length, SHOWN);
  return (
    <Group gap={4}>
      {listed.slice(0, SHOWN).map(([name, value]) => (
        <Badge key={name} variant="default" tt="none">
          {name}={value.length > 24 ? `${value.slice(0, 24)}…` : value}
        </Badge>
      ))}
      {rest > 0 && <Text size="sm" c="dimmed">{`${count(rest)} more`}</Text>}
    </Group>
  );
}
