import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { TopJson } from '../../src/admin/api/caller-types.ts'
import type { OpenStreamsJson, OverridePreviewJson } from '../../src/admin/api/types.ts'
import { ask } from '../api.ts'
import { formatCount } from '../format.ts'
import { Facts } from '../parts/facts.tsx'
import { Until } from '../parts/time.tsx'
import { changeText, effectTexts, limitsText } from './change-words.ts'
import { Subject } from './override-facts.tsx'

/** The longest list of callers that the API returns. */
const MOST_CALLERS = 100

/** Shows what an override would do: to whom, what becomes of the limits, until when, and what becomes of open streams. */
export function Preview({ preview }: { readonly preview: OverridePreviewJson }) {
  const { before, after, until, streams } = preview
  const effects = effectTexts(preview)
  return (
    <Facts
      facts={[
        [
          'What changes',
          <>
            {effects.map((text) => (
              <strong key={text} class="effect">
                {text}
              </strong>
            ))}
            {after?.limits.length === 0 && before !== null && <p class="quiet">instead of {limitsText(before)}</p>}
            {after !== null && after.limits.length > 0 && <p class="quiet">{changeText(preview)}</p>}
          </>,
        ],
        ['Who it is for', <Coverage preview={preview} />],
        ['Ends', <Until until={until} />],
        ...(streams === undefined ? [] : [['Open streams', streamsText(streams)] as const]),
      ]}
    />
  )
}

function Coverage({ preview }: { readonly preview: OverridePreviewJson }) {
  const { callers, decided_last_minute: decided } = preview.covers
  return (
    <>
      <Subject override={preview} />
      {callers === 'all' && preview.rule !== undefined && <ActiveCallers policy={preview.policy!} rule={preview.rule} />}
      {decided !== null && (
        <p class="quiet">This instance decided {formatCount(decided, 'request')} of all callers by the policy in the last minute.</p>
      )}
    </>
  )
}

/** Says how many callers an override for all of them concerns. Those who were neither rejected nor near a limit lately are not known. */
function ActiveCallers({ policy, rule }: { readonly policy: string; readonly rule: string }) {
  const count = useSignal<number | undefined>(undefined)
  useEffect(() => {
    const query = new URLSearchParams({ policy, rule, limit: String(MOST_CALLERS) })
    ask<TopJson>('GET', `top?${query}`).then(
      ({ rejected, nearest }) => {
        const seen = [...rejected.filter(({ count: rejects }) => rejects > 0), ...nearest].map(({ values }) => JSON.stringify(values))
        count.value = new Set(seen).size
      },
      // With EDGE_TOP=off callers are not counted. What the policy decided is shown anyway.
      () => {},
    )
  }, [policy, rule, count])
  if (count.value === undefined) return null
  return (
    <p>
      {count.value === 0
        ? 'No caller of the rule was noticed here in the last ten minutes.'
        : `At least ${formatCount(count.value, 'caller')} of the rule ${count.value === 1 ? 'was' : 'were'} active here in the last ten minutes.`}
    </p>
  )
}

/** Says how many streams are open, and what a block does to them. */
export function streamsText({ open, cut, ended }: OpenStreamsJson): string {
  if (ended !== undefined)
    return `${formatCount(ended, 'stream')} of the blocked callers ${ended === 1 ? 'was' : 'were'} cut at this instance.`
  const count = `${formatCount(open, 'stream')} of all callers ${open === 1 ? 'is' : 'are'} open at this instance.`
  return cut ? `${count} Those of the blocked callers are cut.` : `${count} Those of the blocked callers go on until they end.`
}
