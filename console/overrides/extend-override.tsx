import { useSignal } from '@preact/signals'
import type { OverrideEditRequest, OverrideJson } from '../../src/admin/api/types.ts'
import { ask } from '../api.ts'
import { nowMs, today } from '../clock.ts'
import { formatMoment } from '../format.ts'
import { ConfirmDialog } from '../parts/confirm-dialog.tsx'
import { Until } from '../parts/time.tsx'
import { changeText } from './change-words.ts'
import { Subject } from './override-facts.tsx'
import { ReasonField, readReason } from './reason-field.tsx'

const LENGTHS = [
  [15, '15 min'],
  [60, '1 h'],
  [240, '4 h'],
  [1440, '1 d'],
] as const
const MINUTE_MS = 60_000

interface ExtendOverrideProps {
  readonly override: OverrideJson
  /** Called with a sentence that describes the outcome. */
  readonly onExtended: (sentence: string) => Promise<void>
  readonly onClose: () => void
}

/** Lets an override end later. The length is one click, and the button names the new end. */
export function ExtendOverride({ override, onExtended, onClose }: ExtendOverrideProps) {
  const minutes = useSignal<number>(60)
  const end = Math.max(Date.parse(override.until), nowMs.value) + minutes.value * MINUTE_MS
  const moment = formatMoment(end, today.value)
  const extend = async (form: FormData): Promise<void> => {
    const body: OverrideEditRequest = { until: new Date(end).toISOString(), reason: readReason(form) }
    const { until } = await ask<OverrideJson>('PATCH', `overrides/${override.id}`, body)
    await onExtended(`The override ends at ${formatMoment(until, today.value)}.`)
  }
  return (
    <ConfirmDialog title="Extend this override?" action={`Extend to ${moment}`} onConfirm={extend} onClose={onClose}>
      <div>
        <strong>{changeText(override)}</strong>
        <div>
          <Subject override={override} />
        </div>
      </div>
      <p>
        It ends <Until until={override.until} />. What is left of the limit does not change.
      </p>
      <fieldset>
        <legend>Longer by</legend>
        <div class="choices">
          {LENGTHS.map(([length, text]) => (
            <label key={length}>
              <input
                type="radio"
                name="longer"
                value={length}
                checked={minutes.value === length}
                onChange={() => (minutes.value = length)}
              />
              {text}
            </label>
          ))}
        </div>
        <p aria-live="polite">
          New end: <strong>{moment}</strong>
        </p>
      </fieldset>
      <ReasonField />
    </ConfirmDialog>
  )
}
