import type { ExplainedCallerJson, ExplanationJson } from '../../src/admin/api/types.ts'
import { KeyLink, keyIdIn } from '../keys/key-facts.tsx'
import { addressOf } from '../navigation.ts'
import { Badge, type Tone } from '../parts/badge.tsx'
import { Facts } from '../parts/facts.tsx'
import { Panel } from '../parts/panel.tsx'
import { printable } from '../printable.ts'

const TONES: Readonly<Record<ExplanationJson['action'], Tone>> = { allow: 'good', reject: 'bad', refuse: 'bad' }
const WORDS: Readonly<Record<ExplanationJson['action'], string>> = { allow: 'Allowed', reject: 'Rejected', refuse: 'Refused' }

interface VerdictProps {
  readonly explanation: ExplanationJson
  readonly link: { readonly href: string; readonly leftOut: readonly string[] }
}

/** Shows what the request would get now. */
export function Verdict({ explanation: { action, status, reason, policy, rule, wait, headers, caller }, link }: VerdictProps) {
  const fields = Object.entries(headers)
  return (
    <Panel title="Verdict" aside={<RequestLink {...link} />} isWide>
      <p class="verdict">
        <Badge tone={TONES[action]}>{WORDS[action]}</Badge> with <strong>{status}</strong>, reason <code>{reason}</code>
        {policy !== null && (
          <>
            , by policy <a href={addressOf('policies', { policy })}>{policy}</a>
          </>
        )}
        {rule !== null && (
          <>
            , rule <strong>{rule}</strong>
          </>
        )}
        . Nothing was taken.
      </p>
      {wait !== undefined && (
        <p>
          Before that, it waits for up to {wait.up_to_seconds} s (<code>wait_seconds</code>)
          {wait.seconds !== null && `, and would pass in ${wait.seconds} s if nobody waits ahead of it`}.
        </p>
      )}
      {caller !== null && <Caller caller={caller} />}
      {fields.length > 0 && <Facts facts={fields} />}
    </Panel>
  )
}

/** Shows who sends the request, or why nobody knows. */
function Caller({ caller: { id, labels, problem } }: { readonly caller: ExplainedCallerJson }) {
  const keyId = keyIdIn(id ?? undefined)
  if (id === null) {
    return (
      <p>
        Caller: not known, <code>{problem}</code>
      </p>
    )
  }
  return (
    <p>
      Caller: {keyId === undefined ? <code>{printable(id)}</code> : <KeyLink id={keyId} text={id} />}
      {Object.entries(labels).map(([name, value]) => (
        <span key={name}>
          {' '}
          <code>
            {name}={printable(value)}
          </code>
        </span>
      ))}
    </p>
  )
}

function RequestLink({ href, leftOut }: VerdictProps['link']) {
  return (
    <>
      <a href={href}>Link to this request</a>
      {leftOut.length > 0 && `, without ${leftOut.join(', ')}`}
    </>
  )
}
