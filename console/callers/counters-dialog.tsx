import { useSignal } from '@preact/signals'
import { useId, useLayoutEffect, useRef } from 'preact/hooks'
import type { CounterJson, CountersJson, CounterUnit } from '../../src/admin/api/types.ts'
import { counterText, refillText } from '../amounts.ts'
import type { RuleCaller } from '../caller-values.ts'
import { isCredential, looksLikeDigest } from '../caller-values.ts'
import { formatCount } from '../format.ts'
import { draftOverride } from '../overrides/draft.ts'
import { Badge } from '../parts/badge.tsx'
import { Caller } from '../parts/caller.tsx'
import { ChangeButton } from '../parts/change-button.tsx'
import { Level } from '../parts/level.tsx'
import { Notice } from '../parts/notice.tsx'
import { ResetDialog } from './reset-dialog.tsx'
import { useCounters } from './use-counters.ts'

interface CountersDialogProps {
  readonly caller: RuleCaller
  readonly onClose: () => void
}

/** Shows what one caller has left of a rule, and what an operator can do about it. */
export function CountersDialog({ caller, onClose }: CountersDialogProps) {
  const id = useId()
  const dialog = useRef<HTMLDialogElement>(null)
  const { counters, problem } = useCounters(caller)
  const isResetting = useSignal(false)
  const outcome = useSignal('')
  useLayoutEffect(() => dialog.current!.showModal(), [])
  const noteReset = (full: CountersJson): void => {
    counters.value = full
    outcome.value = 'The counters are full.'
  }
  const found = counters.value
  return (
    <>
      <dialog ref={dialog} class="counters" aria-labelledby={id} onClose={onClose}>
        <h2 id={id}>
          {caller.policy} · {caller.rule}
        </h2>
        {found !== undefined && (
          <>
            <Caller values={found.values} />
            <CounterList found={found} />
          </>
        )}
        {digestKeys(caller).map((key) => (
          <Notice key={key} tone="warn">
            {key}: this looks like a digest. A counter is found by the credential itself.
          </Notice>
        ))}
        {problem.value !== '' && (
          <Notice tone="bad" isUrgent>
            {problem}
          </Notice>
        )}
        <div role="status">{outcome.value !== '' && <Notice tone="good">{outcome}</Notice>}</div>
        <div class="actions">
          {found !== undefined && found.counters.length > 0 && (
            <ChangeButton onClick={() => (isResetting.value = true)}>Reset…</ChangeButton>
          )}
          {found !== undefined && <ChangeButton onClick={() => draftOverride({ ...caller, values: found.values })}>Override…</ChangeButton>}
          <button type="button" onClick={() => dialog.current!.close()}>
            Close
          </button>
        </div>
      </dialog>
      {isResetting.value && <ResetDialog caller={caller} onReset={noteReset} onClose={() => (isResetting.value = false)} />}
    </>
  )
}

function CounterList({ found: { counters, unit, mode, holds, override } }: { readonly found: CountersJson }) {
  return (
    <>
      {mode === 'shadow' && (
        <p>
          <Badge tone="quiet">Shadow</Badge> The policy rejects nothing.
        </p>
      )}
      {counters.length === 0 && <p>This rule counts nothing.</p>}
      <ul class="counters">
        {counters.map((counter) => (
          <li key={counter.kind}>
            <CounterLine counter={counter} unit={unit} />
          </li>
        ))}
      </ul>
      {holds !== null && <p>In flight now: {formatCount(holds, 'request')}</p>}
      {override !== null && (
        <p>
          <Badge tone="accent">Override</Badge> The limit is changed by <a href="#/overrides">an override</a>.
        </p>
      )}
    </>
  )
}

function CounterLine({ counter, unit }: { readonly counter: CounterJson; readonly unit: CounterUnit }) {
  const { limit, remaining } = counter
  return (
    <>
      <p>
        <strong>{counterText(counter, unit)}</strong>
      </p>
      <Level remaining={remaining} limit={limit} />
      <p class="quiet">{refillText(counter)}</p>
    </>
  )
}

/** Returns the keys of credentials that look as if they were given as digests. */
function digestKeys({ values }: RuleCaller): readonly string[] {
  return Object.keys(values).filter((key) => isCredential(key) && looksLikeDigest(values[key]!))
}
