import { useSignal } from '@preact/signals'
import type { OverrideEditRequest, OverrideJson, OverridePreviewJson } from '../../src/admin/api/types.ts'
import { ApiFailure, ask } from '../api.ts'
import { ConfirmDialog } from '../parts/confirm-dialog.tsx'
import { Notice } from '../parts/notice.tsx'
import { chosenRule, useRuleChoice } from '../rules/rule-choice.ts'
import { ChangeFields, readChange } from './change-fields.tsx'
import { type FieldProblems, partOf } from './field-problems.ts'
import { Subject } from './override-facts.tsx'
import { Preview, streamsText } from './preview.tsx'
import { ReasonField, readReason } from './reason-field.tsx'
import { readUntil, UntilField } from './until-field.tsx'

interface EditOverrideProps {
  readonly override: OverrideJson
  /** Called with a sentence that describes the outcome. */
  readonly onEdited: (sentence: string) => Promise<void>
  readonly onClose: () => void
}

interface Previewed {
  readonly body: OverrideEditRequest
  readonly preview: OverridePreviewJson
}

/** Changes what an override does, when it ends, or both, after a preview. Its id stays, and whom it is for. */
export function EditOverride({ override, onEdited, onClose }: EditOverrideProps) {
  const { id, policy = '', rule: ruleName = '' } = override
  const choice = useRuleChoice(policy, ruleName)
  const rule = policy === '' ? undefined : chosenRule(choice)
  const problems = useSignal<FieldProblems>({})
  const previewed = useSignal<Previewed | undefined>(undefined)
  const preview = async (form: FormData): Promise<void> => {
    problems.value = {}
    const body = readEdit(form, override)
    try {
      previewed.value = { body, preview: await ask<OverridePreviewJson>('POST', `overrides/preview/${id}`, body) }
    } catch (error) {
      const part = error instanceof ApiFailure ? partOf(error) : undefined
      if (part === undefined || (part === 'change' && rule === undefined)) throw error
      problems.value = { [part]: (error as ApiFailure).message }
    }
  }
  const edit = async (): Promise<void> => {
    const { streams } = await ask<OverrideJson>('PATCH', `overrides/${id}`, previewed.value!.body)
    await onEdited(`The override is changed, and in force.${streams === undefined ? '' : ` ${streamsText(streams)}`}`)
    onClose()
  }
  return (
    <>
      <ConfirmDialog title="Edit this override" action="Preview…" staysOpen onConfirm={preview} onClose={onClose}>
        <div>
          <Subject override={override} />
        </div>
        {rule !== undefined && <ChangeFields key={rule.algorithm} rule={rule} error={problems.value.change} current={override} />}
        {policy !== '' && rule === undefined && choice.lookedUp.value === policy && (
          <Notice tone="warn">The active bundle has no such rule, so that only the end can be edited.</Notice>
        )}
        <UntilField error={problems.value.until} current={override.until} />
        <ReasonField error={problems.value.reason} />
      </ConfirmDialog>
      {previewed.value !== undefined && (
        <ConfirmDialog title="Change the override?" action="Change it" onConfirm={edit} onClose={() => (previewed.value = undefined)}>
          <Preview preview={previewed.value.preview} />
        </ConfirmDialog>
      )}
    </>
  )
}

/** Returns only what differs from the override as it is. */
function readEdit(form: FormData, current: OverrideJson): OverrideEditRequest {
  const until = form.get('until') === 'same' ? {} : { until: readUntil(form) }
  const change = form.has('change') ? readChange(form) : {}
  const isSame = Object.entries(change).every(([name, value]) => JSON.stringify(current[name as 'set']) === JSON.stringify(value))
  return { ...(isSame ? {} : change), ...until, reason: readReason(form) }
}
