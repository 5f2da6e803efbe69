/** A person's word on the rollout, with a reason. */
import { Alert, Button, Group, Modal, Radio, Select, Stack, Text, Textarea } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { overrideValidation, type Rollout } from "@/api/rollout.ts";
import { plain } from "@/components/agent_text.tsx";
import { queryClient } from "@/live/query.ts";
import type { Row } from "@/database.ts";

interface Props {
  rollout: Rollout;
  validations: Row<"validations">[];
  canWithdraw: boolean;
  onClose: () => void;
}

const LONGEST_REASON = 2_000;

export function JudgeDialog({ rollout, validations, canWithdraw, onClose }: Props) {
  const [verdict, setVerdict] = useState<string>(rollout.status === "success" ? "fail" : "pass");
  const [reason, setReason] = useState("");
  const [validationId, setValidationId] = useState<string | null>(null);
  const judge = useMutation<unknown, Error>({
    mutationFn: () =>
      overrideValidation({
        rollout_id: rollout.id,
        verdict: verdict === "withdraw" ? null : verdict as "pass" | "fail",
        reason: reason.trim(),
        validation_id: validationId,
      }),
    onSuccess: async () => {
      await queryClient.invalidateQueries({ queryKey: ["rollout", rollout.id] });
      notifications.show({
        message: verdict === "withdraw" ? "The judgement is withdrawn." : "Your judgement is kept.",
      });
      onClose();
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (reason.trim()) judge.mutate();
  };
  return (
    <Modal opened onClose={onClose} title="Judge by hand" closeButtonProps={{ "aria-label": "Close" }}>
      <form onSubmit={submit}>
        <Stack>
          <Text size="sm" c="dimmed">
            It stands above what the validators said, and all totals follow. Your name, the time and the reason are
            kept.
          </Text>
          <Radio.Group label="Verdict" value={verdict} onChange={setVerdict}>
            <Stack gap={6} mt={4}>
              <Radio value="pass" label="Pass: the task was solved" />
              <Radio value="fail" label="Fail: it was not" />
              {canWithdraw && <Radio value="withdraw" label="Withdraw: back to what was recorded" />}
            </Stack>
          </Radio.Group>
          {validations.length > 0 && verdict !== "withdraw" && (
            <Select
              label="Which validator was wrong"
              placeholder="The rollout as a whole"
              clearable
              value={validationId}
              onChange={setValidationId}
              data={validations.map(({ id, validator_name }) => ({ value: id, label: plain(validator_name) }))}
            />
          )}
          <Textarea
            label="Reason"
            required
            autosize
            minRows={3}
            maxLength={LONGEST_REASON}
            value={reason}
            onChange={({ currentTarget }) => setReason(currentTarget.value)}
            data-autofocus
          />
          {judge.error && <Alert color="red" role="alert">{judge.error.message}</Alert>}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>Cancel</Button>
            <Button type="submit" loading={judge.isPending} disabled={!reason.trim()}>
              {verdict === "withdraw" ? "Withdraw" : "Judge"}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
