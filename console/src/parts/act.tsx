// Changes: a button that asks first, with what it would do, and says what became of it.
import { Button, Group, Stack } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { Dialog } from "./dialog";
import { Refusal } from "./notices";

interface Properties<T> {
  /** On the button, and on the dialog. */
  name: string;
  title: string;
  /** What would be done, shown before it is done. */
  preview: ReactNode;
  act: () => Promise<T>;
  /** What was done. */
  result: (done: T) => ReactNode;
  color?: string;
  size?: string;
  disabled?: boolean;
  /** More to the name for who cannot see where the button stands. */
  about?: string;
  /** Told when the dialog opens and closes, for whoever would take the button away meanwhile. */
  onOpen?: (open: boolean) => void;
  /** Of the dialog. */
  width?: string;
  /** True: the dialog opens, and its button waits for a choice. */
  waits?: boolean;
}

export function Act<T>({ name, title, preview, act, result, color, size = "xs", disabled, about, onOpen, width, waits }: Properties<T>) {
  const [open, setOpen] = useState(false);
  const client = useQueryClient();
  const change = useMutation({ mutationFn: act });
  function show(shown: boolean): void {
    setOpen(shown);
    onOpen?.(shown);
    if (shown) return;
    if (!change.isIdle) void client.invalidateQueries(); // not before: the new data may have no place for this button
    change.reset();
  }
  return (
    <>
      <Button
        size={size}
        color={color}
        variant="light"
        disabled={disabled}
        aria-label={about ? `${name} ${about}` : undefined}
        onClick={() => show(true)}
      >
        {name}
      </Button>
      <Dialog opened={open} onClose={() => show(false)} title={title} size={width}>
        <Stack>
          {change.data === undefined ? preview : result(change.data)}
          {change.error && <Refusal error={change.error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={() => show(false)}>
              {change.data === undefined ? "Cancel" : "Close"}
            </Button>
            {change.data === undefined && (
              <Button color={color} disabled={waits} loading={change.isPending} onClick={() => change.mutate()}>
                {name}
              </Button>
            )}
          </Group>
        </Stack>
      </Dialog>
    </>
  );
}
