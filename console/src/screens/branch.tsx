// One branch: what it is, what it changes; it is updated and promoted here.
import { Anchor, Button, Code, Group, Stack, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, Navigate, useParams } from "react-router";
import { type Schemas, call, v1 } from "../api/client";
import { baseOf, screenOf } from "../api/places";
import { count, time } from "../parts/format";
import { Facts, Loaded, Section } from "../parts/notices";
import { Differences, useBranchChanges } from "./branch-changes";
import { Promotion, Update } from "./branch-promotion";
import { Drop, Renew, endOf } from "./branches";

type Branch = Schemas["Branch"];

export default function BranchScreen() {
  const { name = "" } = useParams();
  const catalog = baseOf(name);
  const path = { catalog, branch: name.slice(catalog.length + 1) };
  const branch = useQuery({ queryKey: ["branch", name], queryFn: () => call(v1.GET("/v1/catalogs/{catalog}/branches/{branch}", { params: { path } })) });
  return (
    <Stack>
      <Title order={1} style={{ overflowWrap: "anywhere" }}>
        {name}
      </Title>
      <Loaded query={branch}>{(found) => <Shown key={name} catalog={catalog} branch={found} />}</Loaded>
    </Stack>
  );
}

function Shown({ catalog, branch }: { catalog: string; branch: Branch }) {
  const [promoting, setPromoting] = useState(false);
  const changes = useBranchChanges(catalog, branch.name, !promoting);
  const full = branch.full_name;
  return (
    <>
      <Section
        title="Branch"
        actions={
          <Group gap="xs">
            <Update catalog={catalog} branch={branch} />
            <Renew catalog={catalog} branch={branch} />
            <Drop catalog={catalog} branch={branch} dropped={<Navigate to={screenOf("/branches", catalog)} />} />
          </Group>
        }
      >
        <Facts
          of={[
            ["Of the catalog", catalog],
            ["As of", `${time(branch.at / 1000)}, number ${count(branch.seq)}`],
            ["Created", time(branch.created)],
            ["Ends", endOf(branch.until)],
            ["Owner", branch.owner || "admins only"],
            ["Comment", branch.comment],
            ["Delta's registry of branches", branch.delta_registry ? "Commits name the branch." : "off"],
            ["HEAD of the catalog that it was made from", <Code key="base">{branch.base}</Code>],
          ]}
        />
        <Group>
          <Anchor component={Link} to={screenOf("/browse", full)}>
            Browse {full}
          </Anchor>
          <Anchor component={Link} to={screenOf("/history", full)}>
            History of {full}
          </Anchor>
          <Anchor component={Link} to={screenOf("/access", full)}>
            Access to {full}
          </Anchor>
        </Group>
      </Section>
      <Group justify="space-between">
        <Title order={2} size="h3">
          What it changes
        </Title>
        <Button size="xs" variant="default" loading={changes.isFetching} onClick={() => changes.refetch()}>
          Compare again
        </Button>
      </Group>
      <Loaded query={changes}>
        {(found) => (
          <>
            <Promotion catalog={catalog} branch={branch} changes={found} onOpen={setPromoting} />
            <Differences catalog={catalog} branch={full} changes={found} />
          </>
        )}
      </Loaded>
    </>
  );
}
