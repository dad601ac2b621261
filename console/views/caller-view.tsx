import { useSignal } from '@preact/signals'
import { useCallback } from 'preact/hooks'
import type { CallersJson, CallersRequest } from '../../src/admin/api/caller-types.ts'
import { ask } from '../api.ts'
import { callerAt } from '../callers/asked-caller.ts'
import { CallerCounters } from '../callers/caller-counters.tsx'
import { AskedValues, CallerNotes } from '../callers/caller-headline.tsx'
import { CallerNear, CallerOverrides, CallerRejects } from '../callers/caller-tables.tsx'
import { MoreValues } from '../callers/more-values.tsx'
import type { AskedCaller } from '../callers/read-asked.ts'
import { usePoll } from '../live.ts'
import { address, addressOf } from '../navigation.ts'
import { EmptyState } from '../parts/empty-state.tsx'
import { Field } from '../parts/field.tsx'
import { Form } from '../parts/form.tsx'
import { Notice } from '../parts/notice.tsx'

/** All rules that may concern the caller are looked at, so this is asked less often than a single counter. */
const CALLER_MS = 4000

/** Shows all that is known of one caller: its counters in every rule, its rejects and its overrides. */
export function CallerView() {
  const { parameters } = address.value
  const asked = callerAt(parameters)
  if (asked === undefined) {
    return (
      <EmptyState>
        No caller is chosen. Values of callers are neither in addresses nor kept by the browser, so after the page was loaded again a caller
        has to be typed again: in the field at the top, which the key / opens, as <code>KEY=VALUE</code> or as a value alone.
      </EmptyState>
    )
  }
  return <OneCaller asked={asked} number={parameters.get('asked')!} policy={parameters.get('policy') ?? ''} />
}

interface OneCallerProps {
  readonly asked: AskedCaller
  readonly number: string
  /** Only rules of this policy are looked at; empty if all are. */
  readonly policy: string
}

function OneCaller({ asked, number, policy }: OneCallerProps) {
  const read = useCallback(
    () => ask<CallersJson>('POST', 'callers', { ...asked, ...(policy !== '' && { policy }) } satisfies CallersRequest),
    [asked, policy],
  )
  const poll = usePoll<CallersJson>(`callers?${new URLSearchParams({ asked: number, policy })}`, CALLER_MS, read)
  const outcome = useSignal('')
  const found = poll.data.value
  const noteReset = async (sentence: string): Promise<void> => {
    outcome.value = sentence
    await poll.refresh()
  }
  return (
    <>
      <div role="status">{outcome.value !== '' && <Notice tone="good">{outcome}</Notice>}</div>
      {poll.failure.value !== undefined && (
        <Notice tone="bad" isUrgent>
          {poll.failure.value.message}
        </Notice>
      )}
      {(policy !== '' || (found !== undefined && found.rules_left_out > 0)) && <PolicyField number={number} policy={policy} />}
      {found !== undefined && (
        <>
          <AskedValues asked={asked} found={found} />
          <CallerNotes asked={asked} found={found} />
          <CallerRejects asked={asked} found={found} />
          <CallerCounters asked={asked} found={found} onReset={noteReset} />
          <CallerNear asked={asked} found={found} />
          <CallerOverrides overrides={found.overrides} />
          <MoreValues asked={asked} rules={found.incomplete_rules} />
        </>
      )}
    </>
  )
}

/** A bundle may have more rules for a caller than are looked at for one question. */
function PolicyField({ number, policy }: Pick<OneCallerProps, 'number' | 'policy'>) {
  const choose = async (form: FormData): Promise<void> => {
    const chosen = String(form.get('policy')).trim()
    location.hash = addressOf('caller', { asked: number, ...(chosen !== '' && { policy: chosen }) })
  }
  return (
    <div class="panel">
      <Form action="Look" onSubmit={choose}>
        <Field label="Policy" hint="Looks only at rules of this policy. Empty: of all policies.">
          {(control) => (
            <input {...control} name="policy" class="short" defaultValue={policy} maxLength={256} autocomplete="off" spellcheck={false} />
          )}
        </Field>
      </Form>
    </div>
  )
}
