import { useSignal } from '@preact/signals'
import type { CallerValues, OverrideJson, OverrideRequestJson, Overrides, RuleJson } from '../../src/admin/api/types.ts'
import { ApiFailure, ask } from '../api.ts'
import { ConfirmDialog } from '../parts/confirm-dialog.tsx'
import { Form } from '../parts/form.tsx'
import { Countdown } from '../parts/time.tsx'
import { printable } from '../printable.ts'
import { CallerFields, readCaller } from '../rules/caller-fields.tsx'
import { choiceProblems, chosenRule, lookUp, useRuleChoice } from '../rules/rule-choice.ts'
import { RuleFields } from '../rules/rule-fields.tsx'
import { ChangeFields, readChange } from './change-fields.tsx'
import type { OverrideDraft } from './draft.ts'
import { type FieldProblems, partOf } from './field-problems.ts'
import { changeText } from './override.ts'
import { Subject } from './override-list.tsx'
import { ReasonField, readReason } from './reason-field.tsx'
import { readUntil, UntilField } from './until-field.tsx'

interface OverrideFormProps {
  readonly draft: OverrideDraft
  readonly onMade: (sentence: string) => Promise<void>
  readonly onCancel: () => void
}

/** A request that was refused because another override exists. */
interface Conflict {
  readonly body: OverrideRequestJson
  readonly other: OverrideJson
}

/** Creates an override. A refusal by the API is shown at the field that it is about. */
export function OverrideForm({ draft, onMade, onCancel }: OverrideFormProps) {
  const choice = useRuleChoice(draft.policy, draft.rule)
  const rule = chosenRule(choice)
  const problems = useSignal<FieldProblems>({})
  const conflict = useSignal<Conflict | undefined>(undefined)
  const make = async (body: OverrideRequestJson): Promise<void> => {
    const made = await ask<OverrideJson>('POST', 'overrides', body)
    await onMade(made.durable ? 'The override is in force.' : 'The override is in force. It is not saved: a restart ends it.')
  }
  const submit = async (form: FormData): Promise<void> => {
    problems.value = {}
    if (rule === undefined) {
      await lookUp(choice)
      // The operator has not yet seen the fields of a rule that was only just found.
      problems.value = chosenRule(choice) === undefined ? choiceProblems(choice) : { rule: 'Say for whom, and what changes.' }
      return
    }
    const body = readBody(choice.policy.value, rule, form, draft.values)
    try {
      await make(body)
    } catch (error) {
      if (!(error instanceof ApiFailure)) throw error
      const other = error.code === 'override_exists' ? await namedBy(error.message) : undefined
      const part = partOf(error)
      if (other !== undefined) conflict.value = { body, other }
      else if (part !== undefined) problems.value = { [part]: error.message }
      else throw error
    }
  }
  return (
    <div class="narrow">
      <Form action="Make the override" onSubmit={submit} aside={<CancelButton onCancel={onCancel} />}>
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
      {conflict.value !== undefined && <ReplaceDialog conflict={conflict.value} make={make} onClose={() => (conflict.value = undefined)} />}
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

interface WhoFieldsProps {
  readonly rule: RuleJson
  readonly values: CallerValues | undefined
  readonly error: string | undefined
}

/** Fields for one caller, with a value for each of the rule's keys, or for all callers. */
function WhoFields({ rule, values, error }: WhoFieldsProps) {
  const isForAll = useSignal(false)
  if (rule.limit_keys.length === 0)
    return <p class="hint">This rule has one counter for all callers, so that the override is for all of them.</p>
  return (
    <fieldset>
      <legend>For</legend>
      <div class="choices">
        <label>
          <input type="radio" name="who" value="one" checked={!isForAll.value} onChange={() => (isForAll.value = false)} />
          One caller
        </label>
        <label>
          <input type="radio" name="who" value="all" checked={isForAll.value} onChange={() => (isForAll.value = true)} />
          All callers of the rule
        </label>
      </div>
      {!isForAll.value && (
        <CallerFields
          keys={rule.limit_keys}
          values={values ?? {}}
          credentialHint="The credential, or the digest that this page shows for it."
          error={error}
        />
      )}
    </fieldset>
  )
}

interface ReplaceDialogProps {
  readonly conflict: Conflict
  readonly make: (body: OverrideRequestJson) => Promise<void>
  readonly onClose: () => void
}

/** Shows the conflicting override, and replaces it without a gap. */
function ReplaceDialog({ conflict: { body, other }, make, onClose }: ReplaceDialogProps) {
  const replace = async (): Promise<void> => {
    try {
      await make({ ...body, replace: other.id })
    } catch (error) {
      // The override has ended since it was shown, so there is no conflict any more.
      if (!(error instanceof ApiFailure) || error.code !== 'unknown_override') throw error
      await make(body)
    }
  }
  return (
    <ConfirmDialog title="Replace the override that is there?" action="Replace it" onConfirm={replace} onClose={onClose}>
      <div>
        <strong>{changeText(other)}</strong>, for another <Countdown until={other.until} />
        <div>
          <Subject override={other} />
        </div>
        <p>
          {other.actor}: {printable(other.reason)}
        </p>
      </div>
    </ConfirmDialog>
  )
}

function readBody(policy: string, rule: RuleJson, form: FormData, initial: CallerValues | undefined): OverrideRequestJson {
  const common = { policy, rule: rule.name, ...readChange(form), until: readUntil(form), reason: readReason(form) }
  const isForAll = rule.limit_keys.length === 0 || form.get('who') === 'all'
  return isForAll ? { ...common, all: true } : { ...common, values: readCaller(rule.limit_keys, form, initial ?? {}) }
}

/** Returns the override that a refusal names, or undefined if it has ended since. */
async function namedBy(message: string): Promise<OverrideJson | undefined> {
  const { overrides } = await ask<Overrides>('GET', 'overrides')
  return overrides.find(({ id }) => message.includes(id))
}
