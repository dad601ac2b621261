import { useSignal } from '@preact/signals'
import { useLayoutEffect, useRef } from 'preact/hooks'
import type { OverrideJson, OverridePreviewJson, OverrideRequestJson, Overrides, RuleJson } from '../../src/admin/api/types.ts'
import { ApiFailure, ask } from '../api.ts'
import { ConfirmDialog } from '../parts/confirm-dialog.tsx'
import { Form } from '../parts/form.tsx'
import { Until } from '../parts/time.tsx'
import { choiceProblems, chosenRule, lookUp, useRuleChoice } from '../rules/rule-choice.ts'
import { RuleFields } from '../rules/rule-fields.tsx'
import { ChangeFields, readChange } from './change-fields.tsx'
import { changeText } from './change-words.ts'
import { NO_DRAFT, type OverrideDraft } from './draft.ts'
import { type FieldProblems, partOf } from './field-problems.ts'
import { Origin } from './override-facts.tsx'
import { Preview, streamsText } from './preview.tsx'
import { ReasonField, readReason } from './reason-field.tsx'
import { readUntil, UntilField } from './until-field.tsx'
import { readWho, WhoFields } from './who-fields.tsx'

interface OverrideFormProps {
  readonly draft: OverrideDraft
  readonly onMade: (sentence: string) => Promise<void>
  readonly onCancel: () => void
}

interface Previewed {
  readonly body: OverrideRequestJson
  readonly preview: OverridePreviewJson
  /** The override for the same callers that this one would replace. */
  readonly other: OverrideJson | undefined
}

/** Sets an override after a preview. A refusal by the API is shown at the field that it is about. */
export function OverrideForm({ draft, onMade, onCancel }: OverrideFormProps) {
  const choice = useRuleChoice(draft.policy, draft.rule)
  const rule = chosenRule(choice)
  const problems = useSignal<FieldProblems>({})
  const previewed = useSignal<Previewed | undefined>(undefined)
  const host = useRef<HTMLDivElement>(null)
  useLayoutEffect(() => {
    // Where another view has filled it in, the heading of this one has the focus.
    if (draft === NO_DRAFT) host.current!.querySelector('input')!.focus()
  }, [draft])
  const submit = async (form: FormData): Promise<void> => {
    problems.value = {}
    if (rule === undefined) {
      await lookUp(choice)
      // The operator has not yet seen the fields of a rule that was only just found.
      problems.value = chosenRule(choice) === undefined ? choiceProblems(choice) : { rule: 'Say for whom, and what changes.' }
      return
    }
    try {
      previewed.value = await previewOf(readBody(choice.policy.value, rule, form, draft))
    } catch (error) {
      const part = error instanceof ApiFailure ? partOf(error) : undefined
      if (part === undefined) throw error
      problems.value = { [part]: (error as ApiFailure).message }
    }
  }
  return (
    <div class="narrow" ref={host}>
      <Form action="Preview…" onSubmit={submit} aside={<CancelButton onCancel={onCancel} />}>
        <div class="columns">
          <RuleFields choice={choice} problems={problems.value} />
        </div>
        {rule !== undefined && (
          <>
            <WhoFields key={`${choice.policy.value} ${rule.name}`} rule={rule} values={draft.values} error={problems.value.values} />
            <ChangeFields key={rule.algorithm} rule={rule} error={problems.value.change} />
          </>
        )}
        <UntilField error={problems.value.until} />
        <ReasonField error={problems.value.reason} />
      </Form>
      {previewed.value !== undefined && (
        <SetDialog previewed={previewed.value} onMade={onMade} onClose={() => (previewed.value = undefined)} />
      )}
    </div>
  )
}

function CancelButton({ onCancel }: { readonly onCancel: () => void }) {
  return (
    <button type="button" onClick={onCancel}>
      Cancel
    </button>
  )
}

interface SetDialogProps {
  readonly previewed: Previewed
  readonly onMade: (sentence: string) => Promise<void>
  readonly onClose: () => void
}

/** Shows what the override would do, and sets it; one that exists for the same callers is replaced without a gap. */
function SetDialog({ previewed: { body, preview, other }, onMade, onClose }: SetDialogProps) {
  const isForAll = preview.covers.callers === 'all'
  const set = async (): Promise<void> => onMade(outcomeText(await setOverride(body)))
  const title =
    other !== undefined ? 'Replace the existing override?' : isForAll ? 'Set this override for all callers?' : 'Set this override?'
  return (
    <ConfirmDialog
      title={title}
      action={other === undefined ? (isForAll ? 'Set it for all callers' : 'Set override') : 'Replace it'}
      isDangerous={isForAll || body.block === true}
      isCancelFirst={isForAll}
      onConfirm={set}
      onClose={onClose}
    >
      <Preview preview={preview} />
      {other !== undefined && (
        <div>
          <p>
            It replaces <strong>{changeText(other)}</strong>, which ends <Until until={other.until} />:
          </p>
          <Origin override={other} />
        </div>
      )}
    </ConfirmDialog>
  )
}

function readBody(policy: string, rule: RuleJson, form: FormData, draft: OverrideDraft): OverrideRequestJson {
  return {
    policy,
    rule: rule.name,
    ...readWho(rule, form, draft.values),
    ...readChange(form),
    until: readUntil(form),
    reason: readReason(form),
  }
}

/** Asks what an override would do. If there is one for the same callers, this one is to replace it. */
async function previewOf(body: OverrideRequestJson): Promise<Previewed> {
  try {
    return { body, preview: await ask<OverridePreviewJson>('POST', 'overrides/preview', body), other: undefined }
  } catch (error) {
    const other = error instanceof ApiFailure && error.code === 'override_exists' ? await namedBy(error.message) : undefined
    if (other === undefined) throw error
    const replacing = { ...body, replace: other.id }
    return { body: replacing, preview: await ask<OverridePreviewJson>('POST', 'overrides/preview', replacing), other }
  }
}

async function setOverride(body: OverrideRequestJson): Promise<OverrideJson> {
  try {
    return await ask<OverrideJson>('POST', 'overrides', body)
  } catch (error) {
    // The override to replace has ended since it was shown, so there is nothing to replace any more.
    if (body.replace === undefined || !(error instanceof ApiFailure) || error.code !== 'unknown_override') throw error
    const { replace: _, ...alone } = body
    return ask<OverrideJson>('POST', 'overrides', alone)
  }
}

function outcomeText({ durable, streams }: OverrideJson): string {
  const sentences = ['The override is in force.']
  if (!durable) sentences.push('It is not saved: a restart ends it.')
  if (streams !== undefined) sentences.push(streamsText(streams))
  return sentences.join(' ')
}

/** Returns the override that a refusal names, or undefined if it has ended since. */
async function namedBy(message: string): Promise<OverrideJson | undefined> {
  const { overrides } = await ask<Overrides>('GET', 'overrides')
  return overrides.find(({ id }) => message.includes(id))
}
