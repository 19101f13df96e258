// The definition of a table or view of a catalog beside that of its branch, with the lines that differ.
import { Button, Code, ScrollArea, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useEffect, useRef } from "react";
import { type Schemas, call, v1 } from "../api/client";
import { partsOf } from "../api/places";
import { plural } from "../parts/format";
import { Loaded, Section, State } from "../parts/notices";
import { type Column, columnsOf } from "../parts/schema";
import { type Line, linesOf } from "../parts/sides";
import { presentOf, readIcebergTable, readIcebergView, textsOf } from "./iceberg";

type Kind = Schemas["ChangedName"]["kind"];

/** A column with the names of all levels above it, or a property. */
export interface Part {
  key: string;
  depth: number;
  name: string;
  value: string;
  more: string;
}

interface Definition {
  columns: Part[];
  properties: Part[];
}

export interface Compared {
  name: string;
  kind: Kind;
  /** Its name in the catalog; null where the branch created it. */
  before: string | null;
  /** False where the branch drops it. */
  after: boolean;
}

const NOTHING: Definition = { columns: [], properties: [] };
/** Of each Delta table its own: no difference of two definitions. */
const TABLE_ID = "io.unitycatalog.tableId";

function columnParts(columns: Column[], partitions: string[]): Part[] {
  const levels: string[] = [];
  return columns.map(({ name, type, depth, required, comment }) => {
    levels.splice(depth, levels.length, name);
    const partition = depth === 0 && partitions.includes(name);
    return { key: levels.join("\u001f"), depth, name, value: type, more: [required && "not null", partition && "partition", comment].filter(Boolean).join(", ") };
  });
}

function propertyParts(properties: Record<string, string>): Part[] {
  const named = Object.entries(properties).filter(([name]) => name !== TABLE_ID);
  return named.sort(([one], [other]) => (one < other ? -1 : 1)).map(([name, value]) => ({ key: name, depth: 0, name, value, more: "" }));
}

async function definitionOf(name: string, kind: Kind): Promise<Definition> {
  const path = partsOf(name);
  if (kind === "iceberg-view") {
    const view = await readIcebergView(path);
    const texts = Object.fromEntries(textsOf(view).map(({ dialect, sql }) => [`SQL of ${dialect ?? "any dialect"}`, sql ?? ""]));
    return { columns: [], properties: propertyParts({ ...view.properties, ...texts }) };
  }
  if (kind === "iceberg-table") {
    const table = await readIcebergTable(path);
    const { fields, partitions } = presentOf(table);
    return { columns: columnParts(columnsOf(fields), partitions.map((field) => field.name)), properties: propertyParts(table.properties ?? {}) };
  }
  const { metadata } = await call(v1.GET("/v1/catalogs/{catalog}/namespaces/{namespace}/tables/{table}", { params: { path, query: { content: true } } }));
  return { columns: columnsOfDelta(metadata), properties: propertyParts(metadata.properties) };
}

/** The columns of a Delta table as it was loaded. */
export function columnsOfDelta({ schema, partition_columns }: Schemas["Table"]["metadata"]): Part[] {
  const { fields } = schema as unknown as { fields: unknown[] };
  return columnParts(columnsOf(fields), partition_columns);
}

/** Whether two lists of columns differ, in their order, too. */
export function haveDifference(before: Part[], after: Part[]): boolean {
  return linesOf(before, after, keyOf).some((line) => changeOf(line) !== "");
}

export function SchemaSides({ catalog, branch, of, onClose }: { catalog: string; branch: string; of: Compared; onClose: () => void }) {
  const { name, kind, before, after } = of;
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    place.current?.focus({ preventScroll: true });
    place.current?.scrollIntoView({ block: "start" });
  }, []);
  const sides = useQuery({
    queryKey: ["definitions", branch, name, kind, before, after],
    queryFn: () =>
      Promise.all([
        before ? definitionOf(`${catalog}.${before}`, kind) : NOTHING,
        after ? definitionOf(`${branch}.${name}`, kind) : NOTHING,
      ]),
  });
  const titles: [string, string] = [before ? `${catalog}.${before}` : "not in the catalog", after ? `${branch}.${name}` : "dropped on the branch"];
  return (
    <div ref={place} tabIndex={-1} style={{ scrollMarginTop: 72, outline: "none" }}>
      <Section
        title={`Definition of ${name}`}
        actions={
          <Button size="xs" variant="default" onClick={onClose} aria-label={`Close the definition of ${name}`}>
            Close
          </Button>
        }
      >
        <Loaded query={sides}>
          {([left, right]) => (
            <>
              {kind !== "iceberg-view" && <Sides label="columns of both sides" what="column" titles={titles} lines={linesOf(left.columns, right.columns, keyOf)} />}
              <Sides label="properties of both sides" what="property" many="properties" titles={titles} lines={linesOf(left.properties, right.properties, keyOf).filter((line) => changeOf(line) !== "")} />
            </>
          )}
        </Loaded>
      </Section>
    </div>
  );
}

/** The columns of a table of the catalog beside those of a branch. */
export function ColumnSides({ name, titles, before, after }: { name: string; titles: [string, string]; before: Part[]; after: Part[] }) {
  return <Sides label={`columns of ${name} on both sides`} what={`column of ${name}`} many={`columns of ${name}`} titles={titles} lines={linesOf(before, after, keyOf)} />;
}

const keyOf = (part: Part) => part.key;

type Change = "" | "added" | "removed" | "changed";

const COLOURS: Record<Change, string | undefined> = {
  "": undefined,
  added: "var(--mantine-color-teal-light)",
  removed: "var(--mantine-color-red-light)",
  changed: "var(--mantine-color-blue-light)",
};

function changeOf([before, after]: Line<Part>): Change {
  if (!before) return "added";
  if (!after) return "removed";
  return before.value === after.value && before.more === after.more ? "" : "changed";
}

interface SidesProperties {
  label: string;
  what: string;
  many?: string;
  titles: [string, string];
  lines: Line<Part>[];
}

function Sides({ label, what, many, titles, lines }: SidesProperties) {
  const different = lines.filter((line) => changeOf(line) !== "").length;
  return (
    <>
      <Text size="sm" role="status">
        {different ? `${plural(different, what, many)} ${different === 1 ? "differs" : "differ"}.` : `No ${what} differs.`}
      </Text>
      {lines.length > 0 && (
        <ScrollArea type="auto" viewportProps={{ tabIndex: 0, role: "region", "aria-label": label }}>
          <Table verticalSpacing={6} withColumnBorders>
            <Table.Thead>
              <Table.Tr>
                <Table.Th scope="col">Difference</Table.Th>
                {titles.map((title) => (
                  <Table.Th key={title} scope="col">
                    {title}
                  </Table.Th>
                ))}
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {lines.map((line, place) => {
                const change = changeOf(line);
                return (
                  <Table.Tr key={`${place} ${(line[0] ?? line[1])?.key}`}>
                    <Table.Td>{change ? <State of={change} /> : "same"}</Table.Td>
                    <Table.Td bg={COLOURS[change]}>{side(line[0])}</Table.Td>
                    <Table.Td bg={COLOURS[change]}>{side(line[1])}</Table.Td>
                  </Table.Tr>
                );
              })}
            </Table.Tbody>
          </Table>
        </ScrollArea>
      )}
    </>
  );
}

function side(part: Part | undefined): ReactNode {
  if (!part) return "–";
  return (
    <div style={{ paddingLeft: part.depth * 20, overflowWrap: "anywhere" }}>
      {part.name} <Code>{part.value}</Code>
      {part.more && <Text size="sm">{part.more}</Text>}
    </div>
  );
}
