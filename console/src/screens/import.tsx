// Import of a path-based Delta table: what would be done first, then doing it.
import { Alert, Anchor, Button, Code, Group, SimpleGrid, Stack, Text, TextInput, Title } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-router";
import { type Schemas, call, v1 } from "../api/client";
import { placeOf, useCatalog } from "../api/places";
import { Act } from "../parts/act";
import { Facts, Names, Refusal, Section } from "../parts/notices";
import { Pairs } from "../parts/schema";

type Report = Schemas["ImportReport"];
type Table = Schemas["Table"];

export default function Import() {
  const catalog = useCatalog();
  const [namespace, setNamespace] = useState("default");
  const [name, setName] = useState("");
  const [location, setLocation] = useState("");
  const path = { catalog, namespace: namespace.trim() };
  const body = { name: name.trim(), location: location.trim() };
  const check = useMutation({
    mutationFn: async () =>
      (await call(v1.POST("/v1/catalogs/{catalog}/namespaces/{namespace}/imports", { params: { path }, body: { ...body, dry_run: true, take_over: false } }))) as Report,
  });
  function set(change: (value: string) => void) {
    return (event: React.ChangeEvent<HTMLInputElement>) => {
      change(event.currentTarget.value);
      check.reset(); // a report is of what was checked
    };
  }
  return (
    <Stack>
      <Title order={1}>Import</Title>
      <Section title="1. Which table">
        <Text>A Delta table that engines write by its path comes under the catalog by one commit. Its files stay where they are; it can be handed back (turnstile export).</Text>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            check.mutate();
          }}
        >
          <SimpleGrid cols={{ base: 1, sm: 2 }}>
            <TextInput label="Namespace" value={namespace} onChange={set(setNamespace)} required spellCheck={false} />
            <TextInput label="Name" value={name} onChange={set(setName)} required spellCheck={false} />
          </SimpleGrid>
          <TextInput label="Location" placeholder="s3://bucket/path/of/table" value={location} onChange={set(setLocation)} required spellCheck={false} mt="sm" />
          <Group mt="sm">
            <Button type="submit" loading={check.isPending}>
              Check
            </Button>
          </Group>
        </form>
        {check.error && <Refusal error={check.error} />}
      </Section>
      {check.data && (
        <Section title="2. What would be done">
          <Shown report={check.data} />
          {check.data.possible && (
            <Group>
              <Act
                name="Import"
                size="sm"
                title={`Import ${catalog}.${path.namespace}.${body.name}`}
                preview={<Text>Stop every writer of {body.location} first: after the commit, who writes past the catalog makes the table stuck. Readers of the path go on.</Text>}
                act={async () =>
                  (await call(v1.POST("/v1/catalogs/{catalog}/namespaces/{namespace}/imports", { params: { path }, body: { ...body, dry_run: false, take_over: false } }))) as unknown as Table
                }
                result={(table) => (
                  <Alert color="teal" role="status" title="It is imported">
                    <Anchor component={Link} to={placeOf({ name: table.name, kind: "table" })}>
                      {table.name}
                    </Anchor>{" "}
                    at version {table.latest}
                  </Alert>
                )}
              />
            </Group>
          )}
        </Section>
      )}
    </Stack>
  );
}

function Shown({ report }: { report: Report }) {
  return (
    <div role="status">
      <Alert color={report.possible ? "teal" : "orange"} mb="sm" title={report.possible ? "It can be imported" : "It cannot be imported as it is"}>
        {report.problems.map((problem) => (
          <Text key={problem.message}>
            {problem.message}. {problem.remedy}
          </Text>
        ))}
      </Alert>
      <Facts
        of={[
          ["Location", <Code key="location">{report.location}</Code>],
          ["Version", report.version],
          ["Version of the commit that would be written", report.upgrade_version],
        ]}
      />
      <Text fw={600} mt="sm">
        Features that it gets
      </Text>
      <Names of={report.features_added} />
      <Text fw={600} mt="sm">
        Properties that it gets
      </Text>
      <Pairs label="properties that it gets" of={report.properties_set} />
      <Names of={report.notes} none="" />
    </div>
  );
}
