// Types of the HTTP API, generated from openapi/ into src/api/ (not tracked: they are of the checkout's own documents).
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import openapiTS, { astToString } from "openapi-typescript";

const documents = new URL("../../openapi/", import.meta.url);
const out = new URL("../src/api/generated/", import.meta.url);
mkdirSync(out, { recursive: true });
for (const name of ["v1", "tokens", "iceberg"]) {
  const source = new URL(`${name}.yaml`, documents);
  // A reference to the items of an array comes out as a member "items", which an array type has not.
  const text = astToString(await openapiTS(readFileSync(source, "utf8"))).replaceAll('["items"]', "[number]");
  writeFileSync(new URL(`${name}.ts`, out), text);
}
