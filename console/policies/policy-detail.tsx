import type { PolicyJson, PolicyPage, RuleJson } from '../../src/admin/api/types.ts'
import { formatCount, formatNumber, formatShareRejected } from '../format.ts'
import { usePoll } from '../live.ts'
import { address, addressOf } from '../navigation.ts'
import { Badge } from '../parts/badge.tsx'
import { EmptyState } from '../parts/empty-state.tsx'
import { Facts } from '../parts/facts.tsx'
import { Figure, Figures } from '../parts/figure.tsx'
import { Notice } from '../parts/notice.tsx'
import { Panel } from '../parts/panel.tsx'
import { policiesPath } from '../policies.ts'
import { ruleWords, selectorWords } from '../policy-words.ts'

/** The unit of all figures here. */
const LATELY = 'requests in the last minute'

/** Shows one policy with all its rules. */
export function PolicyDetail({ id }: { readonly id: string }) {
  const { data, failure } = usePoll<PolicyPage>(policiesPath({ policy: id }))
  const search = address.value.parameters.get('search')
  const close = <a href={addressOf('policies', search === null ? {} : { search })}>Close</a>
  const isGone = failure.value?.code === 'unknown_policy'
  const policy = isGone ? undefined : data.value?.policies[0]
  return (
    <Panel title={id} aside={close}>
      {isGone && <EmptyState>The active bundle has no policy of this name.</EmptyState>}
      {failure.value !== undefined && !isGone && <Notice tone="bad">{failure.value.message}</Notice>}
      {policy !== undefined && (
        <div class="policy-detail">
          <Detail policy={policy} />
        </div>
      )}
    </Panel>
  )
}

function Detail({ policy: { id, mode, selector, last_minute, rules } }: { readonly policy: PolicyJson }) {
  const { allowed, rejected, would_reject } = last_minute
  return (
    <>
      <Figures>
        <Figure label="Allowed" value={formatNumber(allowed)} unit={LATELY} />
        <Figure label="Rejected" value={formatNumber(rejected)} unit={LATELY} {...(rejected > 0 && { tone: 'bad' })} />
        <Figure label="Share rejected" value={formatShareRejected(last_minute)} unit="of those that it covered" />
        <Figure label="Would reject" value={formatNumber(would_reject)} unit={LATELY} {...(would_reject > 0 && { tone: 'warn' })} />
      </Figures>
      <Facts
        facts={[
          ['Mode', mode === 'shadow' ? <Badge tone="accent">shadow</Badge> : 'enforce'],
          ['Covers', selectorWords(selector)],
        ]}
      />
      {rules.length === 0 ? (
        <EmptyState>It has no rules, and limits nothing.</EmptyState>
      ) : (
        <ul class="rules" aria-label="Rules">
          {rules.map((rule) => (
            <RuleDetail key={rule.name} policy={id} rule={rule} />
          ))}
        </ul>
      )}
    </>
  )
}

function RuleDetail({ policy, rule }: { readonly policy: string; readonly rule: RuleJson }) {
  const { name, last_minute, limit_keys, algorithm } = rule
  const { rejected, would_reject } = last_minute
  const hasCounters = algorithm !== 'block' && algorithm !== 'unlimited'
  return (
    <li>
      <strong>{name}</strong> <code class="quiet">{algorithm}</code>
      <p>{ruleWords(rule)}</p>
      <p class="links">
        <span class={rejected > 0 ? 'bad' : 'quiet'}>{formatCount(rejected, 'request')} rejected in the last minute</span>
        {would_reject > 0 && <span class="warn">{formatCount(would_reject, 'request')} would be rejected</span>}
        {hasCounters && (
          <>
            <a href={addressOf('callers', { policy, rule: name })} aria-label={`Callers of ${name}`}>
              {limit_keys.length === 0 ? 'Counter' : 'Callers'}
            </a>
            <a href={addressOf('overrides', { policy, rule: name })} aria-label={`Override ${name}`}>
              Override
            </a>
          </>
        )}
      </p>
    </li>
  )
}
