// A dialog. Its header is none of the page's landmarks, which the element alone would make it.
import { Modal } from "@mantine/core";
import type { ReactNode } from "react";

interface Properties {
  opened: boolean;
  onClose: () => void;
  title: string;
  size?: string;
  children: ReactNode;
}

export function Dialog({ opened, onClose, title, size = "lg", children }: Properties) {
  return (
    <Modal.Root opened={opened} onClose={onClose} size={size}>
      <Modal.Overlay />
      <Modal.Content>
        <Modal.Header role="presentation">
          <Modal.Title>{title}</Modal.Title>
          <Modal.CloseButton aria-label="Close" />
        </Modal.Header>
        <Modal.Body>{children}</Modal.Body>
      </Modal.Content>
    </Modal.Root>
  );
}
