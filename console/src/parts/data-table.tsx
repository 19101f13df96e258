// A table of rows that can be sorted, searched and paged with the keyboard; wider than the screen, it scrolls by itself.
import { Box, Group, Pagination, ScrollArea, Table, Text, TextInput, UnstyledButton } from "@mantine/core";
import {
  type ColumnDef,
  type SortingState,
  flexRender,
  getCoreRowModel,
  getFilteredRowModel,
  getPaginationRowModel,
  getSortedRowModel,
  useReactTable,
} from "@tanstack/react-table";
import { useState } from "react";
import { count } from "./format";

interface Properties<T> {
  /** What the rows are, for who cannot see the table. */
  label: string;
  rows: T[];
  columns: ColumnDef<T, any>[];
  empty: string;
  /** What a row is known by when rows come and go; needed where it has buttons with dialogs. */
  rowId?: (row: T) => string;
  /** Rows shown at once. */
  size?: number;
  sort?: SortingState;
  /** Shows a field to search in. */
  search?: boolean;
  /** False: there is more than the rows, which the table then says. */
  complete?: boolean;
}

const ARIA = { asc: "ascending", desc: "descending" } as const;

export function DataTable<T>({ label, rows, columns, empty, rowId, size = 25, sort = [], search, complete = true }: Properties<T>) {
  const [sorting, setSorting] = useState<SortingState>(sort);
  const [filter, setFilter] = useState("");
  const table = useReactTable({
    data: rows,
    columns,
    getRowId: rowId,
    state: { sorting, globalFilter: filter },
    onSortingChange: setSorting,
    onGlobalFilterChange: setFilter,
    getCoreRowModel: getCoreRowModel(),
    getSortedRowModel: getSortedRowModel(),
    getFilteredRowModel: getFilteredRowModel(),
    getPaginationRowModel: getPaginationRowModel(),
    initialState: { pagination: { pageSize: size } },
    autoResetPageIndex: false,
  });
  const found = table.getFilteredRowModel().rows.length;
  const { pageIndex } = table.getState().pagination;
  const pageCount = table.getPageCount();
  return (
    <Box>
      {search && rows.length > 5 && (
        <TextInput
          aria-label={`Search in ${label}`}
          placeholder="Search"
          value={filter}
          onChange={(event) => {
            setFilter(event.currentTarget.value);
            table.setPageIndex(0);
          }}
          mb="xs"
          maw={320}
        />
      )}
      <ScrollArea type="auto" viewportProps={{ tabIndex: 0, role: "region", "aria-label": label }}>
        <Table highlightOnHover verticalSpacing="xs">
          <Table.Thead>
            {table.getHeaderGroups().map((group) => (
              <Table.Tr key={group.id}>
                {group.headers.map((header) => {
                  const sorted = header.column.getIsSorted();
                  const title = flexRender(header.column.columnDef.header, header.getContext());
                  return (
                    <Table.Th key={header.id} scope="col" aria-sort={sorted ? ARIA[sorted] : undefined} style={{ whiteSpace: "nowrap" }}>
                      {header.column.getCanSort() ? (
                        <UnstyledButton fz="sm" fw={700} onClick={header.column.getToggleSortingHandler()}>
                          {title}
                          <span aria-hidden="true">{sorted === "asc" ? " ↑" : sorted === "desc" ? " ↓" : ""}</span>
                        </UnstyledButton>
                      ) : (
                        title
                      )}
                    </Table.Th>
                  );
                })}
              </Table.Tr>
            ))}
          </Table.Thead>
          <Table.Tbody>
            {table.getRowModel().rows.map((row) => (
              <Table.Tr key={row.id}>
                {row.getVisibleCells().map((cell) => (
                  <Table.Td key={cell.id}>{flexRender(cell.column.columnDef.cell, cell.getContext())}</Table.Td>
                ))}
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </ScrollArea>
      {found === 0 && (
        <Text c="dimmed" py="sm">
          {rows.length ? "Nothing has that text." : empty}
        </Text>
      )}
      <Group justify="space-between" mt="xs">
        <Text size="sm" c="dimmed">
          {found > 0 && `${count(found)} of ${count(rows.length)}`}
          {!complete && " (there are more; search narrower)"}
        </Text>
        {pageCount > 1 && (
          <Pagination
            size="sm"
            total={pageCount}
            value={Math.min(pageIndex + 1, pageCount)}
            onChange={(page) => table.setPageIndex(page - 1)}
            getControlProps={(control) => ({ "aria-label": `${control} page of ${label}` })}
            getItemProps={(page) => ({ "aria-label": `page ${page} of ${label}` })}
          />
        )}
      </Group>
    </Box>
  );
}
