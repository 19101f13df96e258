// Which catalog is looked at: the member `catalog` of the address, so that an address can be sent to somebody.
import { useQuery } from "@tanstack/react-query";
import { useSearchParams } from "react-router";
import { call, v1 } from "./client";

export function useCatalogs() {
  return useQuery({ queryKey: ["catalogs"], queryFn: async () => (await call(v1.GET("/v1/catalogs"))).catalogs, staleTime: 30_000 });
}

export function useCatalog(): string {
  const [query] = useSearchParams();
  const catalogs = useCatalogs();
  return query.get("catalog") ?? catalogs.data?.[0]?.name ?? "";
}

/** A full name `catalog.namespace....table` in its three parts. */
export function partsOf(name: string): { catalog: string; namespace: string; table: string } {
  const levels = name.split(".");
  return { catalog: levels[0] ?? "", namespace: levels.slice(1, -1).join("."), table: levels[levels.length - 1] ?? "" };
}

export function placeOf(entry: { name: string; kind: string }): string {
  const catalog = encodeURIComponent(partsOf(entry.name).catalog);
  const name = encodeURIComponent(entry.name);
  if (entry.kind === "namespace") return `/browse?catalog=${catalog}&at=${name}`;
  return entry.kind === "table" ? `/table/${name}?catalog=${catalog}` : `/iceberg/${name}?catalog=${catalog}`;
}
