// Columns of a table, of either format, nested ones indented.
import { Code, ScrollArea, Table, Text } from "@mantine/core";

export interface Column {
  name: string;
  type: string;
  depth: number;
  required: boolean;
  comment: string;
}

interface DeltaField {
  name: string;
  type: unknown;
  nullable?: boolean;
  metadata?: { comment?: string };
}

interface IcebergField {
  id: number;
  name: string;
  type: unknown;
  required?: boolean;
  doc?: string;
}

function typed(type: unknown): { name: string; fields: unknown[] } {
  if (typeof type === "string") return { name: type, fields: [] };
  const nested = type as Record<string, unknown>;
  if (nested.type === "struct") return { name: "struct", fields: (nested.fields as unknown[]) ?? [] };
  if (nested.type === "array" || nested.type === "list") {
    const item = typed(nested.elementType ?? nested.element);
    return { name: `array<${item.name}>`, fields: item.fields };
  }
  if (nested.type === "map") {
    const value = typed(nested.valueType ?? nested.value);
    return { name: `map<${typed(nested.keyType ?? nested.key).name}, ${value.name}>`, fields: value.fields };
  }
  return { name: JSON.stringify(type), fields: [] };
}

/** The columns of Delta's or Iceberg's schema in JSON. */
export function columnsOf(fields: unknown[], depth = 0): Column[] {
  return fields.flatMap((one) => {
    const field = one as DeltaField & IcebergField;
    const { name, fields: nested } = typed(field.type);
    const column = {
      name: field.name,
      type: name,
      depth,
      required: field.required ?? field.nullable === false,
      comment: field.doc ?? field.metadata?.comment ?? "",
    };
    return [column, ...columnsOf(nested, depth + 1)];
  });
}

export function Columns({ of, partitions }: { of: Column[]; partitions: string[] }) {
  return (
    <ScrollArea type="auto" viewportProps={{ tabIndex: 0, role: "region", "aria-label": "columns" }}>
      <Table verticalSpacing={6}>
        <Table.Thead>
          <Table.Tr>
            {["Column", "Type", "Null", "Partition", "Comment"].map((title) => (
              <Table.Th key={title} scope="col">
                {title}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {of.map((column, place) => (
            <Table.Tr key={`${place} ${column.name}`}>
              <Table.Td style={{ paddingLeft: 10 + column.depth * 20 }}>{column.name}</Table.Td>
              <Table.Td>
                <Code>{column.type}</Code>
              </Table.Td>
              <Table.Td>{column.required ? "no" : "yes"}</Table.Td>
              <Table.Td>{column.depth === 0 && partitions.includes(column.name) ? "yes" : ""}</Table.Td>
              <Table.Td>
                <Text size="sm">{column.comment}</Text>
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </ScrollArea>
  );
}

export function Pairs({ label, of }: { label: string; of: Record<string, string> }) {
  const pairs = Object.entries(of).sort(([one], [other]) => one.localeCompare(other));
  if (!pairs.length) return <Text c="dimmed">None.</Text>;
  return (
    <ScrollArea type="auto" viewportProps={{ tabIndex: 0, role: "region", "aria-label": label }}>
      <Table verticalSpacing={6}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th scope="col">Name</Table.Th>
            <Table.Th scope="col">Value</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {pairs.map(([name, value]) => (
            <Table.Tr key={name}>
              <Table.Td>{name}</Table.Td>
              <Table.Td style={{ overflowWrap: "anywhere" }}>{value}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </ScrollArea>
  );
}
