import type { CallersJson } from '../../src/admin/api/caller-types.ts'
import type { CallerValues } from '../../src/admin/api/types.ts'
import { isCredential, looksLikeDigest } from '../caller-values.ts'
import { formatCount, formatNumber } from '../format.ts'
import { keyIdIn } from '../keys/key-facts.tsx'
import { NamedKey } from '../keys/named-key.tsx'
import { Caller } from '../parts/caller.tsx'
import { Notice } from '../parts/notice.tsx'
import { isKnown } from './known-rule.ts'
import type { AskedCaller } from './read-asked.ts'

interface CallerProps {
  readonly asked: AskedCaller
  readonly found: CallersJson
}

/** Says who was asked about, and in a sentence what is known. A value alone is not repeated, because it may be a credential. */
export function AskedValues({ asked, found }: CallerProps) {
  const keyId = keyIdIn('values' in asked ? asked.values['caller:id'] : asked.value)
  return (
    <div class="asked">
      {'values' in asked ? <Caller values={shownValues(asked.values, found)} /> : <p>Found by a value alone, whatever its key.</p>}
      {keyId !== undefined && <NamedKey id={keyId} />}
      <p>{headline(asked, found)}</p>
    </div>
  )
}

/** Says what is not known, and what would help. */
export function CallerNotes({
  asked,
  found: { counters_known: isCounted, unused_keys: unused, rules_left_out: leftOut, top },
}: CallerProps) {
  const isBare = 'value' in asked
  const digests = digestKeys(asked)
  return (
    <>
      {!isCounted && <Notice tone="warn">Redis is unreachable, so what rules count is not known.</Notice>}
      {digests.length > 0 && (
        <Notice tone="accent">
          {digests.join(', ')}: this looks like a digest. It finds rejects and overrides; counters are found by the credential itself.
        </Notice>
      )}
      {unused.map((key) => (
        <Notice key={key} tone="warn">
          No rule of the active bundle has the key {key}.
        </Notice>
      ))}
      {leftOut > 0 && (
        <Notice tone="warn">
          {formatCount(leftOut, 'more rule')} may concern this caller and {leftOut === 1 ? 'was' : 'were'} not looked at:{' '}
          {isBare ? 'find it with its key, such as header:x-api-key=…, or name a policy.' : 'name a policy.'}
        </Notice>
      )}
      {top === null && (
        <Notice tone="warn">
          Rejects are not known, because edge was started with <code>EDGE_TOP=off</code>.
        </Notice>
      )}
    </>
  )
}

/** Returns the keys of credentials that look as if they were given as digests, as this page shows them. */
export function digestKeys(asked: AskedCaller): readonly string[] {
  if ('value' in asked) return looksLikeDigest(asked.value) ? ['The value'] : []
  return Object.keys(asked.values).filter((key) => isCredential(key) && looksLikeDigest(asked.values[key]!))
}

/** Credentials are shown as the digests that the response has for them, and not at all if it has none. */
function shownValues(values: CallerValues, { rules, incomplete_rules: incomplete, overrides, top }: CallersJson): CallerValues {
  const named = [...rules, ...incomplete, ...(top?.rejected ?? []), ...(top?.nearest ?? []), ...overrides]
  const digestOf = (key: string): string => named.find((one) => one.values?.[key] !== undefined)?.values?.[key] ?? '–'
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [key, isCredential(key) ? digestOf(key) : value]))
}

function headline(asked: AskedCaller, found: CallersJson): string {
  const { bundle_version: version, rules, rules_tried: tried, counters_known: isCounted, overrides, top } = found
  const name = 'value' in asked ? 'this value' : 'this caller'
  if (version === null) return `Nothing is known of ${name}: no bundle is active.`
  const known = rules.filter((rule) => isKnown(rule, found)).length
  const hasRows = top !== null && top.rejected.length + top.nearest.length > 0
  if (known > 0)
    return `${formatNumber(known)} of ${formatCount(tried, 'rule')} that may count ${name} ${known === 1 ? 'knows' : 'know'} it.`
  if (hasRows || overrides.some(({ values }) => values)) return `No counter of ${name} alone is in use.`
  const facts = [isCounted && 'no rule counts anything for it now', top !== null && 'it was not rejected in the last hour'].filter(Boolean)
  const hint = 'value' in asked && asked.value.includes('=') ? keyHint(asked.value) : ''
  return `Nothing is known of ${name}: ${[...facts, 'no override names it'].join(', ')}. Values are compared exactly: check the spelling.${hint}`
}

/** `team=search` is a value alone, because many values contain an equals sign. */
function keyHint(value: string): string {
  const name = /^([A-Za-z0-9._-]{1,64})=/.exec(value)?.[1]
  const examples = name === undefined ? 'header:x-api-key=… and jwt:sub=… do' : `caller:${name}=…, header:${name}=… and jwt:${name}=… do`
  return ` If you meant KEY=VALUE: a key begins with its kind, as ${examples}.`
}
