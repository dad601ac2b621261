import { useSignal } from '@preact/signals'
import type { ExplainedCounterJson, ExplainedPolicyJson, ExplainedRuleJson } from '../../src/admin/api/types.ts'
import { amountText, counterText, refillText, unitOf } from '../amounts.ts'
import { shownValue } from '../caller-values.ts'
import { formatCount, formatDuration, formatNumber } from '../format.ts'
import { KeyLink, keyIdIn } from '../keys/key-facts.tsx'
import { addressOf } from '../navigation.ts'
import { Badge } from '../parts/badge.tsx'
import type { Column } from '../parts/data-table.tsx'
import { EmptyState } from '../parts/empty-state.tsx'
import { Level } from '../parts/level.tsx'
import { Panel } from '../parts/panel.tsx'
import { WindowedTable } from '../parts/windowed-table.tsx'

const POLICY_WHY: Readonly<Record<string, string>> = {
  path: 'another path',
  method: 'another method',
  host: 'another host',
  except_path: 'the path is excepted',
  domain: 'for calls of the rate limit service only',
}

const RULE_WHY: Readonly<Record<string, string>> = {
  missing_descriptor: 'the request lacks a value for one of its keys',
  repeated_descriptor: 'a value that it reads is sent more than once',
  no_match: 'its match does not fit this request',
}

/** One page of policies is enough; if there are more, the verdict names the one that decides. */
const MAX_POLICIES = 100

/** Shows every policy and whether it covers the request. Those that do come first, with all their rules. */
export function ExplainedPolicies({ policies }: { readonly policies: readonly ExplainedPolicyJson[] }) {
  const matched = policies.filter((policy) => policy.matched)
  const others = policies.filter((policy) => !policy.matched)
  return (
    <>
      <Panel title="Policies that cover it" aside={`${formatNumber(matched.length)} of ${formatNumber(policies.length)}`} isWide>
        {matched.length === 0 && <EmptyState>No policy covers this request: it is not limited.</EmptyState>}
        {matched.slice(0, MAX_POLICIES).map((policy) => (
          <CoveringPolicy key={policy.id} policy={policy} />
        ))}
        {matched.length > MAX_POLICIES && (
          <p class="quiet">and {formatCount(matched.length - MAX_POLICIES, 'more policy', 'more policies')}</p>
        )}
      </Panel>
      {others.length > 0 && <Others policies={others} />}
    </>
  )
}

function CoveringPolicy({ policy: { id, mode, rules } }: { readonly policy: ExplainedPolicyJson }) {
  return (
    <article class="covering">
      <h3>
        <a href={addressOf('policies', { policy: id })}>{id}</a> {mode === 'shadow' && <Badge tone="accent">shadow</Badge>}
      </h3>
      {rules.length === 0 && <p class="quiet">It has no rules.</p>}
      <ul class="rules">
        {rules.map((rule) => (
          <CoveringRule key={rule.name} rule={rule} />
        ))}
      </ul>
    </article>
  )
}

function CoveringRule({ rule }: { readonly rule: ExplainedRuleJson }) {
  const { name, applied, why, cost, descriptors, counters, override } = rule
  return (
    <li>
      <p>
        <strong>{name}</strong>{' '}
        {applied ? (
          <span class="quiet">
            applies
            {takenWords(rule)}
          </span>
        ) : (
          <span class="quiet">does not apply: {RULE_WHY[why!] ?? why}</span>
        )}
        {override !== null && (
          <>
            {' '}
            <Badge tone="warn">override</Badge> <a href={addressOf('overrides')}>{override}</a>
          </>
        )}
      </p>
      {descriptors.length > 0 && (
        <ul class="descriptors" aria-label="Descriptors">
          {descriptors.map(({ key, value }) => (
            <li key={key}>
              <code>{key}</code> {value === null ? <Missing name={key} /> : <DescriptorValue name={key} value={value} />}
            </li>
          ))}
        </ul>
      )}
      {counters.map((counter) => (
        <Counter key={counter.kind} counter={counter} cost={cost} />
      ))}
    </li>
  )
}

/** Only what is explained lacks an address, because no client sent it. */
function Missing({ name }: { readonly name: string }) {
  return (
    <>
      <em class="warn">missing</em>
      {name.startsWith('ip:') && (
        <span class="quiet">
          : give its address as a header field, <code>X-Forwarded-For: ADDRESS</code>
        </span>
      )}
    </>
  )
}

/** An issued key is a link to its view. */
function DescriptorValue({ name, value }: { readonly name: string; readonly value: string }) {
  const keyId = name === 'caller:id' ? keyIdIn(value) : undefined
  return keyId === undefined ? <code class="value">{shownValue(value)}</code> : <KeyLink id={keyId} text={value} />
}

/** Says what the request takes, and how the reservation of its stream would grow. */
function takenWords({ cost, grows_by: growsBy, counters }: ExplainedRuleJson): string {
  const takes = cost === null ? '' : `, takes ${amountText(cost, unitOf(counters[0]?.kind, cost))}`
  return growsBy === undefined
    ? takes
    : `${takes}, and asks for ${formatNumber(growsBy)} more completion tokens at a time while its stream runs`
}

function Counter({ counter, cost }: { readonly counter: ExplainedCounterJson; readonly cost: number | null }) {
  const { kind, remaining, limit, wait_s, reserved = 0 } = counter
  return (
    <p class="counter">
      <Level remaining={remaining} limit={limit} />
      <span>{counterText(counter, unitOf(kind, cost))}</span>
      {reserved > 0 && <span class="quiet">{amountText(reserved, unitOf(kind, cost))} reserved by requests in flight</span>}
      <span class={wait_s === 0 ? 'quiet' : 'bad'}>{waitWords(wait_s)}</span>
      <span class="quiet">{refillText(counter)}</span>
    </p>
  )
}

function waitWords(waitS: number | null): string {
  if (waitS === null) return 'never fits: it costs more than the limit'
  return waitS === 0 ? 'fits now' : `fits in ${formatDuration(waitS)}`
}

const OTHER_COLUMNS: readonly Column<ExplainedPolicyJson>[] = [
  { title: 'Policy', isHeading: true, cell: ({ id }) => <a href={addressOf('policies', { policy: id })}>{id}</a> },
  { title: 'Mode', cell: ({ mode }) => mode },
  { title: 'Why not', cell: ({ why }) => POLICY_WHY[why!] ?? why },
]

/** There may be thousands of policies, so they are rendered only once the list is opened. */
function Others({ policies }: { readonly policies: readonly ExplainedPolicyJson[] }) {
  const isOpen = useSignal(false)
  return (
    <details class="panel" onToggle={(event) => (isOpen.value = event.currentTarget.open)}>
      <summary>{formatCount(policies.length, 'policy does', 'policies do')} not cover it</summary>
      {isOpen.value && (
        <WindowedTable
          caption="Policies that do not cover the request"
          columns={OTHER_COLUMNS}
          rows={policies}
          rowKey={({ id }) => id}
          total={policies.length}
        />
      )}
    </details>
  )
}
