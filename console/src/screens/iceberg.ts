// Metadata of Iceberg tables and views, by Iceberg's REST catalog.
import { call, iceberg } from "../api/client";

export interface Snapshot {
  "snapshot-id": number;
  "timestamp-ms": number;
  summary?: Record<string, string>;
}

export interface Metadata {
  "format-version": number;
  location: string;
  "last-updated-ms": number;
  "current-schema-id": number;
  schemas: { "schema-id": number; fields: unknown[] }[];
  "default-spec-id": number;
  "partition-specs": { "spec-id": number; fields: { name: string; transform: string }[] }[];
  properties?: Record<string, string>;
  snapshots?: Snapshot[];
  "current-snapshot-id"?: number | null;
}

export interface ViewMetadata {
  location: string;
  "current-version-id": number;
  versions: { "version-id": number; "timestamp-ms": number; representations: { type: string; sql?: string; dialect?: string }[] }[];
  properties?: Record<string, string>;
}

const LEVELS = "\u001f";

/** A table or view: its catalog, its namespace with dots between the levels, its name. */
export interface Place {
  catalog: string;
  namespace: string;
  table: string;
}

export async function readIcebergTable({ catalog, namespace, table }: Place): Promise<Metadata> {
  const path = { prefix: catalog, namespace: namespace.split(".").join(LEVELS), table };
  const answer = await call(iceberg.GET("/iceberg/v1/{prefix}/namespaces/{namespace}/tables/{table}", { params: { path } }));
  return (answer as unknown as { metadata: Metadata }).metadata;
}

export async function readIcebergView({ catalog, namespace, table }: Place): Promise<ViewMetadata> {
  const path = { prefix: catalog, namespace: namespace.split(".").join(LEVELS), view: table };
  const answer = await call(iceberg.GET("/iceberg/v1/{prefix}/namespaces/{namespace}/views/{view}", { params: { path } }));
  return (answer as unknown as { metadata: ViewMetadata }).metadata;
}

/** The fields of a table's current schema and of its default partition spec. */
export function presentOf(metadata: Metadata) {
  const schema = metadata.schemas.find((one) => one["schema-id"] === metadata["current-schema-id"]);
  const spec = metadata["partition-specs"].find((one) => one["spec-id"] === metadata["default-spec-id"]);
  return { fields: schema?.fields ?? [], partitions: spec?.fields ?? [] };
}

/** The SQL of a view's current version, by dialect. */
export function textsOf(metadata: ViewMetadata) {
  return metadata.versions.find((one) => one["version-id"] === metadata["current-version-id"])?.representations ?? [];
}
