import { useSignal } from '@preact/signals'
import type {
  BundleChangesJson,
  ChangeCountsJson,
  ChangeKindJson,
  FieldChangeJson,
  PolicyChange,
  PriceChange,
} from '../../src/admin/api/instance-types.ts'
import { formatCount, formatNumber } from '../format.ts'
import { addressOf } from '../navigation.ts'
import { Badge, type Tone } from '../parts/badge.tsx'
import { EmptyState } from '../parts/empty-state.tsx'
import { Panel } from '../parts/panel.tsx'

/** Policies that are shown at first: each may have a hundred lines, and there may be six hundred. */
const FIRST_SHOWN = 50
const TONES: Readonly<Record<ChangeKindJson, Tone>> = { added: 'good', removed: 'bad', changed: 'accent' }
const SIGNS: Readonly<Record<ChangeKindJson, string>> = { added: '+', removed: '−', changed: '~' }

/** Shows what differs between two bundles, by policy. */
export function Changes({ title, changes }: { readonly title: string; readonly changes: BundleChangesJson }) {
  const { policies, reordered, prices, complete, policy_changes, price_changes, caller_changes, routing_changes, usage_changes } = changes
  const shown = useSignal(FIRST_SHOWN)
  const listed = [policy_changes, price_changes, caller_changes, routing_changes, usage_changes]
  const isSame = listed.every(({ length }) => length === 0) && !reordered
  return (
    <Panel title={title} aside={countWords(policies, 'policy', 'policies')} isWide>
      {reordered && <p>The order changed: if several policies are equally close to their limit, the first decides.</p>}
      {isSame && <EmptyState>No difference: policies, prices, callers, backends, routes and usage are the same.</EmptyState>}
      {policy_changes.length > 0 && (
        <ul class="changes" aria-label="Policies that changed">
          {policy_changes.slice(0, shown.value).map((change) => (
            <ChangedPolicy key={change.policy} change={change} />
          ))}
        </ul>
      )}
      {price_changes.length > 0 && (
        <>
          <h3>Prices: {countWords(prices, 'model', 'models')}</h3>
          <ul class="changes" aria-label="Prices that changed">
            {price_changes.slice(0, shown.value).map((change) => (
              <ChangedPrice key={JSON.stringify([change.table, change.model])} change={change} />
            ))}
          </ul>
        </>
      )}
      {caller_changes.length > 0 && (
        <>
          <h3>Callers</h3>
          <Fields fields={caller_changes} />
        </>
      )}
      {routing_changes.length > 0 && (
        <>
          <h3>Backends and routes</h3>
          <Fields fields={routing_changes} />
        </>
      )}
      {usage_changes.length > 0 && (
        <>
          <h3>Usage</h3>
          <Fields fields={usage_changes} />
        </>
      )}
      {Math.max(policy_changes.length, price_changes.length) > shown.value && (
        <button type="button" onClick={() => (shown.value *= 2)}>
          Show more than {formatNumber(shown.value)}
        </button>
      )}
      {!complete && <p class="quiet">The list is incomplete; the counts are not.</p>}
    </Panel>
  )
}

function countWords({ added, removed, changed, unchanged }: ChangeCountsJson, one: string, many: string): string {
  const counts = Object.entries({ added, removed, changed }).filter(([, count]) => count > 0)
  const words = counts.map(([kind, count], i) => (i === 0 ? `${formatCount(count, one, many)} ${kind}` : `${formatNumber(count)} ${kind}`))
  return [...words, `${formatNumber(unchanged)} unchanged`].join(', ')
}

function ChangedPolicy({ change: { kind, policy, fields, rules, left_out } }: { readonly change: PolicyChange }) {
  return (
    <li>
      <Kind kind={kind} /> {kind === 'removed' ? <strong>{policy}</strong> : <a href={addressOf('policies', { policy })}>{policy}</a>}
      <Fields fields={fields} />
      {rules.length > 0 && (
        <ul>
          {rules.map((rule) => (
            <li key={rule.rule}>
              <Kind kind={rule.kind} /> rule <strong>{rule.rule}</strong>
              <Fields fields={rule.fields} />
            </li>
          ))}
        </ul>
      )}
      {left_out > 0 && <p class="quiet">and {formatCount(left_out, 'more difference')}</p>}
    </li>
  )
}

function ChangedPrice({ change: { kind, table, model, fields } }: { readonly change: PriceChange }) {
  return (
    <li>
      <Kind kind={kind} /> {table}: <strong>{model}</strong>
      <Fields fields={fields} />
    </li>
  )
}

function Kind({ kind }: { readonly kind: ChangeKindJson }) {
  return (
    <Badge tone={TONES[kind]} sign={SIGNS[kind]}>
      {kind}
    </Badge>
  )
}

function Fields({ fields }: { readonly fields: readonly FieldChangeJson[] }) {
  if (fields.length === 0) return null
  return (
    <dl class="fields">
      {fields.map(({ field, before, after }) => (
        <div key={field}>
          <dt>{field === 'rules' ? 'order of rules' : field}</dt>
          <dd>
            {before !== null && <del>{before}</del>}
            {before !== null && after !== null && <span class="quiet"> → </span>}
            {after !== null && <ins>{after}</ins>}
          </dd>
        </div>
      ))}
    </dl>
  )
}
