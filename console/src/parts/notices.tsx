// What is said beside the data: that it is on its way, why it did not come, how something stands.
import { Alert, Anchor, Badge, Code, Group, List, Loader, Paper, Stack, Text, Title } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "react-router";
import { ApiError, messageOf } from "../api/client";
import { baseOf, screenOf } from "../api/places";

/** Why something was refused, and what to do. */
export function Refusal({ error }: { error: unknown }) {
  const known = error instanceof ApiError ? error : undefined;
  return (
    <Alert color="red" role="alert" title={known?.status === 403 ? "Not permitted" : (known?.type ?? "Failed")}>
      {messageOf(error)}
      {known && <Reasons of={known} />}
      {known?.remedy && (
        <Text size="sm" mt={4}>
          What to do: {known.remedy}
        </Text>
      )}
    </Alert>
  );
}

/** The reasons of a refusal that has several; conflicts of commits are no texts, and have words of their own. */
function Reasons({ of }: { of: ApiError }) {
  const { conflicts, count } = of.details;
  const reasons = Array.isArray(conflicts) ? conflicts.filter((reason): reason is string => typeof reason === "string" && reason !== of.message) : [];
  if (!reasons.length) return null;
  return (
    <>
      <Texts of={reasons} />
      {typeof count === "number" && count > reasons.length && <Text size="sm">There are {count} in all.</Text>}
    </>
  );
}

/** Says that a branch lacks `what`, and leads to the same screen of its catalog. */
export function NotOnBranch({ branch, what, path }: { branch: string; what: string; path: string }) {
  const catalog = baseOf(branch);
  return (
    <Alert color="blue" role="note">
      {branch} is a branch, and branches have no {what}. Look at{" "}
      <Anchor component={Link} to={screenOf(path, catalog)} underline="always">
        those of {catalog}
      </Anchor>
      .
    </Alert>
  );
}

/** What a query gave, or why it gave nothing. */
export function Loaded<T>({ query, children }: { query: UseQueryResult<T>; children: (data: T) => ReactNode }) {
  if (query.data !== undefined) {
    return (
      <>
        {query.error && <Refusal error={query.error} />}
        {children(query.data)}
      </>
    );
  }
  if (query.error) return <Refusal error={query.error} />;
  return (
    <Group role="status" p="md">
      <Loader size="sm" aria-hidden="true" />
      <Text c="dimmed">Loading</Text>
    </Group>
  );
}

const STATES: Record<string, string> = {
  active: "teal", pinned: "blue", leaving: "orange", recovering: "orange", stuck: "red", dropped: "gray",
  open: "orange", committed: "teal", aborted: "gray", held: "teal", waiting: "orange", victim: "red",
  ok: "teal", warning: "orange", failed: "red", healthy: "teal", behind: "orange",
  staged: "blue", inline: "grape", published: "teal", ratified: "blue", never: "gray",
  passed: "teal", broken: "red", unchecked: "orange", created: "teal", changed: "blue", replaced: "orange", renamed: "blue", added: "teal", removed: "red",
  delta: "cyan", iceberg: "indigo", namespace: "gray", table: "cyan", "iceberg-table": "indigo", "iceberg-view": "violet",
};

/** A state in one word, by colour and by name. */
export function State({ of }: { of: string }) {
  return (
    <Badge variant="light" color={STATES[of] ?? "gray"} tt="none" miw="max-content">
      {of}
    </Badge>
  );
}

export function Section({ title, actions, children }: { title: string; actions?: ReactNode; children: ReactNode }) {
  return (
    <Paper withBorder p="md" radius="md" component="section">
      <Group justify="space-between" mb="sm">
        <Title order={2} size="h4">
          {title}
        </Title>
        {actions}
      </Group>
      <Stack gap="sm">{children}</Stack>
    </Paper>
  );
}

export function Figure({ label, value, hint, bad }: { label: string; value: ReactNode; hint?: ReactNode; bad?: boolean }) {
  return (
    <Paper withBorder p="sm" radius="md">
      <Text size="sm" c="dimmed">
        {label}
      </Text>
      <Text fz={26} fw={700} c={bad ? "var(--turnstile-bad)" : undefined} lh={1.2}>
        {value}
      </Text>
      {hint && (
        <Text size="xs" c="dimmed">
          {hint}
        </Text>
      )}
    </Paper>
  );
}

/** Names and values, one below the other. */
export function Facts({ of }: { of: [string, ReactNode][] }) {
  return (
    <dl className="facts">
      {of.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value ?? "–"}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Sentences, one below the other. */
export function Texts({ of }: { of: string[] }) {
  return (
    <List size="sm">
      {of.map((text) => (
        <List.Item key={text} style={{ overflowWrap: "anywhere" }}>
          {text}
        </List.Item>
      ))}
    </List>
  );
}

export function Names({ of, none = "none" }: { of: string[]; none?: string }) {
  if (!of.length) return <Text>{none}</Text>;
  return (
    <List size="sm">
      {of.map((name) => (
        <List.Item key={name}>
          <Code>{name}</Code>
        </List.Item>
      ))}
    </List>
  );
}
